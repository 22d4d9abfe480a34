"""Numbers and nouns agree."""

from __future__ import annotations

import pytest

from holdfast.kernel.text import plural


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 entries"), (1, "1 entry"), (2, "2 entries"), (1_000, "1000 entries")]
)
def test_a_noun_has_the_form_of_its_number(number: int, text: str) -> None:
    """`1 entry`, `2 entries`."""
    assert plural(number, "entry", "entries") == text


def test_most_nouns_end_in_s() -> None:
    """The plural need not be given."""
    assert (plural(1, "stack"), plural(3, "stack")) == ("1 stack", "3 stacks")
