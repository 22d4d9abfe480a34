"""GitHub's API for comments on pull requests, as far as Holdfast uses it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from host_server import TOKEN, Answer, Call, HostServer, Misbehaviour

__all__ = ["LONGEST", "TOKEN", "GithubServer", "Misbehaviour"]
LONGEST = 65_536
_REPOSITORY = r"/repos/acme/infra"
_LIST = re.compile(rf"{_REPOSITORY}/issues/(\d+)/comments\Z")
_ONE = re.compile(rf"{_REPOSITORY}/issues/comments/(\d+)\Z")
_PULL = re.compile(rf"{_REPOSITORY}/pulls/(\d+)\Z")
_COMMIT = re.compile(rf"{_REPOSITORY}/commits/(\w+)/pulls\Z")


class GithubServer(HostServer):
    def asks_who(self, path: str) -> bool:
        return path.endswith("/graphql")

    def document(self, comment: dict[str, Any]) -> object:
        return {"id": comment["id"], "body": comment["body"], "user": {"login": comment["author"]}}

    def answered(self, call: Call) -> Answer:  # noqa: PLR0911 - one per route
        path = urlsplit(call.path).path
        if self.asks_who(path) and self.knows_viewer:
            return 200, {}, {"data": {"viewer": {"login": self.author}}}
        if (found := _LIST.match(path)) is not None:
            number = int(found[1])
            if call.method == "GET":
                return self.page(call, number)
            body = call.body["body"]
            return self.written(body, lambda: {"id": self.write(number, body)}, good=201)
        if (found := _ONE.match(path)) is not None and call.method == "PATCH":
            return self.rewritten(int(found[1]), call.body["body"])
        if (found := _PULL.match(path)) is not None:
            number = int(found[1])
            return 200, {}, {"number": number, "state": "closed" if number in self.closed else "open"}
        if (found := _COMMIT.match(path)) is not None:
            merged = self.merged.get(found[1])
            return 200, {}, [{"number": merged, "state": "closed"}] if merged else []
        return 404, {}, {"message": "Not Found"}
