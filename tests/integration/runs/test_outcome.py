"""The end of a run that could not write its own: when it is written down for it, and when it is not."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from ciphers import CIPHER, KEY, STORE
from context_made import ALIVE, DEAD, LONG_AGO, change_context, claim, journal, take
from memory_blobs import MemoryBlobs
from plan_job import forged_blob
from recovery_made import LINEAGE, SERIAL
from results_made import stack

from holdfast.kernel.errors import Busy, Failed, UnknownOutcome
from holdfast.plans.context import ChangeContext
from holdfast.plans.saved_plan import StateIdentity
from holdfast.plans.status import Status
from holdfast.runs import outcome as settling
from holdfast.runs.claims import Claim, claim_on
from holdfast.runs.outcome import finish_from_journal, require_previous_finished
from holdfast.runs.run import Run, read_run
from holdfast.secrets.signing import Signer
from holdfast.stacks.stack import Stack
from holdfast.store.blob_cipher import BlobCipher
from holdfast.store.journal import EMPTY, ENDED, STARTED, JournalWriter
from holdfast.store.run_records import journal_name
from holdfast.terraform.engine.selection import EngineSelection

BEGUN: tuple[bytes, dict[str, object]] = (
    STARTED,
    {"process": DEAD.document(), "at": "x", "output_buffer": None},
)


def held(at: ChangeContext, one: Claim) -> Claim:
    """Taken, as it is read."""
    take(at.store, one)
    found = claim_on(at.store, one.stack)
    assert found is not None
    return found


def test_an_end_that_is_recorded_frees_the_stack(tmp_path: Path) -> None:
    """It died between its last word and letting go: there is nothing left to say."""
    at = change_context(tmp_path)
    one = held(at, claim(DEAD))
    at.store.runs.finish("01RUN", {"status": Status.APPLIED.value})
    assert finish_from_journal(at.store, at.control.tell, one, EMPTY) == ()
    assert at.store.claims.all() == ()


@pytest.mark.parametrize("status", [Status.PLANNED, Status.UNKNOWN])
def test_a_status_without_an_end_frees_nothing(tmp_path: Path, status: Status) -> None:
    """What was recorded while an apply was torn down says nothing about what it had made."""
    at = change_context(tmp_path)
    one = held(at, claim(DEAD))
    journal(tmp_path / "store" / journal_name("01RUN"), BEGUN)
    at.store.runs.finish("01RUN", {"status": status.value})
    assert finish_from_journal(at.store, at.control.tell, one, at.store.runs.journal("01RUN")) is None
    assert claim_on(at.store, "a") == one


def test_a_living_run_writes_its_own_end(tmp_path: Path) -> None:
    """Terraform has ended and its Holdfast has not yet: nobody writes that end in its place."""
    at = change_context(tmp_path)
    one = held(at, claim(ALIVE))
    journal(tmp_path / "store" / journal_name("01RUN"), BEGUN, (ENDED, {"code": 0}))
    assert finish_from_journal(at.store, at.control.tell, one, at.store.runs.journal("01RUN")) is None
    assert at.store.runs.outcome("01RUN") is None
    assert claim_on(at.store, "a") == one


def test_a_proved_end_is_written_down_and_the_stack_is_free(tmp_path: Path) -> None:
    """With whose it was, what it meant to do and how it ended; then the claim goes."""
    at = change_context(tmp_path)
    one = held(at, claim(DEAD, started=LONG_AGO))
    journal(tmp_path / "store" / journal_name("01RUN"), BEGUN, (ENDED, {"code": 0, "unsaved": False}))
    notes = finish_from_journal(at.store, at.control.tell, one, at.store.runs.journal("01RUN"))
    assert notes is not None
    run = read_run(at.store, "01RUN")
    assert run is not None
    assert run.ended
    expected = Run(
        id="01RUN",
        stack="a",
        operation="apply",
        status=Status.APPLIED,
        times={Status.APPLYING: LONG_AGO, Status.APPLIED: run.ended},
        who="ci",
        change="01A",
        digest="d1",
        notes=notes,
        state_before=StateIdentity(lineage=LINEAGE, serial=SERIAL),
    )
    assert run == expected
    assert at.store.claims.all() == ()


class Full(MemoryBlobs):
    """Nothing can be written over."""

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        del data, durable
        raise Failed("HF-STORE-1", f"no room for {name}")


def test_an_end_that_cannot_be_written_keeps_the_claim(tmp_path: Path) -> None:
    """Otherwise a run would be gone without anybody having said how it ended."""
    at = change_context(tmp_path, blobs=Full())
    one = held(at, claim(DEAD))
    with pytest.raises(Failed):
        finish_from_journal(at.store, at.control.tell, one, EMPTY)
    assert claim_on(at.store, "a") == one


def test_what_is_said_not_to_have_begun_cannot_begin_any_more(tmp_path: Path) -> None:
    """A process that was asked, and outlived the one who asked it, finds the name of its journal taken."""
    at = change_context(tmp_path)
    one = held(at, claim(DEAD))
    assert finish_from_journal(at.store, at.control.tell, one, EMPTY) is not None
    writer = JournalWriter(str(tmp_path / "store" / journal_name("01RUN")), CIPHER, "01RUN")
    with pytest.raises(FileExistsError):
        writer.append(STARTED, b"{}")
    writer.close()


def test_what_began_while_somebody_looked_is_not_settled(tmp_path: Path) -> None:
    """The journal was empty when it was read and has a first word now: the claim stays."""
    at = change_context(tmp_path)
    one = held(at, claim(DEAD))
    journal(tmp_path / "store" / journal_name("01RUN"), BEGUN)
    assert finish_from_journal(at.store, at.control.tell, one, EMPTY) is None
    assert claim_on(at.store, "a") == one
    assert at.store.runs.outcome("01RUN") is None


@pytest.mark.parametrize("operation", ["push", "rollback"])
def test_a_dead_write_of_a_state_is_over(tmp_path: Path, operation: str) -> None:
    """It writes a state in one step and makes no object: the stack is free, with a word on where to look."""
    at = change_context(tmp_path)
    notes = finish_from_journal(
        at.store,
        at.control.tell,
        held(at, claim(DEAD, operation=operation)),
        EMPTY,
    )
    assert notes is not None
    assert f"the {operation} was interrupted" in notes[0]
    assert at.store.claims.all() == ()


def test_a_last_word_said_while_somebody_looked_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends between two looks is settled by its end, and not called unknown."""
    at = change_context(tmp_path)
    held(at, claim(DEAD))
    path = tmp_path / "store" / journal_name("01RUN")
    path.parent.mkdir(parents=True)
    writer = JournalWriter(str(path), CIPHER, "01RUN")
    writer.append(STARTED, json.dumps(BEGUN[1]).encode())

    def ends_now(*_: object) -> bool:
        writer.append(ENDED, json.dumps({"code": 0, "unsaved": False}).encode())
        writer.close()
        return False

    monkeypatch.setattr(settling, "is_working", ends_now)
    (note,) = asyncio.run(require_previous_finished(at.store, at.control, stack("a")))
    assert "was applied" in note


