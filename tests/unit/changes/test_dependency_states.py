from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from bundle_made import bundle
from context_made import change_context
from memory_blobs import MemoryBlobs
from msgspec import Raw, structs
from results_made import stack

from holdfast.changes import dependency_states
from holdfast.changes.dependency_states import ALL, DependencyState, dependency_state, output_hashes
from holdfast.kernel.errors import Refused
from holdfast.plans.context import ChangeContext
from holdfast.plans.saved_plan import SavedPlan, StateIdentity
from holdfast.plans.status import Status
from holdfast.runs.run import Run, write_run
from holdfast.terraform.statefile.model import StateOutput

THEN = StateIdentity(lineage="n", serial=3)
AFTER = StateIdentity(lineage="n", serial=5)
APP = stack("app", "network")


def state(identity: StateIdentity, **outputs: Any) -> DependencyState:
    return dependency_state(
        identity,
        [
            StateOutput(name=name, sensitive=name == "token", value=Raw(json.dumps(value, indent=2).encode()))
            for name, value in outputs.items()
        ],
    )


class World:
    """`app` was planned when `network` was `THEN`; its plan is in the same bundle."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        context = change_context(folder, blobs=MemoryBlobs())
        self.context: ChangeContext = structs.replace(
            context, project=structs.replace(context.project, stacks={"network": stack("network")})
        )
        self.now = state(THEN, id="vpc-1")
        patch.setattr(dependency_states, "read_dependency", self._read)

    async def _read(self, *_: object) -> DependencyState:
        return self.now

    def saved(self, names: frozenset[str] | None, then: DependencyState) -> SavedPlan:
        made = bundle("app")
        reads = {"network": output_hashes(made.parts.made, "network", then, names)}
        return structs.replace(
            made, parts=structs.replace(made.parts, reads=reads), plans={"network": "digest of network"}
        )

    def applied(self, **more: Any) -> None:
        """The run that applied `network` from the bundle."""
        run = Run(id="01RUN", stack="network", operation="apply", status=Status.APPLIED)
        run = structs.replace(run, **{"state_before": THEN, "state_after": AFTER, **more})
        self.context.store.mark_used("digest of network", run="01RUN", stack="network", who="ci")
        write_run(self.context.store, run)

    def changed(self, saved: SavedPlan) -> tuple[str, ...]:
        return asyncio.run(dependency_states.changed_reads(self.context, APP, saved))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_a_dependency_that_did_not_change_has_equal_outputs(world: World) -> None:
    """Also where they cannot be read; but an input may have been read from another state."""
    assert world.changed(world.saved(None, state(THEN, id="vpc-1"))) == ()
    assert world.changed(world.saved(frozenset({"absent"}), state(THEN))) == ()
    assert world.changed(world.saved(None, state(THEN, id="vpc-0"))) == ('network.id changed, now "vpc-1"',)
    world.now = dependency_state(THEN, None)
    assert world.changed(world.saved(None, world.now)) == ()


@pytest.mark.parametrize("names", [None, frozenset({"id"})])
def test_equal_outputs_keep_the_plan(world: World, names: frozenset[str] | None) -> None:
    """Whatever else the bundle's own apply changed in the state."""
    world.applied()
    world.now = state(AFTER, id={"a": [1.50]})
    assert world.changed(world.saved(names, state(THEN, id={"a": [1.50]}))) == ()


def test_only_outputs_that_are_read_count(world: World) -> None:
    """All of them, also new and missing ones, where the code does not say which."""
    world.applied()
    then, world.now = state(THEN, id="vpc-1", old=1), state(AFTER, id="vpc-1", more=2)
    assert world.changed(world.saved(frozenset({"id"}), then)) == ()
    assert world.changed(world.saved(None, then)) == (
        "network.more was unknown, now 2",
        "network.old changed, now missing",
    )


def test_what_is_shown_of_a_changed_output_hides_secrets(world: World) -> None:
    """What it was is not known: there is only a hash of it."""
    world.applied()
    then, world.now = state(THEN, id="a", token="a"), state(AFTER, id="b" * 90, token="hunter2")
    changed = world.changed(world.saved(None, then))
    assert changed == (f'network.id changed, now "{"b" * 58}…', "network.token changed, now (sensitive)")
    assert world.changed(world.saved(frozenset({"new"}), then)) == ("network.new was unknown, now missing",)


def test_outputs_that_cannot_be_compared_are_not_equal(world: World) -> None:
    """An encrypted state, then or now; or nothing on record."""
    world.applied()
    encrypted = dependency_state(THEN, None)
    world.now = state(AFTER, id="vpc-1")
    assert world.changed(world.saved(None, encrypted))
    assert world.changed(world.saved(frozenset({"id"}), encrypted)) == (
        'network.id was unknown, now "vpc-1"',
    )
    assert world.changed(structs.replace(bundle("app"), plans={"network": "digest of network"}))
    world.now = dependency_state(AFTER, None)
    assert world.changed(world.saved(None, encrypted)) == ("the outputs of network could not be compared",)


@pytest.mark.parametrize(
    "more",
    [
        {"status": Status.FAILED},
        {"stack": "other"},
        {"state_before": StateIdentity(lineage="n", serial=2)},
        {"state_after": StateIdentity(lineage="n", serial=4)},
        {"state_after": StateIdentity(lineage="other", serial=5)},
        {"state_after": None},
        {"state_before": None},
        None,
    ],
)
def test_any_other_change_of_a_dependency_refuses_the_plan(world: World, more: dict[str, Any] | None) -> None:
    """Only the run that applied the plan of the bundle may have written the state, from first to last."""
    if more is not None:
        world.applied(**more)
    world.now = state(AFTER, id="vpc-1")
    with pytest.raises(Refused, match="serial 3 then, 5 now") as caught:
        world.changed(world.saved(None, state(THEN, id="vpc-1")))
    assert caught.value.problem.code == "HF-BUND-8"


def test_a_dependency_that_is_gone_refuses_the_plan(world: World) -> None:
    """It is no longer in the configuration."""
    world.context = structs.replace(world.context, project=structs.replace(world.context.project, stacks={}))
    with pytest.raises(Refused, match="no longer exists"):
        world.changed(world.saved(None, state(THEN)))


def test_a_hash_says_nothing_without_the_plan() -> None:
    """The same value has another hash in another plan, another stack and another output."""
    value = state(THEN, a="1", b="1")
    hashes = [output_hashes(salt, of, value, frozenset("ab")) for salt in ("x", "y") for of in ("n", "m")]
    assert len({text for each in hashes for text in each.values()}) == 8
    assert ALL not in hashes[0]
    assert set(output_hashes("x", "n", value, None)) == {"a", "b", ALL}
