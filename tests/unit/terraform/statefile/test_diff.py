"""What differs between two states, with nothing in it that is secret."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.secrets.redact import Redactor
from holdfast.terraform.plan.diff import Difference
from holdfast.terraform.statefile.diff import DiffKind, StateDiff, diff_states
from holdfast.terraform.statefile.model import read_state

BUILTIN = 'provider["terraform.io/builtin/terraform"]'
AWS = 'provider["registry.terraform.io/hashicorp/aws"]'
SECRET = "Tr0ub4dor-and-3"


def state(
    *resources: dict[str, Any], outputs: dict[str, Any] | None = None, version: str = "1.15.5"
) -> bytes:
    return json.dumps(
        {
            "version": 4,
            "terraform_version": version,
            "serial": 1,
            "lineage": "l",
            "outputs": outputs or {},
            "resources": list(resources),
        },
        indent=2,
    ).encode()


def resource(
    name: str = "a",
    *,
    provider: str = BUILTIN,
    marks: list[Any] | None = None,
    attributes: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    instance = {"attributes": attributes or {}, "sensitive_attributes": marks or [], **more}
    return {"mode": "managed", "type": "t", "name": name, "provider": provider, "instances": [instance]}


def path(*names: str) -> list[dict[str, str]]:
    return [{"type": "get_attr", "value": name} for name in names]


def compared(old: bytes, new: bytes, *, tofu: bool = False) -> StateDiff:
    found = diff_states(read_state(old), read_state(new), clean=Redactor().clean_field, tofu=tofu)
    assert found is not None
    return found


def test_equal_states_do_not_differ() -> None:
    """The order of keys, blanks and serials say nothing about what is there."""
    one = state(resource(attributes={"x": 1, "y": [1, 2]}), outputs={"o": {"value": {"k": 1}}})
    other = json.dumps({**json.loads(one), "serial": 9}, sort_keys=True).encode()
    assert compared(one, other).same


def test_what_came_and_went_is_named_with_its_place() -> None:
    """Objects by address, deposed ones by their key too."""
    old = state(resource("gone"), resource("same"))
    new = state(resource("same"), resource("came"), resource("same", deposed="ab12"))
    assert [(one.address, one.deposed, one.kind) for one in compared(old, new).resources] == [
        ("t.came", None, DiffKind.ADDED),
        ("t.gone", None, DiffKind.REMOVED),
        ("t.same", "ab12", DiffKind.ADDED),
    ]


def test_attributes_that_changed_are_shown_with_both_values() -> None:
    """Each part by its path; what is not there any more is None."""
    old = state(resource(attributes={"size": 1, "tags": {"k": "v", "w": "x"}, "same": True}))
    new = state(resource(attributes={"size": 2, "tags": {"k": "v"}, "same": True}))
    (found,) = compared(old, new).resources
    assert found.attributes == (
        Difference(path="size", before="1", after="2"),
        Difference(path="tags.w", before="x", after=None, sign="-"),
    )


def test_a_resource_that_became_tainted_differs() -> None:
    """Terraform would replace it: that is a change of the record."""
    (found,) = compared(state(resource()), state(resource(status="tainted"))).resources
    assert (found.kind, found.note) == (DiffKind.CHANGED, "is now tainted")


@pytest.mark.parametrize("marked", ["old", "new"])
@pytest.mark.parametrize(
    "mark", [path("login"), path("login", "password"), [{"type": "index", "value": {}}], []]
)
def test_an_attribute_that_either_calls_sensitive_is_hidden(marked: str, mark: list[Any]) -> None:
    """In whole, and everything where the mark is not understood."""
    marks = {"old": [mark] if marked == "old" else [], "new": [mark] if marked == "new" else []}
    old = state(resource(attributes={"login": {"password": SECRET}}, marks=marks["old"]))
    new = state(resource(attributes={"login": {"password": "another-Secret-9"}}, marks=marks["new"]))
    found = compared(old, new)
    assert found.resources[0].attributes == (
        Difference(path="login", before="(sensitive)", after="(sensitive)", sensitive=True),
    )


@pytest.mark.parametrize(
    ("provider", "version", "tofu", "shown"),
    [
        (AWS, "1.15.5", False, True),
        (AWS, "1.11.0", False, True),
        (AWS, "1.10.5", False, False),
        (AWS, "none", False, False),
        (AWS, "1.15.5", True, False),
        ('provider["registry.opentofu.org/hashicorp/aws"]', "1.12.0", False, False),
        (BUILTIN, "1.5.0", True, True),
    ],
)
def test_without_complete_sensitive_marks_only_names_are_shown(
    *, provider: str, version: str, tofu: bool, shown: bool
) -> None:
    """An engine that does not write down what a provider's schema hides shows no values here."""
    old, new = (
        state(resource(provider=provider, attributes={"result": text}), version=version)
        for text in ("plain-one", "plain-two")
    )
    (found,) = compared(old, new, tofu=tofu).resources
    (attribute,) = found.attributes
    assert attribute.path == "result"
    assert (attribute.before, attribute.after) == (
        ("plain-one", "plain-two") if shown else ("(sensitive)", "(sensitive)")
    )


def test_what_looks_secret_is_hidden_without_a_mark() -> None:
    """A name that sounds secret and a value that looks random: the redactor is asked for every text."""
    old = state(resource(attributes={"api_key": "aaaa"}))
    new = state(resource(attributes={"api_key": "q8Zk2Lw9Xv4Rt7Pn"}))
    (found,) = compared(old, new).resources
    assert (found.attributes[0].before, found.attributes[0].after) == ("aaaa", "***")


def test_outputs_differ_and_sensitive_ones_are_hidden() -> None:
    """An output that is or was sensitive has no value here."""
    old = state(outputs={"a": {"value": "x"}, "b": {"value": SECRET, "sensitive": True}, "c": {"value": [1]}})
    new = state(outputs={"a": {"value": "y"}, "b": {"value": SECRET}, "d": {"value": {"k": "v"}}})
    assert [(one.name, one.kind, one.before, one.after) for one in compared(old, new).outputs] == [
        ("a", DiffKind.CHANGED, '"x"', '"y"'),
        ("b", DiffKind.CHANGED, "(sensitive)", "(sensitive)"),
        ("c", DiffKind.REMOVED, "[1]", None),
        ("d", DiffKind.ADDED, None, '{"k":"v"}'),
    ]


@pytest.mark.parametrize("content", [b"", b"nonsense", b'{"serial":1,"lineage":"l","encrypted_data":"x"}'])
def test_what_cannot_be_looked_into_is_not_compared(content: bytes) -> None:
    """An encrypted state is never "the same", and never empty."""
    assert diff_states(read_state(content), read_state(state()), clean=Redactor().clean_field) is None
    assert diff_states(read_state(state()), read_state(content), clean=Redactor().clean_field) is None
