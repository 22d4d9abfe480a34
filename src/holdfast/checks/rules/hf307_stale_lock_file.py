from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.pins import provider_constraint
from holdfast.checks.code.required import LockFile, RequiredProvider, lock_file_of, required_by_root
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Module
from holdfast.hcl.reader import Unknown
from holdfast.kernel.errors import Place, UsageError
from holdfast.terraform.lock_file import LockedProvider
from holdfast.terraform.versions import Version


def _check(module: Module) -> Iterator[CheckResult]:
    lock = lock_file_of(module) if module.roots else None
    if lock is None:
        return
    if lock.file.problems:
        problem = lock.file.problems[0]
        yield finding(
            problem.place or Place(file=lock.path), f"the lock file cannot be read: {problem.message}"
        )
        return
    missing: set[str] = set()
    for provider in required_by_root(module):
        locked = next((found for found in lock.providers if provider.is_locked_as(found.address)), None)
        if locked is None:
            if provider.source not in missing:
                yield finding(
                    Place(file=lock.path),
                    f"{lock.path} does not lock the provider `{provider.source}`, "
                    f"which {provider.place} needs",
                    address=f"provider.{provider.name}",
                )
            missing.add(provider.source)
        else:
            yield from _version_mismatch(lock, provider, locked)


def _version_mismatch(
    lock: LockFile, provider: RequiredProvider, locked: LockedProvider
) -> Iterator[CheckResult]:
    if isinstance(provider.version, Unknown):
        reason = f"the version of the provider `{provider.name}` is not known"
        yield Skipped(reason=reason, file=provider.place.file)
        return
    if provider.version is None:
        return
    try:
        fits = provider_constraint(provider.version).allows(Version.parse(locked.version))
    except UsageError:
        return  # Not a version or not a constraint: HF305 reports the code, Terraform the lock file.
    if not fits:
        yield finding(
            lock.place_of(locked),
            f"{lock.path} locks {provider.source} {locked.version}, "
            f"but {provider.place} requires `{provider.version}`",
            address=f"provider.{provider.name}",
        )


RULE = Rule(
    id="HF307",
    title="Lock file does not match the code",
    why="`init` fails, or takes a different, untested version on each machine.",
    fix="Update it with `holdfast plan --lockfile update` or `terraform init -upgrade`, and commit it.",
    severity=Severity.ERROR,
    source=_check,
)
