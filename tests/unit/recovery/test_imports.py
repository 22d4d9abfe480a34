from __future__ import annotations

from evidence_made import CREATE, A, B, look
from recovery_made import complete, created, planned, provisioning, start

from holdfast.recovery.imports import imports


def test_an_id_that_a_person_gives_wins() -> None:
    """Over the journal's, and where nobody heard one; a given id that nothing needs is a mistake."""
    changes = (CREATE, planned(B, "create"))
    evidence = look(changes, [*created(A, "new"), start(B, "create")])
    resolution = imports(evidence, {A: "mine", B: "found", "lab_object.typo": "x"})
    assert [(one.address, one.id, one.given) for one in resolution.imports] == [
        (A, "mine", True),
        (B, "found", True),
    ]
    assert resolution.unneeded == ("lab_object.typo",)
    assert not resolution.complete
    assert imports(evidence, {A: "mine", B: "found"}).complete


def test_a_rule_makes_the_import_id() -> None:
    """The id of the journal is not always the one that the provider wants."""
    change = planned(A, "create", type="aws_api_gateway_resource", after={"rest_api_id": "api1"})
    assert imports(look(change, created(A, "r1")), {}).imports[0].id == "api1/r1"
    unknown = planned(A, "create", type="aws_api_gateway_resource")
    (left,) = imports(look(unknown, created(A, "r1")), {}).unresolved
    assert left.needs == ("rest_api_id",)
    assert not left.harmless


def test_what_only_lives_in_the_state_is_made_again() -> None:
    """But not silently where a provisioner ran: that would run again."""
    change = planned(A, "create", type="null_resource")
    made = imports(look(change, created(A, "1")), {})
    assert made.unresolved[0].harmless
    assert made.complete
    lines = [start(A, "create"), provisioning(A), complete(A, "create", "1")]
    again = imports(look(change, lines), {})
    assert "would run again" in again.unresolved[0].reason
    assert not again.complete
