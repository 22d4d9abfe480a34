"""Placeholders, patterns and the circles they can make."""

from __future__ import annotations

import pytest

from holdfast.config.placeholders import (
    MalformedError,
    direct_needs,
    escape,
    find_cycle,
    names_in,
    parse,
    parse_pattern,
)


def test_braces_are_filled_and_escaped() -> None:
    """`{x}` takes its value, `{{` and `}}` stay braces."""
    template = parse("a-{x}-{{b}}-{var.y-z}-{x}")
    assert template.names == ("x", "var.y-z")
    assert template.fill(lambda name: name.upper()) == "a-X-{b}-VAR.Y-Z-X"


def test_escaped_text_comes_back() -> None:
    """Text that is escaped and filled is the text."""
    assert parse(escape("a{b}}{")).fill(str) == "a{b}}{"


@pytest.mark.parametrize("text", ["{", "a}", "{}", "{ x }", "{a b}", "{var.}", "{1}", "{a.b}", "{x}}"])
def test_malformed_braces(text: str) -> None:
    """What can be no placeholder is a mistake, never taken as text."""
    with pytest.raises(MalformedError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    ["a/**b/c", "{a}{b}", "{a}*", "a?b", "[ab]", "a//b", "{var.x}/a", "{a}-{b}-{c}-{d}-{e}", "**/**/**/**/a"],
)
def test_patterns_that_cannot_be(text: str) -> None:
    """A pattern that is ambiguous, or a glob of another kind, is refused."""
    with pytest.raises(MalformedError):
        parse_pattern(text)


def test_names_of_a_pattern() -> None:
    """Each placeholder once, in order."""
    assert names_in(parse_pattern("{b}/**/{a}-{b}.tfvars")) == ("b", "a")


def test_a_circle_is_found_with_its_path() -> None:
    """Values that need each other are told with the way round."""
    needs = direct_needs({"environment": ["{account}"], "account": ["x-{environment}"]}, ())
    assert find_cycle(needs) == ("environment", "account", "environment")


def test_what_the_pattern_captures_makes_no_circle() -> None:
    """The pattern's own value wins, so `environment: "{environment}"` is fine."""
    assert find_cycle(direct_needs({"environment": ["{environment}"]}, ("environment",))) is None
