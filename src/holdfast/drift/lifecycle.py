"""How findings live: from what was known, what is observed and the time to what is known now. Pure.

opened ─► still_there ─► changed ─► …          it is there
    └─► acknowledged                           it is there, and a person knows it: until it changes
    └─► healed | gone ─► reopened              it is over; the same address and attribute may return
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from holdfast.drift.observation import Observation
from holdfast.store.drift import Acknowledgement, Finding, FindingState

KEPT: Final = timedelta(days=400)
"""How long a finding that is over is remembered."""
HELD: Final = timedelta(days=7)
"""What stays away for this long was healed: earlier attempts no longer count."""
MOST_HEALINGS: Final = 2
"""After this many that did not hold, healing stops."""
_MOST: Final = 5000


def next_findings(
    known: Iterable[Finding],
    observed: Iterable[Observation],
    now: datetime,
    *,
    new_id: Callable[[], str],
) -> tuple[Finding, ...]:
    """One finding per address and attribute. `now` is never before anything that is known."""
    before = {finding.key: finding for finding in known}
    after: dict[tuple[str, str | None], Finding] = {}
    for one in observed:
        finding = before.get((one.address, one.attribute))
        after[one.address, one.attribute] = (
            _seen(finding, one, now) if finding is not None else _opened(one, now, new_id())
        )
    for key, finding in before.items():
        if key not in after:
            over = _over(finding, now)
            if not over.state.ended or now - over.since <= KEPT:
                after[key] = over
    ordered = sorted(
        after.values(), key=lambda finding: (finding.state.ended, finding.address, finding.attribute or "")
    )
    return tuple(ordered[:_MOST])


def _opened(one: Observation, now: datetime, id_: str) -> Finding:
    return Finding(
        id=id_,
        address=one.address,
        type=one.type,
        attribute=one.attribute,
        before=one.before,
        after=one.after,
        sensitive=one.sensitive,
        first_seen=now,
        last_seen=now,
        state=FindingState.OPENED,
        since=now,
        fingerprint=one.fingerprint,
    )


def _seen(finding: Finding, one: Observation, now: datetime) -> Finding:
    """It is there (again)."""
    seen = structs.replace(
        finding,
        type=one.type,
        before=one.before,
        after=one.after,
        sensitive=one.sensitive,
        fingerprint=one.fingerprint,
        last_seen=now,
    )
    if finding.state.ended:
        held = now - finding.since >= HELD
        return structs.replace(
            seen,
            state=FindingState.REOPENED,
            since=now,
            first_seen=now,
            acknowledged=None,
            author=None,
            healings=() if held else finding.healings,
            opened=finding.opened + 1,
        )
    if one.fingerprint != finding.fingerprint:
        return structs.replace(seen, state=FindingState.CHANGED, since=now, acknowledged=None, author=None)
    if finding.state is FindingState.ACKNOWLEDGED and in_force(finding.acknowledged, now):
        return seen
    if finding.state is FindingState.STILL_THERE:
        return seen
    return structs.replace(seen, state=FindingState.STILL_THERE, since=now, acknowledged=None)


def _over(finding: Finding, now: datetime) -> Finding:
    if finding.state.ended:
        return finding
    by_us = bool(finding.healings) and finding.healings[-1] >= finding.last_seen
    state = FindingState.HEALED if by_us else FindingState.GONE
    return structs.replace(finding, state=state, since=now, acknowledged=None)


def in_force(given: Acknowledgement | None, now: datetime) -> bool:
    return given is not None and (given.until is None or now < given.until)


def acknowledge(finding: Finding, given: Acknowledgement) -> Finding:
    """Healing may try again when it ends. Raises ValueError for a finding that is over."""
    if finding.state.ended:
        raise ValueError(finding.id)
    return structs.replace(
        finding, state=FindingState.ACKNOWLEDGED, since=given.at, acknowledged=given, healings=()
    )


def with_healing(finding: Finding, now: datetime) -> Finding:
    """Holdfast has undone it; whether it stays away is not known yet."""
    return structs.replace(finding, healings=(*finding.healings, now))


def does_not_hold(finding: Finding) -> bool:
    """It came back after as many healings as are tried."""
    return not finding.state.ended and len(finding.healings) >= MOST_HEALINGS
