"""Small servers that speak the API of a code host for comments, on a real socket, and can misbehave.

They know what a careful client must know: pages with `Link` headers, the limit of a comment's size, rate
limits, faults of their own, answers that come late or not at all.
"""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

TOKEN = "ghs_good"
Answer = tuple[int, dict[str, str], object]


@dataclass(kw_only=True)
class Misbehaviour:
    """What happens to the next request of a method, once."""

    method: str
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "Server Error"
    done: bool = False
    """The request is carried out all the same, and only its answer is lost or bad."""
    hang_up: bool = False
    held: threading.Event | None = None
    """The answer waits for this."""


@dataclass(kw_only=True)
class Call:
    method: str
    path: str
    token: str | None
    body: Any = None


@dataclass(kw_only=True)
class MadeRequest:
    """A pull request. Each host describes it in its own way."""

    head: str = "a" * 40
    base: str = "b" * 40
    branch: str = "main"
    source: str = "own"
    """The repository of its branch: `own`, `fork` or `deleted`."""
    open: bool = True
    merged: bool = False
    merge_commit: str | None = None
    blocked: bool = False
    """A required review is missing."""


class HostServer:
    """One repository, `acme/infra`. Use it as a context; `api` is its address."""

    header = "Authorization"
    authorization = f"Bearer {TOKEN}"
    longest = 65_536
    me = "github-actions[bot]"

    def __init__(self, *, author: str | None = None) -> None:
        self.token, self.author = TOKEN, author or self.me
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.calls: list[Call] = []
        self.to_come: list[Misbehaviour] = []
        self.read_only = False
        self.closed: set[int] = set()
        self.merged: dict[str, int] = {}
        """Commits, and the pull requests that they came with."""
        self.requests: dict[int, MadeRequest] = {}
        self.reactions: list[str] = []
        self.statuses: dict[str, list[tuple[str, str]]] = {}
        """By commit."""
        self.knows_viewer = True
        self.next_page_at: str | None = None
        """Where the next page is said to be, instead of here."""
        self._last = 0
        self._guard = threading.Lock()

    def __enter__(self) -> Self:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self.to_come:
            if one.held is not None:
                one.held.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def api(self) -> str:
        return self.origin

    def write(self, number: int, body: str, author: str | None = None) -> int:
        """Somebody writes a comment; None is ours."""
        self._last += 1
        comment = {"id": self._last, "body": body, "author": author or self.author}
        self.comments.setdefault(number, []).append(comment)
        return self._last

    def bodies(self, number: int) -> list[str]:
        return [str(one["body"]) for one in self.comments.get(number, [])]

    def asked(self, method: str) -> int:
        return sum(1 for call in self.calls if call.method == method and not self.asks_who(call.path))

    def answer(self, call: Call) -> Answer:
        with self._guard:
            self.calls.append(call)
            if call.token != self.authorization.replace(TOKEN, self.token):
                return self.unauthorized()
            return self.answered(call)

    def unauthorized(self) -> Answer:
        return 401, {}, {"message": "Bad credentials"}

    def asks_who(self, path: str) -> bool:
        raise NotImplementedError

    def answered(self, call: Call) -> Answer:
        raise NotImplementedError

    def document(self, comment: dict[str, Any]) -> object:
        """A comment as the host shows it."""
        raise NotImplementedError

    def page(self, call: Call, number: int) -> Answer:
        split = urlsplit(call.path)
        query = parse_qs(split.query)
        size, page = int(query.get("per_page", ["30"])[0]), int(query.get("page", ["1"])[0])
        everything = self.comments.get(number, [])
        first, end = (page - 1) * size, page * size
        headers = {"x-ratelimit-remaining": "4999"}
        if end < len(everything):
            base = self.next_page_at or self.origin
            to = f"{base}{split.path}?per_page={size}&page="
            headers["Link"] = f'<{to}{page + 1}>; rel="next", <{to}99>; rel="last"'
        return 200, headers, [self.document(one) for one in everything[first:end]]

    def rewritten(self, id_: int, body: str) -> Answer:
        found = [one for some in self.comments.values() for one in some if one["id"] == id_]
        if not found:
            return 404, {}, {"message": "Not Found"}
        return self.written(body, lambda: found[0].update(body=body), good=200)

    def written(self, body: str, write: Any, *, good: int) -> Answer:
        if self.read_only:
            headers = {"x-ratelimit-remaining": "4999"}
            return 403, headers, {"message": "Resource not accessible by integration"}
        if len(body) > self.longest:
            return 422, {}, {"message": f"Body is too long (maximum is {self.longest} characters)"}
        return good, {}, write() or {}

    def misbehaviour(self, method: str, path: str) -> Misbehaviour | None:
        """Of those to come, the first that is meant for this method; asking who we are is never disturbed."""
        if self.asks_who(path):
            return None
        with self._guard:
            found = next((one for one in self.to_come if one.method == method), None)
            if found is not None:
                self.to_come.remove(found)
            return found


def _handler(server: HostServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            call = Call(method=self.command, path=self.path, token=self.headers.get(server.header), body=body)
            wrong = server.misbehaviour(self.command, self.path)
            if wrong is None or wrong.done:
                status, headers, document = server.answer(call)
            else:
                server.calls.append(call)
                status, headers, document = 0, {}, {}
            if wrong is not None:
                if wrong.held is not None:
                    wrong.held.wait()
                if wrong.hang_up:
                    self.close_connection = True
                    return
                status, headers, document = wrong.status, wrong.headers, {"message": wrong.message}
            self._send(status, headers, json.dumps(document).encode())

        def _send(self, status: int, headers: dict[str, str], content: bytes) -> None:
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError):
                super().handle()

        do_GET = do_POST = do_PATCH = do_PUT = _serve  # noqa: N815 - the names http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
            """Tests look at `calls`."""

    return Handler
