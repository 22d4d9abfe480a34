"""The value of a run: its status table, its times, and its record in the store."""

from __future__ import annotations

import itertools

import pytest
from memory_blobs import MemoryBlobs

from holdfast.plans.context import Identity
from holdfast.plans.status import RESULTS, RUNNING, TABLE, InvalidTransition, Status
from holdfast.runs.run import Run, new_run, read_run, write_run
from holdfast.secrets.keys import Key
from holdfast.secrets.redact import Redactor
from holdfast.store.run_store import RunStore
from holdfast.system.environment import Environment


def store() -> RunStore:
    return RunStore(MemoryBlobs(), lambda: Key.of(b"k" * 32))


def identity(of: RunStore) -> Identity:
    return Identity(of, Environment(variables={"USER": "ann"}), Redactor())


@pytest.mark.parametrize(("before", "after"), tuple(itertools.product(Status, Status)))
def test_only_the_table_says_what_may_follow(before: Status, after: Status) -> None:
    """A transition that the table does not have raises; staying in a status is no transition."""
    run = Run(id="1", status=before)
    if before is after or after in TABLE[before].next:
        assert run.to(after).status is after
    else:
        with pytest.raises(InvalidTransition):
            run.to(after)


def test_the_table_has_every_status_and_every_run_can_end() -> None:
    """From every status that is not final, a final one can be reached; nothing leads back to a start."""
    assert set(TABLE) == set(Status)
    assert set(RESULTS) | RUNNING == set(Status)
    for status in Status:
        assert status.is_final or any(later.is_final for later in TABLE[status].next)
        assert Status.QUEUED not in TABLE[status].next
        assert not (status.is_running and status.is_final)


@pytest.mark.parametrize("status", [Status.UNKNOWN, Status.PLANNED, Status.WAITING, *RUNNING])
def test_a_run_without_an_outcome_is_not_final(status: Status) -> None:
    """Its claim must not be released."""
    assert not status.is_final


def test_what_became_unknown_is_only_settled() -> None:
    """A reconcile finds that it was applied or that it failed; it is never applied again."""
    assert TABLE[Status.UNKNOWN].next == {Status.APPLIED, Status.FAILED}


def test_a_run_knows_when_it_came_to_each_status() -> None:
    """It started when it was queued, and ended when it came to a status that is a result."""
    run = new_run("a", "apply", identity(store())).to(Status.PLANNING)
    assert run.started == run.times[Status.QUEUED]
    assert run.ended is None
    run = run.to(Status.PLANNED).to(Status.APPLYING).to(Status.FAILED, "why")
    assert list(run.times) == ["queued", "planning", "planned", "applying", "failed"]
    assert run.ended == run.times[Status.FAILED]
    assert run.notes == ("why",)
    assert run.to(Status.FAILED) == run


def test_a_run_is_read_as_it_was_written() -> None:
    """Every field comes back from the store."""
    at = store()
    run = new_run("a", "apply", identity(at)).to(Status.CANCELLED, "x")
    write_run(at, run)
    assert read_run(at, run.id) == run
    assert read_run(at, "other") is None


def test_a_record_that_is_not_understood_is_an_unknown_outcome() -> None:
    """A later Holdfast may know more statuses: what it wrote is never taken for a success."""
    at = store()
    at.runs.finish("1", {"version": 9, "status": "of another version"})
    read = read_run(at, "1")
    assert read is not None
    assert read.status is Status.UNKNOWN
