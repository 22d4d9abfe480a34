"""The findings of the checks of a change as a document, and back: a worker writes what clients show. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from msgspec.structs import replace

from holdfast.checks.formats.json import document as report_document
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import (
    BaselineUse,
    NotEvaluated,
    Novelty,
    Report,
    ReportedFinding,
    Waiver,
    sort_findings,
)
from holdfast.kernel.errors import Place
from holdfast.plans.result import StackResult
from holdfast.review.findings_by_stack import not_yet_reported

Document = dict[str, Any]
_COPIED: Final = ("message", "hint", "file", "line", "column", "end_line", "stack", "address")
_REPEATED: Final = "guard"
"""In place of a finding's id, which is a digest of texts before they were redacted."""


def checks_document(report: Report, results: tuple[StackResult, ...]) -> Document:
    """Of a redacted report. `guard` marks what a reason of the guard repeats."""
    document: Document = report_document(report)
    document.pop("version")
    own = frozenset(not_yet_reported(report, results))
    for finding, shown in zip(report.findings, document["findings"], strict=True):
        shown["guard"] = finding.active and finding not in own
    return document


def report_from_document(document: Mapping[str, Any]) -> Report:
    """With as many rules as there were: the document does not name those that found nothing."""
    summary = document["summary"]
    nameless = Rule(id="", title="", fix="", severity=Severity.NOTE)
    return Report(
        findings=tuple(map(_finding, document["findings"])),
        skipped=tuple(NotEvaluated(**entry) for entry in document["skipped"]),
        rules=(nameless,) * summary["rules"],
        files=summary["files"],
        stacks=summary["stacks"],
        modules=summary["modules"],
        baseline=BaselineUse() if summary["baseline"] is not None else None,
    )


def _finding(document: Mapping[str, Any]) -> ReportedFinding:
    severity, waiver = Severity(document["severity"]), document["waiver"]
    rule = document["rule"]
    return ReportedFinding(
        rule=Rule(id=rule, title=document["title"], fix="", severity=severity),
        severity=severity,
        **{name: document[name] for name in _COPIED},
        waiver=None
        if waiver is None
        else Waiver(
            rule=rule,
            reason=waiver["reason"],
            until=date.fromisoformat(waiver["until"]),
            place=Place(waiver["file"], waiver["line"]),
            owner=waiver["owner"],
        ),
        stacks=tuple(document["stacks"]),
        id=_REPEATED if document["guard"] else "",
        novelty=Novelty(document["novelty"]) if document["novelty"] is not None else None,
        also=tuple(Place(**place) for place in document["also"]),
    )


def repeated_by_guard(report: Report) -> frozenset[ReportedFinding]:
    """Of a report from a document."""
    return frozenset(finding for finding in report.findings if finding.id == _REPEATED)


def checks_of_stack(document: Mapping[str, Any], stack: str) -> Document:
    """What concerns one stack, or no stack in particular."""
    report = report_from_document(document)
    return _document(
        replace(
            report,
            findings=tuple(f for f in report.findings if not f.stacks or stack in f.stacks),
            skipped=tuple(skip for skip in report.skipped if skip.stack in {None, stack}),
            stacks=1,
        )
    )


def with_earlier_findings(
    document: Mapping[str, Any], before: Mapping[str, Any] | None, stacks: frozenset[str]
) -> Document:
    """With those of an earlier pass that concern only other stacks than these, which were checked again."""
    if before is None:
        return dict(document)
    now, then = report_from_document(document), report_from_document(before)
    kept = tuple(f for f in then.findings if f.stacks and not stacks.intersection(f.stacks))
    skipped = tuple(skip for skip in then.skipped if skip.stack is not None and skip.stack not in stacks)
    merged = replace(
        now,
        findings=sort_findings((*now.findings, *kept)),
        skipped=(*now.skipped, *skipped),
        files=max(now.files, then.files),
        modules=max(now.modules, then.modules),
        stacks=max(now.stacks, then.stacks),
    )
    return _document(merged)


def _document(report: Report) -> Document:
    document: Document = report_document(report)
    document.pop("version")
    for finding, shown in zip(report.findings, document["findings"], strict=True):
        shown["guard"] = finding.id == _REPEATED
    return document
