"""Tells the streams of this process that a run changed: one connection listens for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Final

from holdfast.database.database import Database
from holdfast.store.server_runs.rows import RUN
from holdfast.store.server_runs.wakeups import listen

_LINGER: Final = 5.0
"""Seconds that the connection is kept after the last stream: a client often comes back."""


class RunEvents:
    """Used by one event loop. It connects with the first stream."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._streams: dict[str, set[asyncio.Event]] = {}
        self._listener: asyncio.Task[None] | None = None
        self.ended = False

    def end(self) -> None:
        """The server stops: streams end, and their clients connect again elsewhere or later."""
        self.ended = True
        for event in (event for events in self._streams.values() for event in events):
            event.set()

    @asynccontextmanager
    async def subscribe(self, *runs: str) -> AsyncIterator[asyncio.Event]:
        """The event is set when something of these runs may be new; who waits for it clears it."""
        event = asyncio.Event()
        for run in runs:
            self._streams.setdefault(run, set()).add(event)
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())
        try:
            yield event
        finally:
            for run in runs:
                self._streams[run].discard(event)
                if not self._streams[run]:
                    del self._streams[run]

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)

    async def _listen(self) -> None:
        async with aclosing(listen(self._database, RUN, poll=_LINGER)) as wakeups:
            async for wakeup in wakeups:
                if wakeup.channel is None and not self._streams:
                    return
                runs = tuple(self._streams) if wakeup.channel is None else (wakeup.payload,)
                for event in (event for run in runs for event in self._streams.get(run, ())):
                    event.set()
