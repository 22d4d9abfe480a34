"""The document of `holdfast check --json`. Fields are only ever added."""

from __future__ import annotations

import json

from holdfast.checks.formats.interface import FormatInput
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import NotEvaluated, Novelty, Report, ReportedFinding


def render(inputs: FormatInput) -> str:
    return (
        json.dumps(document(inputs.report), indent=2, ensure_ascii=False).replace("##[", "##\\u005b") + "\n"
    )


def document(report: Report) -> dict[str, object]:
    return {
        "version": 1,
        "findings": [_finding(finding) for finding in report.findings],
        "skipped": [_skipped(finding) for finding in report.skipped],
        "summary": summary(report),
    }


def summary(report: Report) -> dict[str, object]:
    return {
        "error": report.count(Severity.ERROR),
        "warning": report.count(Severity.WARNING),
        "note": report.count(Severity.NOTE),
        "waived": report.waived,
        "skipped": len(report.partly_evaluated),
        "rules": len(report.rules),
        "files": report.files,
        "modules": report.modules,
        "stacks": report.stacks,
        "existing": report.count_novelty(Novelty.EXISTING),
        "baseline": None
        if report.baseline is None
        else {
            "known": report.count_novelty(Novelty.KNOWN),
            "new": report.count_novelty(Novelty.NEW),
            "fixed": report.baseline.fixed_count,
        },
    }


def _finding(finding: ReportedFinding) -> dict[str, object]:
    waiver = finding.waiver
    return {
        "rule": finding.rule.id,
        "severity": finding.severity.value,
        "title": finding.rule.title,
        "message": finding.message,
        "hint": finding.hint,
        "file": finding.file,
        "line": finding.line,
        "end_line": finding.end_line,
        "stack": finding.stack,
        "stacks": list(finding.stacks),
        "address": finding.address,
        "waived": finding.waived,
        "column": finding.column,
        "novelty": finding.novelty,
        "waiver": None
        if waiver is None
        else {
            "owner": waiver.owner,
            "reason": waiver.reason,
            "until": waiver.until.isoformat(),
            "file": waiver.place.file,
            "line": waiver.place.line,
        },
        "also": [{"file": place.file, "line": place.line} for place in finding.also],
    }


def _skipped(skip: NotEvaluated) -> dict[str, object]:
    fields = ("rule", "reason", "file", "stack", "expected")
    return {name: getattr(skip, name) for name in fields}
