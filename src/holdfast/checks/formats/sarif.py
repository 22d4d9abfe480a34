"""SARIF 2.1.0, as GitHub's code scanning takes it.

GitHub keeps 5,000 results of a run and 10 tags of a rule, and does not know what a suppression is: findings
that are waived are left out, and of more than it keeps the gravest stay.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from urllib.parse import quote

from holdfast.checks.formats.interface import Shown
from holdfast.checks.interface import Rule, Severity
from holdfast.checks.report import Report, Reported, Unseen
from holdfast.kernel.quoting import one_line

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 5_000
MOST_NOTIFICATIONS = 1_000
_LONGEST = 1_000
_ORDER = tuple(Severity)
_CONFIGURATION = "holdfast.yaml"
"""Where a finding is shown that stands in no file: GitHub takes none without a place."""


def show(shown: Shown) -> str:
    # The same document, in which GitHub Actions sees no command: `##[` stands in texts only.
    return json.dumps(document(shown), indent=2, ensure_ascii=False).replace("##[", "##\\u005b") + "\n"


def document(shown: Shown) -> dict[str, object]:
    report = shown.report
    kept = sorted(report.counted, key=lambda one: _ORDER.index(one.severity))[:MOST_RESULTS]
    rules = _rules(report, kept)
    index = {rule.id: number for number, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "Holdfast",
                        "semanticVersion": shown.version,
                        "rules": [_rule(rule) for rule in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(one, index[one.rule.id], shown.prefix, seen) for one in kept],
                "invocations": [
                    {"executionSuccessful": True, "toolExecutionNotifications": _notifications(report)}
                ],
                "properties": {
                    "waived": report.waived,
                    "leftOut": len(report.counted) - len(kept),
                    "rulesThatCouldNotLook": len(report.unseeing),
                },
            }
        ],
    }


def _rules(report: Report, kept: Iterable[Reported]) -> list[Rule]:
    found = {rule.id: rule for rule in report.rules}
    found.update((one.rule.id, one.rule) for one in kept)
    return [found[id_] for id_ in sorted(found)]


def _rule(rule: Rule) -> dict[str, object]:
    help_ = " ".join(text for text in (rule.why, rule.fix) if text) or rule.title
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": (rule.why or rule.title)[:_LONGEST]},
        "help": {"text": help_},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"tags": ["terraform", *rule.sights]},
    }


def _result(one: Reported, rule_index: int, prefix: str, seen: Counter[str]) -> dict[str, object]:
    hint = f" {one.hint}" if one.hint else ""
    result: dict[str, object] = {
        "ruleId": one.rule.id,
        "ruleIndex": rule_index,
        "level": one.severity.value,
        "message": {"text": one_line(f"{one.message}.{hint}", _LONGEST)},
        "locations": [_location(one, prefix)],
        "partialFingerprints": {"primaryLocationLineHash": _fingerprint(one, seen)},
    }
    if one.stack is not None:
        result["properties"] = {"stack": one.stack}
    return result


def _location(one: Reported, prefix: str) -> dict[str, object]:
    region: dict[str, object] = {"startLine": one.line or 1}
    if one.line is not None and one.end_line is not None and one.end_line > one.line:
        region["endLine"] = one.end_line
    elif one.line is not None and one.column is not None:
        region["startColumn"] = one.column
    path = f"{prefix}{one.file or _CONFIGURATION}"
    location: dict[str, object] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(path, errors="replace"), "uriBaseId": "%SRCROOT%"},
            "region": region,
        }
    }
    if one.address is not None:
        location["logicalLocations"] = [{"fullyQualifiedName": one.address, "kind": "resource"}]
    return location


def _fingerprint(one: Reported, seen: Counter[str]) -> str:
    """The same while the line says the same, wherever it moves; a number tells equal ones apart."""
    # Of a line with a secret not even a digest leaves.
    line = one.source if one.source and not one.rule.secret else one.message
    parts = (one.rule.id, one.file or "", one.stack or "", one.address or "", line)
    digest = hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]
    seen[digest] += 1
    return f"{digest}:{seen[digest]}"


def _notifications(report: Report) -> list[dict[str, object]]:
    return [_notification(one) for one in report.skipped[:MOST_NOTIFICATIONS]]


def _notification(one: Unseen) -> dict[str, object]:
    where = f" ({one.file or one.stack})" if one.file or one.stack else ""
    return {
        "level": "note",
        "message": {"text": one_line(f"{one.rule} could not look: {one.reason}{where}", _LONGEST)},
        "associatedRule": {"id": one.rule},
    }
