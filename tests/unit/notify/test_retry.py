"""What GitHub asks for is waited, never less; and there is an end to it."""

from __future__ import annotations

import pytest

from holdfast.notify.hosts.client import MAX_TRIES, RetriesExhaustedError, RetryLimits, pause_after
from holdfast.system.http import Response

NOW = 1_000_000.0


def answer(status: int, message: str = "", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status=status, headers=named, body=message.encode())


def paused(found: Response | None, attempt: int = 0) -> float | None:
    return pause_after(found, attempt, now=NOW, chance=0.0)


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        (answer(403, retry_after="7"), 7),
        (answer(429, retry_after="30", x_ratelimit_remaining="0", x_ratelimit_reset="1000009"), 30),
        (answer(403, x_ratelimit_remaining="0", x_ratelimit_reset="1000042"), 42),
        (answer(429, x_ratelimit_remaining="0", x_ratelimit_reset="999999"), 0),
        (answer(403, "You have exceeded a secondary rate limit"), 60),
        (answer(429), 60),
        (answer(429, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"), 60),
        (answer(502), 0.5),
        (answer(500), 0.5),
        (None, 0.5),
    ],
)
def test_how_long(found: Response | None, seconds: float) -> None:
    """By what the answer says, in GitHub's own order; soon, where the server stumbled."""
    assert paused(found) == seconds


@pytest.mark.parametrize(
    "found",
    [
        answer(403, "Resource not accessible by integration", x_ratelimit_remaining="4999"),
        answer(401),
        answer(404),
        answer(422),
        answer(301),
    ],
)
def test_what_is_no_use(found: Response) -> None:
    """What is not allowed, or not taken, is not asked for again."""
    assert paused(found) is None


def test_longer_each_time() -> None:
    """Twice as long, for faults and for limits that name no time."""
    assert [paused(None, attempt) for attempt in range(4)] == [0.5, 1, 2, 4]
    assert [paused(answer(429), attempt) for attempt in range(3)] == [60, 120, 240]


def test_limits_ends_with_its_time() -> None:
    """A wait that does not fit is not begun: a report is not worth it."""
    waited: list[float] = []
    limits = RetryLimits(
        20.0, pause=waited.append, monotonic=lambda: sum(waited), now=lambda: NOW, chance=lambda: 0.0
    )
    assert limits.wait(answer(403, retry_after="15"))
    with pytest.raises(RetriesExhaustedError) as raised:
        limits.wait(answer(403, retry_after="15"))
    assert waited == [15.0]
    assert raised.value.needed == 15.0


def test_limits_ends_with_its_tries() -> None:
    """Faults without an end are not asked for without an end."""
    waited: list[float] = []
    limits = RetryLimits(1e9, pause=waited.append, monotonic=lambda: 0.0, now=lambda: NOW, chance=lambda: 0.0)
    for _ in range(MAX_TRIES - 1):
        assert limits.wait(None)
    with pytest.raises(RetriesExhaustedError):
        limits.wait(None)
    assert len(waited) == MAX_TRIES - 1
