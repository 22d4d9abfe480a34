"""Wake-ups from PostgreSQL: something may have changed. They can be lost, so a listener also polls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.store.server_runs.rows import WORK

if TYPE_CHECKING:
    from holdfast.database.database import Database

POLL: Final = 5.0
_RECONNECT: Final = 1.0


class WakeUp(NamedTuple):
    channel: str | None
    """None: the time to poll, or the connection was lost and notifications with it."""
    payload: str = ""


async def listen(database: Database, *channels: str, poll: float = POLL) -> AsyncGenerator[WakeUp, None]:
    """To be closed with `contextlib.aclosing`. The first one comes when the connection listens: look then
    for what was there before.

    It never ends by itself: a lost connection is made again.
    """
    import psycopg  # noqa: PLC0415 - an extra

    while True:
        try:
            connection = await database.connect_for_notifications()
            async with connection:
                for channel in channels or (WORK,):
                    await connection.execute(f"listen {channel}")
                yield WakeUp(None)
                while True:
                    async for notification in connection.notifies(timeout=poll):
                        yield WakeUp(notification.channel, notification.payload)
                    yield WakeUp(None)
        except (psycopg.Error, OSError):
            yield WakeUp(None)
            await asyncio.sleep(_RECONNECT)
