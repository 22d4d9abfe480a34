from __future__ import annotations

import pytest

from holdfast.config.secret_refs import SCHEMES, locator_mistake, parse_locator


@pytest.mark.parametrize(
    ("scheme", "text", "expected"),
    [
        ("aws-sm", "prod/db", ("prod/db", None, {})),
        ("aws-sm", "rds!db-1@x#password", ("rds!db-1@x", "password", {})),
        (
            "aws-sm",
            "a?version=AWSPREVIOUS&region=x-1",
            ("a", None, {"version": "AWSPREVIOUS", "region": "x-1"}),
        ),
        (
            "aws-sm",
            "arn:aws:secretsmanager:x-1:1:secret:a#k",
            ("arn:aws:secretsmanager:x-1:1:secret:a", "k", {}),
        ),
        ("aws-ssm", "/prod/db:3#k?region=x", ("/prod/db:3", "k", {"region": "x"})),
        ("azure-kv", "my-vault/name", ("my-vault/name", None, {})),
        ("azure-kv", "v/name/0123456789abcdef#k", ("v/name/0123456789abcdef", "k", {})),
        ("vault", "kv/team/app#token", ("kv/team/app", "token", {})),
        ("vault", "kv/app#token?version=3", ("kv/app", "token", {"version": "3"})),
    ],
)
def test_a_reference_is_taken_apart(
    scheme: str, text: str, expected: tuple[str, str | None, dict[str, str]]
) -> None:
    """Name, field and options, whatever letters a cloud allows in a name."""
    assert tuple(parse_locator(scheme, text)) == expected
    assert locator_mistake(scheme, text) is None


@pytest.mark.parametrize(
    ("scheme", "text", "wrong"),
    [
        ("aws-sm", "#key", "is not a valid name"),
        ("aws-sm", "a b", "is not a valid name"),
        ("aws-sm", "a#", "name of a field"),
        ("aws-sm", "a?stage=x", "`version=` and `region=`"),
        ("aws-sm", "a?version=", "an option after `?`"),
        ("aws-ssm", "/a?version=1", "`region=`"),
        ("azure-kv", "vault", "is not a valid name"),
        ("azure-kv", "evil.example/name", "is not a valid name"),
        ("azure-kv", "v/name?version=1", "supported: none"),
        ("vault", "kv#field", "is not a valid name"),
        ("vault", "kv/app", "name of a field"),
        ("vault", "kv/../sys/raw#x", "is not a valid name"),
        ("vault", "kv//app#x", "is not a valid name"),
    ],
)
def test_what_can_be_no_reference(scheme: str, text: str, wrong: str) -> None:
    """A mistake is found where it stands, and says what is missing."""
    assert wrong in (locator_mistake(scheme, text) or "")
    with pytest.raises(ValueError, match=r".+"):
        parse_locator(scheme, text)


def test_placeholders_stand_for_a_name() -> None:
    """What is filled in for each stack is not taken for a mistake."""
    assert locator_mistake("azure-kv", "{company}-{environment}/{var.name}#{name}") is None
    assert locator_mistake("vault", "{account}/{service}#token?version={name}") is None


def test_every_kind_behind_a_network_has_a_form() -> None:
    """The hint shows how each is written; the simple ones need none."""
    checked = {name for name, scheme in SCHEMES.items() if scheme.name is not None}
    assert checked == set(SCHEMES) - {"env", "file", "dotenv"}
    assert locator_mistake("env", "anything at all") is None
