"""A real state server for Terraform's `http` backend, on loopback, that can be told to misbehave.

It keeps every version it was given, and checks what a careful server checks: the lock on a write, the
lineage, the serial. So a test that loses a state here would lose one anywhere.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

Held = Literal["fragile", "late", "saved"]
"""When a held write is kept: if its sender still waits after the release; after it in any case; before."""


class StateServer:
    """States by path. Use it as a context; `address("net")` is one state's own address."""

    def __init__(self, *, user: tuple[str, str] | None = None) -> None:
        self.versions: dict[str, list[bytes]] = {}
        self.locks: dict[str, dict[str, Any]] = {}
        self.calls: list[tuple[str, str]] = []
        self.user = user
        self.refuse_writes: int | None = None
        """A status that every POST gets, and nothing is kept."""
        self.outage = False
        """Every call is answered with 503, and nothing is kept."""
        self.forget = False
        """Answer 404 although a state exists."""
        self.one_lineage = False
        """Refuse another lineage also after a state without resources."""
        self.hang_up_on_writes = False
        """Every POST ends with a broken connection, and nothing is kept."""
        self.hold_writes: Held | None = None
        """A POST waits for `release`: see Held."""
        self.held = 0
        """How many writes wait at this moment."""
        self._released = threading.Event()
        self._guard = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/{name}"

    def state(self, name: str) -> dict[str, Any]:
        """What is kept now, read."""
        document: dict[str, Any] = json.loads(self.versions[name][-1])
        return document

    def lock_as(self, name: str, who: str) -> None:
        """Somebody else is at work."""
        self.locks[name] = {
            "ID": "6f1c9a34-0000-4000-8000-aaaaaaaaaaaa",
            "Operation": "OperationTypeApply",
            "Info": "",
            "Who": who,
            "Version": "1.15.5",
            "Created": "2025-01-01T00:00:00Z",
            "Path": "",
        }

    def release(self) -> None:
        """Hold nothing any more, and let go on what is held."""
        self.hold_writes = None
        released, self._released = self._released, threading.Event()
        released.set()

    def held_up(
        self, method: str, path: str, body: bytes, credentials: str | None, gone: Callable[[], bool]
    ) -> tuple[HTTPStatus | int, bytes]:
        """The answer, as late as it was told. `gone` says whether the sender has hung up."""
        how, released = self.hold_writes if method == "POST" else None, self._released
        answer = self.answer(method, path, body, credentials) if how in (None, "saved") else None
        if how is not None:
            with self._guard:
                self.held += 1
            released.wait()
            with self._guard:
                self.held -= 1
        if answer is None and how == "fragile" and gone():
            return HTTPStatus.SERVICE_UNAVAILABLE, b""
        return answer if answer is not None else self.answer(method, path, body, credentials)

    def answer(
        self, method: str, path: str, body: bytes, credentials: str | None
    ) -> tuple[HTTPStatus | int, bytes]:
        split = urlsplit(path)
        name = split.path.strip("/")
        with self._guard:
            self.calls.append((method, name))
            if (refused := self._refusal(credentials)) is not None:
                return refused, b""
            match method:
                case "GET":
                    found = None if self.forget else self.versions.get(name)
                    return (HTTPStatus.OK, found[-1]) if found else (HTTPStatus.NOT_FOUND, b"")
                case "LOCK":
                    return self._lock(name, json.loads(body))
                case "UNLOCK":
                    return self._unlock(name, json.loads(body) if body else {})
                case "POST":
                    return self._write(name, body, parse_qs(split.query).get("ID", [""])[0])
                case _:
                    return HTTPStatus.METHOD_NOT_ALLOWED, b""

    def _refusal(self, credentials: str | None) -> HTTPStatus | None:
        if self.outage:
            return HTTPStatus.SERVICE_UNAVAILABLE
        wrong = self.user is not None and credentials != _basic(*self.user)
        return HTTPStatus.UNAUTHORIZED if wrong else None

    def _lock(self, name: str, wanted: dict[str, Any]) -> tuple[HTTPStatus, bytes]:
        held = self.locks.setdefault(name, wanted)
        if held["ID"] != wanted["ID"]:
            return HTTPStatus.LOCKED, json.dumps(held).encode()
        return HTTPStatus.OK, b""

    def _unlock(self, name: str, given: dict[str, Any]) -> tuple[HTTPStatus, bytes]:
        """Without a body it is Terraform's force-unlock, which never says whose lock it means."""
        held = self.locks.get(name)
        if held is not None and given and held["ID"] != given.get("ID"):
            return HTTPStatus.CONFLICT, json.dumps(held).encode()
        self.locks.pop(name, None)
        return HTTPStatus.OK, b""

    def _write(self, name: str, body: bytes, lock: str) -> tuple[HTTPStatus | int, bytes]:
        if self.refuse_writes is not None:
            return self.refuse_writes, b""
        held = self.locks.get(name)
        if held is None or held["ID"] != lock:
            return HTTPStatus.CONFLICT, b""
        known = self.versions.setdefault(name, [])
        if known:
            old, new = json.loads(known[-1]), json.loads(body)
            foreign = old["lineage"] != new["lineage"] and (old["resources"] or self.one_lineage)
            if foreign or old["serial"] > new["serial"]:
                return HTTPStatus.CONFLICT, b""
        known.append(body)
        return HTTPStatus.OK, b""


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _handler(server: StateServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.command == "POST" and server.hang_up_on_writes:
                self.close_connection = True
                return
            status, answer = server.held_up(
                self.command, self.path, body, self.headers.get("Authorization"), self._gone
            )
            # A caller that was killed does not wait for its answer.
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        def _gone(self) -> bool:
            try:
                return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except OSError:
                return True

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):
                super().handle()

        do_GET = do_POST = do_LOCK = do_UNLOCK = do_DELETE = _serve  # noqa: N815 - the names http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
            """Tests look at `calls`."""

    return Handler
