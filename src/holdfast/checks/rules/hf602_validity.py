from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import CheckResult, Finding, Rule, Severity, Skipped
from holdfast.checks.model.subjects import EngineOutput


def _check(output: EngineOutput) -> Iterator[CheckResult]:
    if output.validate_skipped is not None:
        yield Skipped(reason=output.validate_skipped)
    for folder in output.unused_folders:
        yield Skipped(reason="no stack uses this code, so it was not validated", file=folder)
    for severity, problems in ((None, output.problems), (Severity.WARNING, output.warnings)):
        for problem in problems:
            yield Finding(message=problem.message, place=problem.place, hint=problem.hint, severity=severity)


RULE = Rule(
    id="HF602",
    title="Code that Terraform rejects",
    why="Terraform cannot plan it, or it will stop working with a future version.",
    fix="Fix what Terraform reports.",
    severity=Severity.ERROR,
    engine=_check,
)
