"""GitLab's API for notes on merge requests, as far as Holdfast uses it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from host_server import TOKEN, Answer, Call, HostServer

_REQUEST = r"/api/v4/projects/42/merge_requests/(\d+)"
_LIST = re.compile(rf"{_REQUEST}/notes\Z")
_ONE = re.compile(rf"{_REQUEST}/notes/(\d+)\Z")
_MERGE_REQUEST = re.compile(rf"{_REQUEST}\Z")
_COMMIT = re.compile(r"/api/v4/projects/42/repository/commits/(\w+)/merge_requests\Z")


class GitlabServer(HostServer):
    """The project with the id 42."""

    header = "PRIVATE-TOKEN"
    authorization = TOKEN
    longest = 1_000_000
    me = "project_42_bot_1a"

    @property
    def api(self) -> str:
        return f"{super().api}/api/v4"

    def asks_who(self, path: str) -> bool:
        return path.endswith("/api/v4/user")

    def unauthorized(self) -> Answer:
        return 401, {}, {"message": "401 Unauthorized"}

    def document(self, comment: dict[str, Any]) -> object:
        author = {"id": 7, "username": comment["author"]}
        return {"id": comment["id"], "body": comment["body"], "author": author, "system": False}

    def answered(self, call: Call) -> Answer:  # noqa: PLR0911 - one per route
        path = urlsplit(call.path).path
        if self.asks_who(path):
            return 200, {}, {"id": 7, "username": self.author}
        if (found := _LIST.match(path)) is not None:
            number = int(found[1])
            if call.method == "GET":
                return self.page(call, number)
            body = call.body["body"]
            return self.written(body, lambda: {"id": self.write(number, body)}, good=201)
        if (found := _ONE.match(path)) is not None and call.method == "PUT":
            return self.rewritten(int(found[2]), call.body["body"])
        if (found := _MERGE_REQUEST.match(path)) is not None:
            number = int(found[1])
            return 200, {}, {"iid": number, "state": "merged" if number in self.closed else "opened"}
        if (found := _COMMIT.match(path)) is not None:
            merged = self.merged.get(found[1])
            return 200, {}, [{"iid": merged, "state": "merged"}] if merged else []
        return 404, {}, {"message": "404 Not found"}
