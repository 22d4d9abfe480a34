from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.pins import is_elsewhere, loose_provider, provider_constraint
from holdfast.checks.code.required import (
    LockFile,
    RequiredProvider,
    lock_file_of,
    lock_path,
    may_run,
    required_by_root,
)
from holdfast.checks.model.globs import is_path
from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import CheckedStack, Checkout, Module
from holdfast.hcl.eval.code import LOCK_FILE
from holdfast.hcl.eval.evaluate import evaluate
from holdfast.hcl.reader import Unknown
from holdfast.kernel.errors import Place, UsageError
from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import plural
from holdfast.terraform.lock_file import LockedProvider
from holdfast.terraform.versions import Version

_LOCKS = Version.parse("0.14")
"""The first version with lock files."""
_INTERPOLATED = pattern(r"=\s*\"\$\{[^\"{}]*\}\"")
_BARE = pattern(r"(?m)=\s*(?:var|local|data|module|[a-z]+_\w+)\.")
_APPLIED_BY = pattern(r'"terraform_version"\s*:\s*"(\d+\.\d+\.\d+)"')


def _check_exists(module: Module) -> Iterator[CheckResult]:
    if not module.roots or lock_file_of(module) is not None or not may_run(module, _LOCKS):
        return
    if all(_is_locked_by_terragrunt(stack) for stack in module.roots):
        return
    if not _says_version(module) and (_is_old_style(module) or _has_old_code(module.checkout)):
        return
    required = tuple(required_by_root(module))
    if not required:
        yield from _external_modules(module)
        return
    pinned = {provider.source for provider in required if not _is_loose(provider)}
    loose = next((provider for provider in required if provider.source not in pinned), None)
    first = loose or required[0]
    severity = None if loose is not None and not _was_applied_by_old(module) else Severity.NOTE
    ignored = _ignored(module)
    if ignored:
        others = ", ".join(map(str, ignored[1:]))
        yield finding(
            ignored[0],
            f"lock files{_how_many(module.checkout)} are not in Git, so every `init` may install other "
            "versions of providers",
            hint=f"Remove this line{f' and {others}' if others else ''}, and commit the lock files.",
            severity=severity,
        )
        return
    path, checkout = lock_path(module), module.checkout
    if checkout.whole and len(checkout.roots) > 1 and not any(map(_is_lock_file, checkout.files)):
        yield finding(
            Place(file=checkout.config.file.name),
            "no root module has a lock file, so every `init` may install other versions of providers",
            severity=severity,
        )
        return
    yield finding(
        first.place,
        f"{path} is {'missing' if module.checkout.content(path) is None else 'ignored by Git'}: "
        f"the version of `{first.source}` is not locked",
        address=f"provider.{first.name}",
        severity=severity,
    )


def _how_many(checkout: Checkout) -> str:
    """` of 2 of 5 root modules`; empty if no root module has one."""
    missing = sum(f"{root}/{LOCK_FILE}".removeprefix("./") not in checkout.listed for root in checkout.roots)
    count = len(checkout.roots)
    return f" of {missing} of {plural(count, 'root module')}" if missing < count else ""


def _has_old_code(checkout: Checkout) -> bool:
    """Whether code of the repository only runs with versions before lock files."""
    key = ("code before lock files", id(checkout))
    return checkout.code.once(key, lambda: not all(may_run(module, _LOCKS) for module in checkout.modules))


def _is_old_style(module: Module) -> bool:
    """Whether it is written as for Terraform 0.11: `tags {`, and `"${…}"` around every reference."""
    text = "\n".join(module.checkout.text(file.path) or "" for file in module.files)
    tagged = any(any(resource.body.blocks_of("tags")) for resource in module.resources(mode="managed"))
    return tagged or (_INTERPOLATED.search(text) is not None and _BARE.search(text) is None)


def _is_locked_by_terragrunt(stack: CheckedStack) -> bool:
    """Whether the stack's unit has a lock file, which Terragrunt copies to the code.

    A translated stack has the name of the unit's folder, or the end of it.
    """
    listed = stack.checkout.listed
    return any(
        f"/{folder}".endswith(f"/{stack.name}") and f"{folder}/{LOCK_FILE}" in listed
        for path in listed
        for folder, _, name in (path.rpartition("/"),)
        if name == "terragrunt.hcl"
    )


def _was_applied_by_old(module: Module) -> bool:
    """Whether a state in Git shows that a version without lock files is in use."""
    folder = "" if module.folder == "." else f"{module.folder}/"
    states = (
        module.checkout.text(path) or ""
        for path in module.checkout.files
        if path.startswith(folder) and path.endswith(".tfstate") and "/" not in path[len(folder) :]
    )
    versions = (match for match in map(_APPLIED_BY.search, states) if match is not None)
    return any(Version.parse(match[1]) < _LOCKS for match in versions)


