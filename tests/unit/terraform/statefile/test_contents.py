from __future__ import annotations

from pathlib import Path

import pytest
from recovery_made import LINEAGE, body, state

from holdfast.terraform.statefile.model import NO_STATE, read_contents

STATES = Path(__file__).parents[1] / "states"


def test_current_and_deposed_instances_are_distinguished_by_their_ids() -> None:
    """An address can have one current instance and any number of deposed ones."""
    contents = read_contents(
        state({"lab_object.a": [body("new"), body("old", deposed="aa11"), body("older", deposed="bb22")]})
    )
    assert contents.lineage == LINEAGE
    assert contents.serial == 7
    assert contents.current["lab_object.a"].id == "new"
    assert {key: held.id for key, held in contents.deposed["lab_object.a"].items()} == {
        "aa11": "old",
        "bb22": "older",
    }


def test_addresses_are_those_of_the_engine() -> None:
    """Modules, numbers and texts with quotes, dots and brackets are written as Terraform writes them."""
    contents = read_contents(
        state(
            {
                'module.m["x.y"].lab_object.a': [body("1", key=0), body("2", key='k"].[${')],
                "lab_object.b": [body("3")],
            }
        )
    )
    assert {address: held.id for address, held in contents.current.items()} == {
        'module.m["x.y"].lab_object.a[0]': "1",
        'module.m["x.y"].lab_object.a["k\\"].[$${"]': "2",
        "lab_object.b": "3",
    }


def test_a_resource_without_an_id_is_still_there() -> None:
    """Some types have a name only, some have neither; an id that is no text is none."""
    contents = read_contents(
        state({"lab_object.a": [body(None, name="n")], "lab_object.b": [body(None)], "lab_object.c": [{}]})
    )
    assert dict(contents.current["lab_object.a"].labels) == {"name": "n"}
    assert contents.current["lab_object.b"].id is None
    assert contents.current["lab_object.c"].id is None


@pytest.mark.parametrize("engine", ["terraform-1.11.4", "terraform-1.15.5", "tofu-1.12.6"])
def test_a_recorded_state_is_read(engine: str) -> None:
    """Ids and marks of a real state are those that the engine wrote."""
    contents = read_contents((STATES / f"{engine}-apply-fails.json").read_bytes())
    assert set(contents.current) == {"terraform_data.a", "terraform_data.b"}
    assert contents.current["terraform_data.b"].tainted
    assert all(len(held.id or "") == 36 for held in contents.current.values())


def test_two_records_of_one_resource_are_the_same() -> None:
    """A null that is written out or not is no difference; a value or a taint is."""
    one, same, other, tainted = (
        read_contents(state({"lab_object.a": [made]})).current["lab_object.a"]
        for made in (
            body("1", size=2, note=None),
            body("1", size=2),
            body("1", size=3),
            body("1", size=2, tainted=True),
        )
    )
    assert one.same_as(same)
    assert not one.same_as(other)
    assert not one.same_as(tainted)


def test_no_state_is_not_an_unseen_one() -> None:
    """Whoever keeps the state said that there is none: then there is none."""
    assert read_contents(None) == NO_STATE
    assert NO_STATE.absent


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0", b'{"version": 4, "ser', b'{"version": 3, "serial": 1}', b"[]"]
)
def test_an_unreadable_state_is_never_no_state(data: bytes) -> None:
    """An empty or broken file was a state once."""
    contents = read_contents(data)
    assert contents.unseen is not None
    assert not contents.absent
    assert not contents.current


def test_a_state_in_another_shape_is_unseen() -> None:
    """What has a serial and a lineage and cannot be understood inside is not an empty state."""
    data = state({}).replace(b'"resources": []', b'"resources": [{"mode": "managed"}]')
    assert read_contents(data).unseen is not None
    assert read_contents(state({"lab_object.a": [{"attributes": [1]}]})).unseen is not None


def test_an_encrypted_state_keeps_its_serial() -> None:
    """Its content cannot be read, but its serial shows whether it was written."""
    contents = read_contents((STATES / "tofu-1.12.6-encrypted.json").read_bytes())
    assert contents.unseen == "the state is encrypted"
    assert contents.serial is not None
    assert contents.lineage
