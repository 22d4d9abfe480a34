"""What GitHub Actions gets of a report: annotations, log groups, and outputs for later steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from holdfast.notify.report import (
    BY_SEVERITY,
    ChangeReport,
    StackReport,
    Trouble,
    Verdict,
    verdict_of,
    verdict_of_stack,
)
from holdfast.system.markup import MAX_ANNOTATIONS, WIDEST, command, data, escape_line, one_line, visible

_ERRORS = frozenset({Verdict.UNKNOWN, Verdict.FAILED, Verdict.REFUSED, Verdict.LOCKED})
_WARNINGS = frozenset({Verdict.APPROVAL, Verdict.CAREFUL})
_TOKEN = re.compile(r"[0-9a-f]{16,}\Z")
_COUNTS = ("create", "update", "replace", "delete", "forget", "import", "move")
_CHANGED = frozenset({"planned", "applied", "refused", "waiting"})


def annotation_lines(report: ChangeReport, prefix: str = "") -> list[str]:
    """`::error` and `::warning` lines, the most severe first. `prefix` is the path from the workspace."""
    whole = (*report.troubles, *report.findings)
    errors: list[str] = [_of_trouble("error", trouble, prefix, "Holdfast") for trouble in whole]
    warnings: list[str] = []
    for stack in report.ordered:
        verdict = verdict_of_stack(stack)
        if verdict in _ERRORS:
            errors += _of_stack("error", stack, prefix)
        elif verdict in _WARNINGS:
            warnings += _of_stack("warning", stack, prefix)
    return [*_at_most("error", errors), *_at_most("warning", warnings)]


def _of_stack(level: str, stack: StackReport, prefix: str) -> Iterator[str]:
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
        yield command(level, "\n".join(texts) or stack.status, title=title)


def _of_trouble(level: str, trouble: Trouble, prefix: str, title: str) -> str:
    file = f"{prefix}{trouble.file}" if trouble.file is not None else None
    message = f"{trouble.code} {trouble.message}"
    return command(level, message, file=file, line=trouble.line if file else None, title=title)


def _at_most(level: str, annotations: list[str]) -> list[str]:
    if len(annotations) <= MAX_ANNOTATIONS:
        return annotations
    shown = annotations[: MAX_ANNOTATIONS - 1]
    rest = command(level, f"{len(annotations) - len(shown)} more: see the job summary", title="Holdfast")
    return [*shown, rest]


def log_group(title: str, lines: Iterable[str], token: str) -> list[str]:
    """A log group. Between the lines with the token the runner ignores commands."""
    if not _TOKEN.match(token):
        raise ValueError("the token is too easy to guess")
    inside = (escape_line(visible(line)) for line in lines)
    head = data(one_line(title, WIDEST))
    return [f"::group::{head}", f"::stop-commands::{token}", *inside, f"::{token}::", "::endgroup::"]


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
