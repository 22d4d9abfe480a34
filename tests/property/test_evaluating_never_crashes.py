"""Evaluating any expression gives a value or an unknown, within a number of steps."""

from __future__ import annotations

from hcl_expressions import CALLED, VARIABLES, expressions
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.hcl.eval.budget import MOST_STEPS, Budget
from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.eval.values import SetOf, convert, known, pairs, strings
from holdfast.hcl.nodes import Expression
from holdfast.hcl.reader import COMPUTED, UNKNOWN, constant, read

VALUES = {
    block.labels[0]: constant(attribute.expression)
    for block in read(VARIABLES, "variables.tf").body.blocks
    for attribute in block.body.attributes
    if attribute.name == "default"
}
SCOPE = {**VALUES, "set": SetOf(("x", "y")), "unset": UNKNOWN, "hole": {"a": UNKNOWN, "b": (COMPUTED, "x")}}
ARGUMENTS = ("var.huge", "local.text", "local.map", "local.lists", '"x"', "2", '"%0999999999d"')
_STEPS = 200_000
HUGE = tuple(f"{number}-{'x' * 40}" for number in range(1500))


def parsed(text: str) -> Expression:
    return read(f"x = {text}\n", "main.tf").body.attributes[0].expression


@settings(max_examples=600)
@given(expressions("var.unset", "var.hole", "aws_x.y.z", "local.loop", "local.missing", "each.value"))
@example("element([], 0)")
@example('var.list["99999999999999999999999999999999999999999999999999"]')
def test_any_expression_gives_a_value_or_an_unknown(text: str) -> None:
    """Every function and operator with known, unknown, null and mismatched operands."""
    scope = Scope(
        variables=SCOPE,
        locals={"loop": parsed(f"[{text}, local.other]"), "other": parsed("local.loop")},
        cwd="/repo/live",
        tree="/repo",
        budget=Budget(MOST_STEPS),
    )
    value = evaluate(parsed(text), scope)
    known(value)
    pairs(value)
    list(strings(value))


@settings(max_examples=80)
@given(
    st.sampled_from(CALLED),
    st.lists(st.sampled_from(ARGUMENTS), max_size=4),
    st.integers(0, 2),
)
def test_huge_arguments_cost_a_limited_number_of_steps(name: str, arguments: list[str], loops: int) -> None:
    """Every function, with values that are as large as values can be, inside loops."""
    code = f"{name}({', '.join(arguments)})"
    for depth in range(loops):
        code = f"[for v{depth} in var.huge : {code}]"
    budget = Budget(_STEPS)
    scope = Scope(
        variables={"huge": HUGE},
        locals={
            "text": parsed('join("x", [for v in var.huge : join(v, var.huge)])'),
            "map": parsed("{for v in var.huge : v => var.huge}"),
            "lists": parsed("[for v in var.huge : [for w in var.huge : w]]"),
        },
        budget=budget,
    )
    values = [evaluate(parsed(code), scope) for _ in range(3)]
    assert budget.left > -2 * MOST_STEPS
    assert sum(map(len, strings(values))) < 8 * _STEPS


CONSTRAINTS = st.recursive(
    st.sampled_from(("string", "number", "bool", "any", "list", "nonsense", '"string"', "1")),
    lambda inner: st.one_of(
        st.builds("{}({})".format, st.sampled_from(("list", "set", "map", "tuple", "optional")), inner),
        st.builds("object({{ a = {}, b = optional({}, 1) }})".format, inner, inner),
    ),
    max_leaves=4,
)


@settings(max_examples=300)
@given(CONSTRAINTS, expressions())
@example("number", '"' + "9" * 5000 + '"')
def test_any_type_converts_any_value_or_not(constraint: str, text: str) -> None:
    """The type of a variable, and whatever a caller assigns to it."""
    convert(parsed(constraint), evaluate(parsed(text), Scope(variables=SCOPE)))
