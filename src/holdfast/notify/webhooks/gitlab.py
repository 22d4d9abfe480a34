"""GitLab's webhook: tokens and signatures, events, and facts about a merge request."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from msgspec import structs

from holdfast.notify.hosts.client import HostError
from holdfast.notify.hosts.gitlab import API, GITLAB, GitlabApi
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

_PREFIX: Final = "whsec_"
_KINDS: Final = {
    "open": EventKind.OPENED,
    "reopen": EventKind.OPENED,
    "merge": EventKind.MERGED,
    "close": EventKind.CLOSED,
}
_DEVELOPER: Final = 30
"""The lowest access level that may push."""
_BLOCKED: Final = {
    "not_approved": "an approval is missing",
    "requested_changes": "a reviewer requested changes",
    "discussions_not_resolved": "a discussion is not resolved",
    "ci_must_pass": "its pipeline did not succeed",
    "ci_still_running": "its pipeline is running",
    "conflict": "it has conflicts with its target",
    "need_rebase": "it must be rebased",
    "draft_status": "it is a draft",
}
_STATES: Final = {"pending": "running", "success": "success", "failure": "failed"}
_STATUS_TEXT: Final = 255


def is_signed(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    """By the signing token; by the secret token of the webhook if it has no other."""
    signatures = headers.get("webhook-signature")
    if signatures is None:
        given = headers.get("x-gitlab-token", "")
        return hmac.compare_digest(given.encode(errors="replace"), secret.encode())
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        return False
    id_, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    signed = b".".join((id_.encode(errors="replace"), at.encode(errors="replace"), body))
    expected = f"v1,{base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()}".encode()
    # More than one while the signing token is replaced.
    matches = (hmac.compare_digest(expected, one.encode(errors="replace")) for one in signatures.split(" "))
    return any(matches) and secret.startswith(_PREFIX)


def delivery_of(headers: Mapping[str, str], body: bytes) -> str | None:
    """The first one is signed, and each of them stays the same if GitLab tries again."""
    names = ("webhook-id", "idempotency-key", "x-gitlab-event-uuid")
    given = next((value for name in names if (value := matching(DELIVERY, headers.get(name)))), None)
    return given or hashlib.sha256(body).hexdigest()


def read_event(headers: Mapping[str, str], body: bytes) -> WebhookEvent | None:
    if headers.get("x-gitlab-event") not in {"Merge Request Hook", "Note Hook"}:
        return None
    match document := read_document(body):
        case {
            "object_kind": "merge_request" | "note" as kind,
            "project": {"path_with_namespace": str(project)},
            "user": {"username": str(sender)},
            "object_attributes": dict(attributes),
        }:
            known: dict[str, Any] = {"project": project, "sender": sender}
            if kind == "note":
                return _about_note(attributes, document.get("merge_request"), known)
            return _about_request(attributes, document.get("changes"), known)
        case _:
            raise ValueError("it names no project or no user")


def _about_request(attributes: dict[str, Any], changes: object, known: dict[str, Any]) -> WebhookEvent | None:
    match attributes:
        case {
            "iid": int(number),
            "action": str(action),
            "updated_at": str(at),
            "last_commit": {"id": str(sha)},
        }:
            kind = _KINDS.get(action)
            retargeted = isinstance(changes, dict) and "target_branch" in changes
            if action == "update" and (attributes.get("oldrev") or retargeted):
                kind = EventKind.UPDATED
            if kind is None:
                return None
            number = read_number(number)
            return WebhookEvent(kind=kind, number=number, at=read_time(at), head=commit_of(sha), **known)
        case _:
            raise ValueError("it does not describe a merge request")


def _about_note(attributes: dict[str, Any], request: object, known: dict[str, Any]) -> WebhookEvent | None:
    """Only new ones: an edited note may have been answered before."""
    match attributes, request:
        case (
            {"id": int(id_), "note": str(body), "created_at": str(at), "system": False, **rest},
            {"iid": int(number)},
        ):
            command = parse_command(body)
            edited = rest.get("action", "create") != "create" or rest.get("updated_at", at) != at
            if command is None or edited:
                return None
            return WebhookEvent(
                kind=EventKind.COMMENT,
                number=read_number(number),
                at=read_time(at),
                comment=id_,
                command=command,
                **known,
            )
        case _:
            return None


class GitlabRequestApi(GitlabApi):
    def request_state(self, number: int) -> RequestState:
        match self.client.request("GET", self._request(number)):
            case {
                "state": str(state),
                "sha": str(head),
                "diff_refs": {"base_sha": str(base)},
                "target_branch": str(branch),
                "source_project_id": source,
                "target_project_id": int(target),
                **rest,
            } if commit_of(head) and commit_of(base):
                merge = self._merge(rest, head) if state == "merged" else None
                return RequestState(
                    open=state == "opened",
                    head=head,
                    base=self._before(merge) if merge not in {None, head} else base,
                    branch=branch,
                    fork=source != target,  # That of a deleted fork is null.
                    merge=merge,
                    blocked=_reason(rest),
                )
            case _:
                raise HostError(0, "the response does not describe the merge request")

    def may_write(self, event: WebhookEvent) -> bool:
        """Also by a group that the project is in, or is shared with."""
        url = f"{self._project}/members/all?query={quote(event.sender, safe='')}&per_page=100"
        for member in self.client.pages(url):
            match member:
                case {"username": event.sender, "access_level": int(level), "state": "active"}:
                    return level >= _DEVELOPER
        return False

    def merge_base(self, base: str, head: str) -> str:
        url = f"{self._project}/repository/merge_base?refs[]={base}&refs[]={head}"
        return _commit(self.client.field(url, "id"))

    def react(self, event: WebhookEvent, *, accepted: bool) -> None:
        url = f"{self._notes(event.number)}/{event.comment}/award_emoji"
        self.client.request("POST", url, {"name": "eyes" if accepted else "confused"})

    def set_status(self, number: int, commit: str, state: str, text: str) -> None:  # noqa: ARG002 - other hosts need it
        document = {"state": _STATES[state], "name": CONTEXT, "description": text[:_STATUS_TEXT]}
        try:
            self.client.request("POST", f"{self._project}/statuses/{commit}", document)
        except HostError as error:
            if not (error.status == 400 and "Cannot transition status" in error.message):  # noqa: PLR2004
                raise  # Otherwise it has this state already.

    def _request(self, number: int) -> str:
        return f"{self._project}/merge_requests/{number}"

    @staticmethod
    def _merge(request: Mapping[Any, Any], head: str) -> str:
        """Without a commit of its own, a merge moves the branch to the head."""
        return _commit(request.get("merge_commit_sha") or request.get("squash_commit_sha") or head)

    def _before(self, merge: str | None) -> str:
        """Where the target was when it was merged."""
        match self.client.field(f"{self._project}/repository/commits/{merge}", "parent_ids"):
            case [first, *_]:
                return _commit(first)
            case _:
                raise HostError(0, "the response does not name the parents of the merge")


def _commit(value: object) -> str:
    if not isinstance(value, str) or commit_of(value) is None:
        raise HostError(0, "the response does not name a commit")
    return value


def _reason(request: Mapping[Any, Any]) -> str | None:
    """What GitLab does not call mergeable is blocked, whatever the reason."""
    status = request.get("detailed_merge_status") or request.get("merge_status")
    if status in {"mergeable", "can_be_merged"} and request.get("draft") is not True:
        return None
    named = matching(re.compile(r"[a-z_]{1,40}\Z"), str(status)) or "unknown"
    return _BLOCKED.get(named, f"GitLab calls it {named.replace('_', ' ')}")


GITLAB_WEBHOOK: Final = WebhookHost(
    host=structs.replace(
        GITLAB,
        token="the token of the webhook",  # noqa: S106 - a text for messages
        token_hint=TOKEN_HINT,
        permission_hint="It needs the scope `api` and the role Developer in this project.",
        full_report="the run on the server",
    ),
    is_signed=is_signed,
    delivery=delivery_of,
    read_event=read_event,
    open_api=GitlabRequestApi,
    project=re.compile(r"[A-Za-z0-9_.-]{1,100}(/[A-Za-z0-9_.-]{1,100}){1,20}\Z"),
    api=API,
    place=lambda settings: (settings.api, quote(settings.project, safe="")),
    new_secret=lambda random: f"{_PREFIX}{base64.b64encode(random).decode()}",
)
