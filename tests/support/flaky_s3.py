"""S3 on loopback (moto's) behind a door that misbehaves as it is told: late, silent, twice, forgetful, deaf.

    with FlakyS3() as s3:
        s3.make_bucket("acme")
        s3.disturb(LostAnswer(), method="PUT", path="leases/", times=1)
        ...                       # AWS variables for the program under test: s3.variables
        s3.calm()

What no fault is told for passes through unchanged. Faults are used up in the order in which they were told.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from moto.server import ThreadedMotoServer
from msgspec import Struct, structs

from holdfast.kernel.values import MaskedStruct

_OF_THE_CONNECTION = frozenset({"connection", "content-length", "transfer-encoding", "server", "date"})
_A_LONG_TIME = 60.0


class LateAnswer(Struct, frozen=True):
    """It is done at once, and the answer comes after so many seconds (or when all is calm again)."""

    seconds: float = _A_LONG_TIME


class LateArrival(Struct, frozen=True):
    """The request is held up on its way: it is done, and answered, after so many seconds (or when calm)."""

    seconds: float = _A_LONG_TIME


class LostAnswer(Struct, frozen=True):
    """It is done, and the connection breaks before the answer."""


class LostRequest(Struct, frozen=True):
    """The connection breaks before anything is done."""


class HalfAnswer(Struct, frozen=True):
    """It is done, and the connection breaks in the middle of the answer's body."""


class Twice(Struct, frozen=True):
    """It is done twice; the second answer is the one that comes back."""


class Fails(Struct, frozen=True):
    """An answer of S3's own that says no; with `done`, although it was done."""

    status: int = 503
    code: str = "SlowDown"
    done: bool = False


class Deaf(Struct, frozen=True):
    """A service that does not know some headers, and does as if they were not there."""

    to: tuple[str, ...] = ("If-None-Match", "If-Match")


Fault = LateAnswer | LateArrival | LostAnswer | LostRequest | HalfAnswer | Twice | Fails | Deaf


class _Told(Struct):
    fault: Fault
    method: str | None
    path: str
    left: float


class Call(MaskedStruct, frozen=True, kw_only=True):
    method: str
    path: str
    headers: dict[str, str]


class _Answer(MaskedStruct, frozen=True, kw_only=True):
    status: int
    headers: list[tuple[str, str]]
    body: bytes
    cut: bool = False


class FlakyS3:
    """Writes are let through one at a time: S3 does them so, moto looks and writes in two steps."""

    def __init__(self) -> None:
        self._moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        self._told: list[_Told] = []
        self._calls: list[Call] = []
        self._calmed = threading.Event()
        self._open: set[socket.socket] = set()
        self._port = 0

    def __enter__(self) -> Self:
        self._moto.start()
        host, port = self._moto.get_host_and_port()
        self._upstream = f"{host}:{port}"
        self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.calm()
        self._hang_up()
        self._moto.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def variables(self) -> dict[str, str]:
        """What a program needs to find it: the standard variables, and nothing else of this machine."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_REGION": "eu-west-1",
            "AWS_ACCESS_KEY_ID": "AKIAHOLDFASTTESTS001",
            "AWS_SECRET_ACCESS_KEY": "not-a-secret-of-anybody",
            "AWS_EC2_METADATA_DISABLED": "true",
            "HOME": "/nonexistent",
        }

    @property
    def calls(self) -> list[Call]:
        """Every request that came in, disturbed or not."""
        with self._guard:
            return list(self._calls)

    def make_bucket(self, name: str) -> None:
        assert self._forward("PUT", f"/{name}", {}, b"").status == HTTPStatus.OK

    def disturb(
        self, fault: Fault, *, method: str | None = None, path: str = "", times: float = float("inf")
    ) -> None:
        """For the next requests with this method and this text in their path."""
        with self._guard:
            self._told.append(_Told(fault, method, path, times))

    def calm(self) -> None:
        """No fault any more; what was held up goes on now."""
        with self._guard:
            self._told.clear()
            self._calmed.set()
            self._calmed = threading.Event()

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Nobody listens: open connections break, new ones are refused."""
        self._hang_up()
        try:
            yield
        finally:
            self._listen()

    def _listen(self) -> None:
        flaky = self

        class Handler(_Handler):
            s3 = flaky

        self._http = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._http.daemon_threads = True
        self._port = self._http.server_port
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def _hang_up(self) -> None:
        self._http.shutdown()
        self._thread.join()
        with self._guard:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._http.server_close()

    def _opened(self, connection: socket.socket) -> None:
        with self._guard:
            self._open.add(connection)

    def _closed(self, connection: socket.socket) -> None:
        with self._guard:
            self._open.discard(connection)

    def _fault_for(self, call: Call) -> tuple[Fault | None, threading.Event]:
        with self._guard:
            self._calls.append(call)
            for told in self._told:
                if told.left > 0 and told.method in {None, call.method} and told.path in call.path:
                    told.left -= 1
                    return told.fault, self._calmed
            return None, self._calmed

    def _forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> _Answer:
        turn = contextlib.nullcontext() if method in {"GET", "HEAD"} else self._writing
        with turn:
            connection = http.client.HTTPConnection(self._upstream, timeout=30)
            try:
                connection.request(method, path, body=body or None, headers=headers)
                answer = connection.getresponse()
                return _Answer(status=answer.status, headers=answer.getheaders(), body=answer.read())
            finally:
                connection.close()

    def _exchange(self, call: Call, body: bytes) -> _Answer | None:
        """The answer to give; None where the connection breaks instead."""
        fault, calmed = self._fault_for(call)

        def do(without: tuple[str, ...] = ()) -> _Answer:
            gone = {"connection", *(name.lower() for name in without)}
            kept = {name: value for name, value in call.headers.items() if name.lower() not in gone}
            return self._forward(call.method, call.path, kept, body)

        match fault:
            case LateArrival(seconds=seconds):
                calmed.wait(seconds)
                answer = do()
            case LateAnswer(seconds=seconds):
                answer = do()
                calmed.wait(seconds)
            case Deaf(to=to):
                answer = do(to)
            case Twice():
                do()
                answer = do()
            case LostRequest() | Fails(done=False):
                answer = _SAID_NO
            case _:
                answer = do()
        return _given(fault, answer)


_SAID_NO = _Answer(status=0, headers=[], body=b"")


def _given(fault: Fault | None, answer: _Answer) -> _Answer | None:
    match fault:
        case LostAnswer() | LostRequest():
            return None
        case HalfAnswer():
            return structs.replace(answer, cut=True)
        case Fails(status=status, code=code):
            words = f"<Error><Code>{code}</Code><Message>as the test wants it</Message></Error>"
            return _Answer(status=status, headers=[("Content-Type", "application/xml")], body=words.encode())
        case _:
            return answer


class _Handler(BaseHTTPRequestHandler):
    s3: FlakyS3
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.s3._opened(self.connection)

    def finish(self) -> None:
        self.s3._closed(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self) -> None:
        # The other side may have given up long ago.
        with contextlib.suppress(OSError):
            super().handle()

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        call = Call(method=self.command, path=self.path, headers=dict(self.headers.items()))
        answer = self.s3._exchange(call, body)
        if answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers:
            if name.lower() not in _OF_THE_CONNECTION:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[: len(answer.body) // 2] if answer.cut else answer.body)
        self.close_connection = self.close_connection or answer.cut

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815 - names of the standard library

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name there
        """Says nothing."""
