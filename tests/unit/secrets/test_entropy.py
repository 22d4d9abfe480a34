from __future__ import annotations

import pytest

from holdfast.secrets.entropy import is_secret_name
from holdfast.secrets.redact import RedactionSettings, Redactor

VALUE = "xK9mQ2vL8pW4zR7t"

HIDDEN = [
    f'password = "{VALUE}"',
    f'"api_key": "{VALUE}"',
    f'{{\\"client_secret\\":\\"{VALUE}\\"}}',
    f"DB_PASSWORD={VALUE}",
    f"password: {VALUE}",
    f"?token={VALUE}&x=1",
    f"'accessKey' => '{VALUE}'",
    f'adminPasswordPlain = "{VALUE}"',
    "secret_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzEXAMPLEKEY",
    "token = 0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    'password = "x#9K!mQ$2v"',
]


@pytest.mark.parametrize("text", HIDDEN)
def test_a_random_value_under_a_name_that_sounds_secret_goes(text: str) -> None:
    """Only the value: the name says what to look for."""
    cleaned = Redactor().clean(text)
    assert cleaned != text
    assert cleaned.count("***") == 1
    assert VALUE not in cleaned
    assert text.startswith(cleaned.partition("***")[0])
    assert text.endswith(cleaned.partition("***")[2])


def test_both_sides_of_a_change_go() -> None:
    """Terraform shows what was and what will be."""
    assert (
        Redactor().clean(f'~ password = "{VALUE}" -> "a7{VALUE}"   # forces')
        == '~ password = "***" -> "***"   # forces'
    )


ORDINARY = [
    "sensitive = true",
    "password = var.password",
    "password = random_password.db.result",
    'password = "${random_password.db.result}"',
    "password = (sensitive value)",
    'password = "(sensitive value)"',
    '"password": {"references": ["var.password"]}',
    'password = file("secrets/db-Password1.txt")',
    'secret_id = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf"',
    'secret = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf"',
    'secret_name = "prod/db-x9K2mQ7v"',
    'private_key_path = "/etc/ssl/x9K2mQ7v.pem"',
    'private_key = "./keys/x9K2mQ7vL1.pem"',
    'secret = "company/production/service/database"',
    'token = "terraform-registry-token"',
    'token_type = "Bearer"',
    "random_password.db: Refreshing state... [id=none]",
    "aws_secretsmanager_secret.x9k2m7qv: Creation complete after 3s",
    'key_vault_secret = "https://kv.vault.azure.net/secrets/name/4387e9f3d6e14c459867679a90fd0f79"',
    'secret_hash = "sha256:4387e9f3d6e14c459867679a90fd0f794387e9f3d6e14c459867679a90fd0f79"',
    '"h1:4387e9f3d6e14c459867679a90fd0f79=",',
    'secret_rotated = "2024-05-06T07:08:09Z"',
    "password_length = 1234567890123",
    'description = "xK9mQ2vL8pW4zR7t"',
    'digest = "4387e9f3d6e14c459867679a90fd0f794387e9f3d6e14c459867679a90fd0f79"',
    "  # password: Must be at least 8 characters",
    'password = "hunter2"',
    'secret = "aws_instance.web[\\"blue\\"]"',
    'token = "<TOKEN>"',
    "password = *** ",
    'password = "$PASSWORD_1a2b3c"',
]  # fmt: skip


@pytest.mark.parametrize("text", ORDINARY)
def test_references_paths_words_and_hashes_stay(text: str) -> None:
    """What is no secret stays byte for byte, under whatever name."""
    assert Redactor().clean(text) == text


def test_words_and_the_threshold_can_be_set() -> None:
    """What sounds secret in one company, and how random a value must be."""
    text = f'losungswort = "{VALUE}"'
    assert Redactor().clean(text) == text
    assert Redactor(settings=RedactionSettings(words=("Losungswort",))).clean(text) == 'losungswort = "***"'
    strict = RedactionSettings(words=("losungswort",), entropy=5.0)
    assert Redactor(settings=strict).clean(text) == text


@pytest.mark.parametrize(
    ("name", "sounds"),
    [("db_password", True), ("APIKEY", True), ("clientSecret", True), ("secretName", False),
     ("token_ttl", False), ("region", False), ("private-key", True), ("access_key_id", False)],
)  # fmt: skip
def test_which_names_sound_secret(name: str, sounds: bool) -> None:  # noqa: FBT001 - a table of answers
    """A word of the list, unless the name goes on to say that it is something else."""
    assert is_secret_name(name) is sounds


@pytest.mark.parametrize(
    "text",
    [
        'token = "' + "A" * 200 + 'a"',
        'token = "' + "A" * 200 + '12345"',
        "password" * 20_000,
        "password=" * 20_000,
        "a.password" * 20_000,
        'password="' * 20_000,
    ],
    ids=["capitals", "capitals and digits", "one name", "values in values", "one dotted name", "quotes"],
)
def test_no_text_takes_long(text: str) -> None:
    """No text, however long, keeps a command from finishing."""
    assert len(Redactor().clean(text)) <= len(text)


def test_of_a_long_name_its_end_counts() -> None:
    """However long it is, and whichever of its words sounds secret."""
    name = f"password_{'x' * 300}_token_{'y' * 300}"
    assert Redactor().clean(f"{name}={VALUE}") == f"{name}=***"
    assert Redactor().clean(f"{name}_path={VALUE}") == f"{name}_path={VALUE}"
