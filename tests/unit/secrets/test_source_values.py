from __future__ import annotations

import pytest

from holdfast.config.secret_refs import SecretRef
from holdfast.kernel.errors import Failed
from holdfast.secrets.sources import errors
from holdfast.secrets.sources.interface import MAX_BYTES, select_value

REF = SecretRef(scheme="aws-sm", locator="prod/db#password")


def mistake(text: str, field: str | None) -> Failed:
    with pytest.raises(Failed) as caught:
        select_value(REF, text, field)
    assert "hunter2" not in f"{caught.value} {caught.value.problem}"
    return caught.value


@pytest.mark.parametrize(
    ("text", "field", "expected"),
    [
        ("hunter2", None, "hunter2"),
        ('{"password": "hunter2"}', None, '{"password": "hunter2"}'),
        ('{"password": "hunter2"}', "password", "hunter2"),
        ('{"password": 5432}', "password", "5432"),
        ('{"password": {"a": "ä"}}', "password", '{"a": "ä"}'),
    ],
)
def test_a_secret_or_one_field_of_it(text: str, field: str | None, expected: str) -> None:
    """Without a field the secret is used as it is; a field that is no text is written as JSON."""
    assert select_value(REF, text, field).reveal() == expected


def test_a_field_that_is_not_there() -> None:
    """Only a name that is near is told, and never a value."""
    near = mistake('{"passwort": "hunter2", "hunter2-key": ""}', "password").problem
    assert near.code == "HF-SEC-14"
    assert near.hint == "It has 2 fields. Did you mean `passwort`?"
    assert mistake('{"hunter2": 1}', "password").problem.hint == "It has 1 field."
    assert "not a JSON object" in mistake("hunter2", "password").problem.message
    assert "not a JSON object" in mistake('["hunter2"]', "password").problem.message


def test_what_no_variable_can_hold() -> None:
    """Empty, null, a zero byte, far too large: half a secret, or none, is never used."""
    for text, field in (("", None), ('{"a": ""}', "a"), ('{"a": null}', "a"), ("hunter2\0", None)):
        assert mistake(text, field).problem.code == "HF-SEC-16"
    assert mistake("x" * (MAX_BYTES + 1), None).problem.code == "HF-SEC-16"


def test_a_message_of_a_service_is_quoted_without_credentials() -> None:
    """One line, not too long, and without the token that was shown to the service."""
    assert errors.quote("bad\n\ttoken hunter2 ", "hunter2", None) == "bad token ***"
    assert len(errors.quote("x" * 1000)) == 301
    assert errors.quote(None) == errors.quote(5) == ""
