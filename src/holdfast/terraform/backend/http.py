"""The HTTP of the local state backend: one connection's requests in, responses out, within limits.

It knows nothing of states. Standard library only, and little of it: this is part of the start of every
worker, and `http.server` (with `email`), `asyncio` or `dataclasses` (with `inspect`) would each cost more
than this whole module. Hence plain classes with slots, and the system's monotonic clock.
"""

from __future__ import annotations

import socket
from time import monotonic

_CHUNK = 1 << 18
_ONE_SEND = 1 << 16
_LINE = 1024
_DRAIN_SECONDS = 5.0
_DRAIN_BYTES = 64 << 20
_NOT_FOUND = 404
_SERVER_ERROR = 500
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    413: "Content Too Large",
    417: "Expectation Failed",
    423: "Locked",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    501: "Not Implemented",
    505: "HTTP Version Not Supported",
}
_NAME = frozenset(b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")


class Refusal(Exception):  # noqa: N818 - a refusal is a response
    """A status and a short sentence that never contains anything of a state.

    Terraform takes a success without a body, and a 404, for "there is no state" and plans to create
    everything again. So a refusal has neither: any status that is not an error becomes 500.
    """

    def __init__(self, status: int, message: str, *, body: bytes | None = None) -> None:
        super().__init__(message)
        self.status = status if 400 <= status < 600 and status != _NOT_FOUND else _SERVER_ERROR  # noqa: PLR2004 - HTTP's ranges
        self.message = message
        self.body = body
        """Sent instead of the sentence: the LockInfo of the holder, as JSON."""


class ConnectionLost(Exception):  # noqa: N818 - not an error of ours
    """The client disconnected or took too long: no response can be sent."""


class Limits:
    """Sizes and timeouts. An idle connection outlasts Go's own idle timeout (90 s)."""

    head: float = 32 << 10
    body: float = 1 << 30
    head_seconds: float = 10.0
    body_seconds: float = 300.0
    send_seconds: float = 300.0
    idle_seconds: float = 120.0

    def __init__(self, **changed: float) -> None:
        self.__dict__.update(changed)


class RequestHead:
    """A request up to its body. Field names are lower case; none is repeated."""

    __slots__ = ("fields", "keep_alive", "method", "target")

    def __init__(self, method: str, target: str, fields: dict[bytes, bytes], *, keep_alive: bool) -> None:
        self.method = method
        self.target = target
        self.fields = fields
        self.keep_alive = keep_alive
        """Whether the connection may serve another request after this one."""


class Response:
    __slots__ = ("body", "fields", "status")

    def __init__(self, status: int, body: bytes = b"", fields: tuple[tuple[str, str], ...] = ()) -> None:
        self.status = status
        self.body = body
        self.fields = fields


class Connection:
    """One connection: requests in sequence, including pipelined ones."""

    def __init__(self, connection: socket.socket, limits: Limits) -> None:
        self._connection = connection
        self._limits = limits
        self._pending = bytearray()

    def head(self, *, first: bool) -> RequestHead | None:
        """The next request, or None where the client ended or stayed silent between two requests."""
        limits = self._limits
        if not self._pending:
            wait = limits.head_seconds if first else limits.idle_seconds
            try:
                self._fill(monotonic() + wait)
            except ConnectionLost:
                return None
        until = monotonic() + limits.head_seconds
        while (end := self._pending.find(b"\r\n\r\n")) < 0:
            if len(self._pending) > limits.head:
                raise Refusal(431, "the request header is too large")
            self._fill(until)
        if end > limits.head:
            raise Refusal(431, "the request header is too large")
        head = _read_head(bytes(self._pending[:end]))
        del self._pending[: end + 4]
        return head

    def body(self, head: RequestHead) -> bytes:
        """The whole body; a truncated one is an error."""
        chunked, length = _framing(head)
        if length > self._limits.body:
            raise Refusal(413, "the request body is too large")
        if (expected := head.fields.get(b"expect")) is not None:
            if expected.lower() != b"100-continue":
                raise Refusal(417, "the request has an unsupported Expect header")
            if chunked or length:
                self._send(b"HTTP/1.1 100 Continue\r\n\r\n")
        until = monotonic() + self._limits.body_seconds
        return self._chunks(until) if chunked else self._exactly(length, until)

    def answer(self, answer: Response, *, keep_alive: bool, bodiless: bool = False) -> None:
        lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Refused')}"]
        lines += [f"{name}: {value}" for name, value in answer.fields]
        lines.append(f"Content-Length: {len(answer.body)}")
        if not keep_alive:
            lines.append("Connection: close")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")
        if bodiless:
            self._send(head)
        elif len(answer.body) <= _ONE_SEND:
            self._send(head + answer.body)
        else:
            self._send(head)
            self._send(answer.body)

    def finish(self) -> None:
        """Close so that the last response arrives: unread input would otherwise reset the connection."""
        until, left = monotonic() + _DRAIN_SECONDS, _DRAIN_BYTES
        try:
            self._connection.shutdown(socket.SHUT_WR)
            while left > 0 and monotonic() < until:
                self._connection.settimeout(max(0.001, until - monotonic()))
                data = self._connection.recv(_CHUNK)
                if not data:
                    return
                left -= len(data)
        except OSError:
            return

    def _exactly(self, length: int, until: float) -> bytes:
        while len(self._pending) < length:
            self._fill(until)
        whole = bytes(memoryview(self._pending)[:length])
        del self._pending[:length]
        return whole

    def _chunks(self, until: float) -> bytes:
        whole = bytearray()
        while size := self._chunk_size(until):
            if len(whole) + size > self._limits.body:
                raise Refusal(413, "the request body is too large")
            whole += self._exactly(size, until)
            if self._exactly(2, until) != b"\r\n":
                raise Refusal(400, "the chunks of the request are malformed")
        rest = self._limits.head
        while line := self._line(until):
            # Trailer fields are ignored, and limited all the same.
            rest -= len(line)
            if rest < 0:
                raise Refusal(431, "the request trailer is too large")
        return bytes(whole)

    def _chunk_size(self, until: float) -> int:
        digits = self._line(until).split(b";", 1)[0].strip(b" \t")
        if not 0 < len(digits) <= 8 or not _HEXADECIMAL.issuperset(digits):  # noqa: PLR2004 - more than the limit
            raise Refusal(400, "a chunk of the request has no size")
        return int(digits, 16)

    def _line(self, until: float) -> bytes:
        while (end := self._pending.find(b"\r\n")) < 0:
            if len(self._pending) > _LINE:
                raise Refusal(400, "a line of the request body is too long")
            self._fill(until)
        line = bytes(self._pending[:end])
        del self._pending[: end + 2]
        return line

    def _fill(self, until: float) -> None:
        left = until - monotonic()
        try:
            if left <= 0:
                raise ConnectionLost
            self._connection.settimeout(left)
            data = self._connection.recv(_CHUNK)
        except OSError:
            raise ConnectionLost from None
        if not data:
            raise ConnectionLost
        self._pending += data

    def _send(self, data: bytes) -> None:
        try:
            self._connection.settimeout(self._limits.send_seconds)
            self._connection.sendall(data)
        except OSError:
            raise ConnectionLost from None


def _read_head(text: bytes) -> RequestHead:
    first, *lines = text.split(b"\r\n")
    parts = first.split(b" ")
    if len(parts) != 3 or not parts[0] or not _NAME.issuperset(parts[0]) or not _visible(parts[1]):  # noqa: PLR2004 - method, target, version
        raise Refusal(400, "the request line is not valid HTTP")
    if parts[2] not in {b"HTTP/1.1", b"HTTP/1.0"}:
        raise Refusal(505, "the request uses an unsupported HTTP version")
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or not name or not _NAME.issuperset(name) or b"\n" in value or b"\0" in value:
            raise Refusal(400, "a header field of the request is not valid HTTP")
        name = name.lower()
        if name in fields:
            raise Refusal(400, "a header field of the request is repeated")
        fields[name] = value.strip(b" \t")
    options = [option.strip() for option in fields.get(b"connection", b"").lower().split(b",")]
    keep_alive = parts[2] == b"HTTP/1.1" and b"close" not in options
    return RequestHead(parts[0].decode("ascii"), parts[1].decode("ascii"), fields, keep_alive=keep_alive)


def _visible(text: bytes) -> bool:
    return bool(text) and all(0x20 < byte < 0x7F for byte in text)  # noqa: PLR2004 - printable ASCII


def _framing(head: RequestHead) -> tuple[bool, int]:
    """Whether the body is chunked, and otherwise its length; never both."""
    coding, length = head.fields.get(b"transfer-encoding"), head.fields.get(b"content-length")
    if coding is not None:
        if length is not None:
            raise Refusal(400, "the request gives its length in two ways")
        if coding.lower() != b"chunked":
            raise Refusal(501, "the request has an unsupported Transfer-Encoding")
        return True, 0
    if length is None:
        return False, 0
    if not length.isdigit() or len(length) > 15:  # noqa: PLR2004 - more digits than the limit has
        raise Refusal(400, "the Content-Length of the request is not a number")
    return False, int(length)
