"""Globs of `fileset`, `reads` and `ignores`: what they match, and that no path takes them long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.stacks.reads.inputs import fileset_pattern, path_glob

SIMPLE = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
PARTS = st.sampled_from(["**", "*", "a", "b", "a*", "*b", "*a*b*", "?", "a?b"])
NAMES = st.text("ab", min_size=1, max_size=3)


@given(st.lists(PARTS, min_size=1, max_size=5), st.lists(NAMES, min_size=1, max_size=6))
def test_a_glob_matches_what_its_wildcards_may_stand_for(parts: list[str], names: list[str]) -> None:
    """As if every way to fill them in were tried."""
    glob, path = "/".join(parts), "/".join(names)
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", glob)
    simple = "".join(SIMPLE.get(token, token) for token in tokens)
    found, below = fileset_pattern(glob), path_glob(glob)
    assert found is not None
    assert below is not None
    assert bool(found.fullmatch(path)) == bool(re.fullmatch(simple, path))
    assert bool(below.fullmatch(path)) == bool(re.fullmatch(f"(?:{simple})(?:/.*)?", path))


@pytest.mark.parametrize(
    "glob", ["*a" * 30 + "*b", "**/" * 30 + "b", "**/a/" * 30 + "b", "**/*a*/" * 30 + "b"]
)
def test_no_glob_takes_long(glob: str) -> None:
    """Trying every place for each wildcard would take years."""
    found, below = fileset_pattern(glob), path_glob(glob)
    assert found is not None
    assert below is not None
    for path in ("a" * 4000, "a/" * 2000 + "x"):
        assert not found.fullmatch(path)
        assert not below.fullmatch(path)


def test_braces_are_alternatives() -> None:
    """Also inside each other; too many, or unbalanced ones, are not supported."""
    found = fileset_pattern("{a,{b,c/**}}/*.tf")
    assert found is not None
    assert [
        path for path in ("a/x.tf", "b/x.tf", "c/d/x.tf", "d/x.tf", "c/x.json") if found.fullmatch(path)
    ] == [
        "a/x.tf",
        "b/x.tf",
        "c/d/x.tf",
    ]
    assert [fileset_pattern(glob) for glob in ("{a", "a}", "{a,b}" * 20, "{a,../b}")] == [None] * 4
