from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bundle_made import bundle
from context_made import change_context
from memory_blobs import MemoryBlobs
from msgspec import structs
from results_made import result, stack

from holdfast.changes import bundles
from holdfast.changes.change import gather_all
from holdfast.changes.dependency_states import DependencyState, dependency_state
from holdfast.config.settings import Owner, Target
from holdfast.kernel.errors import Refused
from holdfast.plans.context import ChangeContext
from holdfast.plans.saved_plan import SavedPlan, StateIdentity
from holdfast.plans.status import Status
from holdfast.stacks.stack import Stack


def test_one_that_breaks_does_not_end_the_others() -> None:
    """Nothing is taken from under a running Terraform because another stack met something unforeseen."""
    done: list[str] = []

    async def breaks() -> None:
        raise ZeroDivisionError

    async def goes_on(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        done.append("the other")

    with pytest.raises(ZeroDivisionError):
        asyncio.run(gather_all([breaks(), goes_on(20)]))
    assert done == ["the other"]


# A bundle whose turn has come


@pytest.fixture
def opened(tmp_path: Path) -> ChangeContext:
    return change_context(tmp_path, blobs=MemoryBlobs())


def of_store(store: str, **more: bool) -> SavedPlan:
    return structs.replace(bundle("a"), store=store, **more)


PLAIN = structs.replace(stack("a"), production=False)
OF_CI = structs.replace(PLAIN, target=Target(name="aws", owner=Owner.CI))
OF_PEOPLE = structs.replace(PLAIN, target=Target(name="aws"))


def test_a_plan_of_this_store_is_applied_once(opened: ChangeContext) -> None:
    """What its own record says decides, wherever it is applied."""
    found = of_store(opened.store.id(), production=True)
    with pytest.raises(Refused, match="no record that run run-1 made this plan") as refused:
        bundles.require_unused(opened.store, OF_CI, found)
    assert refused.value.problem.code == "HF-BUND-20"
    opened.store.approvals.record_author(found.digest, {}, stack="a", run="run-1")
    assert bundles.require_unused(opened.store, OF_CI, found) is None
    opened.store.mark_used(found.digest, run="01R", stack="a", who="bob")
    for store in (opened.store.id(), "another"):
        with pytest.raises(Refused, match="already applied by run 01R") as caught:
            bundles.require_unused(opened.store, PLAIN, of_store(store))
        assert caught.value.problem.code == "HF-BUND-4"


@pytest.mark.parametrize(
    ("of", "planned_for_production"),
    [(structs.replace(PLAIN, production=True), False), (PLAIN, True), (OF_CI, False)],
    ids=["is production", "was production", "is for CI"],
)
def test_a_plan_of_another_store_is_refused_where_it_matters(
    opened: ChangeContext, of: Stack, *, planned_for_production: bool
) -> None:
    """Nobody can say whether it was used."""
    with pytest.raises(Refused) as caught:
        bundles.require_unused(opened.store, of, of_store("another", production=planned_for_production))
    assert caught.value.problem.code == "HF-BUND-7"


@pytest.mark.parametrize("of", [PLAIN, OF_PEOPLE], ids=["no target", "a target of people"])
def test_a_plan_of_another_store_is_a_warning_elsewhere(opened: ChangeContext, of: Stack) -> None:
    """Terraform's own check is left, and that is said."""
    warning = bundles.require_unused(opened.store, of, of_store("another"))
    assert warning is not None
    assert "another run store" in warning


# Bundles that a plan writes


@pytest.mark.parametrize(
    ("status", "kept"),
    [
        (Status.PLANNED, True),
        (Status.UNCHANGED, True),
        (Status.REFUSED, True),
        (Status.WAITING, True),
        (Status.BLOCKED, False),
        (Status.FAILED, False),
    ],
)
def test_every_plan_that_can_be_applied_later_is_saved_with_its_author(
    opened: ChangeContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: Status, *, kept: bool
) -> None:
    """Also an allowed one: it can be rejected. A state that the change planned itself is not read again."""
    saved = bundle("a")

    def to_saved(*_: object, dependencies: dict[str, StateIdentity], **__: object) -> SavedPlan:
        assert dependencies == {"network": saved.dependencies["network"]}
        return saved

    monkeypatch.setattr(bundles, "to_saved_plan", to_saved)
    runs: Any = {
        name: SimpleNamespace(
            stack=of,
            plan_file=SimpleNamespace(parts=saved.parts, digest=f"digest of {name}"),
            result=result(of, found),
        )
        for name, of, found in (
            ("network", stack("network"), Status.FAILED),
            ("a", stack("a", "network"), status),
        )
    }
    out = tmp_path / "out"
    out.mkdir()
    states = {"network": dependency_state(saved.dependencies["network"], ())}
    results = {name: run.result for name, run in runs.items()}
    asyncio.run(bundles.write_bundles(opened, out, runs, results, states))
    assert (out / "a").exists() is kept
    assert not (out / "network").exists()
    author = opened.store.approvals.author(saved.digest)
    assert author == (opened.identity.audit.who.document() if kept else None)


def test_a_plan_is_not_saved_if_the_state_of_a_dependency_cannot_be_read(
    opened: ChangeContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It fails alone, and the bundle says so."""

    async def read(*_: object) -> DependencyState:
        raise Refused("HF-TEST-1", "no answer")

    of = stack("a", "network")
    failed = result(of, Status.FAILED, "HF-TEST-1")
    run: Any = SimpleNamespace(
        stack=of,
        plan_file=SimpleNamespace(prior=None, outputs=(), parts=bundle("a").parts),
        result=result(of, Status.PLANNED),
    )
    run.refuse = lambda _: setattr(run, "result", failed)
    monkeypatch.setattr(bundles, "read_dependency", read)
    context = structs.replace(
        opened, project=structs.replace(opened.project, stacks={"network": stack("network")})
    )
    states = asyncio.run(bundles.record_reads(context, {"a": run}))
    assert run.result is failed
    asyncio.run(bundles.write_bundles(context, tmp_path, {"a": run}, {"a": run.result}, states))
    assert not (tmp_path / "a").exists()
