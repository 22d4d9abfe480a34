from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import VariablesFile
from holdfast.config.problems import did_you_mean


def _check(file: VariablesFile) -> Iterator[Finding | Skipped]:
    declared: set[str] = set()
    for stack in file.stacks:
        if stack.module.code.problems:
            place = stack.module.code.problems[0].place
            yield Skipped(
                reason=f"{place} cannot be read, so the declared variables are not known", file=file.path
            )
            return
        declared.update(stack.module.code.variables)
    if not file.stacks:
        yield Skipped(reason="no selected stack uses this file", file=file.path)
        return
    for attribute in file.file.body.attributes:
        if attribute.name not in declared:
            folder = file.stacks[0].module.folder
            module = "the root module" if folder == "." else folder
            yield finding(
                attribute,
                f"`{attribute.name}` is set here, but {module} does not declare it",
                address=f"var.{attribute.name}",
                hint=did_you_mean(attribute.name, declared),
            )


RULE = Rule(
    id="HF703",
    title="Variable is set but not declared",
    why="Terraform only warns and ignores the value: a misspelled name leaves the default in effect.",
    fix="Declare it, correct its name, or remove it.",
    severity=Severity.ERROR,
    variables=_check,
)
