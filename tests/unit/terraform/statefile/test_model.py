from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.terraform.statefile.model import EmptyState, State, UnreadableState, read_state

STATES = Path(__file__).parents[1] / "states"
ENGINES = ("terraform-1.11.4", "terraform-1.15.5", "tofu-1.12.6")


def recorded(name: str) -> State:
    found = read_state((STATES / f"{name}.json").read_bytes())
    assert isinstance(found, State)
    return found


def written(**more: Any) -> State:
    document = {
        "version": 4,
        "terraform_version": "1.15.5",
        "serial": 7,
        "lineage": "l",
        "outputs": {},
        **more,
    }
    found = read_state(json.dumps(document).encode())
    assert isinstance(found, State)
    return found


@pytest.mark.parametrize("engine", ENGINES)
def test_a_recorded_state_is_read(engine: str) -> None:
    """Lineage, serial, version, addresses and outputs of a real state are what the engine wrote."""
    state = recorded(f"{engine}-changes")
    assert state.terraform_version == engine.split("-")[1]
    assert state.serial > 0
    assert len(state.lineage) == 36
    assert state.resources is not None
    assert {resource.address for resource in state.resources} == {
        f"terraform_data.{name}"
        for name in (
            "counted[0]",
            'each["a"]',
            "imported",
            "kept",
            "moved_and_updated",
            "new_name",
            "replaced",
            "replaced_first",
            "requested",
            "trigger",
            "triggered",
            "updated",
        )
    }
    assert state.managed == 12
    assert state.outputs is not None
    assert [(output.name, output.sensitive, output.read()) for output in state.outputs] == [
        ("o", False, "two")
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tainted_resource_is_reported(engine: str) -> None:
    """What a failed provisioner left behind is marked."""
    state = recorded(f"{engine}-apply-fails")
    assert state.resources is not None
    assert {resource.name: resource.tainted for resource in state.resources} == {"a": False, "b": True}


def test_an_encrypted_state_has_a_serial_and_a_lineage_and_nothing_else() -> None:
    """The number of resources in OpenTofu's encrypted state is unknown, not zero."""
    state = recorded("tofu-1.12.6-encrypted")
    assert state.encrypted
    assert state.serial == 1
    assert state.lineage
    assert state.resources is None
    assert state.outputs is None
    assert state.managed is None


def test_addresses_are_written_as_terraform_writes_them() -> None:
    """Modules, data, keys with quotes and templates, deposed instances: the address is Terraform's own."""
    state = written(
        resources=[
            {
                "module": 'module.m["x"]',
                "mode": "managed",
                "type": "t",
                "name": "n",
                "instances": [
                    {"index_key": 'a"b\\c${d}\n'},
                    {"index_key": 'a"b\\c${d}\n', "deposed": "0a0b0c0d"},
                ],
            },
            {"mode": "data", "type": "t", "name": "d", "instances": [{}]},
            {"mode": "managed", "type": "t", "name": "none", "instances": []},
        ]
    )
    assert state.resources is not None
    assert [(resource.address, resource.deposed) for resource in state.resources] == [
        ('module.m["x"].t.n["a\\"b\\\\c$${d}\\n"]', None),
        ('module.m["x"].t.n["a\\"b\\\\c$${d}\\n"]', "0a0b0c0d"),
        ("data.t.d", None),
    ]
    assert state.managed == 2


def test_a_sensitive_output_is_not_printed() -> None:
    """A state in a log line shows no value."""
    state = written(outputs={"o": {"value": "hunter2", "type": "string", "sensitive": True}})
    assert state.outputs is not None
    assert state.outputs[0].sensitive
    assert "hunter2" not in repr(state)


def test_no_bytes_are_an_empty_file() -> None:
    """What a killed local backend leaves is not a state without resources."""
    assert read_state(b"") == EmptyState()
    assert written(resources=[]).managed == 0


def test_a_first_state_need_not_have_a_lineage() -> None:
    """Terraform leaves such a one when its backend did not answer at all during the first apply."""
    assert written(serial=0, lineage="").managed is not None


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"\n", "whitespace"),
        (b"\0" * 4096, "whitespace"),
        (b'{"version": 4, "serial": 1, "lineage": "l", "resour', "truncated"),
        (b"not json", "malformed"),
        (b"[]", "object"),
        (b"\xff", ""),
        (b'{"version": 3, "serial": 1, "lineage": "l"}', "version is 3"),
        (b'{"serial": 1, "lineage": "l"}', "version is None"),
        (b'{"version": 4, "lineage": "l"}', "serial"),
        (b'{"version": 4, "serial": -1, "lineage": "l"}', "serial"),
        (b'{"version": 4, "serial": 1, "lineage": ""}', "lineage"),
        (b'{"encrypted_data": "x", "lineage": "l"}', "serial"),
        (b'{"version": 4, "serial": 1, "lineage": "l", "resources": 5}', "resources"),
        (b"[" * 100_000, ""),
    ],
)
def test_what_cannot_be_read_is_an_answer_with_a_reason(data: bytes, part: str) -> None:
    """A damaged state is never "no state"."""
    found = read_state(data)
    assert isinstance(found, UnreadableState)
    assert part in found.reason
