"""Terraform's and OpenTofu's `http` backend under `/state/NAME`, as an ASGI application.

Terraform takes a 404, a 204 and a 200 without a body for "there is no state" and plans to create everything
again, so a fault is always a 5xx. It repeats what got a 5xx, so every request may arrive twice. It has no
timeout of its own.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs, unquote_to_bytes

from anyio import CapacityLimiter, to_thread
from msgspec import Struct
from msgspec.structs import replace

from holdfast.audit.entry import Entry, What
from holdfast.identity.principal import Principal
from holdfast.kernel.errors import HoldfastError, internal_error
from holdfast.server.audit_log import ServerAudit
from holdfast.server.exceptions import SlowBodyError
from holdfast.server.guards import address_of
from holdfast.server.problems import MEDIA_TYPE, UNAVAILABLE, Denial, denial_from
from holdfast.store.server_states.changes import Author, StateKey
from holdfast.store.server_states.cipher import VersionPlace
from holdfast.store.server_states.locks import LONGEST_INFO, Caller, StateRefusal, caller_of, lock_request
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.rules import read_new_state
from holdfast.terraform.backend.rules import lock_id, matches_md5, md5_of

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AfterWrite = Callable[[VersionPlace, bytes], object]

LONGEST_NAME = 500
_READS = ("GET", "HEAD")
_WRITES = ("POST", "PUT", "LOCK", "UNLOCK", "DELETE")
"""PUT is POST: `update_method` of the backend chooses."""
_NOT_ALLOWED = 405
_OPERATIONS: Final[tuple[What, ...]] = ("push", "import")
"""What `holdfast state` does with a state; anything else is Terraform."""
_JSON = (("content-type", "application/json"),)


class StateLimits(Struct, frozen=True, kw_only=True):
    body: int = 256 << 20
    """Bytes of one state."""
    waiting: int = 16 << 20
    """Bytes of all states that wait for what is done after their write."""
    seconds: float = 300.0
    """For one body to arrive."""
    threads: int = 16


class _Reply(Struct, frozen=True, kw_only=True):
    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    written: tuple[VersionPlace, bytes] | None = None
    """A new version."""


class _Body:
    """What has arrived of a body."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.size = 0


class _Request(Struct, frozen=True, kw_only=True):
    method: str
    key: StateKey
    caller: Caller
    body: bytes
    lock: str | None
    number: int | None
    why: str
    md5: bytes | None
    record: Callable[[Entry], None]
    """In the audit log."""


class _Disconnected(Exception):  # noqa: N818 - not an error of ours
    """The client is gone before its request was complete."""


