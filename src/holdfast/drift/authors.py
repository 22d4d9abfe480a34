"""Who changed a resource outside Terraform, as far as the cloud's audit trail shows it. Optional, and never
a reason to fail: what it does not know stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct, structs

from holdfast.drift.observation import Observation
from holdfast.store.drift import Author, Finding, StackDrift

SOURCE: Final = "CloudTrail"
_KEPT: Final = timedelta(days=90)
"""How long CloudTrail keeps events without a trail of its own."""
_MOST: Final = 10
"""Resources of one stack that are looked up: CloudTrail allows two requests in a second."""
_LATEST: Final = 50
_PREFIX: Final = "aws_"

LookUp = Callable[..., Mapping[str, Any]]
"""`LookupEvents` of CloudTrail."""


class Authors(Struct, frozen=True, kw_only=True):
    known: Mapping[str, Author] = {}
    """By address."""
    notes: tuple[str, ...] = ()


def unexplained(observed: Iterable[Observation], before: StackDrift | None) -> dict[str, str]:
    """The ids of resources, by address, with drift that is new or changed. Pure."""
    seen = {finding.key: finding for finding in (before.findings if before is not None else ())}
    wanted: dict[str, str] = {}
    for one in observed:
        finding = seen.get((one.address, one.attribute))
        same = finding is not None and not finding.state.ended and finding.fingerprint == one.fingerprint
        if not same and one.resource and one.type.startswith(_PREFIX):
            wanted[one.address] = one.resource
    return wanted


def find_authors(
    wanted: Mapping[str, str], since: datetime | None, now: datetime, look_up: LookUp
) -> Authors:
    """The last change of each resource since the last check."""
    begin = max(since, now - _KEPT) if since is not None else now - _KEPT
    known: dict[str, Author] = {}
    for address, resource in list(wanted.items())[:_MOST]:
        answer = look_up(
            LookupAttributes=[{"AttributeKey": "ResourceName", "AttributeValue": resource}],
            StartTime=begin,
            EndTime=now,
            MaxResults=_LATEST,
        )
        if (author := last_change(answer.get("Events") or ())) is not None:
            known[address] = author
    left = len(wanted) - _MOST
    notes = (f"{left} more changed resources were not looked up in {SOURCE}",) if left > 0 else ()
    return Authors(known=known, notes=notes)


def last_change(events: Iterable[Mapping[str, Any]]) -> Author | None:
    """Reading changes nothing. Pure."""
    writing = [
        event
        for event in events
        if str(event.get("ReadOnly")).lower() == "false" and isinstance(event.get("EventTime"), datetime)
    ]
    last = max(writing, key=lambda event: event["EventTime"], default=None)
    if last is None:
        return None
    return Author(
        who=str(last.get("Username") or "unknown"),
        at=last["EventTime"],
        event=str(last.get("EventName") or "unknown"),
        source=SOURCE,
    )


def with_authors(findings: Iterable[Finding], known: Mapping[str, Author]) -> tuple[Finding, ...]:
    """An author stays as long as the finding does not change. Pure."""
    return tuple(
        structs.replace(finding, author=known[finding.address])
        if finding.author is None and not finding.state.ended and finding.address in known
        else finding
        for finding in findings
    )
