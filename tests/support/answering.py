"""A small HTTP server on loopback for tests: one function answers, every request is written down."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """In lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(self.body.decode()).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    """So many bytes fewer than promised are sent."""


def told(document: Any, status: int = 200) -> Answer:
    return Answer(
        status=status, body=json.dumps(document).encode(), headers={"Content-Type": "application/json"}
    )


class Answering:
    """Use it as a context. `hold()` keeps every request waiting until the end of the test."""

    def __init__(
        self, answer: Callable[[Asked], Answer], *, tls: ssl.SSLContext | None = None, port: int = 0
    ) -> None:
        self.asked: list[Asked] = []
        self._answer = answer
        self._free = threading.Event()
        self._free.set()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._http.daemon_threads = True
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def hold(self) -> None:
        self._free.clear()

    def release(self) -> None:
        self._free.set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._free.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        self._free.wait()
        return self._answer(asked)


def _handler(server: Answering) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            parts = urlsplit(self.path)
            answer = server.answer(
                Asked(
                    method=self.command,
                    path=parts.path,
                    query={name: values[0] for name, values in parse_qs(parts.query).items()},
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=self.rfile.read(int(self.headers.get("Content-Length") or 0)),
                )
            )
            try:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body) + answer.cut))
                self.end_headers()
                self.wfile.write(answer.body)
            except OSError:
                """Whoever asked did not wait."""

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _do  # noqa: N815 - names of the standard library

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
            """Says nothing."""

    return Handler
