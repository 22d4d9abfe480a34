"""One apply, with everything that is written before it, and what is believed of each way it can end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from apply_made import AFTER, RUN, STACK, hook, line, planned, ready_plan
from context_made import change_context
from memory_blobs import MemoryBlobs
from msgspec import structs

from holdfast.config.settings import BackupSettings
from holdfast.kernel.errors import Failed, HoldfastError, Refused, UnknownOutcome
from holdfast.plans.context import ChangeContext
from holdfast.plans.errors import Cancelled
from holdfast.plans.result import Output, StackResult
from holdfast.plans.status import Status
from holdfast.runs.apply import ApplyFailed, apply_plan
from holdfast.runs.record import stored_run_secrets
from holdfast.runs.run import new_run
from holdfast.store.states import StateSnapshot
from holdfast.terraform.argv import PLAN_FILE, UNSAVED_FILE
from holdfast.terraform.engine.interface import CommandResult, SupervisorReport
from holdfast.terraform.engine.pool import NotStarted

NAME = STACK.name
FAILED = line("diagnostic", diagnostic={"severity": "error", "summary": "no", "address": "lab_object.it"})
DEAD = line(
    "diagnostic",
    diagnostic={"severity": "error", "summary": "Plugin did not respond", "address": "lab_object.it"},
)


class Case:
    def __init__(self, folder: Path, **more: Any) -> None:
        self.context: ChangeContext = change_context(folder, blobs=MemoryBlobs())
        self.ready, self.terraform = ready_plan(folder / "work", **more)
        self.planned = planned(self.ready)

    def apply(self) -> StackResult:
        run = new_run(NAME, "apply", self.context.identity, run=RUN).to(Status.APPLYING)
        return asyncio.run(apply_plan(self.context, run, self.planned, self.ready))

    @property
    def store(self) -> Any:
        return self.context.store

    def fails(self) -> HoldfastError:
        with pytest.raises(HoldfastError) as caught:
            self.apply()
        return caught.value

    def unknown(self) -> str:
        """Nobody knows how it ended: the code. The claim stays, and no end is written down."""
        error = self.fails()
        assert isinstance(error, UnknownOutcome)
        assert self.store.claims.of(NAME).run == RUN
        assert self.store.runs.outcome(RUN) is None
        return error.problem.code

    def over(self) -> HoldfastError:
        """It failed, and that is known: the end is written down, and the stack is free."""
        error = self.fails()
        assert not isinstance(error, UnknownOutcome)
        assert self.store.claims.of(NAME) is None
        assert self.store.runs.outcome(RUN)["error"]["code"] == error.problem.code
        return error


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_an_apply_that_went_well_is_written_down(case: Case) -> None:
    """Outputs without what is sensitive, the state that was seen, the end; and the stack is free again."""
    outputs = {"x": {"value": 1, "sensitive": False}, "y": {"value": "hunter2", "sensitive": True}}
    case.terraform.says = [line("outputs", outputs=outputs)]
    done = case.apply()
    assert done.status is Status.APPLIED
    assert done.outputs == {
        "x": Output(value=1, sensitive=False),
        "y": Output(value=None, sensitive=True),
    }
    assert case.store.last_seen(NAME).serial == AFTER["serial"]
    outcome = case.store.runs.outcome(RUN)
    assert (outcome["status"], outcome["author"]) == ("applied", case.context.identity.audit.who.document())
    assert case.store.claims.of(NAME) is None
    assert case.terraform.applied == [()]


def test_a_person_who_asked_to_stop_still_gets_the_state_recorded(case: Case) -> None:
    """One wish to stop ends the apply, and not the look at what it left."""
    case.terraform.answer = CommandResult(code=1, interrupted=True)
    case.over()
    assert case.terraform.cancel_level == 2
    assert case.store.last_seen(NAME).serial == AFTER["serial"]


def test_everything_is_written_before_terraform_starts(case: Case) -> None:
    """The claim with its intent, the copy of the state, what to hide in the journal, and the used mark."""
    case.context.redactor.register("hunter2-hunter2")
    seen: list[str] = []

    def look() -> None:
        claim = case.store.claims.of(NAME)
        assert claim.intent["plan"]["digest"] == case.ready.digest
        (copy,) = (case.store.backups.read(NAME, name) for name in case.store.backups.names(NAME))
        assert (copy.serial, copy.lineage, copy.run) == (3, "l", RUN)
        assert stored_run_secrets(case.store, RUN) == {"hunter2-hunter2"}
        assert case.store.used(case.ready.digest)["run"] == RUN
        seen.append("all")

    case.terraform.at_work = look
    case.apply()
    assert seen == ["all"]


def test_a_kept_state_needs_no_copy(tmp_path: Path) -> None:
    """Its versions are the copies."""
    case = Case(tmp_path, kept=True)
    case.apply()
    assert case.store.backups.names(NAME) == ()


def test_an_apply_takes_away_what_is_too_old_to_keep(tmp_path: Path) -> None:
    """Versions of a kept state beyond those that the configuration keeps; the newest stay."""
    case = Case(tmp_path, kept=True)
    config = structs.replace(case.context.project.config, backups=BackupSettings(keep=2, max_age=0))
    project = structs.replace(case.context.project, config=config)
    case.context = structs.replace(case.context, project=project)
    for number in range(4):
        state = json.dumps(AFTER | {"serial": number + 1}).encode()
        one = StateSnapshot(
            serial=number + 1, lineage="l", resources=1, run=None, who="me", why="apply", state=state
        )
        case.store.states.add(NAME, one, after=number)
    named: list[str] = []
    case.terraform.at_work = lambda: named.append(case.store.claims.of(NAME).intent["plan"]["backup"])
    case.apply()
    assert case.store.states.numbers(NAME) == (3, 4)
    assert named == ["4"], "the claim names the version that the plan was made against"


@pytest.mark.parametrize("ephemeral", [False, True])
def test_variables_that_no_plan_holds_are_given_again(tmp_path: Path, *, ephemeral: bool) -> None:
    """And only those: a plan knows all others."""
    case = Case(tmp_path, ephemeral=ephemeral)
    case.apply()
    assert case.terraform.applied == [("a.tfvars",) if ephemeral else ()]


def _other_bytes(case: Case) -> None:
    (case.terraform.workdir.work.module / PLAN_FILE).write_bytes(b"another plan")


def _other_digest(case: Case) -> None:
    case.planned = planned(case.ready, digest="0" * 64)


def _used(case: Case) -> None:
    case.store.mark_used(case.ready.digest, run="01OTHER", stack=NAME, who="bob")


@pytest.mark.parametrize(
    ("spoil", "code"), [(_other_bytes, "HF-BUND-3"), (_other_digest, "HF-BUND-3"), (_used, "HF-BUND-4")]
)
def test_only_the_plan_that_was_shown_is_applied_and_once(
    case: Case, spoil: Callable[[Case], None], code: str
) -> None:
    """Refused at the last moment: Terraform is not started, and the stack is free."""
    spoil(case)
    before = case.store.used(case.ready.digest)
    error = case.fails()
    assert isinstance(error, Refused)
    assert error.problem.code == code
    assert case.terraform.applied == []
    assert case.store.claims.of(NAME) is None
    assert case.store.used(case.ready.digest) == before


def test_without_a_digest_there_is_nothing_to_apply(case: Case) -> None:
    """A result without a plan never reaches Terraform."""
    case.planned = planned(case.ready, digest=None)
    assert case.fails().problem.code == "HF-RUN-1"
    assert case.terraform.applied == []


def _raises(error: Exception) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def test_what_was_never_started_leaves_the_stack_free(case: Case) -> None:
    """There is no end to be written down."""
    case.terraform.at_work = _raises(NotStarted("HF-ENG-9", "no journal"))
    assert case.fails().problem.code == "HF-ENG-9"
    assert case.store.claims.of(NAME) is None
    assert case.store.runs.outcome(RUN) is None


def test_a_machine_that_fails_in_the_middle_is_an_unknown_outcome(case: Case) -> None:
    """Terraform may have been at work: nobody is told that it failed."""
    case.terraform.at_work = _raises(OSError(5, "Input/output error"))
    assert case.unknown() == "HF-RUN-6"


def test_a_state_that_was_not_saved_is_kept(case: Case) -> None:
    """Whatever the exit code says: the only copy is sealed, and the outcome is unknown."""
    left = case.terraform.workdir.work.module / UNSAVED_FILE
    case.terraform.at_work = lambda: left.write_bytes(b"the only copy") and None
    assert case.unknown() == "HF-STATE-5"
    assert case.store.errored(NAME) == b"the only copy"
    assert not left.exists()


@pytest.mark.parametrize(
    ("answer", "says", "code"),
    [
        (CommandResult(code=-9, killed=True), [hook("apply_start")], "HF-RUN-6"),
        (CommandResult(code=0, report=SupervisorReport(journal_failed="no room")), [], "HF-RUN-9"),
        (CommandResult(code=1), [hook("apply_start"), DEAD], "HF-RUN-10"),
        (CommandResult(code=1, interrupted=True, force_cancelled=True), [hook("apply_start")], "HF-RUN-7"),
        (
            CommandResult(code=1, timed_out=True, interrupted=True, force_cancelled=True),
            [hook("apply_start")],
            "HF-TIME-2",
        ),
    ],
    ids=["killed", "no journal", "a provider died", "left at once", "left after its grace"],
)
def test_an_end_that_nobody_knows_keeps_the_claim(
    case: Case, answer: CommandResult, says: list[bytes], code: str
) -> None:
    """The next one is stopped until it is settled."""
    case.terraform.answer, case.terraform.says = answer, says
    assert case.unknown() == code


@pytest.mark.parametrize(
    ("answer", "code", "kind"),
    [
        (CommandResult(code=1, interrupted=True), "HF-RUN-2", Cancelled),
        (CommandResult(code=1, interrupted=True, force_cancelled=True), "HF-RUN-2", Cancelled),
        (CommandResult(code=1, timed_out=True, interrupted=True), "HF-TIME-1", Failed),
        (CommandResult(code=1, timed_out=True, interrupted=True, force_cancelled=True), "HF-TIME-1", Failed),
    ],
)
def test_a_stop_with_nothing_left_open_is_a_known_end(
    case: Case, answer: CommandResult, code: str, kind: type[HoldfastError]
) -> None:
    """What was begun has ended, and its state is saved."""
    case.terraform.answer = answer
    case.terraform.says = [hook("apply_start"), hook("apply_complete")]
    error = case.over()
    assert isinstance(error, kind)
    assert error.problem.code == code
    assert "1 of 1 change completed and saved" in error.problem.message


def test_a_failure_is_known_and_says_what_may_exist(case: Case) -> None:
    """A create that failed may have made its object all the same; the state is looked at in any case."""
    case.terraform.answer = CommandResult(code=1)
    case.terraform.says = [hook("apply_start"), hook("apply_errored"), FAILED]
    error = case.over()
    assert isinstance(error, ApplyFailed)
    assert "may have been created anyway: lab_object.it" in str(error.problem.hint)
    assert error.outcome.failed == {"lab_object.it": "create"}
    assert case.store.last_seen(NAME).serial == AFTER["serial"]


def test_secrets_in_an_error_are_masked_in_the_record(case: Case) -> None:
    """More people may read it than the journal."""
    case.context.redactor.register("hunter2-hunter2")
    told = {"severity": "error", "summary": "exit 1", "detail": "output: hunter2-hunter2"}
    case.terraform.answer = CommandResult(code=1)
    case.terraform.says = [line("diagnostic", diagnostic=told)]
    assert "hunter2" in case.over().problem.message
    assert "exit 1" in case.store.runs.outcome(RUN)["error"]["message"]
    assert "hunter2" not in json.dumps(case.store.runs.outcome(RUN))


def test_a_resource_whose_provisioner_failed_is_not_in_doubt(case: Case) -> None:
    """Terraform keeps it in the state as tainted: nobody has to look it up or import it."""
    case.terraform.answer = CommandResult(code=1)
    case.terraform.says = [hook("apply_start"), hook("provision_start"), hook("apply_errored"), FAILED]
    error = case.over()
    assert isinstance(error, ApplyFailed)
    assert error.problem.hint == "Created, and replaced by the next apply: lab_object.it."


def test_a_state_that_cannot_be_read_afterwards_is_a_note(case: Case) -> None:
    """It does not hide how the apply ended."""
    case.terraform.state = Failed("HF-TF-5", "the backend is gone")
    done = case.apply()
    assert done.status is Status.APPLIED
    assert done.notes == ("the state could not be read after the apply: HF-TF-5 the backend is gone",)


def test_what_the_new_state_calls_sensitive_is_hidden_from_then_on(case: Case) -> None:
    """An apply makes passwords; what is said afterwards must not show them."""
    resource = AFTER["resources"][0]
    secret = {"attributes": {"id": "1", "password": "hunter2-hunter2"}}
    marked = secret | {"sensitive_attributes": [[{"type": "get_attr", "value": "password"}]]}
    case.terraform.state = AFTER | {"resources": [resource | {"instances": [marked]}]}
    case.apply()
    assert case.context.redactor.clean("it is hunter2-hunter2") == "it is ***"


def test_an_end_that_cannot_be_written_is_not_known(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end comes before the claim goes: where it cannot be written, the claim stays."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(case.store.runs, "finish", full)
    error = case.fails()
    assert isinstance(error, UnknownOutcome)
    assert error.problem.code == "HF-RUN-11"
    assert "the run is applied" in error.problem.message
    assert case.store.claims.of(NAME).run == RUN


def test_an_end_is_durable_before_the_stack_is_free(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash right after it leaves no stack free whose end nobody knows."""
    seen: list[tuple[bool, bool]] = []
    finish = case.store.runs.finish

    def look(run: str, outcome: dict[str, object], *, durable: bool = True) -> None:
        seen.append((durable, case.store.claims.of(NAME) is not None))
        finish(run, outcome, durable=durable)

    monkeypatch.setattr(case.store.runs, "finish", look)
    case.apply()
    assert seen == [(True, True)]
