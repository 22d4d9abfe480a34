"""The least that stores a state: Litestar and psycopg, without checks, versions, locks and encryption.

    python bench/bare_server.py DATA CONNECTIONS

Uses the PostgreSQL of a running `holdfast serve --data DATA`, and prints its address when it is ready.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from litestar import Litestar, Request, Response, get, post
from psycopg_pool import AsyncConnectionPool

from holdfast.database.postgres import Cluster

_TABLE = "create table if not exists bare_states (name text primary key, data bytea not null)"
_WRITE = """
    insert into bare_states (name, data) values (%s, %s)
    on conflict (name) do update set data = excluded.data"""
_READ = "select data from bare_states where name = %s"


async def serve(parameters: dict[str, str], connections: int, listening: socket.socket) -> None:
    @get("/state/{name:str}")
    async def read(name: str) -> Response[bytes]:
        async with pool.connection() as connection:
            cursor = await connection.execute(_READ, (name,), binary=True)
            row = await cursor.fetchone()
        return Response(bytes(row[0]) if row is not None else b"", media_type="application/json")

    @post("/state/{name:str}", status_code=200)
    async def write(name: str, request: Request[Any, Any, Any]) -> None:
        body = await request.body()
        async with pool.connection() as connection:
            await connection.execute(_WRITE, (name, body))

    app = Litestar([read, write], openapi_config=None, logging_config=None)
    config = uvicorn.Config(app, http="h11", ws="none", log_config=None, access_log=False)
    async with AsyncConnectionPool(
        kwargs=dict(parameters), min_size=connections, max_size=connections, open=False
    ) as pool:
        async with pool.connection() as connection:
            await connection.execute(_TABLE)
        print(f"ready at http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        await uvicorn.Server(config).serve(sockets=[listening])


def main() -> None:
    parameters = Cluster(Path(sys.argv[1])).address().parameters
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        asyncio.run(serve(parameters, int(sys.argv[2]), listening))


if __name__ == "__main__":
    main()
