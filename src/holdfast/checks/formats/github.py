"""Annotations for GitHub Actions: one line per finding, most severe first, as many as GitHub shows."""

from __future__ import annotations

from holdfast.checks.formats.interface import (
    FormatInput,
    counts_text,
    partly_evaluated_text,
    place_suffix,
    uncounted_texts,
)
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, ReportedFinding
from holdfast.system.markup import MAX_ANNOTATIONS, command, escape_commands, one_line

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(inputs: FormatInput) -> str:
    report = inputs.report
    lines: list[str] = []
    for severity, level in _LEVELS.items():
        findings = [finding for finding in report.active if finding.severity is severity]
        shown_findings = findings if len(findings) <= MAX_ANNOTATIONS else findings[: MAX_ANNOTATIONS - 1]
        lines += [_annotation(level, finding, inputs.prefix) for finding in shown_findings]
        if len(shown_findings) < len(findings):
            more = f"{len(findings) - len(shown_findings)} more: run `holdfast check` to see all of them"
            lines.append(command(level, more, title="Holdfast"))
    parts = (counts_text(report), *uncounted_texts(report), partly_evaluated_text(report))
    last = " · ".join(part for part in parts if part)
    return "\n".join([*lines, *_not_evaluated(report), escape_commands(last)]) + "\n"


def _not_evaluated(report: Report) -> list[str]:
    """Why rules were not fully evaluated, folded in the log."""
    if not report.skipped:
        return []
    reasons = [
        escape_commands(f"{one_line(skip.rule)}  {one_line(skip.reason)}{place_suffix(skip.where)}")
        for skip in report.skipped
    ]
    return [command("group", "not fully evaluated"), *reasons, command("endgroup", "")]


def _annotation(level: str, finding: ReportedFinding, prefix: str) -> str:
    where = [part for part in (finding.stack, finding.address) if part]
    about = f" ({', '.join(where)})" if where else ""
    hint = f"\n{finding.hint}" if finding.hint else ""
    file = f"{prefix}{finding.file}" if finding.file is not None else None
    line = finding.line if file is not None else None
    return command(
        level,
        f"{finding.message}{about}{hint}",
        file=file,
        line=line,
        endLine=finding.end_line if line is not None else None,
        title=f"{finding.rule.id} {finding.rule.title}",
    )
