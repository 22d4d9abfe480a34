from __future__ import annotations

from decimal import Decimal
from pathlib import Path

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


def test_every_structural_field_has_a_reason() -> None:
    """Nothing is left alone without one."""
    for structure in (OURS, TERRAFORM):
        assert all(reason for reason in structure.fields.values())
        assert not structure.values & structure.fields.keys()
