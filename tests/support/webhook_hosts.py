"""The webhooks of all code hosts, behind one face: the same tests run for each."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from azure_server import PROJECT as AZURE_PROJECT
from azure_server import AzureServer
from github_server import GithubServer, comment_event, event_headers, request_event
from gitlab_server import GitlabServer
from host_server import MadeRequest

DEVELOPER, REPORTER = 30, 20


@dataclass(frozen=True, kw_only=True)
class Sent:
    """An event, without what proves that it is from the host."""

    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


class GithubHooks:
    name, project = "github", "acme/infra"

    def __init__(self) -> None:
        self.server = GithubServer()

    def settings(self) -> dict[str, str]:
        return {"project": self.project, "api": self.server.api}

    def about_request(
        self, request: MadeRequest, action: str, *, at: str, sender: str = "ada", delivery: str = "1"
    ) -> Sent:
        headers = {"x-github-event": "pull_request", "x-github-delivery": delivery}
        return Sent(body=request_event(request, 7, action, at=at, sender=sender), headers=headers)

    def about_comment(
        self, text: str, *, at: str, sender: str = "ada", id_: int = 99, delivery: str = "1"
    ) -> Sent:
        headers = {"x-github-event": "issue_comment", "x-github-delivery": delivery}
        return Sent(body=comment_event(7, text, at=at, sender=sender, id_=id_), headers=headers)

    def renamed(self, sent: Sent, delivery: str) -> Sent | None:
        """The same event under another id; None: its id is signed, or part of it."""
        return replace(sent, headers={**sent.headers, "x-github-delivery": delivery})

    def unrelated(self) -> Sent:
        return Sent(body=b"{}", headers={"x-github-event": "ping", "x-github-delivery": "p"})

    def sign(self, sent: Sent, secret: str) -> dict[str, str]:
        signed = event_headers(sent.body, secret, event="", delivery="")
        return {**signed, **sent.headers}

    def forgeries(self, sent: Sent, secret: str) -> list[dict[str, str]]:
        good = self.sign(sent, secret)
        other = self.sign(replace(sent, body=sent.body + b" "), secret)["x-hub-signature-256"]
        name = "x-hub-signature-256"
        return [self.sign(sent, "another secret"), *({**good, name: bad} for bad in ("sha256=é", "", other))]

    def permit(self, login: str, *, writes: bool) -> None:
        self.server.permissions[login] = "write" if writes else "read"


class GitlabHooks:
    name, project = "gitlab", "acme/platform/infra"

    def __init__(self) -> None:
        self.server = GitlabServer()
        self.server.project = "acme%2Fplatform%2Finfra"

    def settings(self) -> dict[str, str]:
        return {"project": self.project, "api": self.server.api, "host": "gitlab"}

    def about_request(
        self, request: MadeRequest, action: str, *, at: str, sender: str = "ada", delivery: str = "1"
    ) -> Sent:
        actions = {"opened": "open", "reopened": "reopen", "synchronize": "update"}
        known = actions.get(action) or ("merge" if request.merged else "close")
        attributes = {"iid": 7, "action": known, "updated_at": at, "last_commit": {"id": request.head}}
        if action == "synchronize":
            attributes["oldrev"] = "e" * 40
        return self._sent(
            "Merge Request Hook", "merge_request", sender, delivery, object_attributes=attributes
        )

    def about_comment(
        self, text: str, *, at: str, sender: str = "ada", id_: int = 99, delivery: str = "1"
    ) -> Sent:
        note = {
            "id": id_,
            "note": text,
            "created_at": at,
            "updated_at": at,
            "system": False,
            "action": "create",
        }
        return self._sent(
            "Note Hook", "note", sender, delivery, object_attributes=note, merge_request={"iid": 7}
        )

    def _sent(self, event: str, kind: str, sender: str, delivery: str, **rest: Any) -> Sent:
        document = {
            "object_kind": kind,
            "user": {"username": sender},
            "project": {"id": 42, "path_with_namespace": self.project},
            **rest,
        }
        headers = {"x-gitlab-event": event, "webhook-id": delivery, "webhook-timestamp": "1763424000"}
        return Sent(body=json.dumps(document).encode(), headers=headers)

    def renamed(self, sent: Sent, delivery: str) -> Sent | None:  # noqa: ARG002 - as of the others
        return None

    def unrelated(self) -> Sent:
        return Sent(body=b"{}", headers={"x-gitlab-event": "Push Hook", "webhook-id": "p"})

    def sign(self, sent: Sent, secret: str) -> dict[str, str]:
        key = base64.b64decode(secret.removeprefix("whsec_") + "===")
        text = f"{sent.headers['webhook-id']}.{sent.headers.get('webhook-timestamp', '')}.".encode()
        digest = base64.b64encode(hmac.new(key, text + sent.body, hashlib.sha256).digest()).decode()
        signed = {"content-type": "application/json", "webhook-signature": f"v1,{digest}"}
        return {**sent.headers, **signed}

    def forgeries(self, sent: Sent, secret: str) -> list[dict[str, str]]:
        good, name = self.sign(sent, secret), "webhook-signature"
        other = f"whsec_{base64.b64encode(b'0' * 32).decode()}"
        token = {**sent.headers, "content-type": "application/json"}
        return [
            self.sign(sent, other),
            {**good, "webhook-id": "another"},
            {**good, "webhook-timestamp": "1"},
            {**good, name: good[name].replace("v1,", "v2,")},
            # A bad signature is not made up for by a good token.
            {**good, name: "v1,é", "x-gitlab-token": secret},
            {**token, "x-gitlab-token": "whsec_wrong"},
            token,
        ]

    def permit(self, login: str, *, writes: bool) -> None:
        self.server.members[login] = DEVELOPER if writes else REPORTER


class GitlabTokenHooks(GitlabHooks):
    """A webhook with a secret token and no signing token: GitLab before 19, and most webhooks since."""

    def sign(self, sent: Sent, secret: str) -> dict[str, str]:
        given = {name: value for name, value in sent.headers.items() if name.startswith("x-")}
        extra = {"idempotency-key": sent.headers["webhook-id"], "x-gitlab-token": secret}
        return {**given, **extra, "content-type": "application/json"}

    def renamed(self, sent: Sent, delivery: str) -> Sent | None:
        return replace(sent, headers={**sent.headers, "webhook-id": delivery})

    def forgeries(self, sent: Sent, secret: str) -> list[dict[str, str]]:
        good, name = self.sign(sent, secret), "x-gitlab-token"
        return [{**good, name: bad} for bad in ("", "é", secret[:-1], secret.upper())]


class AzureHooks:
    name, project = "azure", AZURE_PROJECT

    def __init__(self) -> None:
        self.server = AzureServer()
        self.server.accept_personal_token()

    def settings(self) -> dict[str, str]:
        return {"project": self.project, "api": f"{self.server.origin}/acme", "host": "azure"}

    def about_request(
        self, request: MadeRequest, action: str, *, at: str, sender: str = "ada", delivery: str = "1"
    ) -> Sent:
        kind = "created" if action == "opened" else "updated"
        resource = {**self.server.request(7, request), "createdBy": self.server.user(sender)}
        return self._sent(f"git.pullrequest.{kind}", at, delivery, resource)

    def about_comment(
        self, text: str, *, at: str, sender: str = "ada", id_: int = 99, delivery: str = "1"
    ) -> Sent:
        comment = {
            "id": 1,
            "content": text,
            "publishedDate": at,
            "lastContentUpdatedDate": at,
            "author": self.server.user(sender),
            "_links": {"threads": {"href": f"https://azure.example/x/pullRequests/7/threads/{id_}"}},
        }
        request = self.server.request(7, self.server.requests.get(7, MadeRequest()))
        resource = {"comment": comment, "pullRequest": request}
        return self._sent("ms.vss-code.git-pullrequest-comment-event", at, delivery, resource)

    def _sent(self, kind: str, at: str, delivery: str, resource: dict[str, Any]) -> Sent:
        document = {"id": delivery, "eventType": kind, "createdDate": at, "resource": resource}
        return Sent(body=json.dumps(document).encode())

    def renamed(self, sent: Sent, delivery: str) -> Sent | None:  # noqa: ARG002 - as of the others
        return None

    def unrelated(self) -> Sent:
        return Sent(body=b'{"eventType": "git.push", "id": "p"}')

    def sign(self, sent: Sent, secret: str) -> dict[str, str]:
        password = base64.b64encode(f"holdfast:{secret}".encode()).decode()
        return {**sent.headers, "content-type": "application/json", "authorization": f"Basic {password}"}

    def forgeries(self, sent: Sent, secret: str) -> list[dict[str, str]]:
        good = self.sign(sent, secret)
        user = base64.b64encode(f"{secret}:".encode()).decode()
        bad = (
            f"Basic {user}",
            f"Bearer {secret}",
            "Basic é",
            "Basic",
            good["authorization"].replace(" ", "  "),
        )
        return [self.sign(sent, secret + "0"), *({**good, "authorization": header} for header in bad)]

    def permit(self, login: str, *, writes: bool) -> None:
        self.server.allowed[login] = 2 | 4 | 16384 if writes else 2 | 16384


Hooks = GithubHooks | GitlabHooks | AzureHooks
HOOKS: dict[str, Callable[[], Hooks]] = {
    "github": GithubHooks,
    "gitlab": GitlabHooks,
    "gitlab-token": GitlabTokenHooks,
    "azure": AzureHooks,
}