class StateProtocol:
    def __init__(
        self,
        rows: StateRows,
        authenticate: Callable[[Scope], Principal | Denial],
        *,
        limits: StateLimits | None = None,
        audit: ServerAudit | None = None,
        after_write: AfterWrite | None = None,
        on_fault: Callable[[Exception], None] | None = None,
    ) -> None:
        """`after_write` runs after the response, in a thread: what fails in it harms nothing. Not every
        version gets there, so something else must find those that did not.
        """
        self._rows = rows
        self._authenticate = authenticate
        self._limits = limits or StateLimits()
        self._audit = audit
        self._after_write = after_write
        self._on_fault = on_fault or (lambda _: None)
        self._waiting = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = CapacityLimiter(self._limits.threads)
        self._scans = CapacityLimiter(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            reply = await self._respond(scope, receive)
        except _Disconnected:
            return
        except Exception as error:  # noqa: BLE001 - whatever happens, Terraform must get a 5xx
            reply = self._fault(error)
        fields = [(name.encode(), value.encode()) for name, value in reply.headers]
        fields.append((b"content-length", b"%d" % len(reply.body)))
        await send({"type": "http.response.start", "status": reply.status, "headers": fields})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else reply.body})
        if reply.written is not None and self._after_write is not None:
            self._start_after_write(self._after_write, *reply.written)

    def _start_after_write(self, work: AfterWrite, place: VersionPlace, content: bytes) -> None:
        """In the background. Under load, versions are left out: what waits would fill the memory."""
        if self._waiting and self._waiting + len(content) > self._limits.waiting:
            return

        async def run() -> None:
            try:
                await to_thread.run_sync(work, place, content, limiter=self._scans)
            except Exception as error:  # noqa: BLE001 - the state is safe, and the response was sent
                self._on_fault(error)
            finally:
                self._waiting -= len(content)

        self._waiting += len(content)
        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _respond(self, scope: Scope, receive: Receive) -> _Reply:
        principal = await to_thread.run_sync(self._authenticate, scope, limiter=self._threads)
        if isinstance(principal, Denial):
            return _denied(principal)
        body = _Body()
        try:
            request = await self._read_request(scope, receive, principal, body)
            return await to_thread.run_sync(self._answer, request, limiter=self._threads)
        except StateRefusal as refusal:
            return _refused(refusal)

    async def _read_request(
        self, scope: Scope, receive: Receive, principal: Principal, body: _Body
    ) -> _Request:
        method = scope["method"]
        if method not in _READS + _WRITES:
            raise StateRefusal(405, "HF-STATE-48", "a state supports only " + ", ".join(_READS + _WRITES))
        name = state_name(scope["raw_path"])
        _require_permission(principal, method, name)
        fields = {key.lower(): value for key, value in scope["headers"]}
        lock, number, why = _parameters(scope["query_string"])
        longest = self._limits.body if method in ("POST", "PUT") else LONGEST_INFO
        length = fields.get(b"content-length", b"0")
        if length.isdigit() and int(length) > longest:
            raise _too_large(longest)
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._receive(receive, body, longest)
        except (TimeoutError, SlowBodyError):
            raise StateRefusal(408, "HF-STATE-54", "the request took too long to arrive") from None
        return _Request(
            method=method,
            key=StateKey(principal.home_tenant, name),
            caller=caller_of(principal),
            body=b"".join(body.chunks),
            lock=lock,
            number=number,
            why=why,
            md5=fields.get(b"content-md5"),
            record=lambda entry: self._record(scope, principal, entry),
        )

    def _record(self, scope: Scope, principal: Principal, entry: Entry) -> None:
        if self._audit is not None:
            self._audit.record(principal.home_tenant, principal, entry, address=address_of(scope))

    async def _receive(self, receive: Receive, body: _Body, longest: int) -> None:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            chunk = message.get("body", b"")
            body.chunks.append(chunk)
            body.size += len(chunk)
            if body.size > longest:
                raise _too_large(longest)
            more = message.get("more_body", False)

    def _answer(self, request: _Request) -> _Reply:
        """In a thread. What it returns is committed."""
        match request.method:
            case "POST" | "PUT":
                return self._write(request)
            case "LOCK":
                _require_md5(request)
                info = lock_request(request.body, request.caller)
                self._rows.lock(request.key, info, lease=request.caller.lease)
            case "UNLOCK":
                self._unlock(request)
            case "DELETE":
                if self._rows.delete(request.key, request.caller, lock=request.lock):
                    request.record(Entry(what="delete", stack=request.key.name, outcome="done"))
            case _:
                return self._read(request)
        return _Reply()

    def _read(self, request: _Request) -> _Reply:
        stored = self._rows.read(request.key)
        if stored is None:
            never = Denial(status=404, code="HF-STATE-55", message=f"{request.key.name} has no state")
            return _denied(never)
        digest = base64.b64encode(stored.md5).decode()
        return _Reply(body=stored.content, headers=(*_JSON, ("content-md5", digest)))

    def _write(self, request: _Request) -> _Reply:
        new = read_new_state(request.body, md5=_require_md5(request, required=True))
        lease = request.caller.lease
        author = Author(who=request.caller.who, why=request.why, run=lease.run if lease is not None else None)
        place = self._rows.write(
            request.key, new, author, request.caller, lock=request.lock, number=request.number
        )
        if place is None:
            return _Reply()
        what: What | None = next((name for name in _OPERATIONS if name == request.why), None)
        if what is not None:
            details = {"version": place.number, "serial": new.header.serial}
            request.record(Entry(what=what, stack=request.key.name, outcome="done", details=details))
        return _Reply(written=(place, request.body))

    def _unlock(self, request: _Request) -> None:
        _require_md5(request)
        id_ = lock_id(request.body)
        if id_ is None and request.body.strip():
            raise StateRefusal(400, "HF-STATE-42", "the unlock request has no lock ID")
        lock = (
            self._rows.force_unlock(request.key, request.caller)
            if id_ is None
            else self._rows.unlock(request.key, id_, request.caller)
        )
        if lock is not None:
            details = {"lock": lock.id, "holder": lock.who, "run": lock.run}
            request.record(Entry(what="unlock", stack=request.key.name, outcome="done", details=details))

    def _fault(self, error: Exception) -> _Reply:
        self._on_fault(error)
        if not isinstance(error, HoldfastError):
            error = internal_error(error, "serving a state")
        denial = denial_from(error)
        # Terraform tries again after a 5xx, and only then.
        return _denied(denial if denial.status == UNAVAILABLE else replace(denial, status=500))


