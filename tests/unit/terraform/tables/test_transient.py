from __future__ import annotations

import re

import pytest

from holdfast.config.engine import MEANINGLESS
from holdfast.terraform.tables.transient import RETRIED, Phase, shipped_refused, shipped_table


def transient_row_id(text: str, phase: Phase) -> str | None:
    row = shipped_table().transient_row(text, phase)
    return row.id if row is not None else None


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("read tcp 10.0.0.1:5->1.2.3.4:443: read: connection reset by peer", "connection-reset"),
        ("net/http: TLS handshake timeout", "tls-handshake"),
        ("dial tcp 1.2.3.4:443: i/o timeout", "tcp-timeout"),
        ("rpc error: context deadline exceeded", "deadline"),
        ("(Client.Timeout exceeded while awaiting headers)", "awaiting-headers"),
        ("Get https://example.com: unexpected EOF", "unexpected-eof"),
        ("rpc error: code = Unavailable desc = transport is closing", "transport-closing"),
        ("OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to github.com:443", "ssl-syscall"),
        ("unexpected status 504 Gateway Timeout", "gateway-timeout"),
        ("dial tcp 127.0.0.1:80: connect: connection refused", "connection-refused"),
        ("dial tcp: lookup registry.example.com: no such host", "no-such-host"),
        ("451 4.3.0 Temporary failure, try later", "temporary-failure"),
        ("the request failed after 2 attempts, please try again later", "registry-unreachable"),
        (
            'Could not download module "m" (main.tf:1): error downloading: bad response code: 429',
            "module-throttled",
        ),
        ("fork/exec .terraform/providers/x: text file busy", "text-file-busy"),
        ("timeout while waiting for plugin to start", "plugin-start"),
        ("Failed to get state: GET http://x giving up after 3 attempt(s)", "backend-gave-up"),
        ("Error: app.terraform.io answered 429 Too Many Requests", "cloud-throttled"),
        ("RequestError: send request failed", "aws-request-failed"),
        ("Throttling: Rate exceeded", "aws-throttled"),
        ("api error TooManyRequestsException: slow down", "aws-too-many-requests"),
        ("ServiceUnavailable: try later", "aws-unavailable"),
        ('StatusCode=429 -- Original Error: Code="RetryableError"', "azure-retryable"),
        ("StorageAccountOperationInProgress", "azure-in-progress"),
        ("googleapi: Error 503: backend, transientError", "google-transient"),
        ("Error 403: Quota exceeded per 100 seconds, rateLimitExceeded", "google-rate"),
    ],
)
def test_each_transient_error_is_known_by_its_row(text: str, row: str) -> None:
    """An error that passes by itself is tried again, and the log can say by which rule."""
    assert transient_row_id(text, Phase.INIT) == row


def test_every_transient_row_has_an_example_above() -> None:
    """A row without a test may never match."""
    (mark,) = test_each_transient_error_is_known_by_its_row.pytestmark  # type: ignore[attr-defined]
    assert {row for _, row in mark.args[1]} == {row.id for row in shipped_table().transient}


@pytest.mark.parametrize(
    "text",
    [
        "Error: Unsupported argument",
        "Error: No value for required variable",
        "HTTP remote state endpoint requires auth",
        "HTTP error: 409",
        "Unsupported state file format",
        "doesn't match any of the checksums previously recorded",
        "Error: Saved plan is stale",
        "Saved plan does not match the given state",
        "Inconsistent dependency lock file",
        "Cannot apply incomplete plan",
        "plan file was created by Terraform 1.5.0, but this is 1.6.0",
        "Error: Failed to save state",
        "Failed to persist state to backend",
        "Plugin did not respond",
        "Provider produced inconsistent result after apply",
        "Resource precondition failed",
        "RESOURCE_EXHAUSTED",
        "LimitExceededException",
        "Error acquiring the state lock\n\nLock Info:\n  ID: 5",
    ],
)
def test_a_permanent_error_wins_over_a_transient_one(text: str) -> None:
    """What cannot get better by waiting is not retried, even when the network is to blame as well."""
    assert transient_row_id(text, Phase.PLAN) is None
    assert transient_row_id(f"{text}\nconnection reset by peer", Phase.PLAN) is None


def test_a_failed_lock_request_is_transient() -> None:
    """A broken connection to the lock is not a held lock."""
    text = "Error acquiring the state lock: Put http://x: connection reset by peer"
    assert transient_row_id(text, Phase.PLAN) == "connection-reset"


def test_a_text_in_a_frame_is_still_found() -> None:
    """Terraform breaks long lines and draws a frame around them."""
    assert (
        transient_row_id("│ Error: x\n│ net/http: TLS\n│ handshake timeout\n╵", Phase.INIT) == "tls-handshake"
    )


def test_rows_apply_only_in_their_phases() -> None:
    """What is about registries is not a reason to plan again."""
    text = "the request failed after 2 attempts, please try again later"
    assert transient_row_id(text, Phase.INIT) == "registry-unreachable"
    assert transient_row_id(text, Phase.PLAN) is None


def test_an_apply_is_never_tried_again() -> None:
    """No row of the table, now or later, may name apply."""
    assert Phase.APPLY not in RETRIED
    assert transient_row_id("connection reset by peer", Phase.APPLY) is None


def test_no_row_would_mislead() -> None:
    """A row that matches everything, holds nowhere, names apply or shares its id is a mistake."""
    table = shipped_table()
    rows = (*table.permanent, *table.transient)
    assert len({row.id for row in rows}) == len(rows)
    assert all(row.all and all(map(re.compile, row.all)) for row in rows)
    assert all(row.phases and row.phases <= RETRIED for row in table.transient)
    assert not any(row.phases for row in table.permanent)


def test_every_refused_create_proves_something() -> None:
    """A text that any error may contain is no proof."""
    for row in shipped_refused():
        assert row.provider
        assert row.why
        assert not re.fullmatch(MEANINGLESS, row.text)


def test_every_row_says_why() -> None:
    """The table explains itself."""
    table = shipped_table()
    assert all(row.why.endswith(".") for row in (*table.permanent, *table.transient))


def test_an_unknown_error_is_not_retried() -> None:
    """Nothing is retried on a guess."""
    assert transient_row_id("Error: something else went wrong", Phase.INIT) is None
