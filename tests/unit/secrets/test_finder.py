"""Many texts are found in one pass, at every position and in full."""

from __future__ import annotations

import pytest

from holdfast.secrets.finder import Finder, merge_spans

TEXTS = ("abcde", "abcdefg", "hunter2x", "hunter2x-and-more", "q" * 300 + "1", "q" * 300 + "2")


@pytest.fixture
def finder() -> Finder:
    made = Finder()
    made.add(TEXTS)
    return made


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("before", range(12))
def test_a_text_is_found_at_every_position(finder: Finder, text: str, before: int) -> None:
    """Whole, and the longest where several begin alike."""
    spans = finder.spans("." * before + text + ".")
    assert max(end - start for start, end in spans if start == before) == len(text)
    assert all(start >= before for start, _ in spans)


def test_only_what_overlaps_is_one_span() -> None:
    """A short one inside a long one ends nothing, and neighbours stay two."""
    assert merge_spans([(4, 9), (0, 3), (5, 6), (8, 12), (12, 13)]) == [(0, 3), (4, 12), (12, 13)]


def test_a_text_too_short_to_be_found_is_refused(finder: Finder) -> None:
    """An error, so that it is not taken for hidden."""
    with pytest.raises(ValueError, match="at least 5"):
        finder.add(["abcd"])
    assert len(finder) == len(TEXTS)
