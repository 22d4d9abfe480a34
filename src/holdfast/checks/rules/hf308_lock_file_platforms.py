from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.required import LockFile, lock_file_of
from holdfast.checks.model.interface import CheckResult, Rule, Severity, finding
from holdfast.checks.model.subjects import Module
from holdfast.terraform.lock_file import LockedProvider


def _check(module: Module) -> Iterator[CheckResult]:
    lock = lock_file_of(module) if module.roots else None
    if lock is None:
        return
    platforms = module.checkout.config.checks.platforms
    for provider in lock.providers:
        if not provider.hashes:
            yield finding(
                lock.place_of(provider),
                f"{lock.path} has no hash for {provider.address}: any package is accepted",
                address=provider.address,
                severity=Severity.ERROR,
            )
        elif len(provider.package_hashes) < len(platforms):
            yield _missing_hashes(lock, provider, platforms)


def _missing_hashes(lock: LockFile, provider: LockedProvider, platforms: tuple[str, ...]) -> CheckResult:
    """An `h1:` hash covers one platform's package; `zh:` hashes cover the registry's archives of all."""
    there, from_registry = (
        len(provider.package_hashes),
        any(hash_.startswith("zh:") for hash_ in provider.hashes),
    )
    outcome = (
        "on the others `init` fails with a mirror or cache" if from_registry else "on the others `init` fails"
    )
    asked = " ".join(f"-platform={platform}" for platform in platforms)
    return finding(
        lock.place_of(provider),
        f"{lock.path} has hashes for {_packages(there)} of {provider.address}, but {len(platforms)} "
        f"platforms are used ({', '.join(platforms)}): {outcome}",
        address=provider.address,
        hint=f"Run `terraform providers lock {asked}` and commit it.",
        severity=Severity.NOTE if from_registry else None,
    )


def _packages(count: int) -> str:
    return f"{count or 'no'} package{'' if count == 1 else 's'}"


RULE = Rule(
    id="HF308",
    title="Lock file without all platforms",
    why="A lock file created on a laptop only contains the hash of that laptop's package. On another "
    "platform the package matches no hash and `init` fails, usually in CI.",
    fix="Run `terraform providers lock` with one `-platform=` for every platform, and commit it.",
    severity=Severity.WARNING,
    source=_check,
)
