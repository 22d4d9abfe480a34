"""A result that was printed as a document and read again is shown and printed the same."""

from __future__ import annotations

import json

import pytest
from documents import CHANGE, require
from msgspec import structs
from plan_documents import change, plan
from results_made import result, stack

from holdfast.guard.decision import Deny, NeedApproval, Reason
from holdfast.kernel.errors import Place, Problem
from holdfast.plans.result import Output, Reader, StackResult
from holdfast.plans.status import RESULTS, Status
from holdfast.runs.document import result_document, stacks_document
from holdfast.runs.read_document import result_from_document, unfinished_document
from holdfast.terraform.engine.interface import EngineId, EngineKind, Product

PLAN = plan([change("lab_object.a", "create", after={"x": 1})])
REASON = Reason(code="HF-GUARD-1", message="deletes", address="lab_object.a", rule="deletions")
PROBLEM = Problem(code="HF-TF-1", message="it failed", hint="try", place=Place("main.tf", 3), address="a.b")
FULL = structs.replace(
    result(stack("a"), Status.FAILED),
    plan=PLAN,
    engine=EngineId(kind=EngineKind.EMBEDDED, product=Product.TOFU, version="1.12.0", path=""),
    run="01RUN",
    outputs={"x": Output(value=[1], sensitive=False), "y": Output(value=None, sensitive=True)},
    error=PROBLEM,
    problems=(PROBLEM,),
    notes=("a note",),
    readers=(Reader(stack="b", outputs=("x",), selected=False),),
    outcomes={"lab_object.a": "failed"},
    duration=1.5,
)


@pytest.mark.parametrize(
    "given",
    [
        *(result(stack("a"), status, "HF-X-1") for status in RESULTS),
        FULL,
        structs.replace(FULL, decision=Deny(reasons=(REASON,))),
        structs.replace(FULL, decision=NeedApproval(reasons=(REASON,)), outcomes={}),
        structs.replace(FULL, removed_resources=("a.b",), blocked_by="c"),
    ],
)
def test_a_document_is_read_as_the_result_that_it_describes(given: StackResult) -> None:
    document = json.loads(json.dumps(result_document(given)))
    read = result_from_document(document, plan=given.plan)
    assert json.loads(json.dumps(result_document(read))) == document


def test_a_run_without_a_result_has_the_same_fields() -> None:
    run = {"id": "01RUN", "stack": "a", "environment": None, "status": "cancelled", "digest": None}
    error = {"code": "HF-X-1", "message": "no"}
    document = unfinished_document(run, error)
    assert document.keys() == result_document(FULL).keys()
    require(stacks_document([document], change="01CHANGE"), CHANGE)
    read = result_from_document(document)
    assert (read.status, read.error) == (Status.CANCELLED, Problem(code="HF-X-1", message="no"))
