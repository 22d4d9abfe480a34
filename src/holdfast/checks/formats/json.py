"""The document of `holdfast check --json`. Fields are only ever added."""

from __future__ import annotations

import json

from holdfast.checks.formats.interface import Shown
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report, Reported, Unseen


def show(shown: Shown) -> str:
    return json.dumps(document(shown.report), indent=2, ensure_ascii=False).replace("##[", "##\\u005b") + "\n"


def document(report: Report) -> dict[str, object]:
    return {
        "version": 1,
        "findings": [_finding(one) for one in report.findings],
        "skipped": [_skipped(one) for one in report.skipped],
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
    }


def _finding(one: Reported) -> dict[str, object]:
    waiver = one.waiver
    return {
        "rule": one.rule.id,
        "severity": one.severity.value,
        "title": one.rule.title,
        "message": one.message,
        "hint": one.hint,
        "file": one.file,
        "line": one.line,
        "end_line": one.end_line,
        "stack": one.stack,
        "address": one.address,
        "waived": one.waived,
        "column": one.column,
        "waiver": None
        if waiver is None
        else {
            "owner": waiver.owner,
            "reason": waiver.reason,
            "until": waiver.until.isoformat(),
            "file": waiver.place.file,
            "line": waiver.place.line,
        },
    }


def _skipped(one: Unseen) -> dict[str, object]:
    return {"rule": one.rule, "reason": one.reason, "file": one.file, "stack": one.stack}
