"""SARIF 2.1.0, for GitHub code scanning.

GitHub keeps 5,000 results of a run: new and severe ones come first. Known ones stay in it as `unchanged`, so
that GitHub does not close their alerts. It ignores suppressions and would open an
alert for every waived finding, so each of them is a notification of the run, with place, reason and end
date.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Container, Iterable
from urllib.parse import quote

from holdfast.checks.engine.pages import rule_details
from holdfast.checks.formats.interface import FormatInput, waiver_text
from holdfast.checks.model.interface import Rule
from holdfast.checks.model.report import NotEvaluated, Novelty, Report, ReportedFinding, Waiver
from holdfast.system.markup import one_line

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 5_000
MOST_NOTIFICATIONS = 1_000
_LONGEST = 1_000
_CONFIGURATION = "holdfast.yaml"
"""The place of findings without a file: GitHub requires one."""


def render(inputs: FormatInput) -> str:
    # Escaped so that GitHub Actions sees no command: `##[` only occurs in texts.
    return json.dumps(document(inputs), indent=2, ensure_ascii=False).replace("##[", "##\\u005b") + "\n"


def document(inputs: FormatInput) -> dict[str, object]:
    report = inputs.report
    unwaived = [finding for finding in report.findings if not finding.waived]
    shown_findings = sorted(unwaived, key=lambda finding: (not finding.active, finding.severity.rank))
    shown_findings = shown_findings[:MOST_RESULTS]
    waived_findings = [finding for finding in report.findings if finding.waived]
    rules = _rules(report, [*shown_findings, *waived_findings])
    index = {rule.id: number for number, rule in enumerate(rules)}
    fingerprints: Counter[str] = Counter()
    skips = [_not_evaluated(finding, index) for finding in report.skipped]
    waivers = [
        _waived(finding, finding.waiver, inputs.prefix)
        for finding in waived_findings
        if finding.waiver is not None
    ]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "Holdfast",
                        "semanticVersion": inputs.version,
                        "rules": [_rule(rule) for rule in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [
                    _result(finding, index[finding.rule.id], inputs.prefix, fingerprints)
                    for finding in shown_findings
                ],
                "invocations": [
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": skips[:MOST_NOTIFICATIONS],
                        "toolConfigurationNotifications": waivers[:MOST_NOTIFICATIONS],
                    }
                ],
                "properties": {
                    "waived": report.waived,
                    "leftOut": len(unwaived) - len(shown_findings),
                    "rulesThatCouldNotLook": len(report.partly_evaluated),
                },
            }
        ],
    }


def _rules(report: Report, findings: Iterable[ReportedFinding]) -> list[Rule]:
    rules = {rule.id: rule for rule in report.rules}
    rules.update((finding.rule.id, finding.rule) for finding in findings)
    return [rules[id_] for id_ in sorted(rules)]


def _rule(rule: Rule) -> dict[str, object]:
    why = rule_details(rule).why
    return {
        "id": rule.id,
        "shortDescription": {"text": _first_text(rule.title, rule.id)},
        "fullDescription": {"text": _first_text(why, rule.title, rule.id)},
        "help": {"text": _first_text(" ".join(filter(None, (why, rule.fix))), rule.title, rule.id)},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"tags": ["terraform", *rule.targets]},
    }


def _first_text(*texts: str) -> str:
    """The first text that is not empty, since GitHub requires one."""
    return next(filter(None, (one_line(text, _LONGEST) for text in texts)), "?")


def _result(
    finding: ReportedFinding, rule_index: int, prefix: str, fingerprints: Counter[str]
) -> dict[str, object]:
    hint = f" {finding.hint}" if finding.hint else ""
    result: dict[str, object] = {
        "ruleId": finding.rule.id,
        "ruleIndex": rule_index,
        "level": finding.severity.value,
        "message": {"text": one_line(f"{finding.message}.{hint}", _LONGEST)},
        "locations": [_location(finding, prefix)],
        "partialFingerprints": {"primaryLocationLineHash": _fingerprint(finding, fingerprints)},
    }
    if finding.novelty is not None:
        result["baselineState"] = "new" if finding.novelty is Novelty.NEW else "unchanged"
    if finding.stack is not None:
        result["properties"] = {"stack": finding.stack}
    return result


def _location(finding: ReportedFinding, prefix: str) -> dict[str, object]:
    line = finding.line or 1
    region = {
        "startLine": line,
        "startColumn": finding.column or 1,
        "endLine": max(line, finding.end_line or 1),
    }
    path = f"{prefix}{finding.file or _CONFIGURATION}"
    location: dict[str, object] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(path), "uriBaseId": "%SRCROOT%"},
            "region": region,
        }
    }
    if finding.address is not None:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.address, "kind": "resource"}]
    return location


def _uri(path: str) -> str:
    """With the bytes of the name on disk, UTF-8 or not."""
    try:
        return quote(path, errors="surrogateescape")
    except UnicodeEncodeError:
        return quote(path, errors="replace")


def _fingerprint(finding: ReportedFinding, fingerprints: Counter[str]) -> str:
    """Stable while the line is the same, wherever it moves; a counter distinguishes equal ones."""
    # The source line is masked: not even a digest of a secret leaves.
    line = finding.source or finding.message
    parts = (finding.rule.id, finding.file or "", finding.stack or "", finding.address or "", line)
    digest = hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]
    fingerprints[digest] += 1
    return f"{digest}:{fingerprints[digest]}"


def _not_evaluated(skip: NotEvaluated, rules: Container[str]) -> dict[str, object]:
    where = f" ({skip.where})" if skip.where else ""
    text = one_line(f"{skip.rule} was not fully evaluated: {skip.reason}{where}", _LONGEST)
    notification: dict[str, object] = {"level": "note", "message": {"text": text}}
    # An external tool is not a rule.
    return {**notification, "associatedRule": {"id": skip.rule}} if skip.rule in rules else notification


def _waived(finding: ReportedFinding, waiver: Waiver, prefix: str) -> dict[str, object]:
    return {
        "level": "note",
        "message": {"text": one_line(f"{finding.message}: {waiver_text(waiver)}", _LONGEST)},
        "associatedRule": {"id": finding.rule.id},
        "locations": [_location(finding, prefix)],
    }
