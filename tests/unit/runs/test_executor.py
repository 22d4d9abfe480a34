"""The life of one run without Terraform: what is begun, applied and recorded, and what may follow."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apply_made import PLAN, STACK, FakeTerraform, ready_plan
from bundle_made import bundle
from context_made import change_context
from memory_blobs import MemoryBlobs
from msgspec import structs
from plan_documents import change

from holdfast.config.guard import Effect
from holdfast.config.output_refs import OutputRef
from holdfast.guard.decision import Allow, Decision, Reason
from holdfast.guard.evaluate import decision_from_reasons
from holdfast.kernel.errors import HoldfastError, Problem, UnknownOutcome
from holdfast.plans.context import InputValues
from holdfast.plans.errors import TerraformFailed
from holdfast.plans.plan_file import PlanFile
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.runs import executor as runs
from holdfast.runs import replan, restored_plan
from holdfast.runs.apply import ApplyFailed
from holdfast.runs.auto_replan import ApplyOutcome
from holdfast.runs.executor import RunExecutor
from holdfast.runs.outcome import UnknownRun
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.system import clock
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.diagnostics import Diagnostic
from holdfast.terraform.engine.selection import EngineSelection
from holdfast.terraform.plan.model import read_plan

DENIED = decision_from_reasons([Reason(code="HF-GUARD-1", message="it would go")])
WAITS = decision_from_reasons(
    [Reason(code="HF-GUARD-14", message="it waits", effect=Effect.APPROVE)], approvals=1
)
UPDATE = [change("lab_object.it", "update", after={"name": "it"})]
SLOW_DOWN = Diagnostic(
    severity="error", summary="Throttling", detail="Throttling: Rate exceeded", address="lab_object.it"
)


def throttled(*, done: frozenset[str] = frozenset()) -> ApplyFailed:
    """An update that failed for a moment: a new plan may follow."""
    said = TerraformFailed("HF-TF-4", "no", problems=(Problem(code="HF-TF-4", message="no"),))
    return ApplyFailed(
        said, ApplyOutcome(errors=(SLOW_DOWN,), failed={"lab_object.it": "update"}, done=done), None
    )


class World:
    """Everything around a run: what it finds, what is planned and judged, and how each apply ends."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.context = change_context(
            folder,
            blobs=MemoryBlobs(),
            choose=lambda _: EngineSelection(engine=FakeTerraform.identity, why=""),
        )
        self.first, self.terraform = ready_plan(folder / "work")
        self.first = self.planning(UPDATE)
        self.again: list[PlanFile] = []
        self.decisions: list[Decision] = []
        self.unsettled: HoldfastError | None = None
        self.ends: list[HoldfastError | None] = []
        self.made: list[PlanOptions] = []
        self.applied: list[tuple[str | None, str]] = []
        """The run and the digest of each apply."""
        self.told: list[tuple[str, bool]] = []
        self.more: tuple[str, ...] = ()
        """Codes of the reasons that are added to the guard's."""
        patch.setattr(runs, "require_previous_finished", self._settled)
        patch.setattr(runs, "open_workdir", self._workdir)
        patch.setattr(runs, "create_plan", self._make)
        patch.setattr(replan, "replan", self._make_again)
        patch.setattr(restored_plan, "restore_plan", self._restore)
        patch.setattr(restored_plan, "replan", self._make_again)
        patch.setattr(runs, "decide", self._decide)
        patch.setattr(replan, "decide", self._decide)
        patch.setattr(runs, "apply_plan", self._apply)
        checks: Any = SimpleNamespace(check_outputs=lambda *_: None)
        self.run = RunExecutor(
            self.context, checks, STACK, operation="apply", explain=self._explain, saved="out"
        )
        patch.setattr(self.run._retrying, "schedule", lambda: (0.0, 0.0))

    def planning(self, found: list[dict[str, Any]], *, made: str = "m") -> PlanFile:
        document = {**json.loads(PLAN), "resource_changes": found}
        parts = structs.replace(self.first.parts, made=made)
        plan = read_plan(json.dumps(document).encode())
        return structs.replace(self.first, plan=plan, parts=parts, changes=bool(found))

    async def _explain(self, error: UnknownRun) -> HoldfastError:
        return error

    async def _settled(self, *_: object) -> tuple[str, ...]:
        if self.unsettled is not None:
            raise self.unsettled
        return ()

    @contextlib.asynccontextmanager
    async def _workdir(self, *_: object, **__: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(notes=(), hook_runs=[])

    async def _make(self, _: object, __: object, ___: object, options: PlanOptions, ____: object) -> PlanFile:
        self.made.append(options)
        return self.first

    async def _restore(self, *_: object) -> PlanFile:
        return self.first

    async def _make_again(self, _: object, __: object, ___: object, options: PlanOptions) -> PlanFile:
        self.made.append(options)
        return self.again.pop(0)

    async def _decide(
        self, *given: Any, approvals: tuple[Approval, ...] = (), more: tuple[Reason, ...] = ()
    ) -> Decision:
        self.more = tuple(reason.code for reason in more)
        self.told.append((given[-1].digest, bool(approvals)))
        return self.decisions.pop(0) if self.decisions else Allow()

    async def _apply(
        self, _: object, __: object, planned: StackResult, ready: PlanFile, ___: object
    ) -> StackResult:
        self.applied.append((planned.run, ready.digest))
        end = self.ends.pop(0) if self.ends else None
        if end is not None:
            raise end
        return structs.replace(planned, status=Status.APPLIED)

    def plan(self, **options: Any) -> StackResult:
        return asyncio.run(self.run.plan(PlanOptions(**options)))

    def restore(self, *changed: str, **more: Any) -> StackResult:
        saved = structs.replace(bundle("a"), digest=self.first.digest, parts=self.first.parts, **more)
        return asyncio.run(self.run.restore(saved, changed))

    def speak(self, kind: ApprovalKind, *, hours: float = 1.0) -> None:
        """About the saved plan."""
        now = clock.now()
        self.context.store.approvals.add(
            Approval(
                kind=kind,
                digest=self.first.digest,
                stack="a",
                run="r",
                who={"kind": "person", "name": "ada"},
                reason="it is meant",
                at=now.isoformat(),
                until=(now + timedelta(hours=hours)).isoformat(),
            )
        )

    def apply(self) -> StackResult:
        return asyncio.run(self.run.apply())

    def recorded(self) -> Any:
        asyncio.run(self.run.close())
        return self.context.store.runs.outcome(self.run.run.id)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def by_plan(world: World) -> StackResult:
    return world.plan()


def by_bundle(world: World) -> StackResult:
    return world.restore()


BOTH = pytest.mark.parametrize("begin", [by_plan, by_bundle])
Begin = Callable[[World], StackResult]


@BOTH
def test_a_plan_that_is_allowed_is_applied(world: World, begin: Begin) -> None:
    """Once, as the run that was shown; only about a plan of a bundle can people have spoken."""
    world.speak(ApprovalKind.APPROVAL)
    assert begin(world).status is Status.PLANNED
    assert world.apply().status is Status.APPLIED
    assert world.applied == [(world.run.run.id, world.first.digest)]
    assert world.told == [(world.first.digest, begin is by_bundle)]


@BOTH
def test_nothing_is_begun_while_the_run_before_is_not_settled(world: World, begin: Begin) -> None:
    """Neither a new plan nor one from a bundle; and an unknown end is not recorded as this run's."""
    world.unsettled = UnknownOutcome("HF-RUN-8", "nobody knows")
    assert begin(world).status is Status.UNKNOWN
    assert world.apply().status is Status.UNKNOWN
    assert (world.made, world.applied) == ([], [])
    assert world.recorded() is None


@BOTH
@pytest.mark.parametrize(
    ("decision", "status"), [(DENIED, Status.REFUSED), (WAITS, Status.WAITING)], ids=["denied", "waits"]
)
def test_what_is_not_allowed_is_not_applied(
    world: World, begin: Begin, decision: Decision, status: Status
) -> None:
    """It says why, and stays what it is, whoever asks; also where only its decision says so."""
    world.decisions = [decision]
    assert begin(world).status is status
    assert world.apply().status is status
    world.run.result = structs.replace(world.run.result, status=Status.PLANNED)
    world.apply()
    assert world.applied == []
    assert world.run.result.error is not None


def test_a_plan_without_changes_is_not_applied(world: World) -> None:
    """There is nothing to use it up for."""
    world.first = world.planning([])
    assert world.plan().status is Status.UNCHANGED
    assert world.apply().status is Status.UNCHANGED
    assert world.applied == []


@BOTH
def test_who_asked_to_stop_before_the_plan_gets_none(world: World, begin: Begin) -> None:
    """Nothing is begun any more."""
    world.context.control.stop.ask()
    assert begin(world).status is Status.CANCELLED
    assert world.made == []


def test_who_asked_to_stop_after_the_plan_gets_no_apply(world: World) -> None:
    """What was planned is still shown."""
    world.plan()
    world.context.control.stop.ask()
    result = world.apply()
    assert result.status is Status.CANCELLED
    assert result.plan is not None
    assert world.applied == []


# What may follow a failure


def test_a_new_plan_follows_a_failure_that_passes(world: World) -> None:
    """As a run of its own with a journal of its own; it is told as the plan that was shown."""
    world.ends, world.again = [throttled()], [world.planning(UPDATE, made="again")]
    world.plan()
    done = world.apply()
    assert (done.status, done.run, done.digest) == (Status.APPLIED, world.run.run.id, world.first.digest)
    (first, _), (second, digest) = world.applied
    assert first == world.run.run.id != second
    assert digest != world.first.digest
    assert world.recorded()["status"] == "applied"


def test_an_apply_that_recorded_itself_is_not_recorded_again(world: World) -> None:
    """What it wrote is durable; a second, weaker word would replace it."""
    world.plan()
    world.apply()
    assert world.recorded() is None


def test_a_failure_that_nobody_knows_to_pass_is_the_end(world: World) -> None:
    """A person looks first."""
    said = throttled()
    said.outcome = structs.replace(said.outcome, open=frozenset({"lab_object.other"}))
    world.ends = [said]
    world.plan()
    assert world.apply().status is Status.FAILED
    assert len(world.applied) == 1


@pytest.mark.parametrize("approved", [True, False])
def test_a_saved_plan_is_followed_only_if_nobody_named_it(world: World, *, approved: bool) -> None:
    """What was approved is that plan, and no other."""
    world.ends, world.again = [throttled()], [world.planning(UPDATE, made="again")]
    if approved:
        world.speak(ApprovalKind.APPROVAL)
    world.restore()
    assert world.apply().status is (Status.FAILED if approved else Status.APPLIED)
    assert len(world.applied) == (1 if approved else 2)


def test_a_saved_plan_that_is_planned_again_takes_over_its_approvals(world: World) -> None:
    """Not an override, and not one that has expired; in production not beside a value that was a mock."""
    world.again = [world.planning(UPDATE, made="again")]
    for kind in ApprovalKind:
        world.speak(kind)
    world.speak(ApprovalKind.APPROVAL, hours=-1)
    done = world.restore("network.id changed")
    assert done.replaces == world.first.digest != done.digest
    assert done.remark == "planned again: network.id changed; same changes"
    assert not done.saved
    given = [approval.kind for approval in world.run.approvals(str(done.digest))]
    assert sorted(given) == [ApprovalKind.APPROVAL, ApprovalKind.REJECTION]


@pytest.mark.parametrize("production", [True, False])
def test_a_mock_that_became_real_needs_a_new_approval_in_production(
    world: World, monkeypatch: pytest.MonkeyPatch, *, production: bool
) -> None:
    """Nobody has seen the real value."""
    with_mock(world, monkeypatch)
    world.speak(ApprovalKind.APPROVAL)
    done = world.restore(mocks={"id": "vpc-0"}, production=production)
    assert len(world.run.approvals(str(done.digest))) == (0 if production else 1)
    assert world.more == (("HF-BUND-24",) if production else ())


@pytest.mark.parametrize("mocks", [{"id": "lab"}, {"other": "vpc-0"}, {"id": None}])
def test_a_bundle_brings_no_mocks_of_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch, mocks: dict[str, Any]
) -> None:
    """They would match any value: a plan job could show another plan than the one that follows."""
    with_mock(world, monkeypatch)
    done = world.restore(mocks=mocks)
    assert done.error is not None
    assert (done.status, done.error.code) == (Status.REFUSED, "HF-BUND-6")


