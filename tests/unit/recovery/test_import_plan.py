"""The plan of the imports: what it may do besides importing."""

from __future__ import annotations

from typing import Any

import pytest
from plan_documents import change, plan
from results_made import stack

from holdfast.kernel.errors import Refused
from holdfast.recovery.import_plan import require_only_imports, updated_imports
from holdfast.recovery.imports import Import

A, B = "lab_object.a", "lab_object.b"
WANTED = (Import(address=A, id="a-1"),)
IMPORTED = change(A, "no-op", importing={"id": "a-1"})


def test_an_import_may_update_what_it_imports() -> None:
    """That is for the guard to decide; reading and leaving alone needs no decision."""
    for more in ([], [change(B, "no-op")], [change(B, "read")]):
        require_only_imports(stack("a"), plan([IMPORTED, *more]), WANTED)
    updating = plan([change(A, "update", importing={"id": "a-1"})])
    require_only_imports(stack("a"), updating, WANTED)
    assert updated_imports(updating) == (A,)
    assert updated_imports(plan([IMPORTED])) == ()


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [change(A, "no-op")],
        [change(A, "create")],
        [change(A, "delete", "create", importing={"id": "a-1"})],
        *(
            [IMPORTED, change(B, *actions)]
            for actions in (("update",), ("create",), ("delete",), ("forget",))
        ),
        [IMPORTED, change(B, "explode")],
        [IMPORTED, change(B, "no-op", importing={"id": "b-1"})],
        [IMPORTED, change(A, "delete", deposed="aa11")],
    ],
)
def test_anything_else_is_refused(changes: list[dict[str, Any]]) -> None:
    """Also a missing import, and one that nobody asked for."""
    with pytest.raises(Refused) as caught:
        require_only_imports(stack("a"), plan(changes), WANTED)
    assert caught.value.problem.code == "HF-REC-10"


def test_a_provider_action_is_refused() -> None:
    """It can do anything."""
    invoked = {"address": "action.lab_x.y", "type": "lab_x", "name": "y"}
    with pytest.raises(Refused):
        require_only_imports(stack("a"), plan([IMPORTED], action_invocations=[invoked]), WANTED)
