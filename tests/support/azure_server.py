"""The API of Azure DevOps for comment threads of pull requests, as far as Holdfast uses it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from host_server import TOKEN, Answer, Call, HostServer, MadeRequest

PROJECT = "My Project/infra"
_IDS = "0a1b-2c", "9d8e-7f"
_REPOSITORY = r"/acme/My%20Project/_apis/git/repositories/(?:0a1b-2c|infra)"
_LIST = re.compile(rf"{_REPOSITORY}/pullRequests/(\d+)/threads\Z")
_ONE = re.compile(rf"{_REPOSITORY}/pullRequests/(\d+)/threads/(\d+)/comments/1\Z")
_PULL = re.compile(rf"{_REPOSITORY}/pullRequests/(\d+)\Z")
_MERGE_BASES = re.compile(rf"{_REPOSITORY}/commits/(\w+)/mergeBases\Z")
_LIKES = re.compile(rf"{_REPOSITORY}/pullRequests/(\d+)/threads/(\d+)/comments/(\d+)/likes\Z")
_STATUS = re.compile(rf"{_REPOSITORY}/pullRequests/(\d+)/statuses\Z")
_LISTS = "/acme/_apis/accesscontrollists/2e9eb7ed-3c0a-47d4-87c1-0ffdd275fd87"
_STATES = {"pending": "pending", "succeeded": "success", "failed": "failure"}


class AzureServer(HostServer):
    """The repository with the id 0a1b-2c in `My Project` of the organization `acme`."""

    longest = 150_000
    me = "11111111-2222-3333-4444-555555555555"

    def __init__(self, *, author: str | None = None) -> None:
        super().__init__(author=author)
        self.allowed: dict[str, int] = {"ada": 2 | 4 | 16384}
        """Effective permissions by login."""
        self.reads_permissions = True

    def accept_personal_token(self) -> None:
        token = base64.b64encode(f":{TOKEN}".encode()).decode()
        self.authorization = f"Basic {token}"

    @staticmethod
    def user(login: str) -> dict[str, str]:
        return {"id": login.encode().hex(), "uniqueName": login, "displayName": login.title()}

    def request(self, number: int, request: MadeRequest) -> dict[str, Any]:
        def commit(id_: str | None) -> dict[str, str] | None:
            return {"commitId": id_} if id_ else None

        return {
            "pullRequestId": number,
            "status": "active" if request.open else "completed" if request.merged else "abandoned",
            "targetRefName": f"refs/heads/{request.branch}",
            "repository": {"id": _IDS[0], "name": "infra", "project": {"id": _IDS[1], "name": "My Project"}},
            "lastMergeSourceCommit": commit(request.head),
            "lastMergeTargetCommit": commit(request.base),
            "lastMergeCommit": commit(request.merge_commit or "f" * 40),
            "mergeStatus": "succeeded",
            "isDraft": False,
            **({} if request.source == "own" else {"forkSource": {"name": "refs/heads/x"}}),
        }

    def asks_who(self, path: str) -> bool:
        return "/_apis/connectionData" in path

    def unauthorized(self) -> Answer:
        """A page to sign in."""
        return 203, {}, "<html>Sign in</html>"

    def document(self, comment: dict[str, Any]) -> object:
        first = {
            "id": 1,
            "content": comment["body"],
            "author": {"id": comment["author"]},
            "commentType": "text",
        }
        return {"id": comment["id"], "comments": [first], "status": "closed", "isDeleted": False}

    def answered(self, call: Call) -> Answer:  # noqa: PLR0911 - one per route
        split = urlsplit(call.path)
        if "api-version=7.1" not in split.query:
            return 400, {}, {"message": "The api-version is missing."}
        if self.asks_who(split.path):
            if not split.path.startswith("/acme/_apis/"):
                return 404, {}, {"message": "The controller was not found."}
            return 200, {}, {"authenticatedUser": {"id": self.author, "providerDisplayName": "Build Service"}}
        if (found := _LIST.match(split.path)) is not None:
            number = int(found[1])
            if call.method == "GET":
                threads = [self.document(one) for one in self.comments.get(number, [])]
                return 200, {}, {"value": threads, "count": len(threads)}
            body = call.body["comments"][0]["content"]
            return self.written(body, lambda: {"id": self.write(number, body)}, good=200)
        if (found := _ONE.match(split.path)) is not None and call.method == "PATCH":
            return self.rewritten(int(found[2]), call.body["content"])
        if (found := _PULL.match(split.path)) is not None:
            number = int(found[1])
            if number in self.requests:
                return 200, {}, self.request(number, self.requests[number])
            status = "completed" if number in self.closed else "active"
            return 200, {}, {"pullRequestId": number, "status": status}
        if split.path.endswith("/pullrequestquery"):
            (commit,) = call.body["queries"][0]["items"]
            merged = self.merged.get(commit)
            return 200, {}, {"results": [{commit: [{"pullRequestId": merged}]} if merged else {}]}
        answers = self._of_webhook(call, split.path, parse_qs(split.query))
        return next(answers, (404, {}, {"message": "TF401180: The requested pull request was not found."}))

    def _of_webhook(self, call: Call, path: str, query: dict[str, list[str]]) -> Iterator[Answer]:
        if path == "/acme/_apis/identities":
            login = bytes.fromhex(query["identityIds"][0]).decode()
            known = [{"descriptor": f"Claims;{login}", "isActive": True}] if login in self.allowed else []
            yield 200, {}, {"value": known}
        if path == "/acme/My%20Project/_apis/git/repositories/infra":
            yield 200, {}, {"id": _IDS[0], "project": {"id": _IDS[1]}}
        if path == _LISTS:
            if not self.reads_permissions:
                yield 403, {}, {"message": "Access denied"}
            descriptor = query["descriptors"][0]
            allowed = self.allowed[descriptor.removeprefix("Claims;")]
            entry = {"descriptor": descriptor, "allow": 0, "extendedInfo": {"effectiveAllow": allowed}}
            good = query["token"] == [f"repoV2/{_IDS[1]}/{_IDS[0]}"] and query["includeExtendedInfo"] == [
                "true"
            ]
            yield 200, {}, {"value": [{"acesDictionary": {descriptor: entry}}] if good else []}
        if path == "/acme/My%20Project/_apis/policy/evaluations":
            if not self.reads_permissions:
                yield 403, {}, {"message": "Access denied"}
            number = int(query["artifactId"][0].rpartition("/")[2])
            status = "queued" if self.requests[number].blocked else "approved"
            optional = {"status": "rejected", "configuration": {"isBlocking": False, "isEnabled": True}}
            required = {"status": status, "configuration": {"isBlocking": True, "isEnabled": True}}
            yield 200, {}, {"value": [optional, required]}
        if (found := _MERGE_BASES.match(path)) is not None:
            yield 200, {}, {"value": [{"commitId": found[1]}]}
        if _LIKES.match(path):
            self.reactions.append("like")
            yield 200, {}, {}
        if (found := _STATUS.match(path)) is not None:
            head = self.requests[int(found[1])].head
            state = _STATES[call.body["state"]]
            self.statuses.setdefault(head, []).append((state, call.body["description"]))
            yield 200, {}, {}
