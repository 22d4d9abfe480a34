"""HF306: a root module with providers and no lock file in Git."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.locked import lock_of, lock_path, needed_by_root
from holdfast.checks.code.pins import is_elsewhere
from holdfast.checks.model.interface import Answer, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Module
from holdfast.hcl.eval.evaluate import evaluate


def _look(module: Module) -> Iterator[Answer]:
    if not module.roots or lock_of(module) is not None:
        return
    first = next(needed_by_root(module), None)
    if first is None:
        yield from _not_told(module)
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


def _not_told(module: Module) -> Iterator[Answer]:
    """The code itself needs no provider; a module from elsewhere hardly ever needs none."""
    for stack in module.roots:
        for visited in stack.scopes:
            here = module.checkout.module(visited.folder)
            for call in here.code.calls:
                source = evaluate(call.source, visited.scope) if call.source is not None else None
                if isinstance(source, str) and is_elsewhere(source):
                    reason = f"which providers the module `{call.name}` ({call.place}) needs is not known"
                    yield Skipped(reason=f"{reason} before `init`", file=call.place.file)
                    return


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
    "none. What only a module from elsewhere needs is not known before `init`: where nothing else needs one, "
    "the rule says that it could not look.",
)
