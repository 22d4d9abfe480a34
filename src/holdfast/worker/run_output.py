"""What a change prints while a worker runs it: one line per event, in the logs of its runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from holdfast.database.database import Database
from holdfast.kernel.errors import HoldfastError, Problem
from holdfast.kernel.server_hints import on_server
from holdfast.plans.events import (
    ACTIVITIES,
    STOPPING_NOW,
    ChangeStarted,
    Event,
    Note,
    PhaseStarted,
    ProgramOutput,
    Resource,
    StackFinished,
    Stopping,
)
from holdfast.secrets.redact import Redactor
from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.server_runs.contents import RunLog, append_lines
from holdfast.store.server_runs.rows import RUN

_BATCH_SECONDS: Final = 0.1
_STOPPING: Final = "Stopping after the resources in progress."


class RunOutput:
    """Collects lines, and writes them every tenth of a second."""

    def __init__(
        self,
        database: Database,
        blobs: EncryptedBlobs,
        change: str,
        runs: Mapping[str, str],
        redactor: Redactor,
    ) -> None:
        """`runs`: ids, by stack."""
        self._database = database
        self._blobs = blobs
        self._change = change
        self._runs = runs
        self._redactor = redactor
        self._operation = "apply"  # Also of what a reconcile applies, which begins without that event.
        self._lines: dict[str, list[str]] = {}
        self._next: dict[str, int] = {}
        """Numbers of the next lines. A run whose log another worker began is noticed with the first one."""
        self._writing = asyncio.Lock()

    def handle(self, event: Event) -> None:
        if isinstance(event, ChangeStarted):
            self._operation = event.operation
        if isinstance(event, Stopping):
            event = Note(stack=None, text=_STOPPING if event.level == 1 else STOPPING_NOW)
        for stack, text in event_lines(event, self._operation):
            for run in (self._runs.get(stack),) if stack else self._runs.values():
                if run is not None:
                    self._lines.setdefault(run, []).append(self._redactor.clean(text))

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        async def write() -> None:
            while True:
                await asyncio.sleep(_BATCH_SECONDS)
                await self.flush()

        task = asyncio.create_task(write())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await self.flush()

    async def flush(self) -> None:
        """All lines so far are written, also those that another call has taken."""
        async with self._writing:
            lines, self._lines = self._lines, {}
            if lines:
                # Lines are a help for people: the outcome does not depend on them.
                with contextlib.suppress(HoldfastError):
                    await asyncio.to_thread(self._append, lines)

    def _append(self, lines: Mapping[str, list[str]]) -> None:
        while lines:
            first = {run: self._next.get(run, 1) for run in lines}
            with self._database.transaction(durable=False) as connection:
                added = append_lines(
                    self._blobs, {(run, first[run]): lines[run] for run in lines}, connection
                )
                connection.execute(
                    "select pg_notify(%s, id) from unnest(%s::text[]) as changed (id)",
                    (RUN, [self._change, *added]),
                )
            self._next |= {run: first[run] + len(lines[run]) for run in added}
            lines = {run: texts for run, texts in lines.items() if run not in added}
            self._next |= {run: RunLog(self._blobs, run).end() for run in lines}


async def write_error(output: RunOutput, error: Problem) -> None:
    """Of a whole change, such as code that could not be fetched, into the logs of its runs."""
    for text in (f"{error.code} {error.message}", error.hint):
        if text:
            output.handle(Note(stack=None, text=text))
    await output.flush()


def event_lines(event: Event, operation: str) -> list[tuple[str | None, str]]:
    """Each with its stack; None: of all."""
    match event:
        case PhaseStarted(stack=stack, phase=("plan" | "apply") as phase):
            return [(stack, f"{stack}: {ACTIVITIES[operation if phase == 'apply' else phase]}")]
        case Resource(done=True):
            return [(event.stack, event.shown)]
        case ProgramOutput():
            return [(event.stack, f"{event.stack}: {event.program}: {event.text}")]
        case StackFinished(result=result):
            name, text = result.stack.name, event.shown(operation)
            errors = [f"{error.code} {error.message}" for error in result.problems]
            hints = [on_server(error.hint) for error in result.problems if error.hint is not None]
            return [(name, line) for line in (text, *errors, *hints) if line is not None]
        case Note(stack=noted, text=text):
            return [(noted or None, on_server(f"{noted}: {text}" if noted else text))]
    return []
