"""One HTTP request, plain and on this machine: `http.client` takes long to load at every start."""

from __future__ import annotations

import socket

_PATIENCE_SECONDS = 600
_PIECE = 65536


class Unreachable(Exception):  # noqa: N818 (it says what is the case)
    """No answer came."""


def send(method: str, url: str, headers: dict[str, str], body: bytes | None = None) -> tuple[int, str]:
    """The status and the text of the answer. Only http on loopback: never the real service."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    name, _, port = host.rpartition(":")
    if scheme != "http" or name not in ("127.0.0.1", "localhost"):
        raise Unreachable(
            f"{url}: this is the provider of the lab, which talks only to simulators: http://127.0.0.1:PORT"
        )
    lines = [f"{method} {slash}{path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{key}: {value}" for key, value in headers.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    data = "\r\n".join([*lines, "", ""]).encode() + (body or b"")
    try:
        with socket.create_connection((name, int(port)), timeout=_PATIENCE_SECONDS) as connection:
            connection.sendall(data)
            answer = b""
            while piece := connection.recv(_PIECE):
                answer += piece
    except OSError as error:
        raise Unreachable(f"{method} {url}: {type(error).__name__}: {error}") from error
    head, _, text = answer.partition(b"\r\n\r\n")
    try:
        status = int(head.split(None, 2)[1])
    except (IndexError, ValueError) as error:
        raise Unreachable(f"{method} {url}: the connection ended before the answer") from error
    return status, text.decode("utf-8", "replace")
