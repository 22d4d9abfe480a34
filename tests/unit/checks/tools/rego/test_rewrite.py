"""Calls that regopy gets wrong are led through functions that look at their texts first."""

from __future__ import annotations

from holdfast.checks.tools.rego.rewrite import (
    has_control_characters,
    inspects_strings,
    rewrite_policy,
    rewrite_tests,
)


def test_calls_that_regopy_gets_wrong_are_replaced() -> None:
    """Only calls, and only outside strings and comments."""
    text = (
        'a if count(x) > 1\nb := "count(x)" # count(x)\nc := my.count(x)\nd := count\ne := `regex.match(x)`\n'
    )
    assert rewrite_policy(text) == text.replace("a if count(", "a if data.holdfast_exact.count_(")
    assert rewrite_policy("regex.match(p, x)") == "data.holdfast_exact.regex_match_(p, x)"
    assert rewrite_policy("recount(x); count (x)") == "recount(x); data.holdfast_exact.count_ (x)"


def test_input_comes_from_the_data_in_tests() -> None:
    """As a word of its own, wherever it stands; not as a part of another."""
    text = 'x if deny with input as {"input": 1}\ny if my_input.input == input.x\n'
    assert rewrite_tests(text) == (
        'x if deny with data.holdfast_input as {"input": 1}\ny if my_input.input == data.holdfast_input.x\n'
    )


def test_only_some_calls_look_into_texts() -> None:
    """Elsewhere a control character harms nothing."""
    assert inspects_strings(rewrite_policy("a if count(x) == 1"))
    assert not inspects_strings(rewrite_policy('a := sprintf("%s", [x]) if x > 1'))


def test_control_characters_are_found() -> None:
    """Those that the functions cannot look for; a backslash in the text is none."""
    assert has_control_characters(r'{"a": "\u0001"}')
    assert has_control_characters(r'"\\\b"')
    assert not has_control_characters(r'"\\b \n \" \t"')
