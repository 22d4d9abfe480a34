"""HF703: a variables file sets a variable that the code does not declare."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped, finding
from holdfast.checks.model.subjects import VariablesFile
from holdfast.config.problems import did_you_mean


def _look(file: VariablesFile) -> Iterator[Finding | Skipped]:
    declared: set[str] = set()
    for stack in file.stacks:
        if stack.module.code.problems:
            place = stack.module.code.problems[0].place
            yield Skipped(reason=f"{place} cannot be read: what is declared is not known", file=file.path)
            return
        declared.update(stack.module.code.variables)
    if not file.stacks:
        yield Skipped(reason="no stack of this selection is given this file", file=file.path)
        return
    for attribute in file.file.body.attributes:
        if attribute.name not in declared:
            folder = file.stacks[0].module.folder
            module = "the root module" if folder == "." else folder
            yield finding(
                attribute,
                f"`{attribute.name}` is set here, and {module} declares no such variable",
                address=f"var.{attribute.name}",
                hint=did_you_mean(attribute.name, declared),
            )


RULE = Rule(
    id="HF703",
    title="A variable is set that the code does not declare",
    why="Terraform only warns, and the value goes nowhere: a misspelt name leaves the default in force.",
    fix="Declare it, mend its name, or take it away.",
    severity=Severity.ERROR,
    variables=_look,
)
