from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest

from holdfast.kernel.secret import Secret
from holdfast.secrets.redact import Redactor

SECRET = 'pa ss/"wörd"+&1'


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        base64.b64encode(SECRET.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)
def test_a_secret_is_hidden_in_every_form_it_travels_in(form: str) -> None:
    """Plain, in JSON, in an address, in base64: none of them shows."""
    cleaned = Redactor([SECRET]).clean(f"before {form} after")
    assert form not in cleaned
    assert cleaned.startswith("before ***")
    assert cleaned.endswith(" after")


def test_text_without_secrets_is_left_alone() -> None:
    """Nothing but secrets is hidden."""
    assert Redactor().clean("nothing here") == "nothing here"
    assert Redactor(["hunter2"]).clean("nothing here") == "nothing here"


def test_the_longest_value_is_hidden_whole() -> None:
    """A secret that begins like another leaves no tail behind."""
    redactor = Redactor(["hunter2", "hunter2-long", "hunter"])
    assert redactor.clean("x hunter2-long y hunter2 z hunters") == "x *** y *** z ***s"


def test_overlapping_values_are_both_hidden() -> None:
    """No end of the second one is left where the first one ends."""
    assert Redactor(["abcdef", "defghi", "ghijkl"]).clean("<abcdefghijkl>") == "<***>"


def test_short_values_are_ignored() -> None:
    """Four characters hide nothing and would blacken everything."""
    redactor = Redactor(["true", "12", ""])
    assert redactor.clean("true 12") == "true 12"


def test_a_value_of_several_lines_is_hidden_line_by_line() -> None:
    """Output comes line by line, and so would a private key."""
    key = "-----BEGIN KEY-----\nMIIEvgIBADANBg\n-----END KEY-----\n"
    redactor = Redactor([key])
    assert redactor.clean("out: MIIEvgIBADANBg") == "out: ***"
    assert redactor.clean(f"<{key}>") == "<***>"
    assert redactor.clean(json.dumps({"k": key})) == '{"k": "***"}'


def test_values_registered_later_are_hidden_from_then_on() -> None:
    """The pattern follows what is registered."""
    redactor = Redactor(["hunter2"])
    assert redactor.clean("hunter2 sesame") == "*** sesame"
    redactor.register(Secret("sesame"))
    assert redactor.clean("hunter2 sesame") == "*** ***"


def test_the_redactor_does_not_print_what_it_hides() -> None:
    """It is the last place that should tell."""
    assert "hunter2" not in repr(Redactor(["hunter2"]))


def test_very_many_and_very_similar_values_still_compile() -> None:
    """A thousand values that begin alike are as good as one."""
    values = ["a" * size for size in range(5, 1000)]
    redactor = Redactor(values)
    assert redactor.clean(f"<{'a' * 999}>") == "<***>"
    assert redactor.clean("<aaaa>") == "<aaaa>"
