"""Whatever a policy holds, its rewriting for regopy ends and loses nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.checks.tools.rego import rewrite
from holdfast.checks.tools.rego.policies import PolicyFile
from holdfast.checks.tools.rego.rewrite import lift_iterations, rewrite_comparisons
from holdfast.checks.tools.rego.syntax import join, name_problems, parse

WORDS = (
    *("if", "else", "not", "some", "every", "in", "with", "as", "default", "import", "contains", "walk"),
    *("input", "a", "b", "_", "deny", "count", "1", '"s"', "`r\n`", "# c", "\n", " ", "\t", ";", ",", "."),
    *("(", ")", "[", "]", "{", "}", "|", "<", ">=", ":=", "==", "=", "+", "-", ":", "é"),
)
TEXTS = st.lists(st.sampled_from(WORDS), max_size=40).map("".join) | st.text(max_size=60)


@given(TEXTS)
def test_no_policy_breaks_its_rewriting(text: str) -> None:
    """Only brackets that do not match are refused."""
    try:
        assert join(parse(text)) == text
    except ValueError:
        return
    rewrite.rewrite_tests(text)
    list(name_problems([PolicyFile(path="policy/a.rego", text=text)]))


@given(TEXTS)
def test_a_policy_without_iteration_is_not_rewritten(text: str) -> None:
    """Without an index there is no step, without a comparison no function."""
    try:
        parse(text)
    except ValueError:
        return
    plain = text.replace("walk", "b").replace("with", "b").replace("[", "{").replace("]", "}")
    assert lift_iterations(plain) == plain
    level = text.replace("<", "").replace(">", "")
    assert rewrite_comparisons(level, "p") == level