def state_name(raw_path: bytes) -> str:
    """The name after `/state/`, percent-decoded once. It may contain slashes, but nothing like a path up."""
    _, _, quoted = raw_path.partition(b"?")[0].partition(b"/state/")
    try:
        name = unquote_to_bytes(quoted).decode()
    except UnicodeDecodeError:
        raise _bad_name("it is not UTF-8") from None
    return valid_name(name)


def valid_name(name: str) -> str:
    if not name or len(name) > LONGEST_NAME:
        raise _bad_name(f"it has {len(name)} characters; allowed are 1 to {LONGEST_NAME}")
    if not name.isprintable():
        raise _bad_name("it contains characters that cannot be printed")
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise _bad_name("a part between its slashes is empty, `.` or `..`")
    return name


def _require_permission(principal: Principal, method: str, name: str) -> None:
    """Never a 404: Terraform would take it for "there is no state"."""
    may = principal.may_read_state if method in _READS else principal.may_write_state
    if not may(name):
        raise StateRefusal(
            403,
            "HF-STATE-53",
            f"{principal.name} may not {'read' if method in _READS else 'write'} the state {name}",
            hint="Use a token with the role operator or ci that covers this state: holdfast token create",
        )


def _bad_name(reason: str) -> StateRefusal:
    return StateRefusal(
        400,
        "HF-STATE-40",
        f"the name of the state is not valid: {reason}",
        hint="Use an address such as /state/network/prod.",
    )


def _parameters(query: bytes) -> tuple[str | None, int | None, str]:
    """`ID` is Terraform's; `fence` is the fencing number of a Holdfast run, `why` its operation."""
    try:
        values = parse_qs(query.decode(), keep_blank_values=True, errors="strict", max_num_fields=20)
        (id_,), (fence,) = values.get("ID", [None]), values.get("fence", [None])
        (why,) = values.get("why", ["terraform"])
        number = int(fence) if fence is not None else None
    except ValueError:
        raise StateRefusal(400, "HF-STATE-42", "the address has no valid lock ID") from None
    return id_ or None, number, why if why in _OPERATIONS else "terraform"


def _require_md5(request: _Request, *, required: bool = False) -> bytes:
    """That of the body."""
    md5 = md5_of(request.body)
    matches = not required if request.md5 is None else matches_md5(md5, request.md5)
    if not matches:
        wrong = "has no Content-MD5" if request.md5 is None else "does not match its Content-MD5"
        raise StateRefusal(
            400,
            "HF-STATE-41",
            f"the request {wrong}",
            hint="Terraform and OpenTofu send it; check whether a proxy removes it or changes the request.",
        )
    return md5


def _too_large(longest: int) -> StateRefusal:
    return StateRefusal(
        413,
        "HF-STATE-57",
        f"the request is larger than {longest} bytes",
        hint="Split the stack, or raise the limit of the server.",
    )


def _refused(refusal: StateRefusal) -> _Reply:
    if refusal.body is not None:
        return _Reply(status=refusal.status, body=refusal.body, headers=_JSON)
    return _denied(denial_from(refusal))


def _denied(denial: Denial) -> _Reply:
    allowed = (("allow", ", ".join(_READS + _WRITES)),) if denial.status == _NOT_ALLOWED else ()
    headers = (("content-type", MEDIA_TYPE), *denial.headers, *allowed)
    return _Reply(status=denial.status, body=denial.body(), headers=headers)
