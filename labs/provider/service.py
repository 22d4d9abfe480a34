"""A small HTTP service that keeps lab objects in memory and misbehaves when told to. Loopback only.

    POST   /objects        make one              GET    /calls    every call so far
    GET    /objects        all, or ?name=        DELETE /calls    forget them
    GET    /objects/ID     one                   POST   /faults   misbehave (see Fault)
    PUT    /objects/ID     change fields         DELETE /faults   behave again
    DELETE /objects/ID     remove                POST   /release  let held calls go on
    GET    /made           every id ever made    DELETE /made     forget them

A test uses `LabService` as a context manager and tells it directly; another process uses the endpoints.
`python labs/provider/service.py --port 0` prints the address and serves until it is interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import secrets
import signal
import socket
import threading
import time
from dataclasses import asdict, dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal, Self, get_args
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

Operation = Literal["create", "read", "update", "delete", "find"]
What = Literal["delay", "hold", "throttle", "fail-before", "fail-after"]

Answer = tuple[int, Any]
"""A status, and a text or something to be shown as JSON."""

_LONGEST_BODY = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """How the next `count` calls of one operation go wrong; without a count, all until `DELETE /faults`.

    delay: the answer waits `seconds`. hold: it waits for `POST /release`. Both do the work first, or with
    `before` only then; with `fragile` too, not at all if the caller is gone by then. throttle: 429, nothing
    is done. fail-before: `status`, nothing is done. fail-after: the work is done, and the answer is `status`
    all the same. With `name`, only calls about such objects.
    """

    operation: Operation
    what: What
    count: int | None = 1
    seconds: float = 0.0
    status: int = 500
    text: str = ""
    name: str | None = None
    before: bool = False
    fragile: bool = False

    def __post_init__(self) -> None:
        if self.operation not in get_args(Operation):
            raise ValueError(f"operation is one of {', '.join(get_args(Operation))}")
        if self.what not in get_args(What):
            raise ValueError(f"what is one of {', '.join(get_args(What))}")

    @property
    def answer(self) -> Answer:
        """What a caller is told instead of the result."""
        if self.what == "throttle":
            return HTTPStatus.TOO_MANY_REQUESTS, self.text or "Rate exceeded: try again later."
        return self.status, self.text or f"The service was told to {self.what} at {self.operation}."


@dataclass(slots=True, kw_only=True)
class Call:
    """One request about objects. `status` is None until it is answered; times are seconds since the start."""

    number: int
    operation: Operation
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


class LabService:
    """The service and everything it knows. Its methods are safe to call from any thread."""

    def __init__(self, port: int = 0) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, dict[str, Any]] = {}
        self._faults: list[Fault] = []
        self._calls: list[Call] = []
        self._made: dict[str, list[str]] = {}
        self.stops = 0
        """How often a provider heard from Terraform that it was interrupted."""
        self._released = threading.Event()
        self._start = time.monotonic()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.lab = self
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

    def objects(self) -> dict[str, dict[str, Any]]:
        """Every object by its id, as a copy."""
        with self._lock:
            return {each: dict(values) for each, values in self._objects.items()}

    def calls(self, operation: Operation | None = None) -> list[Call]:
        """Every call so far, or those of one operation; also the ones that are still running."""
        with self._lock:
            return [replace(each) for each in self._calls if operation in (None, each.operation)]

    def held(self, operation: Operation, name: str | None = None) -> bool:
        """Whether a call of this operation, about an object of this name, waits at this moment."""
        return any(each.held and name in (None, each.name) for each in self.calls(operation))

    def made(self) -> dict[str, list[str]]:
        """Every id that was ever made, by name and in order, of objects that are gone too."""
        with self._lock:
            return {name: list(ids) for name, ids in self._made.items()}

    def forget_made(self) -> None:
        with self._lock:
            self._made.clear()

    def note_stop(self) -> None:
        with self._lock:
            self.stops += 1

    def forget_calls(self) -> None:
        with self._lock:
            self._calls.clear()

    def misbehave(self, fault: Fault) -> None:
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

    def put(self, object_id: str, values: dict[str, Any]) -> None:
        """Make or change an object behind everyone's back: drift."""
        with self._lock:
            self._objects[object_id] = {**self._objects.get(object_id, {}), **values, "id": object_id}

    def remove(self, object_id: str) -> None:
        """Take an object away behind everyone's back."""
        with self._lock:
            del self._objects[object_id]

    def answer(
        self,
        operation: Operation,
        *,
        object_id: str | None,
        name: str | None,
        values: dict[str, Any],
        gone: Callable[[], bool] = lambda: False,
    ) -> Answer:
        """One call from its beginning to its end: record it, do the work, and let the fault have its way.

        `gone` tells whether the caller has hung up.
        """
        call, fault, released = self._begin(operation, object_id, name)

        def work() -> Answer:
            done = self._work(operation, object_id, name, values)
            call.worked = True
            return done

        def wait() -> None:
            call.held = True
            released.wait()
            call.held = False

        answer = work() if fault is None else _faulty(fault, work, wait, gone)
        with self._lock:
            call.ended, call.status = time.monotonic() - self._start, answer[0]
        return answer

    def _begin(
        self, operation: Operation, object_id: str | None, name: str | None
    ) -> tuple[Call, Fault | None, threading.Event]:
        with self._lock:
            if name is None and object_id in self._objects:
                name = self._objects[object_id].get("name")
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

    def _next_fault(self, operation: Operation, name: str | None) -> Fault | None:
        for place, fault in enumerate(self._faults):
            if fault.operation == operation and fault.name in (None, name) and fault.count != 0:
                if fault.count is not None:
                    self._faults[place] = replace(fault, count=fault.count - 1)
                return fault
        return None

    def _work(
        self, operation: Operation, object_id: str | None, name: str | None, values: dict[str, Any]
    ) -> Answer:
        with self._lock:
            if operation == "find":
                named = [dict(each) for each in self._objects.values() if name in (None, each.get("name"))]
                return HTTPStatus.OK, {"objects": named}
            if operation == "create":
                made = {**values, "id": f"obj-{secrets.token_hex(6)}"}
                self._objects[made["id"]] = made
                self._made.setdefault(str(made.get("name")), []).append(made["id"])
                return HTTPStatus.CREATED, dict(made)
            if object_id not in self._objects:
                return HTTPStatus.NOT_FOUND, f'There is no object "{object_id}".'
            if operation == "delete":
                return HTTPStatus.OK, self._objects.pop(object_id)
            if operation == "update":
                self._objects[object_id].update(values, id=object_id)
            return HTTPStatus.OK, dict(self._objects[object_id])


