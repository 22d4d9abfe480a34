"""A move between two states is cut before, between or after its writes: no resource is lost."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from holdfast.runs.intent import MoveIntent
from holdfast.states.moves import MoveOutcome, move_outcome
from holdfast.terraform.statefile.edit import remove_instances
from holdfast.terraform.statefile.losses import lost_resources, moved_resources
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


NAMES = st.text("abcdef", min_size=1, max_size=3)
IDS = st.dictionaries(NAMES, NAMES.map(lambda text: f"id-{text}"), min_size=1, max_size=6)


@given(source=IDS, destination=IDS, data=st.data())
def test_no_resource_is_in_no_state_wherever_a_move_is_cut(
    source: dict[str, str], destination: dict[str, str], data: st.DataObject
) -> None:
    """Before the first write, between the two, after both: the outcome is known; finishing loses nothing."""
    chosen = data.draw(st.lists(st.sampled_from(sorted(source)), unique=True, min_size=1))
    new = {name: f"moved_{name}" for name in chosen}
    left = state(**{name: id_ for name, id_ in source.items() if name not in new})
    arrived = state(**destination, **{new[name]: source[name] for name in chosen})
    whole, before = state(**source), state(**destination)
    pairs = moved_resources(decoded(whole), decoded(left), decoded(before), decoded(arrived))
    assert {(old.name, to.name) for old, to in pairs or ()} == set(new.items()) or len(
        {source[name] for name in chosen}
    ) < len(chosen)
    move = intent(*new.items())
    for there, here, outcome in (
        (whole, before, MoveOutcome.NOTHING),
        (whole, arrived, MoveOutcome.BOTH),
        (left, arrived, MoveOutcome.DONE),
    ):
        assert move_outcome(move, read_contents(there), read_contents(here)) is outcome
    finished = remove_instances(whole, [(old, deposed) for old, _, deposed in move.moved])
    assert lost_resources(read_state(left), read_state(finished)) == ()
    assert read_contents(finished).current.keys() == read_contents(left).current.keys()
