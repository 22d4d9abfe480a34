from __future__ import annotations

import base64
import html
import json
import threading
from urllib.parse import quote, quote_plus

import pytest

from holdfast.kernel.errors import UsageError
from holdfast.kernel.secret import Secret
from holdfast.secrets.redact import RedactionSettings, Redactor, layers, redaction_settings

SECRET = 'pa ss/"wörd"+&<1>'
PEM = (
    "-----BEGIN EC PARAMETERS-----\nMHcCAQEEIDJrT0xq9v3m\nKx+8Qz/1LmNoPqRsTuVw\nYzA=\n"
    "-----END EC PARAMETERS-----\n"
)


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(SECRET))[1:-1],
        json.dumps(json.dumps({"a": SECRET}, ensure_ascii=False), ensure_ascii=False),
        'pa ss/\\"wörd\\"+\\u0026\\u003c1\\u003e',
        'pa ss\\/\\"wörd\\"+&<1>',
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").replace("%2F", "%2f").replace("%C3%B6", "%c3%b6").replace("%3C", "%3c")
        .replace("%2B", "%2b").replace("%3E", "%3e"),
        quote(SECRET, safe="$&+,/:;=@"),
        quote_plus(SECRET),
        "pa+ss%2f%22w%c3%b6rd%22%2b%26%3c1%3e",
        'pa ss/\\"w\\u00F6rd\\"+&<1>',
        html.escape(SECRET),
        html.escape(SECRET, quote=False),
        "pa ss/&#34;wörd&#34;&#43;&amp;&lt;1&gt;",
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(SECRET.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(SECRET.encode()).decode(),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
    ],
)  # fmt: skip
def test_a_secret_is_hidden_in_every_form_it_travels_in(form: str) -> None:
    """Plain, in JSON, in an address, in base64, in HTML, as digits: none of them shows."""
    cleaned = Redactor([SECRET]).clean(f"before {form} after")
    assert form not in cleaned
    assert "***" in cleaned
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")


