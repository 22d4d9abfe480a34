"""In which order a change plans and applies its stacks, which it skips, and what it does after a failure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bundle_made import bundle
from context_made import change_context
from memory_blobs import MemoryBlobs
from msgspec import structs
from results_made import result, stack

from holdfast.audit.entry import What
from holdfast.audit.log import Audit
from holdfast.changes import bundles, change
from holdfast.guard.decision import Allow, Decision, Reason
from holdfast.guard.evaluate import StackDeletions, decision_from_reasons
from holdfast.guard.policy import Policy
from holdfast.kernel.errors import HoldfastError, Refused
from holdfast.plans.events import ChangeStarted, StackFinished
from holdfast.plans.result import StackResult
from holdfast.plans.saved_plan import SavedPlan
from holdfast.plans.status import Status
from holdfast.runs import audit_trail, lanes
from holdfast.stacks.stack import Stack
from holdfast.store.approvals import Approval
from holdfast.system import clock
from holdfast.terraform.argv import PlanOptions

NET, DB, APP, OTHER = stack("net"), stack("db", "net"), stack("app", "db"), stack("other")
CHAIN = (APP, NET, DB)


class World:
    """A change without Terraform: what each stack's plan and apply end with, and everything that happens."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.told: list[Any] = []
        self.context = change_context(
            folder, blobs=MemoryBlobs(), tell=self.told.append, stacks=(*CHAIN, OTHER)
        )
        self.log: list[str] = []
        self.plans: dict[str, Status] = {}
        self.applies: dict[str, Status] = {}
        self.breaks: set[str] = set()
        self.refused: set[str] = set()
        self.without_plan: set[str] = set()
        self.runs: dict[str, FakeRun] = {}
        self.lanes: list[str] = []
        self.code: list[bool] = []
        self.budget = False
        self.deletions: list[str] = []
        self.over_budget: dict[str, Decision] = {}
        patch.setattr(change, "RunExecutor", self._run)
        patch.setattr(change, "PlanChecks", self._checks)
        patch.setattr(change, "require_homes", lambda *_: None)
        patch.setattr(change, "refusal", self._refusal)
        patch.setattr(change, "has_change_budget", lambda *_: self.budget)
        patch.setattr(change, "deletions_in", self._deletions)
        patch.setattr(change, "with_change_budget", self._with_budget)

    def _run(self, _: object, __: object, of: Stack, **given: Any) -> FakeRun:
        self.runs[of.name] = FakeRun(self, of, **given)
        return self.runs[of.name]

    def _checks(self, *_: object, code: bool) -> object:
        self.code.append(code)
        return SimpleNamespace()

    def _refusal(self, _: object, of: Stack) -> Refused | None:
        return Refused("HF-OWN-1", "not here") if of.name in self.refused else None

    def _deletions(self, _: object, of: Stack, __: object) -> StackDeletions:
        self.deletions.append(of.name)
        return StackDeletions(stack=of.name, policy=Policy(), deleted=1, prior=2)

    def _with_budget(self, decisions: dict[str, Any], _: object) -> dict[str, Decision]:
        self.log.append(f"budget {' '.join(decisions)}")
        return {name: self.over_budget.get(name, Allow()) for name in decisions}

    def apply(self, *stacks: Stack, what: What = "apply", confirm: Any = None) -> dict[str, Status]:
        results = asyncio.run(
            change.apply_change(self.context, stacks, PlanOptions(), confirm=confirm, what=what)
        )
        return {found.stack.name: found.status for found in results}

    def confirmed(self, answers: str = "") -> Any:
        left = list(answers)

        async def confirm(results: tuple[StackResult, ...]) -> bool:
            self.log.append(f"ask {' '.join(found.stack.name for found in results)}")
            return left.pop(0) == "y"

        return confirm

    def bundles(self, *stacks: Stack, destroy: frozenset[str] = frozenset()) -> tuple[StackResult, ...]:
        def saved(of: Stack) -> SavedPlan:
            made = bundle(of.name, plan=of.name.encode())
            self.context.store.approvals.record_author(made.digest, {}, stack=of.name, run=made.run)
            return structs.replace(
                made, store=self.context.store.id(), dependencies={}, destroy=of.name in destroy
            )

        pairs = [(of, saved(of)) for of in stacks]
        return asyncio.run(change.apply_bundles(self.context, pairs, saved="out"))


