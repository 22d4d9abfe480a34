"""What Checkov prints, and which of it can be believed. Pure.

Of what it has no check for it says nothing, and of a folder or a file in which it found nothing at all it
says the same. So it is given one check more, which every resource passes: what passed that one was seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from holdfast.checks.tools.interface import how_it_ended
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
UNNAMED: Final = "a file that it does not name"
_ENDS: Final = (0, 1)
"""Nothing failed, and something did."""


class Checked(Struct, frozen=True, kw_only=True):
    """A check of Checkov's that failed, or that somebody wants to be passed over, as its report says."""

    id: str
    title: str
    file: str
    lines: tuple[int, int] | None
    resource: str
    guideline: str | None
    severity: str | None
    comment: str = ""
    """Why it is passed over."""


class Report(Struct, frozen=True, kw_only=True):
    failed: tuple[Checked, ...]
    skipped: tuple[Checked, ...]
    unread: tuple[str, ...]
    seen: frozenset[str]
    """The files whose resources it saw: none where there are some is no answer."""


def read_report(finished: Finished) -> Report | str:
    """What it found, or why that cannot be believed."""
    if finished.code not in _ENDS:
        return f"ended with {how_it_ended(finished)}"
    try:
        said = json.loads(finished.out)
        parts = said if isinstance(said, list) else [said]
        return _report(parts)
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"printed no report: {how_it_ended(finished)}"


def _report(parts: Sequence[Mapping[str, Any]]) -> Report:
    failed: list[Checked] = []
    skipped: list[Checked] = []
    unread: list[str] = []
    seen: set[str] = set()
    for part in parts:
        if "check_type" not in part:
            # The flat object that it prints where it looked at nothing.
            _ = part["resource_count"]
            continue
        results = part["results"]
        named = [str(path) for path in results.get("parsing_errors") or ()]
        missing = int(part["summary"].get("parsing_errors") or 0) > len(named)
        unread += named or ([UNNAMED] if missing else [])
        failed += _checked(results.get("failed_checks"))
        skipped += _checked(results.get("skipped_checks"))
        seen |= {
            one.file
            for ends in ("passed_checks", "failed_checks", "skipped_checks")
            for one in _every(results.get(ends))
            if one.id == SEEN
        }
    return Report(failed=tuple(failed), skipped=tuple(skipped), unread=tuple(unread), seen=frozenset(seen))


def _checked(found: Sequence[Mapping[str, Any]] | None) -> list[Checked]:
    return [one for one in _every(found) if one.id != SEEN]


def _every(found: Sequence[Mapping[str, Any]] | None) -> Iterator[Checked]:
    for one in found or ():
        lines = one.get("file_line_range") or (0, 0)
        first, last = int(lines[0]), int(lines[1])
        yield Checked(
            id=str(one["check_id"]),
            title=str(one.get("check_name") or one["check_id"]),
            file=str(one.get("file_path") or ""),
            lines=(first, max(first, last)) if first > 0 else None,
            resource=str(one.get("resource") or ""),
            guideline=one.get("guideline"),
            severity=one.get("severity"),
            comment=str((one.get("check_result") or {}).get("suppress_comment") or ""),
        )
