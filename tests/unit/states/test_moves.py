"""What an interrupted move did is read from the two states, and what the code must look like is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.hcl.eval.code import Code
from holdfast.runs.intent import MoveIntent
from holdfast.states.moves import MoveOutcome, declares, move_outcome
from holdfast.terraform.statefile.losses import moved_resources
from holdfast.terraform.statefile.model import State, read_contents, read_state


def state(**ids: str) -> bytes:
    """One resource `t.NAME` for each id."""
    resources = [
        {
            "mode": "managed",
            "type": "t",
            "name": name,
            "provider": "p",
            "instances": [{"attributes": {"id": id_}}],
        }
        for name, id_ in ids.items()
    ]
    return json.dumps({"version": 4, "serial": 1, "lineage": "l", "resources": resources}).encode()


def decoded(content: bytes) -> State:
    file = read_state(content)
    assert isinstance(file, State)
    return file


def intent(*moved: tuple[str, str]) -> MoveIntent:
    return MoveIntent(
        source="a",
        destination="b",
        source_run="1",
        destination_run="2",
        moved=tuple((f"t.{old}", f"t.{new}", None) for old, new in moved),
    )


def test_states_that_were_changed_since_are_left_alone() -> None:
    """Another resource at the new address, or only some that arrived: nothing is removed on a guess."""
    move = intent(("x", "z"), ("y", "w"))
    for source, destination in (
        (state(x="1", y="2"), state(z="1")),
        (state(x="1", y="2"), state(z="1", w="other")),
        (state(x="1"), state(z="1", w="2")),
        (state(), state()),
    ):
        found = move_outcome(move, read_contents(source), read_contents(destination))
        assert found is MoveOutcome.MIXED


def test_what_left_and_did_not_arrive_is_no_move() -> None:
    whole, left = decoded(state(x="1", y="2")), decoded(state(y="2"))
    assert moved_resources(whole, left, decoded(state()), decoded(state(z="9"))) is None
    assert moved_resources(whole, left, decoded(state()), decoded(state())) is None
    assert moved_resources(whole, left, decoded(state()), decoded(state(z="1", w="3"))) is None


@pytest.mark.parametrize(
    ("address", "declared"),
    [
        ("t.x", True),
        ("t.x[0]", True),
        ("t.y", False),
        ("data.t.x", False),
        ('module.m["k"].t.any', True),
        ("module.n.t.x", False),
    ],
)
def test_the_root_module_declares_a_resource_or_calls_its_module(
    tmp_path: Path, address: str, *, declared: bool
) -> None:
    (tmp_path / "main.tf").write_text('resource "t" "x" {}\nmodule "m" {\n  source = "./m"\n}\n')
    assert declares(Code(tmp_path), ".", address) is declared
