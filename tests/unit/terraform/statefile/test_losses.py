"""What one state holds and another does not: by id where there is one, wherever it moved."""

from __future__ import annotations

import json
from typing import Any

from holdfast.terraform.statefile.losses import lost_resources
from holdfast.terraform.statefile.model import StateFile, read_state


def state(*resources: tuple[str, Any]) -> StateFile:
    """Addresses of the root module with their ids; None: without an id."""
    blocks = []
    for address, id_ in resources:
        type_, name = address.split(".")
        attributes = {} if id_ is None else {"id": id_}
        blocks.append(
            {
                "mode": "data" if type_.startswith("data") else "managed",
                "type": type_,
                "name": name,
                "instances": [{"attributes": attributes}],
            }
        )
    document = {"version": 4, "serial": 1, "lineage": "l", "resources": blocks, "outputs": {}}
    return read_state(json.dumps(document).encode())


def lost(before: StateFile, after: StateFile | None) -> list[str] | None:
    resources = lost_resources(before, after)
    return None if resources is None else [resource.address for resource in resources]


def test_a_resource_that_is_not_there_any_more_is_lost() -> None:
    """Also if another one took its address; a data source is no loss."""
    assert lost(state(("x.a", "1"), ("x.b", "2"), ("data_x.d", "3")), state(("x.a", "1"))) == ["x.b"]
    assert lost(state(("x.a", "1")), state(("x.a", "2"))) == ["x.a"]
    assert lost(state(("x.a", "1")), None) == ["x.a"]
    assert lost(state(("x.a", None)), state(("x.b", None))) == ["x.a"]


def test_a_moved_resource_is_not_lost() -> None:
    """It is the same id under another address, once for each that there is."""
    assert lost(state(("x.a", "1")), state(("x.b", "1"), ("x.c", "2"))) == []
    assert lost(state(("x.a", "none"), ("x.b", "none")), state(("x.b", "none"))) == ["x.a"]
    assert lost(state(("x.a", "1")), state(("y.a", "1"))) == ["x.a"]


def test_what_is_encrypted_cannot_be_compared() -> None:
    """The caller has to take it for a loss."""
    envelope = read_state(b'{"serial":2,"lineage":"l","encrypted_data":"x"}')
    assert lost(envelope, state()) is None
    assert lost(state(), envelope) is None
