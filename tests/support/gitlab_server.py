"""GitLab's API for notes on merge requests, as far as Holdfast uses it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from host_server import TOKEN, Answer, Call, HostServer

_PROJECT = r"/api/v4/projects/(?:42|acme%2Fplatform%2Finfra)"
_REQUEST = rf"{_PROJECT}/merge_requests/(\d+)"
_LIST = re.compile(rf"{_REQUEST}/notes\Z")
_ONE = re.compile(rf"{_REQUEST}/notes/(\d+)\Z")
_MERGE_REQUEST = re.compile(rf"{_REQUEST}\Z")
_COMMIT = re.compile(rf"{_PROJECT}/repository/commits/(\w+)/merge_requests\Z")
_PARENTS = re.compile(rf"{_PROJECT}/repository/commits/(\w+)\Z")
_MEMBERS = re.compile(rf"{_PROJECT}/members/all\Z")
_MERGE_BASE = re.compile(rf"{_PROJECT}/repository/merge_base\Z")
_EMOJI = re.compile(rf"{_REQUEST}/notes/(\d+)/award_emoji\Z")
_STATUS = re.compile(rf"{_PROJECT}/statuses/(\w+)\Z")
_STATES = {"running": "pending", "success": "success", "failed": "failure"}


class GitlabServer(HostServer):
    """The project with the id 42."""

    header = "PRIVATE-TOKEN"
    authorization = TOKEN
    longest = 1_000_000
    me = "project_42_bot_1a"

    @property
    def api(self) -> str:
        return f"{super().api}/api/v4"

    def __init__(self, *, author: str | None = None) -> None:
        super().__init__(author=author)
        self.project = "42"
        self.members: dict[str, int] = {"ada": 30, "adam": 20}

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
            if number in self.requests:
                return 200, {}, self.request(number)
            return 200, {}, {"iid": number, "state": "merged" if number in self.closed else "opened"}
        if (found := _COMMIT.match(path)) is not None:
            merged = self.merged.get(found[1])
            return 200, {}, [{"iid": merged, "state": "merged"}] if merged else []
        return next(self._of_webhook(call), (404, {}, {"message": "404 Not found"}))

    def request(self, number: int) -> dict[str, Any]:
        request = self.requests[number]
        return {
            "iid": number,
            "state": "opened" if request.open else "merged" if request.merged else "closed",
            "sha": request.head,
            "diff_refs": {"base_sha": request.base, "head_sha": request.head, "start_sha": request.base},
            "target_branch": request.branch,
            "target_project_id": 42,
            "source_project_id": {"own": 42, "fork": 43, "deleted": None}[request.source],
            "merge_commit_sha": request.merge_commit,
            "squash_commit_sha": None,
            "detailed_merge_status": "not_approved" if request.blocked else "mergeable",
            "draft": False,
        }

    def _of_webhook(self, call: Call) -> Iterator[Answer]:
        split = urlsplit(call.path)
        query = parse_qs(split.query)
        if _MEMBERS.match(split.path):
            named = {name: level for name, level in self.members.items() if query["query"][0] in name}
            yield (
                200,
                {},
                [
                    {"id": 7, "username": name, "access_level": level, "state": "active"}
                    for name, level in sorted(named.items(), reverse=True)
                ],
            )
        if _MERGE_BASE.match(split.path):
            yield 200, {}, {"id": query["refs[]"][0]}
        if (found := _PARENTS.match(split.path)) is not None:
            merged = [request for request in self.requests.values() if request.merge_commit == found[1]]
            yield 200, {}, {"id": found[1], "parent_ids": [merged[0].base, merged[0].head]}
        if _EMOJI.match(split.path):
            self.reactions.append(call.body["name"])
            yield 201, {}, {}
        if (found := _STATUS.match(split.path)) is not None:
            known = self.statuses.setdefault(found[1], [])
            state = _STATES[call.body["state"]]
            if known and known[-1][0] == state == "pending":
                yield 400, {}, {"message": "Cannot transition status via :run from :running"}
            known.append((state, call.body["description"]))
            yield 201, {}, {}
