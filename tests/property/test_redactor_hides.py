from __future__ import annotations

import base64
import html
import json
import string
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.secrets.entropy import is_secret_name
from holdfast.secrets.redact import SHORTEST, Redactor, clean_document

letters = st.text(alphabet='abAB+/"\\ \n', max_size=8)
values = st.lists(st.text(alphabet='abAB+/"\\', min_size=SHORTEST, max_size=9), min_size=1, max_size=6)
anything = st.text(
    st.characters(codec="utf-8", exclude_characters="*"), min_size=SHORTEST, max_size=40
).filter(lambda text: text.strip() and text.casefold() != "false")
ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": json.dumps,
    "json as it is": lambda text: json.dumps(text, ensure_ascii=False),
    "json in json": lambda text: json.dumps(json.dumps({"a": [text]})),
    "url": lambda text: quote(text, safe=""),
    "path": quote,
    "lower url": lambda text: (
        quote(text, safe="").replace("%", "\0").lower().replace("\0", "%")
        if text == text.lower()
        else quote(text)
    ),
    "form": quote_plus,
    "html": html.escape,
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "windows": lambda text: text.replace("\r\n", "\n").replace("\n", "\r\n"),
}


@given(values, st.lists(letters, min_size=1, max_size=6), st.data())
def test_no_registered_value_is_left(secrets: list[str], around: list[str], draw: st.DataObject) -> None:
    """Wherever registered values stand, side by side or overlapping, none is in the cleaned text."""
    text = "".join(part + draw.draw(st.sampled_from(secrets)) for part in around)
    cleaned = Redactor(secrets).clean(text)
    assert [secret for secret in secrets if secret in cleaned] == []


@given(
    anything,
    st.sampled_from(sorted(ENCODINGS)),
    st.text("xyz<> \n", max_size=9),
    st.text("xyz \n", max_size=9),
)
def test_no_encoding_gets_through(secret: str, how: str, before: str, after: str) -> None:
    """Whatever the value, whatever the encoding, whatever stands beside it."""
    encoded = ENCODINGS[how](secret)
    cleaned = Redactor([secret]).clean(before + encoded + after)
    inner = encoded.strip('"')
    assert "***" in cleaned
    assert inner not in cleaned


alphanumeric = st.text(string.ascii_letters + string.digits, min_size=SHORTEST, max_size=30).filter(
    lambda text: text.casefold() != "false"
)


@given(
    alphanumeric,
    st.binary(max_size=5),
    st.binary(max_size=5),
    st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]),
)
def test_base64_hides_wherever_the_value_begins_in_it(
    secret: str, before: bytes, after: bytes, encode: Callable[[bytes], bytes]
) -> None:
    """What is left is no longer than what the bytes beside it have a part in."""
    encoded = encode(before + secret.encode() + after).decode()
    cleaned = Redactor([secret]).clean(f"<{encoded}>")
    assert "***" in cleaned
    inner = len(secret) * 8 // 6 - 3
    assert len(cleaned.replace("***", "").strip("<>")) <= len(encoded) - inner


@given(values, st.text(alphabet="cdef \n", max_size=50))
def test_other_text_is_untouched(secrets: list[str], text: str) -> None:
    """What shares nothing with a secret stays as it is."""
    assert Redactor(secrets).clean(text) == text


words = st.sampled_from(
    [
        *(
            "aws_instance",
            "web",
            "network",
            "password",
            "secret",
            "token",
            "sensitive",
            "true",
            "false",
            "null",
        ),
        *("var", "local", "module", "data", "each", "this", "eu-west-1", "random_password", "db", "result"),
        *(
            "key",
            "name",
            "version",
            "value",
            "type",
            "id",
            "arn",
            "subnet",
            "production",
            "api_key",
            "m5.2xlarge",
        ),
    ]
)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
addresses = st.lists(words.filter(lambda word: "." not in word), min_size=2, max_size=5).map(".".join)
ordinary = st.one_of(
    words,
    addresses,
    st.builds("{}[{}]".format, addresses, st.integers(0, 9)),
    st.builds('{}["{}"]'.format, addresses, words),
    st.builds("{} = {}".format, words, addresses),
    st.builds('{} = "{}"'.format, words.filter(lambda name: not is_secret_name(name)), words),
    st.builds('"{}": "${{{}}}"'.format, words, addresses),
    st.builds('"{}": {}'.format, words, st.integers(0, 10**12)),
    st.builds("{}: Refreshing state... [id={}]".format, addresses, st.integers(0, 10**9)),
    st.builds('"digest": "{}"'.format, digests),
    st.builds('"zh:{}",'.format, digests),
    st.builds(
        '"h1:{}=",'.format, st.text(string.ascii_letters + string.digits + "+/", min_size=43, max_size=43)
    ),
    st.builds("arn:aws:iam::{}:role/{}".format, st.integers(10**11, 10**12 - 1), words),
    st.builds('{} = "./{}/{}.tfvars"'.format, words, words, words),
    st.sampled_from(["sensitive = true", "(sensitive value)", "(known after apply)", "# forces replacement"]),
)


@given(st.lists(ordinary, max_size=12).map("\n".join))
@example("secret = aws_secretsmanager_secret.this.arn")
def test_text_without_secrets_stays_byte_for_byte(text: str) -> None:
    """Code, plans, addresses, hashes, references: no layer changes them."""
    redactor = Redactor()
    assert redactor.clean(text) == text
    assert redactor.clean_bytes(text.encode()) == text.encode()


@given(st.text(max_size=60))
def test_text_without_secrets_stays(text: str) -> None:
    """Whatever somebody writes, in whatever alphabet."""
    assert Redactor(["hunter2"]).clean(text.replace("://", "")) == text.replace("://", "")


def test_the_code_and_documents_of_this_project_hold_no_secret() -> None:
    """A large body of ordinary text, our own, stays as it is."""
    root = Path(__file__).parent.parent.parent
    redactor = Redactor()
    files = [*root.glob("src/**/*.py"), *root.glob("docs/**/*.md"), *root.glob("examples/**/*.tf*")]
    changed = {file.name for file in files if redactor.clean(text := file.read_text("utf-8")) != text}
    # The pages of rules that find secrets show what they find.
    examples = {"HF207.md", "HF208.md"}
    assert changed == examples


names = st.sampled_from(["name", "status", "address", "digest", "message", "notes", "value", "x"])
documents = st.recursive(
    st.sampled_from(["hunter2", "say hunter2", "plain"]) | st.none() | st.booleans() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(documents)
def test_a_document_keeps_its_shape_and_shows_nothing(document: object) -> None:
    """Keys, lists and structural fields stay; a registered value is in none of the others."""
    cleaned = clean_document(Redactor(["hunter2"]), document)
    same_shape(document, cleaned, structural=False, inside=False)


def same_shape(before: object, after: object, *, structural: bool, inside: bool) -> None:
    if isinstance(before, dict):
        assert isinstance(after, dict)
        assert list(before) == list(after)
        for key, value in before.items():
            within = inside or key == "value"
            kept = key in {"name", "status", "address", "digest"} and not within
            same_shape(value, after[key], structural=kept, inside=within)
    elif isinstance(before, list):
        assert isinstance(after, list)
        assert len(before) == len(after)
        for one, other in zip(before, after, strict=True):
            same_shape(one, other, structural=structural, inside=inside)
    elif isinstance(before, str) and not structural:
        assert after == before.replace("hunter2", "***")
    else:
        assert after == before
