"""Patterns: what is filled in comes out again, and a walk finds what matches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.placeholders import MalformedError, parse
from holdfast.stacks.listing import ListedTree
from holdfast.stacks.pattern import compile_pattern, matching_paths

NAMES = ("account", "service", "name", "region")
VALUES = st.text("abcXYZ019_@+", min_size=1, max_size=8)
SEGMENTS = st.one_of(
    st.sampled_from(("Accounts", "live", "x.y")),
    st.sampled_from(tuple(f"{{{name}}}" for name in NAMES)),
    st.builds(lambda one, two: f"{{{one}}}-{{{two}}}", st.sampled_from(NAMES), st.sampled_from(NAMES)),
)
PATTERNS = st.lists(SEGMENTS, min_size=1, max_size=5).map("/".join).map(lambda text: f"{text}.tfvars")


@given(pattern=PATTERNS, values=st.fixed_dictionaries(dict.fromkeys(NAMES, VALUES)))
def test_what_is_filled_in_comes_out_again(pattern: str, values: dict[str, str]) -> None:
    """Values without the separators of the pattern survive filling and matching."""
    path = parse(pattern).fill(values.__getitem__)
    found = compile_pattern(pattern).match(path)
    assert found == {name: values[name] for name in compile_pattern(pattern).names}


PARTS = st.sampled_from(("a", "b", ".git", "node_modules", "c-d", "x.tfvars", "a.tfvars"))
PATHS = st.sets(st.lists(PARTS, min_size=1, max_size=4).map("/".join), max_size=12)
GLOBS = st.lists(
    st.sampled_from(("a", "b", "*", "**", "{x}", "{y}", "{x}-{y}", ".git", "{x}.tfvars")),
    min_size=1,
    max_size=4,
).map("/".join)


@given(pattern=GLOBS, paths=PATHS)
def test_a_walk_finds_exactly_what_matches(pattern: str, paths: set[str]) -> None:
    """Going only where a match can be loses nothing and adds nothing."""
    files = {path for path in paths if not any(other.startswith(f"{path}/") for other in paths)}
    try:
        made = compile_pattern(pattern)
    except MalformedError:
        return
    walked = {path: dict(values) for path, values in matching_paths(made, ListedTree(files), folders=False)}
    matched = {path: values for path in files if (values := made.match(path)) is not None}
    assert walked == matched


@given(st.text(max_size=30))
def test_any_text_is_a_pattern_or_malformed(text: str) -> None:
    """No text makes the reader of patterns fall over."""
    try:
        pattern = compile_pattern(text)
    except MalformedError:
        return
    assert pattern.match("a/b") is None or isinstance(pattern.match("a/b"), dict)
