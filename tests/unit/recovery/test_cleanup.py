"""What a dead run left: a lock is released only if it can be the run's, a state is never thrown away."""

from __future__ import annotations

import pytest
from memory_backend import state

from holdfast.recovery.cleanup import UnsavedStateOutcome, is_lock_of, unsaved_state_outcome
from holdfast.runs.claims import Claim
from holdfast.runs.intent import Intent
from holdfast.system.process_table import ProcessId
from holdfast.terraform.diagnostics import LockInfo
from holdfast.terraform.statefile.model import read_state

STARTED = "2026-01-02T14:02:00.250000+00:00"


def lock(*, who: str = "ann@runner-7", created: str = "2026-01-02 14:02:03") -> LockInfo:
    return LockInfo(id="1234", who=who, created=created, operation="apply")


def claim(*, host: str = "runner-7", started: str = STARTED) -> Claim:
    process = ProcessId(host=host, boot="b", pid=1, started="1")
    return Claim(
        stack="a", run="r1", intent=Intent(operation="apply", who="ann", started=started, process=process)
    )


@pytest.mark.parametrize("created", ["2026-01-02 14:02:03", "2026-01-02 14:01:58", "2026-01-02 15:30:00"])
def test_a_lock_of_the_runs_machine_and_time_is_its_own(created: str) -> None:
    """Taken there after the run began, give or take what two clocks differ."""
    assert is_lock_of(lock(created=created), claim())


@pytest.mark.parametrize(
    "who", ["ann@runner-8", "ann", "", "@", "runner-7@elsewhere", "ann@runner-7.example"]
)
def test_a_lock_of_another_machine_is_left(who: str) -> None:
    """Somebody else may be at work."""
    assert not is_lock_of(lock(who=who), claim())


@pytest.mark.parametrize("created", ["2026-01-02 14:01:00", "2026-01-01 23:59:59", "1970-01-01 00:00:00"])
def test_a_lock_from_before_the_run_is_left(created: str) -> None:
    """Whoever took it then is not the run."""
    assert not is_lock_of(lock(created=created), claim())


@pytest.mark.parametrize("created", ["", "yesterday", "2026-13-45 99:00:00", "0000-00-00 00:00:00"])
def test_a_time_that_is_none_frees_nothing(created: str) -> None:
    """What is not understood is left alone."""
    assert not is_lock_of(lock(created=created), claim())


@pytest.mark.parametrize(
    "intent",
    [
        {"started": ""},
        {"started": "soon"},
        {"started": "2026-01-02T14:02:00"},
        {"host": ""},
    ],
)
@pytest.mark.parametrize("who", ["ann@runner-7", "ann@", "", "None", "ann@None"])
def test_a_claim_that_does_not_say_frees_nothing(intent: dict[str, str], who: str) -> None:
    """A record without a machine, or without a time in a zone, proves nothing of any lock."""
    assert not is_lock_of(lock(who=who), claim(**intent))


@pytest.mark.parametrize(
    ("unsaved", "now", "outcome"),
    [
        (state(5), b"", UnsavedStateOutcome.SAVED),
        (state(5), b"{damaged", UnsavedStateOutcome.SAVED),
        (state(5), state(4), UnsavedStateOutcome.SAVED),
        (state(5), state(5), UnsavedStateOutcome.OLD),
        (state(5), state(6), UnsavedStateOutcome.OLD),
        (state(5, lineage="one"), state(4, lineage="two"), UnsavedStateOutcome.KEPT),
        (state(5, lineage="one"), state(9, lineage="two"), UnsavedStateOutcome.KEPT),
        (state(0, lineage=""), b"", UnsavedStateOutcome.SAVED),
        (state(0, lineage=""), state(1, value=None), UnsavedStateOutcome.SAVED),
        (state(0, lineage=""), state(1), UnsavedStateOutcome.KEPT),
        (b"", state(4), UnsavedStateOutcome.DAMAGED),
        (b"{cut", b"", UnsavedStateOutcome.DAMAGED),
    ],
)
def test_an_unsaved_state_is_saved_where_it_is_the_next(
    unsaved: bytes, now: bytes, outcome: UnsavedStateOutcome
) -> None:
    """It follows what is there, or nothing is there; one of another lineage stays where a person finds it."""
    assert unsaved_state_outcome(read_state(unsaved), read_state(now)) is outcome
