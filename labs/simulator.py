"""What every service of the labs shares: a server on loopback, a log of calls, and faults on demand.

    GET    /calls    every call so far           POST   /faults   misbehave (see Fault)
    DELETE /calls    forget them                 DELETE /faults   behave again
    GET    /counts   how often each operation    POST   /release  let held calls go on
                     did its work

A test uses a simulator as a context manager and tells it directly; another process uses the endpoints.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import socket
import threading
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, get_args
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

What = Literal["delay", "hold", "throttle", "limit", "fail-before", "fail-after"]

Answer = tuple[int, Any]
"""A status, and a text or something to be shown as JSON."""

_LONGEST_BODY = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """How the next `count` calls of one operation go wrong; without a count, all until `DELETE /faults`.

    delay: the answer waits `seconds`. hold: it waits for `POST /release`. Both do the work first, or with
    `before` only then; with `fragile` too, not at all if the caller is gone by then. throttle: 429, nothing
    is done. limit: the same, in the way of the simulated service. fail-before: `status`, nothing is done.
    fail-after: the work is done, and the answer is `status` all the same. With `name`, only calls about such
    objects. `operation` may be `*`: any.
    """

    operation: str
    what: What
    count: int | None = 1
    seconds: float = 0.0
    status: int = 500
    text: str = ""
    name: str | None = None
    before: bool = False
    fragile: bool = False

    def __post_init__(self) -> None:
        if self.what not in get_args(What):
            raise ValueError(f"what is one of {', '.join(get_args(What))}")

    @property
    def answer(self) -> Answer:
        """What a caller is told instead of the result."""
        if self.what in ("throttle", "limit"):
            return HTTPStatus.TOO_MANY_REQUESTS, self.text or "Rate exceeded: try again later."
        return self.status, self.text or f"The service was told to {self.what} at {self.operation}."


@dataclass(slots=True, kw_only=True)
class Call:
    """One call. `status` is None until it is answered; times are seconds since the start."""

    number: int
    operation: str
    id: str | None
    name: str | None
    started: float
    ended: float | None = None
    fault: What | None = None
    status: int | None = None
    held: bool = False
    """It waits for a release at this moment."""
    worked: bool = False
    """The work is done, whatever is answered and whoever hears it."""


class Request(NamedTuple):
    method: str
    path: tuple[str, ...]
    """The segments, each unquoted."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: dict[str, Any]
    gone: Callable[[], bool]
    """Whether the caller has hung up."""


