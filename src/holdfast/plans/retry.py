"""Retries of commands that change nothing: init, validate, plan, show, state pull.

Only errors that Terraform reports are retried, by the table `terraform/tables/transient.toml`; never a held
lock, a time limit, an interrupt or an engine crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from holdfast.config.engine import Retries
from holdfast.kernel.errors import Problem
from holdfast.plans.errors import Cancelled, TerraformFailed
from holdfast.plans.events import Listener, Note
from holdfast.system import clock
from holdfast.terraform.engine.interface import Stop
from holdfast.terraform.tables.transient import Phase, TransientTable, shipped_table

_SPREAD = 0.25
"""Each wait is up to this part shorter or longer, so that stacks that failed together retry apart."""

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
    """The id of the table row, or the configured text, that permits a retry. A permanent error wins."""
    table = table or shipped_table()
    errors = tuple(texts)
    if any(table.permanent_row(text) is not None for text in errors):
        return None
    for text in errors:
        row = table.transient_row(text, phase)
        if row is not None:
            return row.id
    matching = (part for part in also if any(part.casefold() in text.casefold() for text in errors))
    part = next(matching, None)
    return f"engine.retries.also: {part}" if part is not None else None


async def pause(seconds: float, stop: Stop) -> bool:
    """Wait. False, at once, if the user stops the change."""
    try:
        async with asyncio.timeout(seconds):
            await stop.reached(1)
    except TimeoutError:
        return stop.level == 0
    return False


class Retrying:
    """The retries of one stack, with notes for its result."""

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
        """Raises Cancelled if the user stops the change."""
        if not await pause(seconds, self._stop):
            raise Cancelled("HF-RUN-2", f"{self.stack}: stopped while waiting to {before}")

    async def run(
        self,
        phase: Phase,
        name: str,
        work: Callable[[], Awaitable[T]],
        attempts: Callable[[tuple[Problem, ...]], int | None] = lambda _: None,
    ) -> T:
        """`attempts` may allow fewer retries after certain problems."""
        waits = self.schedule()
        for number, seconds in enumerate(waits, start=1):
            try:
                return await work()
            except TerraformFailed as error:
                # The names of resources say nothing about what went wrong.
                texts = (problem.message.removeprefix(f"{problem.address}: ") for problem in error.problems)
                row = reason(texts, phase, also=self._retries.also)
                most = attempts(error.problems)
                if row is None or (most is not None and number > most):
                    raise
            self.note(f"{name} failed ({row}); retry {number} of {len(waits)} in {seconds:.1f} s")
            await self.wait(seconds, before=f"try {name} again")
        return await work()
