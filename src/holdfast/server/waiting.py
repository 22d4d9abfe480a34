"""A server that waits for AWS KMS to open its key: `/healthz` is 200, everything else 503 with the reason."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import uvicorn

from holdfast.secrets.key_wrapping import KmsUnreachable
from holdfast.server.edge import Application, Log, Receive, Scope, Send
from holdfast.server.problems import MEDIA_TYPE, UNAVAILABLE, Denial
from holdfast.system import clock

_PAUSE = 2.0
_T = TypeVar("_T")


def wait_for_key(
    load: Callable[[], _T],
    listening: socket.socket,
    config: Callable[[Application], uvicorn.Config],
    log: Log,
) -> _T:
    """An outage passes; every other error is the caller's."""
    try:
        return load()
    except KmsUnreachable as unreachable:
        problem = unreachable.problem
    log.error("waiting for the key", code=problem.code, message=problem.message)
    with _answering(listening, config(_application(problem.code))):
        while True:
            clock.pause(_PAUSE)
            try:
                return load()
            except KmsUnreachable:
                continue


def _application(code: str) -> Application:
    denial = Denial(
        status=UNAVAILABLE,
        code=code,
        message="the server is not ready: it waits for AWS KMS, which opens its key",
        hint="Its log says why it cannot reach KMS. It starts as soon as it can.",
    )
    healthy = (200, b"application/json", b'{"version":1,"status":"ok"}')
    not_ready = (UNAVAILABLE, MEDIA_TYPE.encode(), denial.body())

    async def answer(scope: Scope, _receive: Receive, send: Send) -> None:
        status, media_type, body = healthy if scope["path"] == "/healthz" else not_ready
        length = b"%d" % len(body)
        headers = [(b"content-type", media_type), (b"content-length", length), (b"retry-after", b"2")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer


@contextmanager
def _answering(listening: socket.socket, config: uvicorn.Config) -> Iterator[None]:
    """In a thread, on the socket of the server that is to start: connections wait for it afterwards."""
    config.lifespan = "off"
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening.dup()]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
