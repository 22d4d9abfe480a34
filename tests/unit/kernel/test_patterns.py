"""Expressions that are compiled late are the same expressions."""

from __future__ import annotations

import copy
import re

import pytest

from holdfast.kernel.patterns import compile_on_use, pattern


def test_it_answers_as_the_compiled_one_does() -> None:
    """Whatever is asked of it, at first and again."""
    late, early = (
        pattern(r"(?P<word>[a-z]+)-(\d+)", re.IGNORECASE),
        re.compile(r"(?P<word>[a-z]+)-(\d+)", re.IGNORECASE),
    )
    for _ in range(2):
        found = late.search(" Ab-12 ")
        assert found is not None
        assert (found["word"], found.span()) == ("Ab", (1, 6))
        assert late.fullmatch("ab") is None
        assert late.findall("a-1 b-2") == early.findall("a-1 b-2")
        assert late.sub("x", "a-1 b-2") == "x x"
    assert (late.pattern, late.flags, dict(late.groupindex)) == (early.pattern, early.flags, {"word": 1})


def test_bytes_are_as_good() -> None:
    """Files are searched before they are decoded."""
    assert pattern(rb"\bkey\b").search(b"a key") is not None


def test_an_invalid_expression_fails_when_it_is_used() -> None:
    """Not silently an expression without matches."""
    broken = pattern("(")
    with pytest.raises(re.error):
        broken.search("x")


def test_it_can_be_copied() -> None:
    """As values that hold one are."""
    assert copy.copy(pattern("a+")).fullmatch("aa") is not None


def test_a_library_compiles_its_expressions_on_use() -> None:
    """Only while it is imported: afterwards `re` is as before."""
    compile_ = re.compile
    with compile_on_use():
        late = re.compile("a+", re.IGNORECASE)
        assert type(late) is pattern
        assert late.match("AA") is not None
    assert re.compile is compile_