def with_mock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_inputs(*_: object, **__: object) -> InputValues:
        return InputValues()

    monkeypatch.setattr(runs, "read_inputs", read_inputs)
    inputs = {"id": OutputRef(text="network.id", mock="vpc-0")}
    world.run.stack = structs.replace(STACK, production=False, inputs=inputs)
    world.again = [world.planning(UPDATE, made="again")]


@pytest.mark.parametrize(
    ("new", "code"),
    [
        ([*UPDATE, change("lab_object.other", "delete")], "HF-BUND-23"),
        ([], "HF-BUND-23"),
        ("state", "HF-BUND-11"),
    ],
)
def test_a_plan_that_is_not_the_same_again_is_refused(world: World, new: Any, code: str) -> None:
    """Also if the state of the stack itself changed meanwhile."""
    again = world.planning(UPDATE if new == "state" else new, made="again")
    if new == "state":
        again = structs.replace(again, prior=structs.replace(again.prior, serial=again.prior.serial + 1))
    world.again = [again]
    done = world.restore("network.id changed")
    assert (done.status, done.digest) == (Status.REFUSED, world.first.digest)
    assert done.error is not None
    assert done.error.code == code
    world.apply()
    assert world.applied == []


def test_there_is_an_end_to_it(world: World) -> None:
    """As many plans follow as the configuration allows."""
    world.ends = [throttled() for _ in range(5)]
    world.again = [world.planning(UPDATE, made=f"{number}") for number in range(5)]
    world.plan()
    assert world.apply().status is Status.FAILED
    assert len(world.applied) == 3


