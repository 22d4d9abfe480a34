from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from holdfast.secrets import formats
from holdfast.secrets.formats import Format, shipped_formats
from holdfast.secrets.redact import RedactionSettings, Redactor, layers

FORMATS = shipped_formats()


def only(format_: Format) -> Redactor:
    """A redactor of this layer alone."""
    return Redactor(
        settings=RedactionSettings(off=frozenset(one.id for one in layers() if one.id != format_.id))
    )


@pytest.mark.parametrize("format_", FORMATS, ids=lambda one: one.id)
def test_each_format_hides_its_example_and_nothing_beside_it(format_: Format) -> None:
    """In a sentence, in quotes and at the end of a text."""
    example = "".join(format_.example)
    redactor = only(format_)
    bare = redactor.clean(example)
    assert bare == "***" if "(?P<secret>" not in format_.pattern else "***" in bare
    for before, after in (("see ", " there"), ('"', '"'), ("x=", "\n"), ("", "")):
        assert redactor.clean(f"{before}{example}{after}") == f"{before}{bare}{after}"


@pytest.mark.parametrize("format_", FORMATS, ids=lambda one: one.id)
def test_without_its_layer_a_format_is_left_alone(format_: Format) -> None:
    """Each can be turned off by its id."""
    others = RedactionSettings(off=frozenset(one.id for one in layers()))
    example = "".join(format_.example)
    assert Redactor(settings=others).clean(example) == example


def test_the_table_is_read_as_toml() -> None:
    """The quick reader gives what a TOML parser gives."""
    rows = tomllib.loads(Path(formats.__file__).with_name("formats.toml").read_text("utf-8"))["format"]
    assert msgspec.convert(rows, tuple[Format, ...]) == FORMATS


def test_rows_are_distinct() -> None:
    """An anchor leads to one row, and no anchor hides another that begins like it."""
    ids = [one.id for one in FORMATS]
    anchors = [anchor for one in FORMATS for anchor in one.anchors]
    assert len(ids) == len(set(ids))
    assert len(anchors) == len(set(anchors))
    assert [one for one in anchors for other in anchors if one != other and other.startswith(one)] == []
    assert all(one.what and one.example and len(one.example) > 1 for one in FORMATS)
    assert all(anchor == anchor.lower() for one in FORMATS if one.case == "any" for anchor in one.anchors)


def test_of_an_address_only_the_password_goes() -> None:
    """Who connects, and to what, is worth knowing."""
    clean = Redactor().clean
    assert clean("postgres://app:hunter2@db:5432/x") == "postgres://app:***@db:5432/x"
    assert clean("https://oauth2:a@b@git.example.com/x.git") == "https://oauth2:***@git.example.com/x.git"
    assert clean("redis://:hunter2@cache") == "redis://:***@cache"


@pytest.mark.parametrize("line", ["\n", "\\n", "\r\n", "\\\\n"])
def test_a_private_key_goes_whatever_its_line_ends_are(line: str) -> None:
    """In a file, in JSON, in JSON inside JSON. What it is stays readable."""
    body = ["MIIEvgIBADANBgkqhkiG9w0BAQEFAASC", "BKgwggSkAgEAAoIBAQC7VJTUt9Us8cKj", "ab+/="]
    kind = "PRIVATE " + "KEY"
    text = line.join((f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----"))
    assert Redactor().clean(f'"{text}"') == f'"-----BEGIN {kind}-----***-----END {kind}-----"'


ORDINARY = [
    "expected -----BEGIN RSA PRIVATE " + "KEY----- but the file is empty.",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0B\n-----END CERTIFICATE-----",
    "https://host:443/path?email=a@b.c",
    "postgres://app:${var.password}@db/x",
    "ssh://git@github.com/acme/x.git",
    "git::https://example.com/vpc.git?ref=v1.2.0",
    "arn:aws:iam::123456789012:role/AROAEXAMPLE",
    "Bearer authentication is required; Basic is not enough",
    'authorization_url = "https://example.com"',
    "the akia tree; ghp_ is a prefix, eyJ another",
    "h1:Zx81QmWnErTyUiOpAsDfGhJkLzXcVbNm0246aBcDeFg=",
    "zh:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "sha256:0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f9",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_what_only_looks_a_little_like_a_secret_stays(text: str) -> None:
    """Text without secrets stays byte for byte."""
    assert Redactor().clean(text) == text
