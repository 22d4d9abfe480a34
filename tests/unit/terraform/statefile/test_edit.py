from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recovery_made import body, state

from holdfast.kernel.errors import Exit
from holdfast.terraform.statefile.edit import (
    InstanceRecord,
    StateEditError,
    add_deposed,
    deposed_key,
    find_instance,
    raise_serial,
    remove_instances,
)

STATES = Path(__file__).parents[1] / "states"
ODD = 'a"].b[0]${x}'
ODD_ADDRESS = 'lab_object.each["a\\"].b[0]$${x}"]'


def current(*addresses: str) -> list[tuple[str, str | None]]:
    return [(address, None) for address in addresses]


def taken(data: bytes, address: str, deposed: str | None = None) -> InstanceRecord:
    found = find_instance(data, address, deposed=deposed)
    assert found is not None
    return found


def resources(data: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(data)["resources"]
    return found


def test_only_the_named_instances_are_removed() -> None:
    """Count, for_each with odd keys and modules: one address is one instance."""
    data = state(
        {
            "lab_object.each": [body("1", key="a"), body("2", key=ODD)],
            "lab_object.count": [body("3", key=0), body("4", key=1)],
            "module.m[0].lab_object.each": [body("5", key=ODD)],
            "lab_object.single": [body("6")],
        }
    )
    left = resources(remove_instances(data, current(ODD_ADDRESS, "lab_object.count[0]", "lab_object.single")))
    assert [[one["attributes"]["id"] for one in each["instances"]] for each in left] == [["1"], ["4"], ["5"]]


def test_an_address_without_its_key_takes_nothing() -> None:
    """`lab_object.count` is no instance when there are `lab_object.count[0]` and `[1]`; `"0"` is not 0."""
    data = state({"lab_object.count": [body("3", key=0), body("4", key=1)]})
    assert (
        remove_instances(data, current("lab_object.count", 'lab_object.count["0"]', "lab_object.other"))
        is data
    )


def test_deposed_instances_stay_unless_they_are_named() -> None:
    """What is deposed still exists: its record is not lost by the way."""
    data = state({"lab_object.a": [body("new"), body("old", deposed="aa11")]})
    assert [
        one["deposed"] for one in resources(remove_instances(data, current("lab_object.a")))[0]["instances"]
    ] == ["aa11"]
    assert resources(remove_instances(data, [("lab_object.a", None), ("lab_object.a", "aa11")])) == []
    left = resources(remove_instances(data, [("lab_object.a", "aa11")]))
    assert [one["attributes"]["id"] for one in left[0]["instances"]] == ["new"]


def test_what_is_not_known_stays_as_it_was() -> None:
    """Fields of a newer engine, numbers beyond a float and the order of everything survive, byte for byte."""
    number = b"12345678901234567890123456789.000000000000000000010"
    data = state({"lab_object.a": [body("1")], "lab_object.b": [body("2", n="N")]}, news={"z": 1, "a": 2})
    data = data.replace(b'"N"', number)
    left = remove_instances(data, current("lab_object.a"))
    assert number in left
    assert list(json.loads(left)) == list(json.loads(data))
    assert b'"news": {\n    "z": 1,\n    "a": 2\n  }' in data
    assert b'{\n    "z": 1,\n    "a": 2\n  }' in left


def test_an_old_instance_is_added_as_deposed() -> None:
    """After the new resource is imported, the old one is beside it with everything that was known of it."""
    before = state({"lab_object.each": [body("old", key=ODD, size=1, tainted=True)]})
    now = state({"lab_object.each": [body("new", key=ODD)], "lab_object.b": [body("2")]}, serial=9)
    after = add_deposed(now, ODD_ADDRESS, taken(before, ODD_ADDRESS), "aa11")
    current, old = resources(after)[0]["instances"]
    assert current == resources(now)[0]["instances"][0]
    assert old == {**resources(before)[0]["instances"][0], "deposed": "aa11"}
    assert resources(after)[1] == resources(now)[1]
    assert json.loads(after)["serial"] == 9


def test_putting_back_twice_is_putting_back_once() -> None:
    """A reconcile that is killed in between can be done again."""
    before, now = state({"lab_object.a": [body("old")]}), state({"lab_object.a": [body("new")]})
    old = taken(before, "lab_object.a")
    once = add_deposed(now, "lab_object.a", old, "aa11")
    assert add_deposed(once, "lab_object.a", old, "aa11") == once


def test_the_key_of_another_deposed_instance_is_refused() -> None:
    """One deposed instance never overwrites another."""
    now = state({"lab_object.a": [body("new"), body("other", deposed="aa11")]})
    old = taken(state({"lab_object.a": [body("old")]}), "lab_object.a")
    with pytest.raises(StateEditError) as refused:
        add_deposed(now, "lab_object.a", old, "aa11")
    assert refused.value.problem.code == "HF-REC-5"


def test_a_deposed_instance_is_added_to_a_state_without_its_resource() -> None:
    """The head of its resource comes with it: module, type, provider."""
    before = state({"module.m.lab_object.a": [body("old", key=3)]})
    address = "module.m.lab_object.a[3]"
    after = add_deposed(state({}), address, taken(before, address), "aa11")
    assert taken(after, address, "aa11").block == taken(before, address).block


def test_a_deposed_instance_may_have_had_another_address() -> None:
    """A plan that moves and replaces at once: the old instance is added where the new one is."""
    old = taken(state({"lab_object.a": [body("old", key=0)]}), "lab_object.a[0]")
    now = state({"module.m.lab_object.b": [body("new", key="x")]})
    after = add_deposed(now, 'module.m.lab_object.b["x"]', old, "aa11")
    assert [one["index_key"] for one in resources(after)[0]["instances"]] == ["x", "x"]
    with pytest.raises(StateEditError) as refused:
        add_deposed(now, "lab_object.c", old, "aa11")
    assert refused.value.problem.code == "HF-REC-5"


def test_a_missing_instance_is_none() -> None:
    """Current and deposed instances are not mixed up."""
    data = state({"lab_object.a": [body("old", deposed="aa11")]})
    assert find_instance(data, "lab_object.a") is None
    assert find_instance(data, "lab_object.a", deposed="bb22") is None
    assert taken(data, "lab_object.a", "aa11").resource.deposed == "aa11"


def test_a_serial_only_grows() -> None:
    """The content stays, the serial rises; nothing else is allowed."""
    data = state({"lab_object.a": [body("1")]})
    assert {**json.loads(raise_serial(data, 12)), "serial": 7} == json.loads(data)
    assert json.loads(raise_serial(data, 12))["serial"] == 12
    for serial in (7, 6):
        with pytest.raises(StateEditError) as refused:
            raise_serial(data, serial)
        assert refused.value.problem.code == "HF-REC-6"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ((STATES / "tofu-1.12.6-encrypted.json").read_bytes(), "HF-REC-3"),
        (b"", "HF-REC-4"),
        (b'{"version": 5, "serial": 1, "lineage": "l"}', "HF-REC-4"),
        (b'{"version": 4, "serial": 1, "linea', "HF-REC-4"),
    ],
)
def test_what_cannot_be_read_is_not_operated_on(data: bytes, code: str) -> None:
    """An encrypted, empty, broken or newer state is refused before anything is changed."""
    old = taken(state({"lab_object.a": [body("old")]}), "lab_object.a")
    for operation in (
        lambda: remove_instances(data, current("lab_object.a")),
        lambda: add_deposed(data, "lab_object.a", old, "k"),
        lambda: find_instance(data, "lab_object.a"),
        lambda: raise_serial(data, 99),
    ):
        with pytest.raises(StateEditError) as refused:
            operation()
        assert refused.value.problem.code == code
        assert refused.value.exit is Exit.REFUSED


def test_a_deposed_key_belongs_to_a_run_and_an_address() -> None:
    """Eight hexadecimal digits, as Terraform makes them; the same again for the same."""
    key = deposed_key(run="r1", address="lab_object.a")
    assert key == deposed_key(run="r1", address="lab_object.a")
    assert len(key) == 8
    assert int(key, 16) >= 0
    assert key != deposed_key(run="r2", address="lab_object.a")
    assert key != deposed_key(run="r1", address="lab_object.b")
