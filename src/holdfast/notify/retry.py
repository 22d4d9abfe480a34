"""When to ask GitHub again, and when to give up. Its own rules: what it asks for is waited, never less."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.system import clock
from holdfast.system.http import Response

MOST_TRIES = 6
_LIMITED = frozenset({403, 429})
_SECONDARY_PAUSE = 60.0
"""GitHub: "wait for at least one minute", and longer each time, where it does not say how long."""
_SERVER_FAULT = 500
_TIMED_OUT = 408


def limited(answer: Response) -> bool:
    """Whether an answer says "too often", and not "you may not"."""
    return answer.status in _LIMITED and (
        answer.status == 429  # noqa: PLR2004 - its name is Too Many Requests
        or "retry-after" in answer.headers
        or answer.headers.get("x-ratelimit-remaining") == "0"
        or b"rate limit" in answer.body.lower()
    )


def pause_after(answer: Response | None, attempt: int, *, now: float, chance: float) -> float | None:
    """How long to wait before the next try, from the first (0) on; None where another is no use.

    No answer at all, or a fault of the server, is tried again soon; a limit when it is over.
    """
    if answer is None or answer.status >= _SERVER_FAULT or answer.status == _TIMED_OUT:
        return float(2**attempt) * (0.5 + chance / 2)
    if not limited(answer):
        return None
    return _until_free(answer.headers, attempt, now) + chance


def _until_free(headers: Mapping[str, str], attempt: int, now: float) -> float:
    after, reset = headers.get("retry-after"), headers.get("x-ratelimit-reset")
    if after is not None and after.strip().isdecimal():
        return float(after)
    if headers.get("x-ratelimit-remaining") == "0" and reset is not None and reset.strip().isdecimal():
        return max(0.0, float(reset) - now)
    return _SECONDARY_PAUSE * float(2**attempt)


class OutOfPatienceError(Exception):
    """There is no time left for what the other side asks for."""

    def __init__(self, needed: float) -> None:
        super().__init__(f"another {needed:.0f} seconds would be needed")
        self.needed = needed


class RetryLimits:
    """A limit of time and of tries for one piece of telling, whatever the other side does."""

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

    def again(self, answer: Response | None) -> bool:
        """Wait as long as is asked for, and say True; False where another try is no use."""
        needed = pause_after(answer, self._attempt, now=self._now(), chance=self._chance())
        if needed is None:
            return False
        self._attempt += 1
        if self._attempt >= MOST_TRIES or needed >= self.left:
            raise OutOfPatienceError(needed)
        self._pause(needed)
        return True
