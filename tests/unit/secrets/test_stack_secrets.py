from __future__ import annotations

from holdfast.config.secret_refs import SecretRef, Value
from holdfast.config.stack_rules import Backend, RuleKind
from holdfast.kernel.errors import Place
from holdfast.secrets.stack_secrets import references_of, stacks_by_reference
from holdfast.stacks.stack import Stack


def ref(name: str) -> SecretRef:
    return SecretRef(scheme="env", locator=name)


def stack(name: str, **env: Value) -> Stack:
    return Stack(
        name=name,
        kind=RuleKind.NAMED,
        place=Place(file="holdfast.yaml"),
        module=".",
        env=env,
        variables={"deep": ({"in": ref("V")}, ref("E"))},
        credentials={"aws": {"role_arn": "x", "external_id": ref("C")}},
        backend=Backend(settings={"password": ref("B"), "bucket": "x"}),
    )


def test_references_wherever_a_value_goes_into_a_stack() -> None:
    """Environment, variables at any depth, credentials and backend settings: each once."""
    assert references_of(stack("a", E=ref("E"))) == (ref("E"), ref("V"), ref("C"), ref("B"))


def test_who_uses_a_secret() -> None:
    """Each reference with all its stacks, in one order."""
    found = stacks_by_reference([stack("a"), stack("b", F=ref("F"))])
    assert [str(one) for one in found] == ["env:B", "env:C", "env:E", "env:F", "env:V"]
    assert found[ref("F")] == ("b",)
    assert found[ref("B")] == ("a", "b")
