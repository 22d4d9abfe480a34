"""GitHub's API for comments on pull requests, and its webhook, as far as Holdfast uses them."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from host_server import TOKEN, Answer, Call, HostServer, MadeRequest, Misbehaviour
from joserfc import jwt
from joserfc.jwk import RSAKey

__all__ = ["LONGEST", "TOKEN", "GithubServer", "MadeRequest", "Misbehaviour"]
LONGEST = 65_536
_REPOSITORY = r"/repos/acme/infra"
_LIST = re.compile(rf"{_REPOSITORY}/issues/(\d+)/comments\Z")
_ONE = re.compile(rf"{_REPOSITORY}/issues/comments/(\d+)\Z")
_PULL = re.compile(rf"{_REPOSITORY}/pulls/(\d+)\Z")
_COMMIT = re.compile(rf"{_REPOSITORY}/commits/(\w+)/pulls\Z")
_PERMISSION = re.compile(rf"{_REPOSITORY}/collaborators/([\w-]+)/permission\Z")
_COMPARE = re.compile(rf"{_REPOSITORY}/compare/(\w+)\.\.\.(\w+)\Z")
_REACTION = re.compile(rf"{_REPOSITORY}/issues/comments/(\d+)/reactions\Z")
_STATUS = re.compile(rf"{_REPOSITORY}/statuses/(\w+)\Z")


def request_document(request: MadeRequest, number: int, at: str = "") -> dict[str, Any]:
    """A pull request as GitHub describes it."""
    head: dict[str, Any] = {"sha": request.head, "repo": None}
    if request.source != "deleted":
        head["repo"] = {"full_name": "acme/infra" if request.source == "own" else "mallory/infra"}
    return {
        "number": number,
        "state": "open" if request.open else "closed",
        "updated_at": at,
        "merged": request.merged,
        "merge_commit_sha": request.merge_commit,
        "mergeable_state": "blocked" if request.blocked else "clean",
        "head": head,
        "base": {"sha": request.base, "ref": request.branch, "repo": {"full_name": "acme/infra"}},
    }


def event_headers(body: bytes, secret: str, *, event: str, delivery: str) -> dict[str, str]:
    """As GitHub sends them."""
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "content-type": "application/json",
        "x-github-event": event,
        "x-github-delivery": delivery,
        "x-hub-signature-256": f"sha256={signature}",
    }


def request_event(request: MadeRequest, number: int, action: str, *, at: str, sender: str = "ada") -> bytes:
    return _event(action, sender, {"pull_request": request_document(request, number, at)})


def comment_event(number: int, text: str, *, at: str, sender: str = "ada", id_: int = 99) -> bytes:
    user = {"login": sender, "type": "User"}
    comment = {"id": id_, "body": text, "created_at": at, "user": user}
    return _event("created", sender, {"issue": {"number": number, "pull_request": {}}, "comment": comment})


def _event(action: str, sender: str, rest: dict[str, Any]) -> bytes:
    known = {"action": action, "sender": {"login": sender}, "repository": {"full_name": "acme/infra"}}
    return json.dumps({**known, **rest}).encode()


class GithubServer(HostServer):
    def __init__(self, *, author: str | None = None) -> None:
        super().__init__(author=author)
        self.permissions: dict[str, str] = {"ada": "write"}
        self.app: str | None = None
        self.issued: list[str] = []
        """Tokens of the app."""

    def install(self, app: str, public_key: str, *, minutes: float = 60) -> None:
        """An app, as installation 5: from now on only its tokens are accepted, for so many minutes."""
        self.app, self.app_key, self.app_minutes = app, RSAKey.import_key(public_key), minutes

    def answer(self, call: Call) -> Answer:
        if self.app is None or call.path != "/app/installations/5/access_tokens":
            return super().answer(call)
        self.calls.append(call)
        signed = jwt.decode((call.token or "").removeprefix("Bearer "), self.app_key, algorithms=["RS256"])
        now = datetime.now(UTC)
        good = signed.claims["iss"] == self.app and signed.claims["iat"] <= now.timestamp()
        if not good or not now.timestamp() < signed.claims["exp"] <= signed.claims["iat"] + 600:
            return 401, {}, {"message": "A JSON web token could not be decoded"}
        if call.body["repositories"] != ["infra"] or call.body["permissions"]["contents"] != "read":
            return 422, {}, {"message": "The permissions requested are not granted to this installation."}
        self.issued.append(f"ghs_installation_{len(self.issued)}")
        self.token = self.issued[-1]
        end = now + timedelta(minutes=self.app_minutes)
        return 201, {}, {"token": self.token, "expires_at": end.strftime("%Y-%m-%dT%H:%M:%SZ")}

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
            if number in self.requests:
                return 200, {}, request_document(self.requests[number], number)
            return 200, {}, {"number": number, "state": "closed" if number in self.closed else "open"}
        if (found := _COMMIT.match(path)) is not None:
            merged = self.merged.get(found[1])
            return 200, {}, [{"number": merged, "state": "closed"}] if merged else []
        return next(self._of_webhook(call, path), (404, {}, {"message": "Not Found"}))

    def _of_webhook(self, call: Call, path: str) -> Iterator[Answer]:
        if (found := _PERMISSION.match(path)) is not None and found[1] in self.permissions:
            yield 200, {}, {"permission": self.permissions[found[1]]}
        if (found := _COMPARE.match(path)) is not None:
            yield 200, {}, {"merge_base_commit": {"sha": found[1]}}
        if (found := _REACTION.match(path)) is not None:
            self.reactions.append(call.body["content"])
            yield 201, {}, {}
        if (found := _STATUS.match(path)) is not None:
            self.statuses.setdefault(found[1], []).append((call.body["state"], call.body["description"]))
            yield 201, {}, {}
