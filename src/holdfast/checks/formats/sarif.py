"""SARIF 2.1.0, for GitHub code scanning.

GitHub keeps 5,000 results of a run: the most severe come first. It ignores suppressions and would open an
alert for every waived finding, so each of them is a notification of the run, with place, reason and end
date.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Container, Iterable
from urllib.parse import quote

from holdfast.checks.formats.interface import Shown
from holdfast.checks.formats.words import waiver_text
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import Report, Reported, Unseen, Waiver
from holdfast.system.markup import one_line

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MOST_RESULTS = 5_000
MOST_NOTIFICATIONS = 1_000
_LONGEST = 1_000
_ORDER = tuple(Severity)
_CONFIGURATION = "holdfast.yaml"
"""The place of findings without a file: GitHub requires one."""


def show(shown: Shown) -> str:
    # Escaped so that GitHub Actions sees no command: `##[` only occurs in texts.
    return json.dumps(document(shown), indent=2, ensure_ascii=False).replace("##[", "##\\u005b") + "\n"


def document(shown: Shown) -> dict[str, object]:
    report = shown.report
    kept = sorted(report.counted, key=lambda one: _ORDER.index(one.severity))[:MOST_RESULTS]
    spared = [one for one in report.findings if one.waived]
    rules = _rules(report, [*kept, *spared])
    index = {rule.id: number for number, rule in enumerate(rules)}
    seen: Counter[str] = Counter()
    unseen = [_unseen(one, index) for one in report.skipped]
    waivers = [_waived(one, one.waiver, shown.prefix) for one in spared if one.waiver is not None]
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
                    {
                        "executionSuccessful": True,
                        "toolExecutionNotifications": unseen[:MOST_NOTIFICATIONS],
                        "toolConfigurationNotifications": waivers[:MOST_NOTIFICATIONS],
                    }
                ],
                "properties": {
                    "waived": report.waived,
                    "leftOut": len(report.counted) - len(kept),
                    "rulesThatCouldNotLook": len(report.partly_evaluated),
                },
            }
        ],
    }


def _rules(report: Report, told: Iterable[Reported]) -> list[Rule]:
    found = {rule.id: rule for rule in report.rules}
    found.update((one.rule.id, one.rule) for one in told)
    return [found[id_] for id_ in sorted(found)]


def _rule(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id,
        "shortDescription": {"text": _said(rule.title, rule.id)},
        "fullDescription": {"text": _said(rule.why, rule.title, rule.id)},
        "help": {"text": _said(" ".join(filter(None, (rule.why, rule.fix))), rule.title, rule.id)},
        "defaultConfiguration": {"level": rule.severity.value},
        "properties": {"tags": ["terraform", *rule.targets]},
    }


def _said(*texts: str) -> str:
    """The first text that is not empty, since GitHub requires one."""
    return next(filter(None, (one_line(text, _LONGEST) for text in texts)), "?")


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
    line = one.line or 1
    region = {"startLine": line, "startColumn": one.column or 1, "endLine": max(line, one.end_line or 1)}
    path = f"{prefix}{one.file or _CONFIGURATION}"
    location: dict[str, object] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(path), "uriBaseId": "%SRCROOT%"},
            "region": region,
        }
    }
    if one.address is not None:
        location["logicalLocations"] = [{"fullyQualifiedName": one.address, "kind": "resource"}]
    return location


def _uri(path: str) -> str:
    """With the bytes of the name on disk, UTF-8 or not."""
    try:
        return quote(path, errors="surrogateescape")
    except UnicodeEncodeError:
        return quote(path, errors="replace")


def _fingerprint(one: Reported, seen: Counter[str]) -> str:
    """Stable while the line is the same, wherever it moves; a counter distinguishes equal ones."""
    # The source line is masked: not even a digest of a secret leaves.
    line = one.source or one.message
    parts = (one.rule.id, one.file or "", one.stack or "", one.address or "", line)
    digest = hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]
    seen[digest] += 1
    return f"{digest}:{seen[digest]}"


def _unseen(one: Unseen, rules: Container[str]) -> dict[str, object]:
    where = f" ({one.file or one.stack})" if one.file or one.stack else ""
    text = one_line(f"{one.rule} was not fully evaluated: {one.reason}{where}", _LONGEST)
    said: dict[str, object] = {"level": "note", "message": {"text": text}}
    # An external tool is not a rule.
    return {**said, "associatedRule": {"id": one.rule}} if one.rule in rules else said


def _waived(one: Reported, waiver: Waiver, prefix: str) -> dict[str, object]:
    return {
        "level": "note",
        "message": {"text": one_line(f"{one.message}: {waiver_text(waiver)}", _LONGEST)},
        "associatedRule": {"id": one.rule.id},
        "locations": [_location(one, prefix)],
    }
