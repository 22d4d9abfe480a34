"""Whatever a policy holds, its rewriting for regopy ends and loses nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.checks.tools.rego import exact
from holdfast.checks.tools.rego.names import name_problems
from holdfast.checks.tools.rego.order import rewrite_comparisons
from holdfast.checks.tools.rego.policies import PolicyFile
from holdfast.checks.tools.rego.steps import lift_iterations
from holdfast.checks.tools.rego.tokens import tokenize

WORDS = (
    *("if", "else", "not", "some", "every", "in", "with", "as", "default", "import", "contains", "walk"),
    *("input", "a", "b", "_", "deny", "count", "1", '"s"', "`r\n`", "# c", "\n", " ", "\t", ";", ",", "."),
    *("(", ")", "[", "]", "{", "}", "|", "<", ">=", ":=", "==", "=", "+", "-", ":", "é"),
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=40).map("".join) | st.text(max_size=60)


@given(TEXTS)
def test_no_policy_breaks_its_rewriting(text: str) -> None:
    """A broken policy is for the evaluator to refuse."""
    assert "".join(tokenize(text)) == text
    exact.rewrite_tests(text)
    list(name_problems([PolicyFile(path="policy/a.rego", text=text)]))


@given(TEXTS)
def test_what_goes_through_nothing_stays_as_it_is(text: str) -> None:
    """Without an index there is no step, without a comparison no function."""
    plain = text.replace("[", "").replace("walk", "b").replace("with", "b")
    assert lift_iterations(plain) == plain
    level = text.replace("<", "").replace(">", "")
    assert rewrite_comparisons(level, "p") == level
