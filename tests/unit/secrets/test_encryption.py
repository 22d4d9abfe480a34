from __future__ import annotations

import pytest

from holdfast.kernel.errors import Exit
from holdfast.secrets.encryption import Damaged, WrongKey, decrypt, encrypt, key_id_of
from holdfast.secrets.keys import CipherKey

KEY = CipherKey("0011223344556677", bytes(range(32)))
OTHER = CipherKey("8899aabbccddeeff", bytes(32))
PIECE = 1024 * 1024
HEADER = 38
TAG = 16


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 5])
def test_what_was_sealed_opens_whatever_its_size(size: int) -> None:
    """Sizes around the borders of the pieces come back byte for byte."""
    data = bytes(size)
    sealed = encrypt(KEY, data, context="a plan")
    assert decrypt(KEY, sealed, context="a plan") == data
    pieces = max(1, -(-size // PIECE))
    assert len(sealed) == HEADER + size + pieces * TAG


def test_the_content_cannot_be_seen_and_sealing_twice_differs() -> None:
    """Equal things do not look equal when sealed."""
    one, two = (encrypt(KEY, b"hunter2-hunter2", context="c") for _ in range(2))
    assert b"hunter2" not in one
    assert one[HEADER:] != two[HEADER:]


def test_each_sealed_thing_has_a_key_and_nonces_of_its_own() -> None:
    """Salt and nonce prefix are never the same twice: a nonce used twice under one key gives things away."""
    begins = [encrypt(KEY, b"data", context="c")[:HEADER] for _ in range(20)]
    assert len({header[15:31] for header in begins}) == 20
    assert len({header[31:] for header in begins}) == 20


def test_another_key_is_named() -> None:
    """The user learns which key is needed, and which one is at hand."""
    sealed = encrypt(KEY, b"data", context="the plan of prod")
    with pytest.raises(WrongKey) as caught:
        decrypt(OTHER, sealed, context="the plan of prod")
    problem = caught.value.problem
    assert problem.code == "HF-KEY-7"
    assert KEY.id in problem.message
    assert OTHER.id in problem.message
    assert "the plan of prod" in problem.message
    assert key_id_of(sealed) == KEY.id


def test_a_thing_cannot_pass_for_another() -> None:
    """What was sealed as one thing does not open as another."""
    sealed = encrypt(KEY, b"data", context="digest of a")
    with pytest.raises(Damaged) as caught:
        decrypt(KEY, sealed, context="digest of b")
    assert caught.value.problem.code == "HF-KEY-6"
    assert caught.value.exit is Exit.FAILED


def test_pieces_cannot_be_reordered_dropped_or_repeated() -> None:
    """The order and the end of the pieces are part of what is authenticated."""
    sealed = encrypt(KEY, b"a" * PIECE + b"b" * PIECE + b"c" * PIECE, context="c")
    head, body = sealed[:HEADER], sealed[HEADER:]
    size = PIECE + TAG
    first, second, third = (body[place * size : (place + 1) * size] for place in range(3))
    for pieces in (
        (second, first, third),
        (first, third),
        (first, second),
        (first,),
        (first, second, third, third),
        (first, second, third, b"\0" * TAG),
        (first, first, third),
        (),
    ):
        with pytest.raises(Damaged):
            decrypt(KEY, head + b"".join(pieces), context="c")


@pytest.mark.parametrize(
    "data", [b"", b"HFSEAL", b"{}" * 100, b"HFSEAL\x02" + bytes(100), b"HFSEAL\x01" + bytes(40)]
)
def test_what_was_never_sealed_is_refused(data: bytes) -> None:
    """Something else in its place is an error, never taken as absent or empty."""
    with pytest.raises(Damaged):
        decrypt(KEY, data, context="c")