class FakeRun:
    def __init__(self, world: World, of: Stack, *, operation: What, saved: str | None, **_: object) -> None:
        self.world, self.stack, self.operation, self.saved = world, of, operation, saved
        self.context = world.context
        self.plan_file: Any = None
        self.result = StackResult(stack=of, status=Status.CANCELLED)

    async def plan(self, _: PlanOptions) -> StackResult:
        self.world.log.append(f"plan {self.stack.name}")
        await asyncio.sleep(0)
        if self.stack.name in self.world.breaks:
            raise ZeroDivisionError
        if self.stack.name not in self.world.without_plan:
            self.plan_file = SimpleNamespace(terraform=SimpleNamespace(lock=b"locked"))
        self.result = result(self.stack, self.world.plans.get(self.stack.name, Status.PLANNED))
        return self.result

    async def restore(self, _: SavedPlan, changed: tuple[str, ...] = ()) -> StackResult:
        assert changed == ()
        return await self.plan(PlanOptions())

    async def apply(self) -> StackResult:
        assert self.result.status is not Status.CANCELLED
        if self.result.status is Status.PLANNED:
            self.world.log.append(f"apply {self.stack.name}")
            await asyncio.sleep(0)
            self.result = result(self.stack, self.world.applies.get(self.stack.name, Status.APPLIED))
        return self.result

    async def close(self) -> None:
        if f"close {self.stack.name}" not in self.world.log:
            self.world.log.append(f"close {self.stack.name}")

    def refuse(self, error: HoldfastError) -> None:
        self.end_with(structs.replace(self.result, status=Status.REFUSED, error=error.problem))

    def end_with(self, found: StackResult) -> None:
        self.result = found
        self.world.told.append(StackFinished(result=found))

    def decline(self) -> None:
        self.world.log.append(f"decline {self.stack.name}")
        self.result = structs.replace(self.result, status=Status.CANCELLED)

    def set_decision(self, decision: Decision) -> None:
        if not isinstance(decision, Allow):
            self.result = structs.replace(self.result, decision=decision, status=Status.REFUSED)

    def override_reason(self) -> str | None:
        return None

    def approvals(self, _: str) -> tuple[Approval, ...]:
        return ()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def steps(world: World, *verbs: str) -> list[str]:
    return [step for step in world.log if step.split()[0] in verbs]


def test_each_stack_starts_when_those_it_needs_are_applied(world: World) -> None:
    """A dependency is applied before its dependent is planned; a stack beside them does not wait."""
    assert set(world.apply(*CHAIN, OTHER).values()) == {Status.APPLIED}
    chain = [step for step in steps(world, "plan", "apply") if "other" not in step]
    assert chain == ["plan net", "apply net", "plan db", "apply db", "plan app", "apply app"]
    assert world.log.index("plan other") < world.log.index("apply net")
    assert world.log.index("close net") < world.log.index("plan db")
    assert world.code == [True]
    assert steps(world, "budget") == []
    assert world.context.engines._expected == 4


def test_a_destroy_runs_in_reverse(world: World) -> None:
    """Dependents first; the code of what is destroyed is not checked."""
    world.apply(*CHAIN, what="destroy")
    assert steps(world, "apply") == ["apply app", "apply db", "apply net"]
    assert world.code == [False]


@pytest.mark.parametrize("by_wave", [False, True])
@pytest.mark.parametrize(
    ("plan", "apply"),
    [
        (Status.FAILED, None),
        (Status.REFUSED, None),
        (Status.WAITING, None),
        (Status.PLANNED, Status.FAILED),
        (Status.PLANNED, Status.UNKNOWN),
    ],
)
def test_a_stack_is_not_started_without_those_it_needs(
    world: World, plan: Status, apply: Status | None, *, by_wave: bool
) -> None:
    """Neither planned nor applied, directly or through others; what does not need it goes on."""
    world.plans["net"] = plan
    if apply is not None:
        world.applies["net"] = apply
    confirm = world.confirmed("yyy") if by_wave else None
    found = world.apply(*CHAIN, OTHER, confirm=confirm)
    assert found == {
        "net": apply or plan,
        "db": Status.BLOCKED,
        "app": Status.BLOCKED,
        "other": Status.APPLIED,
    }
    assert not {"plan db", "apply db", "plan app", "apply app"} & set(world.log)
    error = world.runs["db"].result.error
    assert error is not None
    assert error.message.startswith("db depends on net, which ")


def test_an_unchanged_stack_lets_others_go_on(world: World) -> None:
    """There is nothing to apply, and its outputs are known."""
    world.plans["net"] = Status.UNCHANGED
    assert world.apply(NET, DB) == {"net": Status.UNCHANGED, "db": Status.APPLIED}


