"""What a runner gets of a report besides the comment: annotations, and outputs for later steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.notify.hosts.interface import Annotation
from holdfast.notify.report import (
    BY_SEVERITY,
    ChangeReport,
    StackReport,
    Trouble,
    Verdict,
    verdict_of,
    verdict_of_stack,
)
from holdfast.system.markup import MAX_ANNOTATIONS, one_line

_ERRORS = frozenset({Verdict.UNKNOWN, Verdict.FAILED, Verdict.REFUSED, Verdict.LOCKED})
_WARNINGS = frozenset({Verdict.APPROVAL, Verdict.CAREFUL})
_COUNTS = ("create", "update", "replace", "delete", "forget", "import", "move")
_CHANGED = frozenset({"planned", "applied", "refused", "waiting"})


def report_annotations(report: ChangeReport, prefix: str = "") -> list[Annotation]:
    """Errors and warnings, the most severe first. `prefix` is the path from the workspace."""
    whole = (*report.troubles, *report.findings)
    errors = [_of_trouble("error", trouble, prefix, "Holdfast") for trouble in whole]
    warnings: list[Annotation] = []
    for stack in report.ordered:
        verdict = verdict_of_stack(stack)
        if verdict in _ERRORS:
            errors += _of_stack("error", stack, prefix)
        elif verdict in _WARNINGS:
            warnings += _of_stack("warning", stack, prefix)
    return [*_at_most("error", errors), *_at_most("warning", warnings)]


def _of_stack(level: str, stack: StackReport, prefix: str) -> Iterator[Annotation]:
    """One per error with a place, and one for the rest."""
    title = f"{stack.name} {stack.status}"
    texts = []
    for trouble in stack.troubles:
        if trouble.file is None:
            texts.append(f"{trouble.code} {trouble.message}")
        else:
            yield _of_trouble(level, trouble, prefix, title)
    texts += [f"{rule.code} {rule.message}" for rule in stack.rules]
    texts += [f"{risk.address} {risk.what}" for risk in stack.risks]
    texts += [] if stack.troubles else list(stack.notes)
    if texts or not stack.troubles:
        yield Annotation(level=level, title=title, message="\n".join(texts) or stack.status)


def _of_trouble(level: str, trouble: Trouble, prefix: str, title: str) -> Annotation:
    file = f"{prefix}{trouble.file}" if trouble.file is not None else None
    message = f"{trouble.code} {trouble.message}"
    return Annotation(level=level, title=title, message=message, file=file, line=trouble.line)


def _at_most(level: str, given: list[Annotation]) -> list[Annotation]:
    if len(given) <= MAX_ANNOTATIONS:
        return given
    shown = given[: MAX_ANNOTATIONS - 1]
    rest = f"{len(given) - len(shown)} more: see the report"
    return [*shown, Annotation(level=level, title="Holdfast", message=rest)]


def outputs_of(report: ChangeReport, *, exit_code: int) -> dict[str, str]:
    """`steps.ID.outputs.verdict` and others, documented in docs/pull-requests.md; names are only added."""
    statuses, totals = report.statuses, report.totals
    changed = sorted(stack.name for stack in report.stacks if stack.status in _CHANGED)
    return {
        "verdict": str(verdict_of(report)),
        "exit-code": str(exit_code),
        "stacks": str(len(report.stacks)),
        **{status: str(statuses[status]) for status in BY_SEVERITY},
        **{name: str(totals[name]) for name in _COUNTS},
        "changed-stacks": "\n".join(map(one_line, changed)),
    }


def output_lines(outputs: Mapping[str, str], token: str) -> str:
    """The text for GITHUB_OUTPUT. No value can contain its own delimiter."""
    end = f"holdfast_{token}"
    if any(end in value for value in outputs.values()):
        raise ValueError("a value contains the random delimiter")
    return "".join(f"{name}<<{end}\n{value}\n{end}\n" for name, value in outputs.items())
