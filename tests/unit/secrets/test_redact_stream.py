from __future__ import annotations

from holdfast.secrets.redact import Redactor
from holdfast.secrets.redact_stream import StreamRedactor

PEM = "-----BEGIN X-----\nMHcCAQEEIDJrT0xq9v3m\nKx+8Qz/1LmNoPqRsTuVw\n-----END X-----\n"


def test_a_value_that_is_cut_is_hidden() -> None:
    """In two, in many, at its first and at its last character."""
    for at in range(1, 8):
        stream = StreamRedactor(Redactor(["hunter2x"]))
        assert (
            stream.feed("a " + "hunter2x"[:at]) + stream.feed("hunter2x"[at:] + " b") + stream.close()
            == "a *** b"
        )


def test_nothing_is_held_that_cannot_become_a_secret() -> None:
    """Live output stays live: a line without the beginning of a secret is out at once."""
    stream = StreamRedactor(Redactor(["hunter2x", PEM]))
    assert stream.feed("working…\n") == "working…\n"
    assert stream.feed("who hun") == "who "
    assert stream.feed("gry\n") == "hungry\n"
    assert stream.close() == ""


def test_what_is_held_comes_at_the_end() -> None:
    """What began like a secret and was none is not lost."""
    stream = StreamRedactor(Redactor(["hunter2x"]))
    assert stream.feed("see hunter") == "see "
    assert stream.close() == "hunter"


def test_a_value_of_several_lines_is_hidden_across_their_breaks() -> None:
    """Line by line or in odd pieces, nothing of it is shown, not even its armour."""
    redactor = Redactor([PEM])
    for size in (1, 3, 7, 20):
        stream = StreamRedactor(redactor)
        text = f"key:\n{PEM}done\n"
        shown = (
            "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.close()
        )
        assert shown == "key:\n***done\n"


def test_bytes_may_be_cut_inside_a_character() -> None:
    """As a pipe gives them, UTF-8 or not."""
    stream = StreamRedactor(Redactor(["wörd-of-mouth"]))
    data = "ein wörd-of-mouth ü".encode() + b"\xff"
    shown = "".join(stream.feed(data[at : at + 1]) for at in range(len(data))) + stream.close()
    assert shown.encode("utf-8", "surrogateescape") == b"ein *** \xc3\xbc\xff"


def test_half_a_character_at_the_end_is_given_out() -> None:
    """Nothing that came is kept back when the stream ends."""
    stream = StreamRedactor(Redactor())
    shown = stream.feed(b"a \xc3") + stream.close()
    assert shown.encode("utf-8", "surrogateescape") == b"a \xc3"


def test_what_was_shown_decides_what_follows() -> None:
    """A token that goes on a word is none: the same in pieces as in one."""
    token = "gh" + "p_Zx81QmWnErTyUiOpAsDfGhJkLzXcVbNm0246"
    stream = StreamRedactor(Redactor())
    shown = stream.feed("some-word0") + stream.feed(f"{token} ") + stream.close()
    assert shown == Redactor().clean(f"some-word0{token} ") == f"some-word0{token} "


def test_a_secret_by_format_that_is_cut_is_hidden() -> None:
    """A token, a key, a password in an address, and one under its name."""
    token = "gh" + "p_Zx81QmWnErTyUiOpAsDfGhJkLzXcVbNm0246"
    for text, expected in (
        (f"see {token} there", "see *** there"),
        ("postgres://app:hunter2@db/x ", "postgres://app:***@db/x "),
        ('password = "xK9mQ2vL8pW4" -> "yK9mQ2vL8pW4"\n', 'password = "***" -> "***"\n'),
    ):
        for size in (1, 2, 5, 11):
            stream = StreamRedactor(Redactor())
            pieces = [text[at : at + size] for at in range(0, len(text), size)]
            assert "".join(map(stream.feed, pieces)) + stream.close() == expected


def test_a_value_registered_on_the_way_is_hidden_from_then_on() -> None:
    """A plan is known only after its first lines were shown."""
    redactor = Redactor()
    stream = StreamRedactor(redactor)
    first = stream.feed("one hunter2x\n")
    redactor.register("hunter2x")
    assert first + stream.feed("two hunter2x\n") == "one hunter2x\ntwo ***\n"


def test_a_run_of_overlapping_values_does_not_pile_up() -> None:
    """A long run of them is one mask, and little is kept of it."""
    stream = StreamRedactor(Redactor(["aaaaa"]))
    shown = stream.feed("x") + "".join(stream.feed("aaaaaaaaaa") for _ in range(1000)) + stream.feed("y")
    assert shown + stream.close() == "x***y"
    assert len(stream._held) < 10


def test_every_beginning_of_a_telling_name_is_held() -> None:
    """However long: what follows decides whether it is the name of a secret."""
    redactor = Redactor()
    assert redactor._on.prefixes
    for word in redactor._on.prefixes:
        assert redactor.open_at(f". {word}", 0) <= 2, word
