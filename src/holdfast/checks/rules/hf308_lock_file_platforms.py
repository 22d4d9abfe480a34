"""HF308: a lock file without the hashes that CI's platforms need."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.locked import Lock, lock_of
from holdfast.checks.model.interface import Answer, Rule, Severity, finding
from holdfast.checks.model.subjects import Module
from holdfast.terraform.lock_file import LockedProvider


def _look(module: Module) -> Iterator[Answer]:
    lock = lock_of(module) if module.roots else None
    if lock is None:
        return
    platforms = module.checkout.config.checks.platforms
    for one in lock.providers:
        if not one.hashes:
            yield finding(
                lock.place_of(one),
                f"{lock.path} has no hash of {one.address}: any package would be taken",
                address=one.address,
                severity=Severity.ERROR,
            )
        elif len(one.package_hashes) < len(platforms):
            yield _too_few(lock, one, platforms)


def _too_few(lock: Lock, one: LockedProvider, platforms: tuple[str, ...]) -> Answer:
    """An `h1:` is of one platform's package; the `zh:` are of the archives of all, from the registry."""
    there, from_registry = len(one.package_hashes), any(hash_.startswith("zh:") for hash_ in one.hashes)
    outcome = (
        "from a mirror or a cache it is refused on the others"
        if from_registry
        else "it is refused on the others"
    )
    asked = " ".join(f"-platform={platform}" for platform in platforms)
    return finding(
        lock.place_of(one),
        f"{lock.path} has the hash of {_packages(there)} of {one.address}, and {len(platforms)} platforms "
        f"are used ({', '.join(platforms)}): {outcome}",
        address=one.address,
        hint=f"Run `terraform providers lock {asked}` and commit it.",
        severity=Severity.NOTE if from_registry else None,
    )


def _packages(count: int) -> str:
    return f"{count or 'no'} package{'' if count == 1 else 's'}"


RULE = Rule(
    id="HF308",
    title="A lock file without the platforms that CI uses",
    why="Who made the lock file on a laptop locked the package of that laptop. On a machine of another kind "
    "the package does not match any hash, and `init` stops there: in CI, when somebody waits for it.",
    fix="Run `terraform providers lock` with one `-platform=` for every platform, and commit it.",
    severity=Severity.WARNING,
    source=_look,
    more="Name the platforms in `holdfast.yaml`; without them only providers with no hash at all are "
    "told:\n\n```yaml\nchecks:\n  platforms: [linux_amd64, darwin_arm64]\n```\n\n"
    "A lock file does not say which platform a hash is of. So it counts: as many `h1:` hashes as platforms "
    "are enough. Where there are `zh:` hashes (the registry's own, of all platforms), `init` from the "
    "registry works everywhere and only a mirror or a cache is refused: then it is a note. "
    "Terraform writes the file anew, comments and all: waive it in `holdfast.yaml`.",
)
