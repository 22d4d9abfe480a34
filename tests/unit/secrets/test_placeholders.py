from __future__ import annotations

from msgspec.structs import replace

from holdfast.config.secret_refs import SecretRef
from holdfast.config.stack_rules import Backend, RuleKind
from holdfast.kernel.errors import Place
from holdfast.secrets.stack_secrets import PLACEHOLDER, references_of, without_secrets, without_values
from holdfast.stacks.stack import Stack


def ref(name: str) -> SecretRef:
    return SecretRef(scheme="env", locator=name)


STACK = Stack(
    name="a",
    kind=RuleKind.NAMED,
    place=Place(file="holdfast.yaml"),
    module=".",
    env={"TF_TOKEN_x": ref("T"), "TF_VAR_y": ref("Y"), "PLAIN": "p"},
    variables={"deep": ({"in": ref("V"), "plain": 1},), "plain": "p"},
    credentials={"aws": {"role_arn": "x", "external_id": ref("C")}},
    backend=Backend(settings={"password": ref("B")}),
)


def test_no_secret_is_left_but_those_of_the_backend() -> None:
    """What is no reference stays what it was, at any depth."""
    spared = without_secrets(STACK)
    assert references_of(spared) == (ref("B"),)
    assert spared.env == {"TF_TOKEN_x": PLACEHOLDER, "TF_VAR_y": PLACEHOLDER, "PLAIN": "p"}
    assert spared.variables == {"deep": ({"in": PLACEHOLDER, "plain": 1},), "plain": "p"}
    assert spared.credentials == {"aws": {"role_arn": "x", "external_id": PLACEHOLDER}}


def test_what_fetches_modules_may_be_known_though_no_value_is() -> None:
    """Values of variables stay unread, in the environment too."""
    known = without_values(STACK)
    assert references_of(replace(known, backend=None)) == (ref("T"), ref("C"))
    assert known.env["TF_VAR_y"] == PLACEHOLDER
