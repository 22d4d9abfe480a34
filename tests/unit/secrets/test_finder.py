"""Many texts are found in one pass: at every place, in full, and where they have only is_prefix."""

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
def test_a_text_is_found_wherever_it_stands(finder: Finder, text: str, before: int) -> None:
    """Whole, and the longest where several begin alike."""
    spans = finder.spans("." * before + text + ".")
    assert max(end - start for start, end in spans if start == before) == len(text)
    assert all(start >= before for start, _ in spans)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_that_has_begun_is_known_at_every_cut(finder: Finder, text: str) -> None:
    """From its first character to the last but one; what is complete has not is_prefix."""
    alone = Finder()
    alone.add([text])
    for size in range(1, len(text)):
        assert alone.is_prefix(text[:size])
        assert alone.open_at(f"..{text[:size]}") == 2
        assert finder.open_at(f"..{text[:size]}") == 2
    assert not alone.is_prefix(text)
    assert alone.open_at(f"..{text}") == len(text) + 2
    assert alone.open_at(f"..{text[:-1]}", 3) > 2


def test_only_what_overlaps_is_one_span() -> None:
    """A short one inside a long one ends nothing, and neighbours stay two."""
    assert merge_spans([(4, 9), (0, 3), (5, 6), (8, 12), (12, 13)]) == [(0, 3), (4, 12), (12, 13)]


def test_a_text_too_short_to_be_found_is_refused(finder: Finder) -> None:
    """Nobody believes that it is hidden."""
    with pytest.raises(ValueError, match="at least 5"):
        finder.add(["abcd"])
    assert len(finder) == len(TEXTS)
