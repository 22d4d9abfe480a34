from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.secrets.encryption import Damaged, WrongKey, decrypt, encrypt
from holdfast.secrets.keys import CipherKey

keys = st.binary(min_size=32, max_size=32).map(lambda secret: CipherKey("0011223344556677", secret))


@given(keys, st.binary(max_size=300), st.text(max_size=20))
def test_sealing_and_opening_is_the_identity(key: CipherKey, data: bytes, context: str) -> None:
    """Nothing is lost or added."""
    assert decrypt(key, encrypt(key, data, context=context), context=context) == data


@given(keys, st.binary(max_size=100), st.data())
def test_any_changed_byte_is_noticed(key: CipherKey, data: bytes, draw: st.DataObject) -> None:
    """There is no byte, header included, that can be changed unseen."""
    sealed = bytearray(encrypt(key, data, context="c"))
    sealed[draw.draw(st.integers(0, len(sealed) - 1))] ^= draw.draw(st.integers(1, 255))
    with pytest.raises((Damaged, WrongKey)):
        decrypt(key, bytes(sealed), context="c")


@given(keys, st.binary(max_size=100), st.data())
def test_any_truncation_or_addition_is_noticed(key: CipherKey, data: bytes, draw: st.DataObject) -> None:
    """Neither a part nor more than the whole opens."""
    sealed = encrypt(key, data, context="c")
    cut = sealed[: draw.draw(st.integers(0, len(sealed) - 1))]
    for changed in (cut, sealed + draw.draw(st.binary(min_size=1, max_size=40))):
        with pytest.raises(Damaged):
            decrypt(key, changed, context="c")


@given(keys, st.binary(max_size=50), st.text(max_size=10), st.text(max_size=10))
def test_another_context_never_opens(key: CipherKey, data: bytes, one: str, other: str) -> None:
    """The name of the thing is sealed with it."""
    if one != other:
        with pytest.raises(Damaged):
            decrypt(key, encrypt(key, data, context=one), context=other)
