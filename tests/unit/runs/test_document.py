from __future__ import annotations

import json

import pytest
from documents import CHANGE, ERRORS, STATUSES, require
from msgspec import structs
from results_made import result, stack

from holdfast.kernel.errors import Place, Problem
from holdfast.plans.result import Output
from holdfast.plans.status import RESULTS, Status
from holdfast.runs.document import change_document, errors_document, summary_document
from holdfast.secrets.redact import Redactor, clean_document
from holdfast.terraform.engine.interface import EngineId, EngineKind, Product
from holdfast.terraform.plan.model import read_plan

ENGINE = EngineId(kind=EngineKind.EMBEDDED, product=Product.TERRAFORM, version="1.15.5", path="/lib")


@pytest.mark.parametrize("status", RESULTS)
def test_every_status_gives_the_promised_document(status: Status) -> None:
    """With nothing known but the status, every field is there, and absent is null."""
    document = change_document((result(stack("a"), status),))
    require(document, CHANGE)
    (one,) = json.loads(json.dumps(document))["stacks"]
    assert one["status"] in STATUSES
    assert one["changes"] is None
    assert one["guard"] is None
    assert one["engine"] is None
    assert one["error"] is None


def test_a_sensitive_output_has_no_value() -> None:
    """Even where the value came along by mistake, the document does not hold it."""
    applied = structs.replace(
        result(stack("a"), Status.APPLIED),
        engine=ENGINE,
        outputs={
            "secret": Output(value="hunter2", sensitive=True),
            "plain": Output(value={"a": [1]}, sensitive=False),
        },
    )
    document = change_document((applied,))
    require(document, CHANGE)
    assert "hunter2" not in json.dumps(document)
    (one,) = json.loads(json.dumps(document))["stacks"]
    assert one["outputs"] == {
        "plain": {"value": {"a": [1]}, "sensitive": False},
        "secret": {"value": None, "sensitive": True},
    }


def test_every_text_passes_the_redactor() -> None:
    """Messages, hints, notes and reasons are cleaned before they leave."""
    failed = structs.replace(
        result(stack("a"), Status.FAILED),
        error=Problem(code="HF-TF-4", message="hunter2 is wrong", hint="not hunter2"),
        problems=(Problem(code="HF-TF-4", message="hunter2 is wrong", place=Place(file="x.tf", line=3)),),
        notes=("saw hunter2",),
    )
    text = json.dumps(clean_document(Redactor(["hunter2"]), change_document((failed,))))
    assert "hunter2" not in text
    assert text.count("***") == 4


def test_the_summary_counts_statuses_and_changes() -> None:
    """One number for each status, and the sum of what all plans would do."""
    change = {"address": "a.b", "mode": "managed", "type": "a", "name": "b", "provider_name": "p"}
    plan = read_plan(
        json.dumps(
            {
                "format_version": "1.2",
                "terraform_version": "1.15.5",
                "resource_changes": [{**change, "change": {"actions": ["delete", "create"]}}],
            }
        ).encode()
    )
    planned = [structs.replace(result(stack(name), Status.PLANNED), plan=plan) for name in ("a", "b")]
    results = (*planned, result(stack("c"), Status.FAILED))
    document = change_document(results)
    require(document, CHANGE)
    summary = json.loads(json.dumps(document))["summary"]
    assert summary["stacks"] == 3
    assert {status: summary[status] for status in STATUSES if summary[status]} == {"planned": 2, "failed": 1}
    assert summary["changes"]["replace"] == 2
    readable = summary_document(results[0])
    assert readable["resources"] == [{"address": "a.b", "actions": ["delete", "create"], "reason": None}]


def test_errors_have_their_place() -> None:
    """File and line where they are known, null where they are not."""
    problems = (
        Problem(code="HF-CONF-4", message="m", hint="h", place=Place(file="holdfast.yaml", line=3, column=1)),
        Problem(code="HF-USE-1", message="m"),
    )
    document = errors_document(problems)
    require(document, ERRORS)
    first, second = json.loads(json.dumps(document))["errors"]
    assert (first["file"], first["line"], first["hint"]) == ("holdfast.yaml", 3, "h")
    assert (second["file"], second["line"], second["hint"]) == (None, None, None)
