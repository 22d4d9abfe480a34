from __future__ import annotations

from typing import Any

import pytest
from plan_documents import change, plan

from holdfast.terraform.plan.model import Plan
from holdfast.terraform.plan.same_plan import Mocks
from holdfast.terraform.plan.unshown import unshown_differences


def made(
    *references: str, kind: str = "provider", outputs: dict[str, Any] | None = None, **variables: Any
) -> Plan:
    """A plan that creates `lab_object.a`, with these references at a place that it does not show.

    Terraform lists the prefixes of a reference too.
    """
    expression = {"references": list(references)}
    resource: dict[str, Any] = {"address": "lab_object.a"}
    providers = {}
    if kind == "provider":
        providers["lab"] = {"name": "lab", "expressions": {"nested": [{"endpoint": expression}]}}
    elif kind == "write-only":
        resource["expressions"] = {"secret": [{"value_wo": expression, "name": {"constant_value": "x"}}]}
    elif kind == "shown":
        resource["expressions"] = {"value": expression}
    else:
        resource["provisioners"] = [{"type": kind, "expressions": {"command": expression}}]
    data = {"address": "data.lab_data.d", "mode": "data", "values": {"outputs": outputs or {}}}
    return plan(
        [change("lab_object.a", "create", after={"x": 1})],
        variables={name: {"value": value} for name, value in variables.items()},
        prior_state={"values": {"root_module": {"resources": [data]}}},
        configuration={"provider_config": providers, "root_module": {"resources": [resource]}},
    )


@pytest.mark.parametrize("kind", ["provider", "local-exec", "remote-exec", "write-only"])
@pytest.mark.parametrize("reference", ["var.a", "local.a", "module.m.a", "each.value", "ephemeral.x.y.z"])
def test_another_value_that_no_plan_shows_is_found(kind: str, reference: str) -> None:
    """What a local value or a module computes is not in a plan: any difference may change it."""
    one, two = made(reference, kind=kind, a=1, b=1), made(reference, kind=kind, a=2, b=1)
    assert unshown_differences(one, one) == ()
    (text,) = unshown_differences(one, two)
    assert text.endswith(f"with another value of {reference}")


def test_values_that_are_equal_or_shown_do_not_matter() -> None:
    for reference in ("var.b", "each.key", "self.id", "lab_object.other.id", "path.module"):
        for kind in ("provider", "local-exec", "write-only"):
            one, two = made(reference, kind=kind, a=1, b=1), made(reference, kind=kind, a=2, b=1)
            assert unshown_differences(one, two) == ()
    assert unshown_differences(made("var.a", kind="shown", a=1), made("var.a", kind="shown", a=2)) == ()


def test_data_is_compared_by_the_part_that_is_used() -> None:
    host = ("data.lab_data.d.outputs.host", "data.lab_data.d.outputs", "data.lab_data.d")
    quoted = ('data.lab_data.d.outputs["host"]', *host[1:])
    whole = host[1:]
    then, now = {"host": "a", "size": 1}, {"host": "a", "size": 2}
    for references, found in ((host, 0), (quoted, 0), (whole, 1), ((*host, *whole), 1), (("local.x",), 1)):
        differences = unshown_differences(made(*references, outputs=then), made(*references, outputs=now))
        assert len(differences) == found, references
    for references in (host, quoted):
        assert unshown_differences(made(*references, outputs=then), made(*references, outputs={"host": "b"}))
        assert unshown_differences(made(*references, outputs={}), made(*references, outputs=then))


def test_a_connection_is_not_in_a_plan() -> None:
    (text,) = unshown_differences(made(kind="remote-exec", a=1), made(kind="remote-exec", a=2))
    assert text == "it would run a provisioner of lab_object.a with another value of its connection"
    assert unshown_differences(made(kind="local-exec", a=1), made(kind="local-exec", a=2)) == ()


def test_a_mock_matches_any_value_and_an_ephemeral_input_none() -> None:
    one, two = made("var.a", a="mock-vpc"), made("var.a", a="vpc-1")
    assert unshown_differences(one, two, Mocks(["mock-vpc"])) == ()
    assert unshown_differences(one, two, Mocks(["another"]))
    assert unshown_differences(made("var.token"), made("var.token"), inputs=["token"])
    assert unshown_differences(made("var.token"), made("var.token"), inputs=["other"]) == ()
