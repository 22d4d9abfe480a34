"""HF306: a root module with providers and no lock file in Git."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.interface import Answer, Rule, Severity, finding
from holdfast.checks.locked import lock_of, lock_path, needed_by_root
from holdfast.checks.subjects import Module


def _look(module: Module) -> Iterator[Answer]:
    if not module.roots or lock_of(module) is not None:
        return
    first = next(needed_by_root(module), None)
    if first is None:
        return
    path = lock_path(module)
    ignored = module.checkout.content(path) is not None
    yield finding(
        first.place,
        f"{path} is {'ignored by Git' if ignored else 'missing'}: nothing says which version of "
        f"`{first.source}` is the right one",
        address=f"provider.{first.name}",
        hint=f"Take {path} out of `.gitignore` and commit it." if ignored else None,
    )


RULE = Rule(
    id="HF306",
    title="No lock file",
    why="Each machine takes the newest provider that the constraints allow, and nobody compares what it "
    "gets with what was tried: two plans of one commit differ, and a changed package is not noticed.",
    fix="Write it with `holdfast plan --lockfile update`, or with `terraform providers lock -platform=…` "
    "for every platform, and commit it.",
    severity=Severity.WARNING,
    source=_look,
    bad='resource "random_id" "a" {\n  byte_length = 4\n}\n',
    good='resource "terraform_data" "a" {\n  input = "a"\n}\n',
    more="It stands beside the root module as `.terraform.lock.hcl`. A root module without providers needs "
    "none. What only a module from elsewhere needs is not known before `init`.",
)
