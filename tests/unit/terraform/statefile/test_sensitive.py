from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.terraform.statefile.model import read_state
from holdfast.terraform.statefile.sensitive import (
    sensitive_in_outputs,
    sensitive_in_shown,
    sensitive_in_state,
    without_marked,
)

HERE = Path(__file__).parents[1]


def state(attributes: Any, paths: Any, outputs: Any = None) -> bytes:
    instance = {"attributes": attributes, "sensitive_attributes": paths}
    resource = {"mode": "managed", "type": "t", "name": "n", "instances": [instance]}
    return json.dumps({"version": 4, "outputs": outputs, "resources": [resource]}).encode()


def attribute(name: str) -> dict[str, Any]:
    return {"type": "get_attr", "value": name}


def index(key: str | int) -> dict[str, Any]:
    kind = "string" if isinstance(key, str) else "number"
    return {"type": "index", "value": {"value": key, "type": kind}}


ATTRIBUTES = {
    "password": "hunter2",
    "name": "web",
    "port": 54321,
    "nested": [{"token": "sesame", "open": "yes"}],
    "tags": {"key": "swordfish", "other": "plain"},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ([attribute("password")], {"hunter2"}),
        ([attribute("port")], {"54321"}),
        ([attribute("nested"), index(0), attribute("token")], {"sesame"}),
        ([attribute("tags"), index("key")], {"swordfish"}),
        ([attribute("tags")], {"swordfish", "plain"}),
        ([attribute("nested"), {"type": "new"}, attribute("token")], {"sesame", "yes"}),
        ([attribute("gone")], set()),
    ],
)
def test_a_state_marks_sensitive_values_by_paths(path: list[Any], found: set[str]) -> None:
    """A path that is not understood hides all that is left of it, never nothing."""
    assert sensitive_in_state(read_state(state(ATTRIBUTES, [path]))) == found


def test_sensitive_outputs_of_a_state_are_known() -> None:
    """Every text in them, however deep."""
    outputs = {"a": {"value": {"x": ["hunter2"]}, "sensitive": True}, "b": {"value": "plain"}}
    assert sensitive_in_state(read_state(state({}, [], outputs))) == {"hunter2"}


@pytest.mark.parametrize(
    "file", sorted((HERE / "states").glob("*-changes.json")), ids=lambda file: str(file.stem)
)
def test_recorded_states(file: Path) -> None:
    """As the engines write them."""
    (found,) = sensitive_in_state(read_state(file.read_bytes()))
    assert "secret" in found


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"encrypted_data": "x"}', b"\xff", b'{"resources": 3}'])
def test_an_unreadable_file_has_no_secrets(data: bytes) -> None:
    """Commands that need it report the error themselves."""
    assert sensitive_in_state(read_state(data)) == frozenset()
    assert sensitive_in_outputs(data) == frozenset()
    assert sensitive_in_shown(data) == frozenset()


def test_sensitive_outputs_of_a_stack_are_known() -> None:
    """What `output -json` prints as plain text."""
    document = {
        "token": {"sensitive": True, "type": "string", "value": "hunter2"},
        "name": {"sensitive": False, "type": "string", "value": "web"},
    }
    assert sensitive_in_outputs(json.dumps(document).encode()) == {"hunter2"}


PLAN = {
    "format_version": "1.2",
    "variables": {"pin": {"value": "1234"}, "size": {"value": 3}},
    "resource_changes": [
        {
            "address": "a.b",
            "change": {
                "before": {"secret": "old", "name": "x", "list": ["one", "two"]},
                "after": {"secret": "new-one", "name": "x", "list": ["one", "two"]},
                "before_sensitive": {"secret": True},
                "after_sensitive": {"secret": True, "list": [False, True]},
            },
        }
    ],
    "planned_values": {
        "outputs": {"o": {"sensitive": True, "value": "abc"}, "p": {"sensitive": False, "value": 1}}
    },
    "prior_state": {
        "values": {"root_module": {"resources": [{"values": {"a": "z"}, "sensitive_values": {"a": True}}]}}
    },
    "configuration": {"root_module": {"variables": {"pin": {"sensitive": True}, "size": {}}}},
}


def test_marked_values_of_a_document_go_however_short_they_are() -> None:
    """A mark is enough: what is too short to be searched for is hidden in its own field."""
    cleaned = without_marked(PLAN, "***")
    change = cleaned["resource_changes"][0]["change"]
    assert change["before"] == {"secret": "***", "name": "x", "list": ["one", "two"]}
    assert change["after"] == {"secret": "***", "name": "x", "list": ["one", "***"]}
    assert cleaned["variables"] == {"pin": {"value": "***"}, "size": {"value": 3}}
    assert cleaned["planned_values"]["outputs"]["o"]["value"] == "***"
    assert cleaned["planned_values"]["outputs"]["p"]["value"] == 1
    assert cleaned["prior_state"]["values"]["root_module"]["resources"][0]["values"] == {"a": "***"}


def test_marked_values_of_a_document_are_known() -> None:
    """The same ones, for whatever else is shown."""
    assert sensitive_in_shown(json.dumps(PLAN).encode()) == {"1234", "old", "new-one", "two", "abc", "z"}


def test_a_document_without_marks_stays_as_it_is() -> None:
    """Also one that speaks of sensitivity without a value, such as a schema."""
    schema = {"attributes": {"password": {"type": "string", "sensitive": True}}}
    assert without_marked(schema, "***") == schema
