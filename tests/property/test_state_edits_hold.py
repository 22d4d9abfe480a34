"""Surgery on a state touches the object that is meant, and nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.terraform.statefile.edit import (
    InstanceRecord,
    add_deposed,
    find_instance,
    raise_serial,
    remove_instances,
)
from holdfast.terraform.statefile.model import read_contents

KEYS = st.none() | st.integers(0, 2) | st.text(st.sampled_from('a"].[0${%\\\n é'), max_size=4)
NAMES = st.tuples(
    st.sampled_from([None, "module.m", 'module.m["a.b"]', 'module.m["a.b"].module.n[0]']),
    st.sampled_from(["managed", "data"]),
    st.sampled_from(["lab_object", "lab_other"]),
    st.sampled_from(["a", "b"]),
)
NUMBERS = st.sampled_from(["1", "0.10", "1e400", "123456789012345678901234567890", "-0.0"])
PLACES = st.tuples(KEYS, st.none() | st.sampled_from(["aa11", "bb22"]))


@st.composite
def states(draw: st.DrawFn) -> bytes:
    """Any state, with fields and numbers that this version does not know."""
    resources = []
    for module, mode, type_, name in draw(st.lists(NAMES, unique=True, max_size=4)):
        instances: list[dict[str, Any]] = []
        for key, deposed in draw(st.lists(PLACES, unique_by=repr, min_size=1, max_size=4)):
            body: dict[str, Any] = {} if key is None else {"index_key": key}
            body |= {} if deposed is None else {"deposed": deposed}
            instances.append(
                {**body, "attributes": {"id": draw(st.text(max_size=3)), "n": "#"}, "later": "#"}
            )
        head = {
            "mode": mode,
            "type": type_,
            "name": name,
            "provider": "p",
            "instances": instances,
            "new": [1],
        }
        resources.append(head if module is None else {"module": module, **head})
    document = {"zeta": "#", "version": 4, "serial": 7, "lineage": "l", "outputs": {}, "resources": resources}
    text = json.dumps(document, indent=draw(st.sampled_from([None, 2])), ensure_ascii=draw(st.booleans()))
    while '"#"' in text:
        text = text.replace('"#"', draw(NUMBERS), 1)
    return text.encode()


def everything(data: bytes) -> dict[tuple[str, str | None], tuple[bytes, ...]]:
    """Each object of a state with its bytes, field by field."""
    contents = read_contents(data)
    places = [(address, None) for address in contents.current] + [
        (address, key) for address, keys in contents.deposed.items() for key in keys
    ]
    return {place: said(data, *place) for place in places}


def taken(data: bytes, address: str, deposed: str | None) -> InstanceRecord:
    found = find_instance(data, address, deposed=deposed)
    assert found is not None
    return found


def said(data: bytes, address: str, deposed: str | None) -> tuple[bytes, ...]:
    found = taken(data, address, deposed)
    return tuple(
        part
        for fields in (found.block, found.body)
        for name in fields
        for part in (name.encode(), bytes(fields[name]))
    )


def outside(data: bytes) -> dict[str, Any]:
    """All but the resources, numbers as they are written."""
    document: dict[str, Any] = json.loads(data, parse_int=str, parse_float=str)
    return {name: value for name, value in document.items() if name != "resources"}


@settings(max_examples=150, deadline=None)
@given(states(), st.data())
def test_taking_out_takes_what_is_meant_and_nothing_else(data: bytes, choice: st.DataObject) -> None:
    """Every other object stays, byte for byte, and so does everything around the objects."""
    before = everything(data)
    places = choice.draw(st.sets(st.sampled_from([*before, ("lab_x.y", None)])))
    after = remove_instances(data, places)
    assert everything(after) == {place: body for place, body in before.items() if place not in places}
    assert outside(after) == outside(data)
    assert list(json.loads(after)) == list(json.loads(data))
    assert remove_instances(after, places) == after


@settings(max_examples=150, deadline=None)
@given(states(), st.data())
def test_what_is_put_back_can_be_taken_out_again(data: bytes, choice: st.DataObject) -> None:
    """Putting an old object back changes no other, is done once however often, and can be undone."""
    before = everything(data)
    current = [place for place in before if place[1] is None]
    if not current:
        return
    address, _ = choice.draw(st.sampled_from(sorted(current)))
    old = taken(data, address, None)
    cut = remove_instances(data, [(address, None)])
    back = add_deposed(cut, address, old, "cc33")
    assert set(everything(back)) == {
        (address, "cc33") if place == (address, None) else place for place in before
    }
    untouched = [place for place in before if place != (address, None)]
    assert all(everything(back)[place] == before[place] for place in untouched)
    put = {
        name: bytes(value) for name, value in taken(back, address, "cc33").body.items() if name != "deposed"
    }
    assert put == {name: bytes(value) for name, value in old.body.items()}
    assert add_deposed(back, address, old, "cc33") == back
    assert everything(remove_instances(back, [(address, "cc33")])) == everything(cut)
    assert outside(back) == outside(data)


@settings(max_examples=100, deadline=None)
@given(states(), st.integers(8, 2**63))
def test_a_raised_serial_is_all_that_changes(data: bytes, serial: int) -> None:
    """The content of a state under a new serial is the same content."""
    after = raise_serial(data, serial)
    assert everything(after) == everything(data)
    assert outside(after) == {**outside(data), "serial": str(serial)}
