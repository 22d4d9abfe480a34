"""GitHub Actions annotations and log groups of a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from holdfast.notify.report import ChangeReport, StackReport, Trouble
from holdfast.notify.verdict import Verdict, verdict_of_stack
from holdfast.system.markup import one_line, visible
from holdfast.system.workflow_commands import MAX_ANNOTATIONS, WIDEST, command, data, escape_line

_ERRORS = frozenset({Verdict.UNKNOWN, Verdict.FAILED, Verdict.REFUSED, Verdict.LOCKED})
_WARNINGS = frozenset({Verdict.APPROVAL, Verdict.CAREFUL})
_TOKEN = re.compile(r"[0-9a-f]{16,}\Z")


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
