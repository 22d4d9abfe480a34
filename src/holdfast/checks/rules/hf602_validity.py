"""HF602: code that Terraform itself calls invalid."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.interface import Answer, Finding, Rule, Severity, Skipped
from holdfast.checks.model.subjects import EngineSaid


def _look(said: EngineSaid) -> Iterator[Answer]:
    if said.unseen is not None:
        yield Skipped(reason=said.unseen)
    for folder in said.alone:
        yield Skipped(
            reason="no stack uses this code: Terraform was not asked whether it is valid", file=folder
        )
    for severity, problems in ((None, said.problems), (Severity.WARNING, said.warnings)):
        for problem in problems:
            yield Finding(message=problem.message, place=problem.place, hint=problem.hint, severity=severity)


RULE = Rule(
    id="HF602",
    title="Code that Terraform calls invalid",
    why="No plan can be made of it, or it will stop working with a version to come.",
    fix="Mend what Terraform says.",
    severity=Severity.ERROR,
    engine=_look,
    more="Asked once for each root module, with one of the stacks that use it; of code that no stack uses "
    "the rule says that it could not look. What `validate` only warns of is a warning here.",
)
