"""A claimed stack: who has it, whether that one is still at work, and what it left behind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from context_made import ALIVE, DEAD, ELSEWHERE, LONG_AGO, change_context, claim, journal, take
from memory_blobs import MemoryBlobs
from results_made import stack

from holdfast.kernel.errors import Busy, Failed
from holdfast.plans.context import ChangeContext
from holdfast.runs.claims import (
    HolderLiveness,
    all_claims,
    collect_journal,
    hold_claim,
    is_working,
    take_claim,
)
from holdfast.store.journal import ENDED, LINES, STARTED
from holdfast.store.run_records import HEARTBEAT, SPOOL, TAIL, journal_name
from holdfast.system import clock
from holdfast.system.process_table import Liveness, ProcessId


@pytest.fixture
def never_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting is an error in the test that asks for this."""

    async def sleep(_: float) -> None:
        raise AssertionError("it waits")

    monkeypatch.setattr(asyncio, "sleep", sleep)


def begun(process: ProcessId, *, output: str | None = None) -> tuple[bytes, dict[str, object]]:
    return STARTED, {"process": process.document(), "at": "x", "output_buffer": output}


def spooled(at: ChangeContext, run: str = "01RUN") -> Path:
    return at.project.environment.home / SPOOL / journal_name(run)


@pytest.mark.usefixtures("never_waits")
def test_the_stack_of_a_dead_run_is_neither_taken_nor_waited_for(tmp_path: Path) -> None:
    """Nobody knows how that run ended: the next one is refused at once, however long it may wait."""
    at = change_context(tmp_path, wait=3600.0)
    take(at.store, claim(DEAD))
    with pytest.raises(Busy):
        asyncio.run(take_claim(at.store, at.control, claim(ALIVE, run="01NEXT")))
    held = at.store.claims.of("a")
    assert held is not None
    assert held.run == "01RUN"


@pytest.mark.usefixtures("never_waits")
def test_a_wish_to_stop_ends_the_waiting_for_a_stack(tmp_path: Path) -> None:
    """Ctrl-C while another run is at work ends the wait, and takes nothing."""
    at = change_context(tmp_path, wait=3600.0)
    take(at.store, claim(ALIVE))
    at.control.stop.ask()
    with pytest.raises(Busy):
        asyncio.run(take_claim(at.store, at.control, claim(ALIVE, run="01NEXT")))


class LosesAnswers(MemoryBlobs):
    """A claim is written, and the answer is an error."""

    def create(self, name: str, data: bytes) -> bool:
        created = super().create(name, data)
        if name.startswith("claims/"):
            raise Failed("HF-STORE-1", "the store does not answer")
        return created


def test_a_claim_whose_answer_was_lost_is_taken_back(tmp_path: Path) -> None:
    """A run that fails before it begins leaves no claim that would look like an unknown outcome."""
    at = change_context(tmp_path, blobs=LosesAnswers())
    with pytest.raises(Failed):
        asyncio.run(take_claim(at.store, at.control, claim(ALIVE)))
    assert at.store.claims.all() == ()


def test_what_is_done_in_one_step_frees_the_stack_even_if_it_fails(tmp_path: Path) -> None:
    """The stack is claimed while it is worked on and free afterwards."""
    at = change_context(tmp_path)

    async def fails() -> None:
        async with hold_claim(at.store, at.control, at.identity, stack("a"), "push"):
            assert [held.intent.operation for held in all_claims(at.store)] == ["push"]
            raise Failed("HF-STATE-1", "the state does not follow")

    with pytest.raises(Failed):
        asyncio.run(fails())
    assert at.store.claims.all() == ()


@pytest.mark.parametrize(
    ("caller", "supervisor", "lives", "dead"),
    [
        (Liveness.DEAD, None, False, True),
        (Liveness.DEAD, Liveness.DEAD, False, True),
        (Liveness.DEAD, Liveness.UNKNOWN, False, False),
        (Liveness.DEAD, Liveness.ALIVE, True, False),
        (Liveness.UNKNOWN, None, False, False),
        (Liveness.UNKNOWN, Liveness.DEAD, False, False),
        (Liveness.ALIVE, Liveness.DEAD, True, False),
    ],
)
def test_a_run_is_dead_when_nobody_of_it_may_live(
    caller: Liveness, supervisor: Liveness | None, *, lives: bool, dead: bool
) -> None:
    """The one who asked and the process that runs Terraform each keep it alive; silence proves nothing."""
    holder = HolderLiveness(caller=caller, supervisor=supervisor, heartbeat=None)
    assert (holder.alive, holder.proved_dead) == (lives, dead)