def test_what_is_blocked_in_a_destroy_names_the_dependent(world: World) -> None:
    """What is still used is not destroyed."""
    world.applies["db"] = Status.FAILED
    assert world.apply(NET, DB, what="destroy") == {"net": Status.BLOCKED, "db": Status.FAILED}
    error = world.runs["net"].result.error
    assert error is not None
    assert error.message.startswith("net is used by db, which ")
    assert error.hint == "Destroy db first: holdfast destroy db"


@pytest.mark.parametrize("by_wave", [False, True])
def test_a_stack_that_is_refused_here_is_not_planned(world: World, *, by_wave: bool) -> None:
    """Nor those that need it."""
    world.refused.add("net")
    confirm = world.confirmed("yy") if by_wave else None
    assert world.apply(NET, DB, OTHER, confirm=confirm) == {
        "net": Status.REFUSED,
        "db": Status.BLOCKED,
        "other": Status.APPLIED,
    }
    assert "plan net" not in world.log


def test_a_stack_that_breaks_ends_no_other_and_leaves_nothing_open(world: World) -> None:
    """The others are finished and closed, and all results are recorded, before the error is raised."""
    world.breaks.add("net")
    recorded: list[object] = []
    world.context.identity.audit.note = lambda *entries: recorded.extend(entries)  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        world.apply(NET, DB, OTHER)
    assert {"close net", "close db", "close other", "apply other"} <= set(world.log)
    assert "plan db" not in world.log
    assert len(recorded) == 3


def test_waves_are_confirmed_one_by_one(world: World) -> None:
    """All of a wave is planned, then asked about together; the next wave is planned after it is applied."""
    world.apply(*CHAIN, OTHER, confirm=world.confirmed("yyy"))
    assert steps(world, "plan", "ask", "apply") == [
        "plan net",
        "plan other",
        "ask net other",
        "apply net",
        "apply other",
        *("plan db", "ask db", "apply db"),
        *("plan app", "ask app", "apply app"),
    ]
    assert steps(world, "close") == ["close app", "close net", "close db", "close other"]
    assert steps(world, "budget") == []


def test_waves_of_a_destroy_run_in_reverse(world: World) -> None:
    """The last wave of an apply is the first one here."""
    world.apply(*CHAIN, what="destroy", confirm=world.confirmed("yyy"))
    assert steps(world, "ask") == ["ask app", "ask db", "ask net"]


def test_a_declined_wave_is_not_applied_and_others_go_on(world: World) -> None:
    """What needs it is blocked; a stack of a later wave that needs nothing of it is asked about."""
    found = world.apply(*CHAIN, OTHER, confirm=world.confirmed("n"))
    assert found["net"] is found["other"] is Status.CANCELLED
    assert found["db"] is found["app"] is Status.BLOCKED
    assert steps(world, "apply", "decline") == ["decline net", "decline other"]


def test_only_what_is_planned_is_declined_or_applied(world: World) -> None:
    """A refused plan of the wave is shown with the others, and stays refused."""
    world.plans["other"] = Status.REFUSED
    assert world.apply(NET, OTHER, confirm=world.confirmed("y"))["other"] is Status.REFUSED
    assert steps(world, "ask", "apply") == ["ask net other", "apply net"]
    assert world.apply(NET, OTHER, confirm=world.confirmed("n"))["other"] is Status.REFUSED


def test_nobody_is_asked_where_nothing_can_be_applied(world: World) -> None:
    """Unchanged and refused plans need no answer."""
    world.plans.update(net=Status.UNCHANGED, other=Status.REFUSED)
    world.apply(NET, OTHER, confirm=world.confirmed())
    assert steps(world, "ask") == []


def test_a_budget_is_applied_by_wave_before_anything_of_it_is_applied(world: World) -> None:
    """Also without a question; what is applied already counts, and is not decided again."""
    world.budget = True
    world.over_budget["db"] = change_refused()
    found = world.apply(NET, DB, OTHER)
    assert found == {"net": Status.APPLIED, "db": Status.REFUSED, "other": Status.APPLIED}
    assert steps(world, "plan", "budget", "apply") == [
        *("plan net", "plan other", "budget net other", "apply net", "apply other"),
        *("plan db", "budget db"),
    ]
    assert world.deletions[2:] == ["net", "db", "other"]


