"""When to retry a request to GitHub, and when to give up. Waits at least as long as GitHub asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.system import clock
from holdfast.system.http import Response

MAX_TRIES = 6
_LIMITED = frozenset({403, 429})
_SECONDARY_PAUSE = 60.0
"""GitHub: "wait for at least one minute", and longer each time, if it does not say how long."""
_SERVER_FAULT = 500
_TIMED_OUT = 408


def is_rate_limited(answer: Response) -> bool:
    """As opposed to forbidden."""
    return answer.status in _LIMITED and (
        answer.status == 429  # noqa: PLR2004 - its name is Too Many Requests
        or "retry-after" in answer.headers
        or answer.headers.get("x-ratelimit-remaining") == "0"
        or b"rate limit" in answer.body.lower()
    )


def pause_after(answer: Response | None, attempt: int, *, now: float, chance: float) -> float | None:
    """Seconds before the next try (`attempt` starts at 0); None if a retry is useless.

    Server errors and missing answers are retried soon; a rate limit when it ends.
    """
    if answer is None or answer.status >= _SERVER_FAULT or answer.status == _TIMED_OUT:
        return float(2**attempt) * (0.5 + chance / 2)
    if not is_rate_limited(answer):
        return None
    return _rate_limit_pause(answer.headers, attempt, now) + chance


def _rate_limit_pause(headers: Mapping[str, str], attempt: int, now: float) -> float:
    after, reset = headers.get("retry-after"), headers.get("x-ratelimit-reset")
    if after is not None and after.strip().isdecimal():
        return float(after)
    if headers.get("x-ratelimit-remaining") == "0" and reset is not None and reset.strip().isdecimal():
        return max(0.0, float(reset) - now)
    return _SECONDARY_PAUSE * float(2**attempt)


class RetriesExhaustedError(Exception):
    """No time or tries are left."""

    def __init__(self, needed: float) -> None:
        super().__init__(f"another {needed:.0f} seconds would be needed")
        self.needed = needed


class RetryLimits:
    """Limits the time and the number of tries of one notification."""

    def __init__(
        self,
        seconds: float = 150.0,
        *,
        pause: Callable[[float], None] = clock.pause,
        monotonic: Callable[[], float] = clock.monotonic,
        now: Callable[[], float] = lambda: clock.now().timestamp(),
        chance: Callable[[], float] = clock.chance,
    ) -> None:
        self._end = monotonic() + seconds
        self._pause, self._monotonic, self._now, self._chance = pause, monotonic, now, chance
        self._attempt = 0

    @property
    def left(self) -> float:
        return max(0.0, self._end - self._monotonic())

    def wait(self, answer: Response | None) -> bool:
        """Wait before the next try; False if a retry is useless."""
        needed = pause_after(answer, self._attempt, now=self._now(), chance=self._chance())
        if needed is None:
            return False
        self._attempt += 1
        if self._attempt >= MAX_TRIES or needed >= self.left:
            raise RetriesExhaustedError(needed)
        self._pause(needed)
        return True