def test_terraform_that_outlives_its_holdfast_is_at_work(tmp_path: Path) -> None:
    """The stack stays busy until the process that supervises Terraform is gone too."""
    at = change_context(tmp_path)
    held = claim(DEAD, started=LONG_AGO)
    path = tmp_path / "store" / journal_name("01RUN")
    journal(path, begun(ALIVE))
    assert is_working(at.store, held)
    path.unlink()
    journal(path, begun(DEAD))
    assert not is_working(at.store, held)


def test_a_run_out_of_sight_is_at_work_while_it_is_heard_of(tmp_path: Path) -> None:
    """By its start, later by its pulse. Its end in the journal, or a long silence, is the end of that."""
    at = change_context(tmp_path)
    assert is_working(at.store, claim(ELSEWHERE))
    old = claim(ELSEWHERE, started=LONG_AGO)
    assert not is_working(at.store, old)
    at.store.runs.write("01RUN", HEARTBEAT, clock.now().isoformat().encode())
    assert is_working(at.store, old)
    journal(tmp_path / "store" / journal_name("01RUN"), begun(ELSEWHERE), (ENDED, {"code": 0}))
    assert not is_working(at.store, old)


def test_what_a_dead_run_left_on_this_machine_is_shipped(tmp_path: Path) -> None:
    """The journal is read as far as anybody has it, and the store has it from then on."""
    at = change_context(tmp_path, blobs=MemoryBlobs())
    whole = journal(spooled(at), begun(DEAD), (LINES, b"one"), (ENDED, {"code": 0}))
    at.store.blobs.create(journal_name("01RUN"), whole[: len(whole) // 2])
    found = collect_journal(at.store, claim(DEAD))
    assert (found.lines, found.ended) == ((b"one",), {"code": 0})
    spooled(at).unlink()
    assert collect_journal(at.store, claim(DEAD)) == found


def test_a_living_run_ships_its_journal_itself(tmp_path: Path) -> None:
    """Two who ship the same piece would disagree on where it ends."""
    at = change_context(tmp_path, blobs=MemoryBlobs())
    journal(spooled(at), begun(ALIVE), (LINES, b"one"))
    assert collect_journal(at.store, claim(ALIVE)).lines == ()
    assert at.store.blobs.names("runs/01RUN") == ()


@pytest.fixture
def output_buffer(tmp_path: Path) -> Path:
    """What Terraform had said, more of it than the journal has."""
    path = tmp_path / f"holdfast-{os.getuid()}-01RUN-abcd"
    path.write_bytes(b"one\ntwo\n")
    return path


def test_unread_output_goes_to_the_store(tmp_path: Path, output_buffer: Path) -> None:
    """Output that no process had read before the kill is stored encrypted and removed from memory."""
    at = change_context(tmp_path)
    journal(
        tmp_path / "store" / journal_name("01RUN"),
        begun(DEAD, output=str(output_buffer)),
        (LINES, b"one"),
    )
    assert collect_journal(at.store, claim(DEAD)).lines == (b"one", b"two")
    assert at.store.runs.read("01RUN", TAIL) == b"one\ntwo\n"
    assert not output_buffer.exists()
    assert collect_journal(at.store, claim(DEAD)).lines == (b"one", b"two")


@pytest.mark.parametrize("supervisor", [ELSEWHERE, ALIVE, DEAD._replace(boot="before", space="container")])
def test_words_of_one_who_may_live_are_left_alone(
    tmp_path: Path, output_buffer: Path, supervisor: ProcessId
) -> None:
    """A file of the same name may belong to somebody else, or still be written to."""
    at = change_context(tmp_path)
    journal(
        tmp_path / "store" / journal_name("01RUN"),
        begun(supervisor, output=str(output_buffer)),
        (LINES, b"one"),
    )
    assert collect_journal(at.store, claim(DEAD)).lines == (b"one",)
    assert at.store.runs.read("01RUN", TAIL) is None
    assert output_buffer.exists()
