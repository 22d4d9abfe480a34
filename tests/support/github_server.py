"""A small server that speaks GitHub's REST API for comments, on a real socket, and can be told to misbehave.

It knows what a careful client must know: pages with `Link` headers, the limit of a comment's size, primary
and secondary rate limits, faults of its own, answers that come late or not at all.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

LONGEST = 65_536
TOKEN = "ghs_good"
_LIST = re.compile(r"/repos/acme/infra/issues/(\d+)/comments\Z")
_ONE = re.compile(r"/repos/acme/infra/issues/comments/(\d+)\Z")


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


class GithubServer:
    """One repository, `acme/infra`. Use it as a context; `api` is its address."""

    def __init__(self, *, author: str = "github-actions[bot]") -> None:
        self.token, self.author = TOKEN, author
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.calls: list[Call] = []
        self.to_come: list[Misbehaviour] = []
        self.read_only = False
        self.knows_viewer = True
        self.next_page_at: str | None = None
        """Where the next page is said to be, instead of here."""
        self._last = 0
        self._guard = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
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
    def api(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def write(self, number: int, body: str, author: str | None = None) -> int:
        """Somebody writes a comment; None is ours."""
        self._last += 1
        comment = {"id": self._last, "body": body, "user": {"login": author or self.author}}
        self.comments.setdefault(number, []).append(comment)
        return self._last

    def bodies(self, number: int) -> list[str]:
        return [str(one["body"]) for one in self.comments.get(number, [])]

    def asked(self, method: str) -> int:
        return sum(1 for call in self.calls if call.method == method and not call.path.endswith("/graphql"))

    def answer(self, call: Call) -> tuple[int, dict[str, str], object]:
        with self._guard:
            self.calls.append(call)
            if call.token != f"Bearer {self.token}":
                return 401, {}, {"message": "Bad credentials"}
            return self._answered(call)

    def _answered(self, call: Call) -> tuple[int, dict[str, str], object]:
        split = urlsplit(call.path)
        if split.path == "/graphql" and self.knows_viewer:
            return 200, {}, {"data": {"viewer": {"login": self.author}}}
        if (found := _LIST.match(split.path)) is not None:
            number = int(found[1])
            if call.method == "GET":
                return self._page(number, parse_qs(split.query))
            return self._written(call, lambda body: {"id": self.write(number, body)}, good=201)
        if (found := _ONE.match(split.path)) is not None and call.method == "PATCH":
            for one in (one for some in self.comments.values() for one in some):
                if one["id"] == int(found[1]):
                    return self._written(call, lambda body, one=one: one.update(body=body), good=200)
        return 404, {}, {"message": "Not Found"}

    def _page(self, number: int, query: dict[str, list[str]]) -> tuple[int, dict[str, str], object]:
        size, page = int(query.get("per_page", ["30"])[0]), int(query.get("page", ["1"])[0])
        everything = self.comments.get(number, [])
        first, end = (page - 1) * size, page * size
        headers = {"x-ratelimit-remaining": "4999"}
        if end < len(everything):
            base = self.next_page_at or self.api
            to = f"{base}/repos/acme/infra/issues/{number}/comments?per_page={size}&page="
            headers["Link"] = f'<{to}{page + 1}>; rel="next", <{to}99>; rel="last"'
        return 200, headers, everything[first:end]

    def _written(self, call: Call, write: Any, *, good: int) -> tuple[int, dict[str, str], object]:
        if self.read_only:
            headers = {"x-ratelimit-remaining": "4999"}
            return 403, headers, {"message": "Resource not accessible by integration"}
        body = call.body["body"]
        if len(body) > LONGEST:
            return 422, {}, {"message": f"Body is too long (maximum is {LONGEST} characters)"}
        return good, {}, write(body) or {}

    def misbehaviour(self, method: str, path: str) -> Misbehaviour | None:
        """Of those to come, the first that is meant for this method; asking who we are is never disturbed."""
        if path.endswith("/graphql"):
            return None
        with self._guard:
            found = next((one for one in self.to_come if one.method == method), None)
            if found is not None:
                self.to_come.remove(found)
            return found


def _handler(server: GithubServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            call = Call(
                method=self.command, path=self.path, token=self.headers.get("Authorization"), body=body
            )
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

        do_GET = do_POST = do_PATCH = _serve  # noqa: N815 - the names http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
            """Tests look at `calls`."""

    return Handler
