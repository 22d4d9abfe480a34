from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.pins import is_elsewhere
from holdfast.checks.code.required import lock_file_of, lock_path, required_by_root
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import Module
from holdfast.hcl.eval.evaluate import evaluate


def _check(module: Module) -> Iterator[CheckResult]:
    if not module.roots or lock_file_of(module) is not None:
        return
    first = next(required_by_root(module), None)
    if first is None:
        yield from _external_modules(module)
        return
    path = lock_path(module)
    ignored = module.checkout.content(path) is not None
    yield finding(
        first.place,
        f"{path} is {'ignored by Git' if ignored else 'missing'}: the version of `{first.source}` is not "
        "locked",
        address=f"provider.{first.name}",
        hint=f"Remove {path} from `.gitignore` and commit it." if ignored else None,
    )


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


RULE = Rule(
    id="HF306",
    title="No lock file",
    why="Each machine takes the newest provider that the constraints allow, and its checksum is not "
    "verified: two plans of one commit differ, and a tampered package is not noticed.",
    fix="Create it with `holdfast plan --lockfile update`, or with `terraform providers lock "
    "-platform=…` for every platform, and commit it.",
    severity=Severity.WARNING,
    source=_check,
)
