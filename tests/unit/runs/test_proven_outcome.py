"""What a journal proves of a run whose Holdfast is gone, and what it does not."""

from __future__ import annotations

import pytest
from recovery_made import complete, created, diagnosed, errored, start

from holdfast.plans.status import Status
from holdfast.runs.claims import Claim
from holdfast.runs.intent import Intent
from holdfast.runs.outcome import exited_by_itself, failed_cleanly, proven_status
from holdfast.store.journal import EMPTY, Journal
from holdfast.system import process_table
from holdfast.terraform.engine.worker import NOT_STARTED

DONE = created("lab_object.a", "a-1")
FAILED = (*DONE, start("lab_object.b", "create"), errored("lab_object.b", "create"))
OPEN = (*DONE, start("lab_object.b", "create"))
FORCED = (*FAILED, diagnosed("", "operation canceled"))
DIED = (*FAILED, diagnosed("lab_object.b", "Plugin did not respond", "the plugin crashed"))


def journal(
    code: int | None,
    lines: tuple[bytes, ...] = DONE,
    *,
    unsaved: bool = False,
    whole: bool = True,
    forced: bool = False,
) -> Journal:
    """Begun, and ended with this code; None: nobody saw the end."""
    ended: dict[str, object] | None = None
    if code is not None:
        ended = {"code": code, "unsaved": unsaved, "at": "x", "forced": forced}
    return Journal(started={"process": {}}, lines=lines, ended=ended, whole=whole)


def claim(operation: str = "apply") -> Claim:
    intent = Intent(operation=operation, who="ci", started="x", process=process_table.this_process())
    return Claim(stack="a", run="r1", intent=intent)


def status(of: Journal, *, dead: bool, operation: str = "apply") -> Status | None:
    end = proven_status(claim(operation), of, dead=dead)
    return end[0] if end is not None else None


@pytest.mark.parametrize("dead", [True, False])
@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (journal(0), Status.APPLIED),
        (journal(0, unsaved=True), None),
        (journal(1, FAILED), Status.FAILED),
        (journal(1, FAILED, unsaved=True), None),
        (journal(1, OPEN), None),
        (journal(1, DIED), None),
        (journal(1, FAILED, forced=True), None),
        (journal(1, FORCED), None),
        (journal(1, DONE, forced=True), Status.FAILED),
        (journal(0, DONE, forced=True), Status.APPLIED),
        (journal(2, FAILED), None),
        (journal(11, FAILED), None),
        (journal(-9, FAILED), None),
        (journal(None, DONE), None),
        (journal(None, OPEN), None),
        (journal(None, ()), None),
        (journal(NOT_STARTED, ()), Status.FAILED),
    ],
)
def test_an_end_is_what_the_journal_proves(of: Journal, expected: Status | None, *, dead: bool) -> None:
    """An exit record and words that leave nothing open prove an end; a death alone proves none."""
    assert status(of, dead=dead) is expected


@pytest.mark.parametrize(
    ("of", "dead", "expected"),
    [
        (EMPTY, True, Status.FAILED),
        (EMPTY, False, None),
        (Journal(started=None, lines=(), ended=None, whole=False), True, None),
        (Journal(started=None, lines=(), ended=None, whole=False), False, None),
    ],
)
def test_only_a_death_proves_that_nothing_was_begun(
    of: Journal, expected: Status | None, *, dead: bool
) -> None:
    """An empty journal of one who may live means nothing yet; a damaged one never does."""
    assert status(of, dead=dead) is expected


@pytest.mark.parametrize("of", [EMPTY, journal(None), journal(None, OPEN)])
def test_a_dead_push_is_over(of: Journal) -> None:
    """A push that died is told as failed, with a word on where to look; one that may live is not."""
    end = proven_status(claim("push"), of, dead=True)
    assert end is not None
    assert end[0] is Status.FAILED
    assert "check the state" in end[1]
    assert proven_status(claim("push"), of, dead=False) is None


def test_the_note_names_the_run() -> None:
    """Whoever reads it weeks later can look it up."""
    for of in (journal(0), journal(1, FAILED), EMPTY, journal(NOT_STARTED, ())):
        end = proven_status(claim(), of, dead=True)
        assert end is not None
        assert "r1" in end[1]


def test_a_clean_failure_leaves_nothing_open() -> None:
    """Ended with 1, the state saved, nothing begun without an end, no provider that died on the way."""
    assert failed_cleanly(journal(1, FAILED))
    assert failed_cleanly(journal(1, ()))
    assert not failed_cleanly(journal(0))
    assert not failed_cleanly(journal(None, FAILED))
    assert not failed_cleanly(journal(1, FAILED, unsaved=True))
    assert not failed_cleanly(journal(1, OPEN))
    assert not failed_cleanly(journal(1, DIED))
    assert not failed_cleanly(EMPTY)


@pytest.mark.parametrize(
    "lines",
    [
        (start("lab_object.b", "update", "b-1"),),
        (start("lab_object.b", "delete", "b-1"),),
        (
            start("lab_object.b", "delete", "b-1"),
            start("lab_object.b", "delete", "b-2"),
            complete("lab_object.b", "delete"),
        ),
    ],
    ids=["update", "delete", "one of two deletes"],
)
def test_whatever_was_begun_must_have_ended(lines: tuple[bytes, ...]) -> None:
    """Not only what makes something."""
    assert not exited_by_itself(journal(1, lines))
    assert not exited_by_itself(journal(0, lines))


def test_an_end_of_its_own_may_have_left_a_state() -> None:
    """Terraform came to its end although it could not save: what it could not save is all that is missing."""
    assert exited_by_itself(journal(1, FAILED, unsaved=True))
    assert exited_by_itself(journal(0, unsaved=True))
    assert not exited_by_itself(journal(-2, FAILED))
    assert not exited_by_itself(journal(None, DONE))


@pytest.mark.parametrize("code", [True, "0", None, 0.5, [0]])
def test_a_code_that_is_none_proves_nothing(code: object) -> None:
    """An exit record of another Holdfast may say what this one does not understand."""
    of = Journal(started={}, lines=OPEN, ended={"code": code}, whole=True)
    assert proven_status(claim(), of, dead=True) is None
