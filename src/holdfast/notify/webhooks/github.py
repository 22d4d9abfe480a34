"""GitHub's webhook: signatures, events, and facts about a pull request."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from holdfast.notify.hosts.client import HostError
from holdfast.notify.hosts.github import API, GITHUB, GithubApi
from holdfast.notify.hosts.interface import commit_of, matching
from holdfast.notify.webhooks.commands import parse_command
from holdfast.notify.webhooks.interface import (
    CONTEXT,
    TOKEN_HINT,
    EventKind,
    RequestState,
    WebhookEvent,
    WebhookHost,
)
from holdfast.notify.webhooks.reading import DELIVERY, read_document, read_number, read_time

_SIGNATURE: Final = re.compile(r"sha256=([0-9a-f]{64})\Z")
_LOGIN: Final = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_ABOUT_COMMITS: Final = {
    "opened": EventKind.OPENED,
    "reopened": EventKind.OPENED,
    "synchronize": EventKind.UPDATED,
}
_WRITING: Final = frozenset({"write", "maintain", "admin"})
_BLOCKED: Final = {
    "blocked": "a required review or check is missing",
    "dirty": "it has conflicts with its base",
    "draft": "it is a draft",
}
_STATUS_TEXT: Final = 140


def is_signed(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    given = _SIGNATURE.match(headers.get("x-hub-signature-256", ""))
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, given[1] if given is not None else "0" * 64) and given is not None


def delivery_of(headers: Mapping[str, str], body: bytes) -> str | None:  # noqa: ARG001 - other hosts need it
    return matching(DELIVERY, headers.get("x-github-delivery"))


def read_event(headers: Mapping[str, str], body: bytes) -> WebhookEvent | None:
    name = headers.get("x-github-event")
    if name not in {"pull_request", "issue_comment"}:
        return None
    match document := read_document(body):
        case {"action": str(), "repository": {"full_name": str(project)}, "sender": {"login": str(sender)}}:
            known: dict[str, Any] = {"project": project, "sender": sender}
            return (_about_request if name == "pull_request" else _about_comment)(document, known)
        case _:
            raise ValueError("it names no repository or no sender")


def _about_request(document: dict[str, Any], known: dict[str, Any]) -> WebhookEvent | None:
    match document:
        case {
            "action": str(action),
            "pull_request": {
                "number": int(number),
                "updated_at": str(at),
                "merged": bool(merged),
                "head": {"sha": str(sha)},
            },
        }:
            kind = _ABOUT_COMMITS.get(action)
            if action == "closed":
                kind = EventKind.MERGED if merged else EventKind.CLOSED
            elif action == "edited" and "base" in (document.get("changes") or {}):
                kind = EventKind.UPDATED
            if kind is None:
                return None
            return WebhookEvent(
                kind=kind, number=read_number(number), at=read_time(at), head=commit_of(sha), **known
            )
        case _:
            raise ValueError("it does not describe a pull request")


def _about_comment(document: dict[str, Any], known: dict[str, Any]) -> WebhookEvent | None:
    """Only new ones: an edited comment may have been answered before. Ours are not commands."""
    match document:
        case {
            "action": "created",
            "issue": {"number": int(number), "pull_request": dict()},
            "comment": {
                "id": int(id_),
                "created_at": str(at),
                "body": str(body),
                "user": {"login": str(login), **user},
            },
        }:
            command = parse_command(body)
            if command is None or user.get("type") == "Bot":
                return None
            known = {**known, "sender": login}
            kind = EventKind.COMMENT
            return WebhookEvent(
                kind=kind, number=read_number(number), at=read_time(at), comment=id_, command=command, **known
            )
        case _:
            return None


class GithubRequestApi(GithubApi):
    def request_state(self, number: int) -> RequestState:
        match self.client.request("GET", f"{self.repository}/pulls/{number}"):
            case {
                "state": str(state),
                "head": {"sha": str(head), **head_side},
                "base": {"sha": str(base), "ref": str(branch), **base_side},
                **rest,
            } if commit_of(head) and commit_of(base):
                merge = rest.get("merge_commit_sha") if rest.get("merged") is True else None
                return RequestState(
                    open=state == "open",
                    head=head,
                    base=base,
                    branch=branch,
                    # The repository of a deleted fork is null.
                    fork=_name(head_side) is None or _name(head_side) != _name(base_side),
                    merge=commit_of(merge) if isinstance(merge, str) else None,
                    blocked=_BLOCKED.get(str(rest.get("mergeable_state"))),
                )
            case _:
                raise HostError(0, "the response does not describe the pull request")

    def may_write(self, event: WebhookEvent) -> bool:
        if not _LOGIN.match(event.sender):
            return False
        url = f"{self.repository}/collaborators/{event.sender}/permission"
        try:
            return self.client.field(url, "permission") in _WRITING
        except HostError as error:
            if error.status == 404:  # noqa: PLR2004 - not a collaborator
                return False
            raise

    def merge_base(self, base: str, head: str) -> str:
        match self.client.request("GET", f"{self.repository}/compare/{base}...{head}?per_page=1"):
            case {"merge_base_commit": {"sha": str(sha)}} if commit_of(sha):
                return sha
            case _:
                raise HostError(0, "the response does not name the merge base")

    def react(self, event: WebhookEvent, *, accepted: bool) -> None:
        content = {"content": "eyes" if accepted else "confused"}
        self.client.request("POST", f"{self.repository}/issues/comments/{event.comment}/reactions", content)

    def set_status(self, number: int, commit: str, state: str, text: str) -> None:  # noqa: ARG002 - other hosts need it
        document = {"state": state, "context": CONTEXT, "description": text[:_STATUS_TEXT]}
        self.client.request("POST", f"{self.repository}/statuses/{commit}", document)


def _name(side: Mapping[Any, Any]) -> str | None:
    match side.get("repo"):
        case {"full_name": str(name)}:
            return name
        case _:
            return None


GITHUB_WEBHOOK: Final = WebhookHost(
    host=structs.replace(
        GITHUB,
        token="the token of the webhook",  # noqa: S106 - a text for messages
        token_hint=TOKEN_HINT,
        permission_hint="Give it read and write access to pull requests and commit statuses.",
        full_report="the run on the server",
    ),
    is_signed=is_signed,
    delivery=delivery_of,
    read_event=read_event,
    open_api=GithubRequestApi,
    project=re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}\Z"),
    api=API,
)
