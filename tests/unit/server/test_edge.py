"""What every request gets, without a connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.server.edge import Edge, EdgeLimits
from holdfast.store.server_states.locks import StateRefusal


class Silent:
    def info(self, event: str, **values: object) -> None: ...

    error = info


def test_all_requests_share_the_memory_for_bodies() -> None:
    scope = {
        "type": "http",
        "method": "PUT",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [],
    }
    received, ended = asyncio.Event(), asyncio.Event()

    async def holding(_: Any, receive: Any, __: Any) -> None:
        await receive()
        received.set()
        await ended.wait()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * 60, "more_body": True}

    async def send(_: Any) -> None: ...

    async def main() -> None:
        edge = Edge(holding, log=Silent(), limits=EdgeLimits(memory=100))

        def request() -> Any:
            return edge({**scope, "scheme": "http"}, receive, send)

        first = asyncio.create_task(request())
        await received.wait()
        for _ in range(2):  # What was refused is not counted afterwards.
            with pytest.raises(StateRefusal, match="too much at once"):
                await request()
        ended.set()
        await first
        await request()

    asyncio.run(asyncio.wait_for(main(), 10))