def _says_version(module: Module) -> bool:
    """Whether the code says that it is newer than other code here, which only Terraform 0.11 reads."""
    blocks = (block.body.blocks_of("required_providers") for block in module.blocks("terraform"))
    return bool(module.code.required_versions) or any(map(any, blocks))


def _is_lock_file(path: str) -> bool:
    return path.rpartition("/")[2] == LOCK_FILE


def _is_loose(provider: RequiredProvider) -> bool:
    """Whether a new `init` may install another major version."""
    version = provider.version
    return version is None or (isinstance(version, str) and loose_provider(version) is not None)


def _ignored(module: Module) -> list[Place]:
    """The lines of `.gitignore` files that keep lock files out of Git: one finding for all root modules."""
    folder = home = "" if module.folder == "." else module.folder
    places: list[Place] = []
    while True:
        path = f"{folder}/.gitignore".removeprefix("/")
        here: list[Place] = []
        for number, line in enumerate(module.checkout.lines(path), start=1):
            if _ignores(line.strip().removeprefix("!"), home[len(folder) :]):
                here = [] if line.startswith("!") else [*here, Place(file=path, line=number)]
        places += here
        if not folder:
            return places
        folder = folder.rpartition("/")[0]


def _ignores(pattern: str, folder: str) -> bool:
    """Whether a line of a `.gitignore` ignores the lock file of a folder below it."""
    if not any(word in pattern for word in (".lock", ".terraform")):
        return False
    if "/" not in pattern:
        return is_path(pattern, LOCK_FILE)
    return is_path(pattern.removeprefix("/"), f"{folder}/{LOCK_FILE}".removeprefix("/"))


def _external_modules(module: Module) -> Iterator[CheckResult]:
    """The code itself needs no provider, but external modules nearly always do."""
    for stack in module.roots:
        for visited in stack.scopes:
            here = module.checkout.module(visited.folder)
            for call in here.code.calls:
                source = evaluate(call.source, visited.scope) if call.source is not None else None
                if isinstance(source, str) and is_elsewhere(source):
                    reason = f"the providers that the module `{call.name}` ({call.place}) needs are not known"
                    yield Skipped(reason=f"{reason} before `init`", file=call.place.file)
                    return


HF306 = Rule(
    id="HF306",
    title="No lock file",
    fix="Create it with `holdfast plan --lockfile update`, or with `providers lock -platform=…` of "
    "Terraform or OpenTofu for every platform, and commit it.",
    severity=Severity.WARNING,
    source=_check_exists,
)


def _check_versions(module: Module) -> Iterator[CheckResult]:
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
        locked = next((entry for entry in lock.providers if provider.is_locked_as(entry.address)), None)
        if locked is None:
            if provider.source not in missing:
                yield finding(
                    Place(file=lock.path),
                    f"{lock.path} does not lock the provider `{provider.source}`, "
                    f"which {provider.place} needs",
                    address=f"provider.{provider.name}",
                )
            missing.add(provider.source)
        elif locked.address not in missing:
            mismatch = tuple(_version_mismatch(lock, provider, locked))
            missing.update(locked.address for result in mismatch if isinstance(result, Finding))
            yield from mismatch


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


HF307 = Rule(
    id="HF307",
    title="Lock file does not match the code",
    fix="Update it with `holdfast plan --lockfile update` or `terraform init -upgrade`, and commit it.",
    severity=Severity.WARNING,
    source=_check_versions,
)


def _check_platforms(module: Module) -> Iterator[CheckResult]:
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
    from_registry = any(hash_.startswith("zh:") for hash_ in provider.hashes)
    packages = plural(len(provider.package_hashes), "package") if provider.package_hashes else "no packages"
    outcome = f"on the others `init` fails{' with a mirror or cache' if from_registry else ''}"
    flags = " ".join(f"-platform={platform}" for platform in platforms)
    program = "tofu" if provider.address.startswith("registry.opentofu.org/") else "terraform"
    return finding(
        lock.place_of(provider),
        f"{lock.path} has hashes for {packages} of {provider.address}, but {len(platforms)} "
        f"platforms are used ({', '.join(platforms)}): {outcome}",
        address=provider.address,
        hint=f"Run `{program} providers lock {flags}` and commit it.",
        severity=Severity.NOTE if from_registry else None,
    )


HF308 = Rule(
    id="HF308",
    title="Lock file without all platforms",
    fix="Run `providers lock` of Terraform or OpenTofu with `-platform=` for every platform, and commit it.",
    severity=Severity.WARNING,
    source=_check_platforms,
)
