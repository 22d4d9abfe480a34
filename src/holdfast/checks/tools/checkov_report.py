"""Reads Checkov's report and decides whether it can be trusted. Pure.

In the report, a file without a matching check looks like one that Checkov did not read. So Holdfast adds a
check that every resource passes: a file in which it passed was read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.checks.tools.interface import exit_message
from holdfast.system.processes import Finished

SEEN: Final = "HOLDFAST_SEEN"
SEEN_CHECK: Final = f"""metadata:
  id: {SEEN}
  name: was looked at
  category: GENERAL_SECURITY
definition:
  cond_type: attribute
  resource_types: all
  attribute: holdfast_never
  operator: not_exists
"""
UNNAMED: Final = "a file that the report does not name"
_EXIT_CODES: Final = (0, 1)
"""No check failed, and some did."""


class CheckovCheck(Struct, frozen=True, kw_only=True):
    """A check that failed or was skipped."""

    id: str
    title: str
    file: str
    lines: tuple[int, int] | None
    resource: str
    guideline: str | None
    severity: str | None
    comment: str = ""
    """Why it was skipped."""


class CheckovReport(Struct, frozen=True, kw_only=True):
    failed: tuple[CheckovCheck, ...]
    skipped: tuple[CheckovCheck, ...]
    unread: tuple[str, ...]
    seen: frozenset[str]
    """Files whose resources Checkov read."""


def read_report(finished: Finished) -> CheckovReport | str:
    """The report, or why it cannot be trusted."""
    if finished.code not in _EXIT_CODES:
        return f"failed with {exit_message(finished)}"
    try:
        output = json.loads(finished.out)
        return _report(output if isinstance(output, list) else [output])
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"printed no valid report: {exit_message(finished)}"


def _report(parts: Sequence[Mapping[str, Any]]) -> CheckovReport:
    failed: list[CheckovCheck] = []
    skipped: list[CheckovCheck] = []
    unread: list[str] = []
    seen: set[str] = set()
    for part in parts:
        if "check_type" not in part:
            # Checkov prints a flat object if there was nothing to check.
            _ = part["resource_count"]
            continue
        results = part["results"]
        named = [str(path) for path in results.get("parsing_errors") or ()]
        missing = int(part["summary"].get("parsing_errors") or 0) > len(named)
        unread += named or ([UNNAMED] if missing else [])
        failed += (check for check in _checks(results.get("failed_checks")) if check.id != SEEN)
        skipped += (check for check in _checks(results.get("skipped_checks")) if check.id != SEEN)
        seen |= {
            check.file
            for outcome in ("passed_checks", "failed_checks", "skipped_checks")
            for check in _checks(results.get(outcome))
            if check.id == SEEN
        }
    return CheckovReport(
        failed=tuple(failed), skipped=tuple(skipped), unread=tuple(unread), seen=frozenset(seen)
    )


def _checks(rows: Sequence[Mapping[str, Any]] | None) -> Iterator[CheckovCheck]:
    for row in rows or ():
        lines = row.get("file_line_range") or (0, 0)
        first, last = int(lines[0]), int(lines[1])
        yield CheckovCheck(
            id=str(row["check_id"]),
            title=str(row.get("check_name") or row["check_id"]),
            file=str(row.get("file_path") or ""),
            lines=(first, max(first, last)) if first > 0 else None,
            resource=str(row.get("resource") or ""),
            guideline=row.get("guideline"),
            severity=row.get("severity"),
            comment=str((row.get("check_result") or {}).get("suppress_comment") or ""),
        )
