from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.secrets.redact import OURS, TERRAFORM, Redactor, clean_document, clean_value

REDACTOR = Redactor(
    ["planned", "hunter2", "aws_instance.web", "network", "deadbeef", "54321", "vars/x.tfvars"]
)


def test_structural_fields_and_keys_stay_even_where_a_secret_is_equal_to_them() -> None:
    """A machine that reads the document finds every name, word, address and digest as it is."""
    document = {
        "version": 1,
        "stacks": [
            {
                "name": "network",
                "status": "planned",
                "digest": "deadbeef",
                "run": "deadbeef",
                "variables": ["vars/x.tfvars"],
                "depends_on": ["network"],
                "resources": [{"address": "aws_instance.web", "actions": ["planned"], "reason": "planned"}],
                "removed_resources": ["aws_instance.web"],
                "outputs": {"hunter2": {"value": None, "sensitive": True}},
                "error": {"code": "deadbeef", "file": "vars/x.tfvars", "line": 54321},
            }
        ],
        "summary": {"planned": 54321},
    }
    assert clean_document(REDACTOR, document) == document


def test_every_other_text_is_cleaned() -> None:
    """Messages, hints, notes, reasons, and whatever is added later."""
    document = {
        "message": "saw hunter2",
        "notes": ["network"],
        "new": {"deep": [["hunter2"]]},
        "both": ("hunter2", "54321"),
        "place": Path("hunter2"),
    }
    assert clean_document(REDACTOR, document) == {
        "message": "saw ***",
        "notes": ["***"],
        "new": {"deep": [["***"]]},
        "both": ["***", "***"],
        "place": "***",
    }


def test_nothing_inside_a_value_is_structural() -> None:
    """An output may be an object with a `name` or a `status` of its own, and numbers are values there."""
    value = {"name": "hunter2", "status": ["network"], "port": 54321, "rate": Decimal("1.5"), "on": True}
    cleaned = {"name": "***", "status": ["***"], "port": "***", "rate": Decimal("1.5"), "on": True}
    assert clean_document(REDACTOR, {"outputs": {"address": {"value": value}}}) == {
        "outputs": {"address": {"value": cleaned}}
    }
    assert clean_value(REDACTOR, "address", value) == cleaned


def test_a_value_is_judged_by_its_name() -> None:
    """What looks random is hidden under a name that sounds secret, and stays under others."""
    outputs = {name: {"value": "xK9mQ2vL8pW4zR7t", "sensitive": False} for name in ("db_password", "zone")}
    cleaned = clean_document(Redactor(), {"outputs": outputs})
    assert cleaned == {
        "outputs": {
            "db_password": {"value": "***", "sensitive": False},
            "zone": {"value": "xK9mQ2vL8pW4zR7t", "sensitive": False},
        }
    }


def test_an_output_is_judged_by_its_own_name() -> None:
    """Also where it is given alone, and where it is a list or an object."""
    for value, cleaned in (
        ("xK9mQ2vL8pW4zR7t", "***"),
        (["xK9mQ2vL8pW4zR7t"], ["***"]),
        ({"value": "xK9mQ2vL8pW4zR7t"}, {"value": "***"}),
        ({"zone": "xK9mQ2vL8pW4zR7t"}, {"zone": "xK9mQ2vL8pW4zR7t"}),
    ):
        assert clean_value(Redactor(), "db_password", value) == cleaned


def test_a_document_of_terraform_keeps_what_it_is_about() -> None:
    """Addresses and actions stay; attributes of the same names do not."""
    document = {
        "address": "aws_instance.web",
        "name": "network",
        "change": {"actions": ["planned"], "after": {"name": "network", "address": "hunter2"}},
    }
    assert clean_document(REDACTOR, document, TERRAFORM) == {
        "address": "aws_instance.web",
        "name": "network",
        "change": {"actions": ["planned"], "after": {"name": "***", "address": "***"}},
    }


def test_secrets_in_keys_have_stand_ins_that_keep_them_apart() -> None:
    """In addresses, in keys of values and in texts about them: the same one everywhere."""
    redactor = Redactor(["hunter2-a", 'hunter2"b', "hunter2-c"])
    first, second = 'x.y["hunter2-a"]', 'module.m["eu-hunter2\\"b"].x.y[0]'
    document = {
        "resources": [{"address": first}, {"address": second, "previous_address": first}],
        "removed_resources": [second],
        "message": f"{second} would be deleted, not {first}; its token is hunter2-a",
        "attributes": [{"path": 'tags["hunter2-c"]'}],
        "outputs": {"o": {"value": {"hunter2-a": {"hunter2-c": 1}, "hunter2-c": 2, "***(3)": 3}}},
    }
    assert clean_document(redactor, document) == {
        "resources": [
            {"address": 'x.y["***(1)"]'},
            {"address": 'module.m["eu-***(2)"].x.y[0]', "previous_address": 'x.y["***(1)"]'},
        ],
        "removed_resources": ['module.m["eu-***(2)"].x.y[0]'],
        "message": 'module.m["eu-***(2)"].x.y[0] would be deleted, not x.y["***(1)"]; its token is ***',
        "attributes": [{"path": 'tags["***(3)"]'}],
        "outputs": {"o": {"value": {"***(1)": {"***(3)": 1}, "***(3)": 2, "***(3)'": 3}}},
    }
    shown = {
        "index": "hunter2-a",
        "values": {"tags": {"hunter2-c": "x"}},
        "sensitive_values": {"hunter2-c": True},
    }
    assert clean_document(redactor, shown, TERRAFORM) == {
        "index": "***(1)",
        "values": {"tags": {"***(3)": "x"}},
        "sensitive_values": {"***(3)": True},
    }


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ('lab_object.it["hunter2"]: Creating...', 'lab_object.it["***(1)"]: Creating...'),
        ('{"addr":"lab_object.it[\\"hunter2\\"]"}', '{"addr":"lab_object.it[\\"***(1)\\"]"}'),
        ('tags = {"hunter2": "hunter2"}', 'tags = {"***(1)": "***"}'),
        ('  + "hunter2" = "hunter2"', '  + "***" = "***"'),
        ('{\n  + "hunter2" = "hunter2"', '{\n  + "***(1)" = "***"'),
        ('["hunter2", "hunter2"]', '["***", "***"]'),
        ('x["a"] has hunter2', 'x["a"] has ***'),
        ("hunter2", "***"),
    ],
)
def test_in_texts_only_keys_have_stand_ins(text: str, cleaned: str) -> None:
    """Elsewhere nobody learns that two secrets are the same. Cleaning again changes nothing."""
    redactor = Redactor(["hunter2"])
    assert redactor.clean(text) == cleaned
    assert redactor.clean(cleaned) == cleaned


def test_every_structural_field_has_a_reason() -> None:
    """Nothing is left alone without one."""
    for structure in (OURS, TERRAFORM):
        assert all(reason for reason in structure.fields.values())
        assert not structure.values & structure.fields.keys()