@pytest.mark.parametrize("why", ["more", "denied", "waits"])
def test_a_new_plan_is_applied_only_if_it_does_no_more_and_is_allowed(world: World, why: str) -> None:
    """The failure that was stays the answer, and a note says why nothing followed."""
    more = [*UPDATE, change("lab_object.other", "delete")] if why == "more" else UPDATE
    world.ends, world.again = [throttled()], [world.planning(more, made="again")]
    world.plan()
    world.decisions = {"more": [], "denied": [DENIED], "waits": [WAITS]}[why]
    result = world.apply()
    assert result.status is Status.FAILED
    assert len(world.applied) == 1
    assert any("the new plan was not applied" in note for note in result.notes)


def test_what_was_replaced_is_not_asked_for_again(world: World) -> None:
    """A replacement that was made would be made once more."""
    world.ends = [throttled(done=frozenset({"lab_object.one"}))]
    world.again = [world.planning(UPDATE, made="again")]
    world.plan(replace=("lab_object.one", "lab_object.two"))
    world.apply()
    assert [one.replace for one in world.made] == [("lab_object.one", "lab_object.two"), ("lab_object.two",)]


def test_a_change_that_was_made_all_the_same_leaves_nothing_to_do(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts as applied; outputs are read without showing what is sensitive, which is hidden from then."""

    async def outputs() -> bytes:
        return b'{"x": {"value": "hunter2-hunter2", "sensitive": true, "type": "string"}}'

    monkeypatch.setattr(world.terraform, "outputs", outputs, raising=False)
    world.ends, world.again = [throttled()], [world.planning([], made="again")]
    world.plan()
    done = world.apply()
    assert done.status is Status.APPLIED
    assert len(world.applied) == 1
    assert (done.outputs["x"].value, done.outputs["x"].sensitive) == (None, True)
    assert world.context.redactor.clean("it is hunter2-hunter2") == "it is ***"


# What is remembered


def test_what_all_stacks_together_make_of_it_is_recorded(world: World) -> None:
    """Also where the run had been written down before."""
    world.plan()
    assert world.recorded()["status"] == "planned"
    world.run.set_decision(DENIED)
    assert world.recorded()["status"] == "refused"


@pytest.mark.parametrize(("hours", "reason"), [(1, "it is meant"), (-1, None)])
def test_an_override_that_has_expired_is_no_reason_for_what_was_done(
    world: World, hours: int, reason: str | None
) -> None:
    """The record calls an apply break-glass only where an override made it possible."""
    world.restore()
    assert world.run.override_reason() is None
    world.speak(ApprovalKind.OVERRIDE, hours=hours)
    assert world.run.override_reason() == reason


def test_a_failed_apply_still_shows_its_plan(world: World) -> None:
    """With the digest and the counts that people looked at."""
    failure = throttled()
    failure.outcome = structs.replace(failure.outcome, steps_failed=True)
    world.ends = [failure]
    planned = world.plan()
    result = world.apply()
    assert (result.status, result.digest, result.plan) == (Status.FAILED, planned.digest, planned.plan)
    assert result.error is not None
    assert result.error.code == "HF-TF-4"
