"""Every step of a finding's life, and what starts and ends it."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from drift_made import START, observed

from holdfast.drift.lifecycle import HELD, KEPT, acknowledge, does_not_hold, next_findings, with_healing
from holdfast.store.drift import Acknowledgement, Finding, FindingState

_IDS = itertools.count()
HOUR = timedelta(hours=1)


def look(known: tuple[Finding, ...], *values: object, hours: int = 0) -> tuple[Finding, ...]:
    observations = [observed(value=value) for value in values]
    return next_findings(known, observations, START + hours * HOUR, new_id=lambda: str(next(_IDS)))


def test_a_finding_lives_from_opened_to_reopened() -> None:
    """The id stays, the first sight is that of this life, the last one is the latest."""
    (opened,) = look((), "bye")
    (still,) = look((opened,), "bye", hours=1)
    (changed,) = look((still,), "ciao", hours=2)
    (gone,) = look((changed,), hours=3)
    (reopened,) = look((gone,), "bye", hours=4)
    assert [f.state for f in (opened, still, changed, gone, reopened)] == [
        *(FindingState.OPENED, FindingState.STILL_THERE, FindingState.CHANGED),
        *(FindingState.GONE, FindingState.REOPENED),
    ]
    assert {f.id for f in (opened, still, changed, gone, reopened)} == {opened.id}
    assert (changed.first_seen, changed.last_seen, changed.after) == (START, START + 2 * HOUR, "ciao")
    assert gone.last_seen == START + 2 * HOUR
    assert (reopened.first_seen, reopened.opened) == (START + 4 * HOUR, 2)


def test_an_acknowledgement_ends_when_the_finding_changes_or_its_day_comes() -> None:
    """Until then it stays acknowledged."""
    given = Acknowledgement(by="p", at=START, reason="known", until=START + 10 * HOUR)
    known = acknowledge(look((), "bye")[0], given)
    assert look((known,), "bye", hours=9)[0].state is FindingState.ACKNOWLEDGED
    for values, hours in (("ciao", 1), ("bye", 10)):
        (after,) = look((known,), values, hours=hours)
        assert (after.active, after.acknowledged) == (True, None)
    (gone,) = look((known,), hours=1)
    with pytest.raises(ValueError, match=gone.id):
        acknowledge(gone, given)


def test_two_healings_that_do_not_hold_stop_healing() -> None:
    """What stays away for a week was healed: earlier attempts no longer count. A person can start again."""
    known = look((), "bye")
    for hours in (1, 3):
        assert not does_not_hold(known[0])
        known = look((with_healing(known[0], START + hours * HOUR),), hours=hours)
        assert known[0].state is FindingState.HEALED
        known = look(known, "bye", hours=hours + 1)
    assert does_not_hold(known[0])
    given = Acknowledgement(by="p", at=START, reason="found the cron job")
    assert not does_not_hold(acknowledge(known[0], given))
    held = look(look((with_healing(known[0], START + 5 * HOUR),), hours=5), "bye", hours=5 + HELD // HOUR)
    assert not does_not_hold(held[0])


def test_what_is_over_for_long_is_forgotten() -> None:
    """Until then it is history."""
    gone = look(look((), "bye"), hours=1)
    assert look(gone, hours=1 + KEPT // HOUR) == gone
    assert look(gone, hours=2 + KEPT // HOUR) == ()
