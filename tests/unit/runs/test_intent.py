from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recovery_made import intent, planned

from holdfast.kernel.errors import Exit, UnknownOutcome
from holdfast.runs.intent import Intent, PlannedChange, planned_changes
from holdfast.system import process_table
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import read_plan

PLANS = Path(__file__).parents[1] / "terraform" / "plans"


def of_plan(*changes: dict[str, Any], **more: Any) -> tuple[PlannedChange, ...]:
    document = {"format_version": "1.2", "resource_changes": changes, **more}
    return planned_changes(read_plan(json.dumps(document).encode()))


def change(
    actions: list[str], *, type_: str = "lab_object", mode: str = "managed", **inside: Any
) -> dict[str, Any]:
    return {
        "address": f"{type_}.a",
        "mode": mode,
        "type": type_,
        "name": "a",
        "provider_name": "holdfast.dev/labs/lab",
        "change": {"actions": actions, **inside},
    }


@pytest.mark.parametrize("engine", ["terraform-1.11.4", "terraform-1.15.5", "tofu-1.12.6"])
def test_every_change_of_a_real_plan_that_does_something_is_meant(engine: str) -> None:
    """Updates, both replacements, deletions, forgetting, imports and moves; and nothing that stays."""
    plan = read_plan((PLANS / f"{engine}-changes.json").read_bytes())
    changes = {one.address: one for one in planned_changes(plan)}
    kinds = {address.removeprefix("terraform_data."): one.kind for address, one in changes.items()}
    assert kinds["replaced"] is ChangeKind.DELETE_THEN_CREATE
    assert kinds["replaced_first"] is ChangeKind.CREATE_THEN_DELETE
    assert kinds["updated"] is ChangeKind.UPDATE
    assert kinds["deleted"] is ChangeKind.DELETE
    assert kinds["forgotten"] is ChangeKind.FORGET
    assert kinds["imported"] is ChangeKind.NO_OP
    assert changes["terraform_data.imported"].importing
    assert changes["terraform_data.new_name"].moved
    assert changes["terraform_data.new_name"].previous_address == "terraform_data.old_name"
    assert "kept" not in kinds
    assert all(len(one.before_id or "") > 10 for one in changes.values())


def test_reading_a_data_source_is_no_change() -> None:
    """It makes nothing, so nothing of it can be lost."""
    assert of_plan(change(["read"], mode="data"), change(["no-op"])) == ()


def test_what_names_an_object_is_remembered() -> None:
    """Of a new object: what its import id is made of and what a person would look for; unknown is missing."""
    (found,) = of_plan(
        change(
            ["create"],
            type_="aws_route",
            after={
                "route_table_id": "rtb-1",
                "destination_cidr_block": None,
                "destination_ipv6_cidr_block": "x",
                "name": "n",
                "timeouts": {"create": "1h"},
            },
            after_unknown={"id": True, "destination_ipv6_cidr_block": True},
            after_sensitive={},
        )
    )
    assert found.after == {"route_table_id": "rtb-1", "destination_cidr_block": None, "name": "n"}
    assert found.before_id is None


@pytest.mark.parametrize("mask", [{"name": True, "bucket": [False, {"x": True}]}, True])
def test_no_secret_is_remembered(mask: object) -> None:
    """What Terraform calls sensitive, even a part of it, is not in the record of a run."""
    made = change(["create"], after={"name": "hush", "bucket": ["hush"]}, after_sensitive=mask)
    (found,) = of_plan(made)
    assert found.after == {}
    assert "hush" not in repr(found)


def test_what_is_unknown_as_a_whole_is_not_remembered() -> None:
    """`after_unknown: true` says that nothing is known."""
    (found,) = of_plan(change(["create"], after={"name": "x"}, after_unknown=True))
    assert found.after == {}


def test_only_a_new_object_is_remembered_with_its_values() -> None:
    """What exists is in the state; its id is enough."""
    update, delete = of_plan(
        change(["update"], before={"id": "1", "name": "x"}, after={"id": "1", "name": "x"}),
        {**change(["delete"], before={"id": 2}, after=None), "deposed": "aa11"},
    )
    assert (update.before_id, update.after) == ("1", {})
    assert (delete.before_id, delete.deposed) == (None, "aa11")


def test_drift_is_remembered() -> None:
    """The record of a drifted object changes with the first write, which then proves nothing."""
    made = change(["update"], before={"id": "1"}, after={"id": "1"})
    (found,) = of_plan(made, resource_drift=[made])
    assert found.drifted
    assert not of_plan(made)[0].drifted


def claimed(*changes: PlannedChange) -> Intent:
    return Intent(
        operation="apply",
        who="ci:acme/infra#412",
        started="2026-01-02T14:02:00Z",
        process=process_table.this_process(),
        change="01JD3F",
        plan=intent(*changes),
    )


def stored(meant: Intent) -> dict[str, Any]:
    """As it comes back from the store."""
    document: dict[str, Any] = json.loads(json.dumps(meant.document()))
    return document


def test_an_intent_is_read_as_it_was_written() -> None:
    """Nothing of it is lost on the way to the store and back."""
    meant = claimed(
        planned("lab_object.a", "create", after={"name": "x", "n": [1, None, {"a": True}]}),
        planned('lab_object.b["x"]', "delete", "create", before_id="b-1", previous_address="lab_object.c"),
        planned("lab_object.d", "delete", deposed="aa11", drifted=True, importing=True),
    )
    assert Intent.from_document(stored(meant)) == meant


def test_a_field_of_a_later_release_is_stepped_over() -> None:
    """Fields are only ever added."""
    document = stored(claimed())
    document["plan"]["more"] = document["more"] = 1
    assert Intent.from_document(document) == claimed()


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({}, "HF-REC-1"),
        ({"version": 1}, "HF-REC-1"),
        ({**stored(claimed()), "plan": {}}, "HF-REC-1"),
        ({**stored(claimed()), "plan": {**stored(claimed())["plan"], "serial": "7"}}, "HF-REC-1"),
        ({"version": 2}, "HF-REC-2"),
    ],
)
def test_an_intent_that_is_not_understood_is_an_unknown_outcome(document: dict[str, Any], code: str) -> None:
    """It is never taken for a run that was to do nothing."""
    with pytest.raises(UnknownOutcome) as unknown:
        Intent.from_document(document)
    assert unknown.value.problem.code == code
    assert unknown.value.exit is Exit.UNKNOWN