@pytest.mark.parametrize(
    ("status", "decided"),
    [(Status.PLANNED, True), (Status.REFUSED, True), (Status.WAITING, True), (Status.UNCHANGED, False)],
)
def test_a_budget_decides_about_plans_that_can_still_be_applied(
    world: World, status: Status, *, decided: bool
) -> None:
    """Also refused and waiting ones: a person may let them through later."""
    world.budget = True
    world.plans["net"] = status
    world.apply(NET, confirm=world.confirmed("y"))
    assert steps(world, "budget") == [f"budget {'net' if decided else ''}"]


def change_refused() -> Decision:
    return decision_from_reasons([Reason(code="HF-GUARD-5", message="too many")])


def test_a_change_starts_in_the_audit_log_without_what_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only stacks that can be applied are begun; the log has them before the first plan."""
    begun: list[str | None] = []
    record_all = Audit.record_all

    def record(self: Audit, entries: Any) -> None:
        begun.extend(entry.stack for entry in entries)
        assert world.log == []
        record_all(self, entries)

    monkeypatch.setattr(
        change, "applicable_stacks", lambda _, stacks: tuple(s for s in stacks if s is not NET)
    )
    monkeypatch.setattr(Audit, "record_all", record)
    world.apply(NET, OTHER)
    assert begun == ["other"]


def test_after_an_apply_the_log_is_flushed_and_the_store_cleaned(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now and then old runs are pruned; what a lost lane stopped says so.

    A store elsewhere is asked about old output only then, one in a folder always.
    """
    done: list[str] = []

    @contextlib.asynccontextmanager
    async def hold(*_: object) -> AsyncIterator[Any]:
        yield SimpleNamespace(explain_cancelled=lambda results: results[:1])

    async def flush(*_: object) -> None:
        done.append("flush")

    monkeypatch.setattr(lanes, "hold_lanes", hold)
    monkeypatch.setattr(audit_trail, "flush", flush)
    monkeypatch.setattr(change, "remove_orphaned_output", lambda _: done.append("remove"))
    monkeypatch.setattr(change, "prune_runs", lambda _: done.append("prune"))
    monkeypatch.setattr(clock, "chance", lambda: 0.5)
    assert world.apply(NET, OTHER) == {"net": Status.APPLIED}
    assert done == ["flush"]
    monkeypatch.setattr(change, "folders_of", lambda _: (Path("store"),))
    world.apply(NET)
    assert done[1:] == ["flush", "remove"]
    monkeypatch.setattr(change, "folders_of", lambda _: ())
    monkeypatch.setattr(clock, "chance", lambda: 0.01)
    world.apply(NET)
    assert done[3:] == ["flush", "remove", "prune"]


# Plans


def planned(world: World, *stacks: Stack, **given: Any) -> list[tuple[str, Status]]:
    options = given.pop("options", PlanOptions())
    results = asyncio.run(change.plan_change(world.context, stacks, options, **given))
    return [(found.stack.name, found.status) for found in results]


def test_a_plan_is_of_all_stacks_in_the_order_given(world: World) -> None:
    """Nothing is applied; each is closed when it is planned; a failure blocks its dependents."""
    world.plans["net"] = Status.FAILED
    recorded: list[str | None] = []
    world.context.identity.audit.record_all = (  # type: ignore[method-assign]
        lambda entries: recorded.extend(entry.stack for entry in entries)
    )
    assert planned(world, *CHAIN) == [
        ("app", Status.BLOCKED),
        ("net", Status.FAILED),
        ("db", Status.BLOCKED),
    ]
    assert steps(world, "plan") == ["plan app", "plan net", "plan db"]
    assert steps(world, "apply") == []
    assert world.code == [True]
    assert [event.operation for event in world.told if isinstance(event, ChangeStarted)] == ["plan"]
    assert {run.saved for run in world.runs.values()} == {None}
    assert recorded == ["app", "net", "db"]


def test_the_code_is_not_checked_for_a_plan_to_destroy(world: World) -> None:
    """Only its plan is."""
    planned(world, NET, options=PlanOptions(destroy=True))
    assert world.code == [False]


@pytest.mark.parametrize("update", [False, True])
def test_lock_files_are_written_back_only_when_asked(world: World, *, update: bool) -> None:
    """And only if they changed."""
    file = world.context.project.root / "net/.terraform.lock.hcl"
    file.parent.mkdir()
    planned(world, NET, update_lock_files=update)
    assert file.exists() is update
    if update:
        world.told.clear()
        planned(world, NET, update_lock_files=True)
        assert not [event for event in world.told if "wrote" in getattr(event, "text", "")]
        world.without_plan.add("net")
        planned(world, NET, update_lock_files=True)


