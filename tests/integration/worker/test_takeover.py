"""How an apply ended whose worker lost its change: the worker may live on, Terraform may end meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from context_made import ALIVE, DEAD, ELSEWHERE, change_context, claim, journal, take

from holdfast.plans.context import ChangeContext
from holdfast.plans.status import Status
from holdfast.runs.claims import claim_on, is_working
from holdfast.runs.outcome import require_ended
from holdfast.store.journal import ENDED, STARTED, Journal
from holdfast.store.run_records import journal_name
from holdfast.store.server_runs.phases import Operation, RunPhase
from holdfast.store.server_runs.rows import Run
from holdfast.system.process_table import ProcessId
from holdfast.worker.takeover import leave_claim, outcome_of

RUN = Run(
    id="01RUN",
    tenant="acme",
    change="01A",
    number=1,
    stack="a",
    operation=Operation.APPLY,
    environment=None,
    target=None,
    phase=RunPhase.APPLYING,
    status=None,
    digest=None,
    retried_from=None,
    created=datetime.now(UTC),
    started=None,
    ended=None,
    who="ann",
    reason="",
)


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChangeContext:
    context = change_context(tmp_path)
    monkeypatch.setattr(context.store, "on_server", True)
    return context


def begun(process: ProcessId) -> tuple[bytes, dict[str, object]]:
    return STARTED, {"process": process.document(), "at": "x", "output_buffer": None}


def status(at: ChangeContext) -> str | None:
    outcome = outcome_of(at.store, RUN)
    return outcome[0].value if outcome is not None else None


@pytest.mark.parametrize("worker", [ALIVE, ELSEWHERE])
def test_a_worker_that_lost_its_change_holds_nothing(
    at: ChangeContext, tmp_path: Path, worker: ProcessId
) -> None:
    """It runs other changes, or its machine is gone: whether Terraform works decides, here and later."""
    take(at.store, claim(worker))
    journal(tmp_path / "store" / journal_name("01RUN"), begun(DEAD))
    held = claim_on(at.store, "a")
    assert held is not None
    assert is_working(at.store, held)
    assert status(at) == "unknown"
    assert not is_working(at.store, held)


def test_terraform_that_works_is_waited_for(at: ChangeContext, tmp_path: Path) -> None:
    take(at.store, claim(DEAD))
    journal(tmp_path / "store" / journal_name("01RUN"), begun(ALIVE))
    assert status(at) is None


def test_what_never_started_cannot_start_any_more(at: ChangeContext) -> None:
    take(at.store, claim(ALIVE))
    assert status(at) == "failed"
    assert claim_on(at.store, "a") is None
    assert not at.store.runs.prevent_start("01RUN")


def test_an_end_after_the_first_look_is_not_unknown(
    at: ChangeContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor writes its last lines and ends between two looks at it."""
    take(at.store, claim(DEAD))
    file = tmp_path / "store" / journal_name("01RUN")
    journal(file, begun(DEAD))
    read = at.store.runs.journal

    def ends_meanwhile(run: str) -> Journal:
        seen = read(run)
        file.unlink()
        journal(file, begun(DEAD), (ENDED, {"code": 0, "unsaved": False}))
        return seen

    monkeypatch.setattr(at.store.runs, "journal", ends_meanwhile)
    assert status(at) == "applied"


def test_a_run_with_an_unknown_outcome_is_not_at_work(at: ChangeContext, tmp_path: Path) -> None:
    """Terraform was killed and the worker lives on: the run can be reconciled, and no other waits for it."""
    take(at.store, claim(ALIVE))
    journal(tmp_path / "store" / journal_name("01RUN"), begun(DEAD))
    held = claim_on(at.store, "a")
    assert held is not None
    assert is_working(at.store, held)
    leave_claim(at.store, RUN, Status.UNKNOWN)
    assert not is_working(at.store, held)


def test_an_engine_that_the_worker_keeps_is_not_at_work(at: ChangeContext, tmp_path: Path) -> None:
    """Terraform ended with an unknown outcome; its process waits for the next command of the worker."""
    take(at.store, claim(ALIVE))
    ended: tuple[bytes, dict[str, object]] = (ENDED, {"code": 1, "unsaved": True})
    journal(tmp_path / "store" / journal_name("01RUN"), begun(ALIVE), ended)
    held = claim_on(at.store, "a")
    assert held is not None
    assert is_working(at.store, held)
    leave_claim(at.store, RUN, Status.UNKNOWN)
    assert not is_working(at.store, held)
    require_ended(at.store, held)