class Simulator:
    """A service and everything it knows. Its methods are safe to call from any thread."""

    name: ClassVar = "simulator"
    operations: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, port: int = 0) -> None:
        self._lock = threading.RLock()
        self._faults: list[Fault] = []
        self._calls: list[Call] = []
        self._released = threading.Event()
        self._start = time.monotonic()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.simulator = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()

    def serve_forever(self) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            self._server.serve_forever()
        self._server.server_close()

    def calls(self, operation: str | None = None) -> list[Call]:
        """Every call so far, or those of one operation; also the ones that are still running."""
        with self._lock:
            return [replace(each) for each in self._calls if operation in (None, each.operation)]

    def counts(self) -> dict[str, int]:
        """How often each operation did its work, whatever its callers were told."""
        return dict(Counter(each.operation for each in self.calls() if each.worked))

    def held(self, operation: str, name: str | None = None) -> bool:
        """Whether a call of this operation, about an object of this name, waits at this moment."""
        return any(each.held and name in (None, each.name) for each in self.calls(operation))

    def forget_calls(self) -> None:
        with self._lock:
            self._calls.clear()

    def misbehave(self, fault: Fault) -> None:
        if fault.operation not in self.operations | {"*"}:
            raise ValueError(f"operation is one of {', '.join(sorted(self.operations))}")
        with self._lock:
            self._faults.append(fault)

    def behave(self) -> None:
        """Forget every fault, and let held calls go on."""
        with self._lock:
            self._faults.clear()
        self.release()

    def release(self) -> None:
        """Let go on what is held now; what is held later waits for the next release."""
        with self._lock:
            released, self._released = self._released, threading.Event()
        released.set()

    def respond(self, request: Request) -> Answer:
        """A request from its beginning to its end."""
        control = self.controls(request).get((request.method, "/".join(request.path)))
        if control is not None:
            return HTTPStatus.OK, control()
        return HTTPStatus.NOT_FOUND, f"There is nothing at {request.method} /{'/'.join(request.path)}."

    def controls(self, request: Request) -> dict[tuple[str, str], Callable[[], Any]]:
        """What is told and asked beside the simulated service, by method and path."""
        return {
            ("GET", ""): lambda: {"service": self.name},
            ("GET", "calls"): lambda: {"calls": [asdict(each) for each in self.calls()]},
            ("DELETE", "calls"): self.forget_calls,
            ("GET", "counts"): lambda: {"counts": self.counts()},
            ("POST", "faults"): lambda: self.misbehave(Fault(**request.body)),
            ("DELETE", "faults"): self.behave,
            ("POST", "release"): self.release,
        }

    def failure(self, fault: Fault) -> Answer:
        """How this service says that it failed."""
        return fault.answer

    def worked(self, answer: Answer) -> bool:
        """Whether an answer says that the work was done."""
        return answer[0] < HTTPStatus.BAD_REQUEST

    def perform(
        self,
        operation: str,
        work: Callable[[], Answer],
        *,
        id: str | None = None,  # noqa: A002 (the field of Call)
        name: str | None = None,
        gone: Callable[[], bool] = lambda: False,
    ) -> Answer:
        """Record a call, do its work, and let the fault have its way."""
        call, fault, released = self._begin(operation, id, name)

        def do() -> Answer:
            with self._lock:
                done = work()
            call.worked = self.worked(done)
            return done

        def wait() -> None:
            call.held = True
            released.wait()
            call.held = False

        answer = do() if fault is None else self._faulty(fault, do, wait, gone)
        with self._lock:
            call.ended, call.status = time.monotonic() - self._start, answer[0]
        return answer

    def _begin(
        self, operation: str, object_id: str | None, name: str | None
    ) -> tuple[Call, Fault | None, threading.Event]:
        with self._lock:
            fault = self._next_fault(operation, name)
            call = Call(
                number=len(self._calls) + 1,
                operation=operation,
                id=object_id,
                name=name,
                started=time.monotonic() - self._start,
                fault=fault.what if fault else None,
            )
            self._calls.append(call)
            return call, fault, self._released

    def _next_fault(self, operation: str, name: str | None) -> Fault | None:
        for place, fault in enumerate(self._faults):
            if fault.operation in (operation, "*") and fault.name in (None, name) and fault.count != 0:
                if fault.count is not None:
                    self._faults[place] = replace(fault, count=fault.count - 1)
                return fault
        return None

    def _faulty(
        self, fault: Fault, work: Callable[[], Answer], wait: Callable[[], None], gone: Callable[[], bool]
    ) -> Answer:
        if fault.what in ("throttle", "limit", "fail-before"):
            return self.failure(fault)
        if fault.what == "fail-after":
            work()
            return self.failure(fault)
        early = None if fault.before else work()
        if fault.what == "delay":
            time.sleep(fault.seconds)
        else:
            wait()
        if early is None and fault.fragile and gone():
            return HTTPStatus.SERVICE_UNAVAILABLE, "Nobody waits for this any more; nothing was done."
        return work() if early is None else early


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True
    simulator: Simulator


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _handle(self) -> None:
        try:
            status, answer = self.server.simulator.respond(self._request())
        except (ValueError, TypeError) as error:
            status, answer = HTTPStatus.BAD_REQUEST, str(error)
        text = answer if isinstance(answer, str) else json.dumps(answer)
        kind = "text/plain; charset=utf-8" if isinstance(answer, str) else "application/json"
        data = b"" if status == HTTPStatus.NO_CONTENT else (text + "\n").encode()
        # A caller that was killed does not wait for its answer.
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 (the library's names)

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        stripped = parts.path.strip("/")
        return Request(
            method=self.command,
            path=tuple(map(unquote, stripped.split("/"))) if stripped else (),
            query={name: values[-1] for name, values in parse_qs(parts.query).items()},
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self._body(),
            gone=self._gone,
        )

    def _gone(self) -> bool:
        """A caller sends one request and then waits: what can be read after it is the end."""
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _body(self) -> dict[str, Any]:
        length = int(self.headers.get("Content-Length") or 0)
        if not 0 <= length <= _LONGEST_BODY:
            raise ValueError(f"A body has at most {_LONGEST_BODY} bytes.")
        parsed = json.loads(self.rfile.read(length) or b"{}")
        if not isinstance(parsed, dict):
            raise TypeError("The body is a JSON object.")
        return parsed

    def log_message(self, *_: object) -> None:
        """Say nothing: every call can be asked for."""


def serve(description: str, start: Callable[[int], Simulator]) -> None:
    """A simulator as a program: print its address and serve until it is interrupted."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    simulator = start(parser.parse_args().port)
    print(simulator.url, flush=True)
    # Started in the background, a program is born deaf to SIGINT: it asks to hear it, and SIGTERM too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    simulator.serve_forever()