def test_a_saved_plan_is_closed_after_its_bundle_is_written(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The work directory holds the plan until then; the budget is decided first."""
    world.budget = True

    async def reads(_: object, runs: Any) -> dict[str, object]:
        world.log.append(f"reads {' '.join(runs)}")
        return {}

    async def write(_: object, out: Path, runs: Any, results: Any, __: object) -> None:
        world.log.append(f"write {out.name} {' '.join(runs)}")
        assert list(results) == ["net", "other"]

    monkeypatch.setattr(change, "record_reads", reads)
    monkeypatch.setattr(change, "write_bundles", write)
    planned(world, NET, OTHER, out=tmp_path / "out")
    assert (tmp_path / "out").is_dir()
    assert steps(world, "plan", "reads", "budget", "write", "close") == [
        *("plan net", "plan other", "reads net other", "budget net other"),
        *("write out net other", "close net", "close other"),
    ]
    assert {run.saved for run in world.runs.values()} == {str(tmp_path / "out")}


# Saved plans


def test_saved_plans_are_applied_in_order(world: World) -> None:
    """Each is restored when those it needs are applied."""
    assert {found.status for found in world.bundles(DB, NET)} == {Status.APPLIED}
    assert steps(world, "plan", "apply") == ["plan net", "apply net", "plan db", "apply db"]
    assert (world.runs["net"].operation, world.runs["net"].saved) == ("apply", "out")


@pytest.mark.parametrize(
    ("destroy", "what"), [({"net", "db"}, "destroy"), ({"db"}, "apply"), (set(), "apply")]
)
def test_saved_plans_are_a_destroy_only_if_all_are(world: World, destroy: set[str], what: str) -> None:
    """A mixed bundle is applied in the usual order."""
    world.bundles(DB, NET, destroy=frozenset(destroy))
    assert {run.operation for run in world.runs.values()} == {what}


def test_an_empty_bundle_destroys_nothing(world: World) -> None:
    """It is an apply of no stacks."""
    assert world.bundles() == ()
    assert [event.operation for event in world.told if isinstance(event, ChangeStarted)] == ["apply"]


def test_a_stack_that_others_need_is_not_destroyed_from_a_bundle(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checked for those that are to be destroyed, before anything is done."""
    asked: list[str] = []

    def require(_: object, __: object, stacks: list[Stack]) -> None:
        asked.extend(of.name for of in stacks)
        raise Refused("HF-DEST-1", "needed")

    monkeypatch.setattr(change, "require_no_dependents", require)
    with pytest.raises(Refused):
        world.bundles(DB, NET, destroy=frozenset({"net"}))
    assert asked == ["net"]
    assert world.log == []


def test_a_used_plan_is_refused_and_a_plan_of_another_store_is_noted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refused one is not restored; the note is in the result of its stack alone."""

    def require(_: object, of: Stack, __: object) -> str | None:
        if of is NET:
            raise Refused("HF-BUND-4", "used")
        return "from another store"

    monkeypatch.setattr(bundles, "require_unused", require)
    net, other = world.bundles(NET, OTHER)
    assert (net.status, net.notes) == (Status.REFUSED, ())
    assert (other.status, other.notes) == (Status.APPLIED, ("from another store",))
    assert steps(world, "plan") == ["plan other"]
    assert [event.text for event in world.told if hasattr(event, "text")] == ["from another store"]


def test_a_saved_plan_is_refused_if_a_dependency_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not restored."""

    async def require(_: object, of: Stack, __: object) -> tuple[str, ...]:
        if of is OTHER:
            raise Refused("HF-BUND-8", "changed")
        return ()

    monkeypatch.setattr(bundles, "changed_reads", require)
    net, other = world.bundles(NET, OTHER)
    assert (net.status, other.status) == (Status.APPLIED, Status.REFUSED)
    assert steps(world, "plan") == ["plan net"]


def test_a_saved_plan_is_told_before_it_is_applied(world: World) -> None:
    """Its listener shows it; one that is not applied is finished with that."""
    world.plans["net"] = Status.WAITING
    world.bundles(NET, OTHER)
    told = [event.result for event in world.told if isinstance(event, StackFinished)]
    assert {result.stack.name: result.status for result in told[:2]} == {
        "net": Status.WAITING,
        "other": Status.PLANNED,
    }
