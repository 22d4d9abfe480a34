"""The API of Azure DevOps for comment threads of pull requests, as far as Holdfast uses it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from host_server import Answer, Call, HostServer

_REPOSITORY = r"/acme/My%20Project/_apis/git/repositories/0a1b-2c"
_LIST = re.compile(rf"{_REPOSITORY}/pullRequests/(\d+)/threads\Z")
_ONE = re.compile(rf"{_REPOSITORY}/pullRequests/(\d+)/threads/(\d+)/comments/1\Z")
_PULL = re.compile(rf"{_REPOSITORY}/pullRequests/(\d+)\Z")


class AzureServer(HostServer):
    """The repository with the id 0a1b-2c in `My Project` of the organization `acme`."""

    longest = 150_000
    me = "11111111-2222-3333-4444-555555555555"

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
            status = "completed" if number in self.closed else "active"
            return 200, {}, {"pullRequestId": number, "status": status}
        if split.path.endswith("/pullrequestquery"):
            (commit,) = call.body["queries"][0]["items"]
            merged = self.merged.get(commit)
            return 200, {}, {"results": [{commit: [{"pullRequestId": merged}]} if merged else {}]}
        return 404, {}, {"message": "TF401180: The requested pull request was not found."}