def test_the_unknown_end_of_a_run_stops_the_next(tmp_path: Path) -> None:
    """It was begun, nobody lives and nobody saw its end: nothing is run and the claim stays."""

    def choose(_: Stack) -> EngineSelection:
        raise Failed("HF-ENGINE-1", "there is no engine to look with")

    at = change_context(tmp_path, choose=choose)
    one = held(at, claim(DEAD))
    journal(tmp_path / "store" / journal_name("01RUN"), BEGUN)
    with pytest.raises(UnknownOutcome) as caught:
        asyncio.run(require_previous_finished(at.store, at.control, stack("a")))
    assert caught.value.problem.code == "HF-RUN-8"
    assert claim_on(at.store, "a") == one


def test_a_run_at_work_is_named_to_the_next(tmp_path: Path) -> None:
    """Without a wait the next command is refused and told who has the stack; a free stack is no matter."""
    at = change_context(tmp_path)
    assert asyncio.run(require_previous_finished(at.store, at.control, stack("a"))) == ()
    held(at, claim(ALIVE))
    with pytest.raises(Busy) as caught:
        asyncio.run(require_previous_finished(at.store, at.control, stack("a")))
    assert "01RUN" in caught.value.problem.message


def test_an_outcome_or_a_journal_that_a_plan_job_forged_frees_nothing(tmp_path: Path) -> None:
    """The claim of an interrupted apply stays, whatever a job with the plan key writes about its run."""
    at = change_context(tmp_path)
    one = take(at.store, claim(DEAD))
    planner = BlobCipher.of(STORE, KEY.without_private())
    outcome = {"version": 1, "operation": "apply", "status": "applied"}
    path = tmp_path / "store" / journal_name("01RUN")
    for said in (outcome, {**outcome, "operation": "plan", "status": "failed"}):
        blob = forged_blob(planner, "runs/01RUN/outcome", json.dumps(said).encode())
        at.store.blobs.write("runs/01RUN/outcome", blob)
        journal(path, BEGUN)
        assert finish_from_journal(at.store, at.control.tell, one, at.store.runs.journal("01RUN")) is None
        path.unlink()
    forger = BlobCipher(STORE, KEY.id, key=KEY, verify=KEY.public.sign, signer=Signer(STORE, b"f" * 32))
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = JournalWriter(str(path), forger, "01RUN")
    writer.append(STARTED, json.dumps(BEGUN[1]).encode())
    writer.append(ENDED, b'{"code": 0, "unsaved": false}')
    writer.close()
    with pytest.raises(UnknownOutcome) as caught:
        at.store.runs.journal("01RUN")
    assert caught.value.problem.code == "HF-KEY-11"
    assert at.store.claims.of("a") is not None
