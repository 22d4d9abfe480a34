from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.store.blobs import decode_name, encode_name


@given(st.text(min_size=1))
def test_a_name_is_safe_in_any_blob_store(stack: str) -> None:
    """Whatever a stack is called: one word, that leads nowhere else and is not taken for half-written."""
    text = encode_name(stack)
    assert "/" not in text
    assert not text.startswith(".")
    assert text.isascii()
    assert text.isprintable()
    assert decode_name(text) == stack


@pytest.mark.parametrize("stack", [".", "..", ".hidden", "../x", "a/../b", ".a/.b"])
def test_dots_lead_nowhere(stack: str) -> None:
    """A name that is a path to a path stays a name."""
    assert encode_name(stack) not in {".", ".."}
    assert decode_name(encode_name(stack)) == stack


@given(st.text(min_size=1), st.text(min_size=1))
def test_two_stacks_never_share_a_word(one: str, other: str) -> None:
    """Two stacks on one name would be two stacks on one state."""
    assert (encode_name(one) == encode_name(other)) == (one == other)
