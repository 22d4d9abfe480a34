"""The phases of a run on the server: one table, and what follows from it."""

from __future__ import annotations

import pytest

from holdfast.store.server_runs.phases import (
    NEXT,
    ChangePhase,
    InvalidPhase,
    RunPhase,
    phase_of_change,
    phases_before,
    require_status,
)


def test_every_phase_leads_to_the_end() -> None:
    """No run stays somewhere forever, and one that ended stays as it is."""
    reached = {RunPhase.DONE}
    while more := {phase for phase in RunPhase if NEXT[phase] & reached} - reached:
        reached |= more
    assert reached == set(RunPhase)
    assert NEXT[RunPhase.DONE] == frozenset()


def test_an_apply_is_never_repeated() -> None:
    """What follows `applying` is its outcome. What waits may be planned again."""
    assert NEXT[RunPhase.APPLYING] == {RunPhase.DONE}
    assert phases_before(RunPhase.QUEUED) == (RunPhase.QUEUED, RunPhase.PLANNING, RunPhase.WAITING)
    assert RunPhase.DONE not in phases_before(RunPhase.DONE)


def test_a_status_comes_with_waiting_and_done() -> None:
    for phase in RunPhase:
        with pytest.raises(InvalidPhase):
            require_status(phase, None if phase.has_status else "planned")
        require_status(phase, "planned" if phase.has_status else None)


@pytest.mark.parametrize(
    ("runs", "woken", "expected"),
    [
        ([], False, ChangePhase.DONE),
        ([RunPhase.DONE], True, ChangePhase.DONE),
        ([RunPhase.DONE, RunPhase.WAITING], False, ChangePhase.WAITING),
        ([RunPhase.QUEUED, RunPhase.WAITING], True, ChangePhase.QUEUED),
        ([RunPhase.APPLYING, RunPhase.WAITING], True, ChangePhase.RUNNING),
    ],
)
def test_the_phase_of_a_change_follows_from_its_runs(
    runs: list[RunPhase],
    woken: bool,  # noqa: FBT001 - a parameter of the test
    expected: ChangePhase,
) -> None:
    assert phase_of_change(runs, woken=woken) is expected
