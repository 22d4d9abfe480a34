"""Another try for what changes nothing: init, validate, plan, show, state pull.

Only what Terraform itself said is looked at, and only by the table of `terraform.transient`. A lock that
somebody holds, a time limit, an interrupt and an engine that died are other errors, and never tried again.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from holdfast.config.engine import Retries
from holdfast.plans.errors import Cancelled, TerraformFailed
from holdfast.plans.events import Listener, Note
from holdfast.system import clock
from holdfast.terraform.engine.interface import Stop
from holdfast.terraform.tables.transient import Phase, TransientTable, shipped_table

_SPREAD = 0.25
"""Stacks that failed together do not come back together: each wait is up to this part shorter or longer."""

P = ParamSpec("P")
T = TypeVar("T")


def schedule(retries: Retries, jitter: Callable[[], float]) -> tuple[float, ...]:
    """Seconds before each further try: 2, 4, 8 by default, each spread by `jitter`, a number from 0 to 1."""
    return tuple(
        retries.wait * 2**number * (1 - _SPREAD + 2 * _SPREAD * jitter())
        for number in range(retries.attempts)
    )


def reason(
    texts: Iterable[str], phase: Phase, *, also: tuple[str, ...] = (), table: TransientTable | None = None
) -> str | None:
    """The row that says "try again", by its id, or a text of the configuration. A permanent error wins."""
    table = table or shipped_table()
    said = tuple(texts)
    if any(table.permanent_row(text) is not None for text in said):
        return None
    for text in said:
        row = table.transient_row(text, phase)
        if row is not None:
            return row.id
    found = next((one for one in also if any(one.casefold() in text.casefold() for text in said)), None)
    return f"engine.retries.also: {found}" if found is not None else None


async def pause(seconds: float, stop: Stop) -> bool:
    """Wait. False, at once, when somebody asks to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stop.reached(1)
    except TimeoutError:
        return stop.level == 0
    return False


class Retrying:
    """The further tries of one stack: told as they come, and kept for its result."""

    def __init__(
        self,
        *,
        stack: str,
        retries: Retries,
        stop: Stop,
        tell: Listener,
        jitter: Callable[[], float] = clock.chance,
    ) -> None:
        self.stack = stack
        self.notes: list[str] = []
        self._retries = retries
        self._stop = stop
        self._tell = tell
        self._jitter = jitter

    def note(self, text: str) -> None:
        self.notes.append(text)
        self._tell(Note(stack=self.stack, text=text))

    def schedule(self) -> tuple[float, ...]:
        return schedule(self._retries, self._jitter)

    async def wait(self, seconds: float, *, before: str) -> None:
        """Raises Cancelled when somebody asks to stop."""
        if not await pause(seconds, self._stop):
            raise Cancelled("HF-RUN-2", f"{self.stack}: stopped while waiting to {before}")

    async def run(self, phase: Phase, name: str, work: Callable[[], Awaitable[T]]) -> T:
        waits = self.schedule()
        for number, seconds in enumerate(waits, start=1):
            try:
                return await work()
            except TerraformFailed as error:
                row = reason((one.message for one in error.problems), phase, also=self._retries.also)
                if row is None:
                    raise
            self.note(f"{name} failed ({row}); retry {number} of {len(waits)} in {seconds:.1f} s")
            await self.wait(seconds, before=f"try {name} again")
        return await work()


class HasRetrying(Protocol):
    @property
    def retrying(self) -> Retrying: ...


S = TypeVar("S", bound=HasRetrying)


def retried(
    phase: Phase, name: str
) -> Callable[
    [Callable[Concatenate[S, P], Awaitable[T]]], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]
]:
    """For a method that changes nothing: tried again as the configuration says."""

    def wrap(
        method: Callable[Concatenate[S, P], Awaitable[T]],
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        @functools.wraps(method)
        async def steady(self: S, /, *args: P.args, **named: P.kwargs) -> T:
            return await self.retrying.run(phase, name, lambda: method(self, *args, **named))

        return steady

    return wrap