@pytest.mark.parametrize("before", [b"", b"u", b"us", b"user:"])
@pytest.mark.parametrize("after", [b"", b"\n", b":x", b"@host/"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_inside_larger_base64_is_hidden(before: bytes, after: bytes, encode: object) -> None:
    """Wherever it begins, no more than its edge is left: `user:password` of an Authorization header."""
    assert callable(encode)
    secret = "s3cr3t?of>the~state"
    text = encode(before + secret.encode() + after).decode()
    left = Redactor([secret]).clean(f"x {text} y")
    assert "***" in left
    kept = left.removeprefix("x ").removesuffix(" y").replace("***", "").replace("=", "")
    assert len(kept) <= len(text) - len(secret)


def test_text_without_secrets_is_left_alone() -> None:
    """Nothing but secrets is hidden."""
    assert Redactor().clean("nothing here") == "nothing here"
    assert Redactor(["hunter2"]).clean("nothing here") == "nothing here"
    assert Redactor(["hunter2"]).clean("") == ""


def test_bytes_that_are_no_text_are_left_alone() -> None:
    """What comes from elsewhere need not be UTF-8, and goes out as it came."""
    assert Redactor(["hunter2"]).clean_bytes(b"\xff\xfe hunter2 \xc3\xb6\n") == b"\xff\xfe *** \xc3\xb6\n"


def test_the_longest_value_is_hidden_whole() -> None:
    """A secret that begins like another leaves no tail behind."""
    redactor = Redactor(["hunter2", "hunter2-long", "hunter"])
    assert redactor.clean("x hunter2-long y hunter2 z hunters") == "x *** y *** z ***s"


def test_overlapping_values_are_both_hidden() -> None:
    """No end of the second one is left where the first one ends."""
    assert Redactor(["abcdef", "defghi", "ghijkl"]).clean("<abcdefghijkl>") == "<***>"


@pytest.mark.parametrize("value", ["true", "12", "", "false", "FALSE", "      ", "\n\n\n\n\n\n", "*****"])
def test_what_would_blacken_every_text_is_not_searched_for(value: str) -> None:
    """Four characters, words of every language, blanks and the mask itself hide nothing."""
    text = "true 12 false FALSE null       ***** \n\n\n\n\n\n\n"
    assert Redactor([value]).clean(text) == text


def test_a_value_of_several_lines_is_hidden_as_a_whole_and_line_by_line() -> None:
    """With either end of line, escaped, joined, indented, and one line alone, as output comes."""
    redactor = Redactor([PEM])
    windows = PEM.replace("\n", "\r\n")
    indented = "".join(f"   | {line}\n" for line in PEM.splitlines())
    for text in (
        PEM,
        windows,
        json.dumps(PEM),
        json.dumps(json.dumps(windows)),
        " ".join(PEM.split()),
        indented,
    ):
        cleaned = redactor.clean(f"<{text}>")
        assert not [part for part in ("MHcCAQEE", "Kx+8Qz/1") if part in cleaned], cleaned
    assert redactor.clean("out: Kx+8Qz/1LmNoPqRsTuVw") == "out: ***"
    assert redactor.clean(f"<{PEM}>") == "<***>"


def test_a_value_read_from_a_file_is_hidden_without_its_last_line_end() -> None:
    """Whoever encodes it may have stripped it before."""
    redactor = Redactor(["hunter2-and-more\n"])
    for text in ("hunter2-and-more", base64.b64encode(b"hunter2-and-more").decode(), "hunter2-and-more\r\n"):
        assert redactor.clean(f"<{text}>") == "<***>"


@pytest.mark.parametrize("between", ["\n", "\r\n", " ", ""])
def test_a_value_of_short_lines_is_hidden_however_they_are_joined(between: str) -> None:
    """None of its lines is long enough to be searched for alone."""
    redactor = Redactor(["k3y-1\np4s-2\nx9z-3"])
    assert redactor.clean(f"<{between.join(('k3y-1', 'p4s-2', 'x9z-3'))}>") == "<***>"


@pytest.mark.parametrize("between", ["\t", "  ", " ", "\n\t"])
def test_a_value_is_hidden_with_its_whitespace_joined(between: str) -> None:
    """As messages of Terraform are shown, on one line."""
    secret = between.join(("k3y-1", "p4s-2"))
    assert Redactor([secret]).clean("<k3y-1 p4s-2>") == "<***>"


@pytest.mark.parametrize("secret", ["hunter2", "hunter2x", "hunter2xy"])
def test_base64_without_its_padding_is_hidden_to_the_last_character(secret: str) -> None:
    """As tokens carry it."""
    text = base64.b64encode(secret.encode()).decode().rstrip("=")
    assert Redactor([secret]).clean(f"<{text}>") == "<***>"


def test_one_line_of_a_value_is_hidden_in_json_and_html_too() -> None:
    """Logs show single lines, and escape them."""
    line = 'user="ann" & key=<tr0ub4dor>'
    redactor = Redactor([f"first\n{line}\nlast\n"])
    for text in (line, json.dumps(line)[1:-1], html.escape(line)):
        assert redactor.clean(f"[{text}]") == "[***]"


def test_a_line_of_eight_characters_gives_something_away_alone() -> None:
    """A shorter one is hidden with the lines around it only."""
    redactor = Redactor(["first: 1\nk3y-p4s5\nk3y-p4s\n"])
    assert redactor.clean("k3y-p4s5, k3y-p4s") == "***, k3y-p4s"


def test_lines_that_say_nothing_are_not_hidden_elsewhere() -> None:
    """The armour of a key and single words stand in many a text."""
    redactor = Redactor([f"clusters:\n{PEM}"])
    text = "clusters:\n-----BEGIN EC PARAMETERS-----"
    assert redactor.clean(text) == text


def test_base64_with_line_breaks_is_hidden() -> None:
    """As mail and command-line tools write it."""
    secret = "0123456789" * 12
    for text in (base64.encodebytes(secret.encode()).decode(), base64.b64encode(secret.encode()).decode()):
        cleaned = Redactor([secret]).clean(text)
        assert len(cleaned.replace("***", "").strip()) <= 8


def test_what_is_secret_in_a_secret_is_known_too() -> None:
    """The password of a connection string and the token of a document are shown no more than the whole."""
    redactor = Redactor(
        ["postgres://app:tr0ub4dor@db/x", json.dumps({"user": "somebody", "password": "swordfish"})]
    )
    assert redactor.clean("login as somebody with tr0ub4dor, swordfish") == "login as somebody with ***, ***"
    several = Redactor([json.dumps([{"hosts": ["somewhere"], "passwords": ["swordfish", "rosebud-1"]}])])
    assert several.clean("somewhere: swordfish, rosebud-1") == "somewhere: ***, ***"


def test_a_secret_nested_without_end_is_hidden_as_a_whole() -> None:
    """What is too deep to be read as a document is a value like any other."""
    deep = "[" * 100_000
    assert Redactor([deep]).clean(f"<{deep}>") == "<***>"


def test_letters_that_grow_in_lower_case_move_no_mask() -> None:
    """A capital dotted I becomes two characters: what is hidden behind it is hidden in its own place."""
    text = 'İİİİİİİİ password = "xK9mQ2vL8pW4" done'
    assert Redactor().clean(text) == 'İİİİİİİİ password = "***" done'


def test_what_is_registered_can_be_hidden_again() -> None:
    """Stored encrypted with a run, so that its journal can be masked later; short values are not kept."""
    redactor = Redactor(["hunter2", Secret("swordfish"), "true", "abc"])
    assert redactor.registered() == {"hunter2", "swordfish"}


def test_values_registered_later_are_hidden_from_then_on() -> None:
    """What is searched for follows what is registered."""
    redactor = Redactor(["hunter2"])
    assert redactor.clean("hunter2 sesame") == "*** sesame"
    redactor.register(Secret("sesame"))
    assert redactor.clean("hunter2 sesame") == "*** ***"


def test_values_may_be_registered_while_others_are_cleaned() -> None:
    """Runs go side by side and share one redactor."""
    redactor = Redactor(["hunter2"])
    threads = [
        threading.Thread(target=redactor.register_all, args=([f"value-{number}-{at}" for at in range(50)],))
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    assert all(redactor.clean("a hunter2 b") == "a *** b" for _ in range(50))
    for thread in threads:
        thread.join()
    assert redactor.clean("value-3-49 value-0-0") == "*** ***"


def test_the_redactor_does_not_print_what_it_hides() -> None:
    """It is the last place that should tell."""
    assert "hunter2" not in repr(Redactor(["hunter2"]))


def test_very_many_and_very_similar_values_are_as_good_as_one() -> None:
    """A thousand values that begin alike, and one of a megabyte."""
    redactor = Redactor(["a" * size for size in range(5, 1000)])
    assert redactor.clean(f"<{'a' * 999}>") == "<***>"
    assert redactor.clean("<aaaa>") == "<aaaa>"
    long = "0123456789abcdef" * 65536
    redactor.register(long)
    assert redactor.clean(f"<{long}>") == "<***>"


def test_a_redactor_is_tuned_by_the_configuration() -> None:
    """What was registered before stays hidden; a layer that there is not is a mistake."""
    redactor = Redactor(["hunter2"])
    text = "hunter2 postgres://a:swordfish@h/"
    redactor.tune(redaction_settings(["url-password"], (), None))
    assert redactor.clean(text) == "*** postgres://a:swordfish@h/"
    redactor.tune(redaction_settings([], (), None))
    assert redactor.clean(text) == "*** postgres://a:***@h/"
    with pytest.raises(UsageError, match="url-pasword") as mistake:
        redaction_settings(["url-pasword"], (), None)
    assert mistake.value.problem.hint == "Did you mean `url-password`?"


def test_layers_are_listed_and_can_be_turned_off() -> None:
    """By their ids; registered values stay hidden."""
    ids = {layer.id for layer in layers()}
    assert {"entropy", "jwt", "private-key"} <= ids
    text = 'hunter2 postgres://a:swordfish@h/ password = "xK9mQ2vL8pW4"'
    assert Redactor(["hunter2"]).clean(text) == '*** postgres://a:***@h/ password = "***"'
    nothing = RedactionSettings(off=frozenset(ids))
    assert Redactor(["hunter2"], nothing).clean(text) == text.replace("hunter2", "***")