def _faulty(
    fault: Fault, work: Callable[[], Answer], wait: Callable[[], None], gone: Callable[[], bool]
) -> Answer:
    if fault.what in ("throttle", "fail-before"):
        return fault.answer
    if fault.what == "fail-after":
        work()
        return fault.answer
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
    lab: LabService


_OPERATIONS: dict[tuple[str, bool], Operation] = {
    ("POST", False): "create",
    ("GET", False): "find",
    ("GET", True): "read",
    ("PUT", True): "update",
    ("DELETE", True): "delete",
}


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def _handle(self) -> None:
        try:
            status, answer = self._routed(self.server.lab)
        except (ValueError, TypeError) as error:
            status, answer = HTTPStatus.BAD_REQUEST, str(error)
        text = answer if isinstance(answer, str) else json.dumps(answer)
        kind = "text/plain; charset=utf-8" if isinstance(answer, str) else "application/json"
        data = (text + "\n").encode()
        # A caller that was killed does not wait for its answer.
        with contextlib.suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815 (the library's names)

    def _routed(self, service: LabService) -> Answer:
        parts = urlsplit(self.path)
        section, _, object_id = parts.path.strip("/").partition("/")
        body = self._body()
        operation = _OPERATIONS.get((self.command, bool(object_id)))
        if section == "objects" and operation is not None:
            name = body.get("name") if operation == "create" else parse_qs(parts.query).get("name", [None])[0]
            return service.answer(
                operation, object_id=unquote(object_id) or None, name=name, values=body, gone=self._gone
            )
        control = _controls(service, body).get((self.command, section))
        if control is None:
            return HTTPStatus.NOT_FOUND, f"There is nothing at {self.command} {parts.path}."
        return HTTPStatus.OK, control()

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


def _controls(service: LabService, body: dict[str, Any]) -> dict[tuple[str, str], Callable[[], Any]]:
    return {
        ("GET", ""): lambda: {"service": "lab"},
        ("GET", "calls"): lambda: {"calls": [asdict(each) for each in service.calls()]},
        ("DELETE", "calls"): service.forget_calls,
        ("GET", "made"): lambda: {"made": service.made()},
        ("DELETE", "made"): service.forget_made,
        ("POST", "faults"): lambda: service.misbehave(Fault(**body)),
        ("DELETE", "faults"): service.behave,
        ("POST", "release"): service.release,
        ("POST", "stops"): service.note_stop,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Keep lab objects behind HTTP, on this machine only.")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    service = LabService(parser.parse_args().port)
    print(service.url, flush=True)
    # Started in the background, a program is born deaf to SIGINT: it asks to hear it, and SIGTERM too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    service.serve_forever()


if __name__ == "__main__":
    main()
