"""Service hooks of Azure DevOps: their password, and their events. Pure."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Mapping
from typing import Any, Final

from holdfast.notify.hosts.interface import commit_of, matching
from holdfast.notify.webhooks.commands import parse_command
from holdfast.notify.webhooks.interface import EventKind, WebhookEvent
from holdfast.notify.webhooks.reading import DELIVERY, read_document, read_number, read_time

_KINDS: Final = {
    ("git.pullrequest.created", "active"): EventKind.OPENED,
    ("git.pullrequest.updated", "active"): EventKind.UPDATED,
    ("git.pullrequest.updated", "abandoned"): EventKind.CLOSED,
    ("git.pullrequest.updated", "completed"): EventKind.MERGED,
    ("git.pullrequest.merged", "completed"): EventKind.MERGED,
}
ID: Final = re.compile(r"[0-9A-Fa-f-]{1,64}\Z")
_THREAD: Final = re.compile(r"/threads/([0-9]{1,9})\Z")


def is_signed(headers: Mapping[str, str], body: bytes, secret: str) -> bool:  # noqa: ARG001 - other hosts sign it
    """Azure DevOps signs nothing: the secret is the password of basic authentication, with any user name."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    try:
        password = base64.b64decode(given.encode(errors="replace"), validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        password = b""
    return hmac.compare_digest(password, secret.encode()) and scheme.lower() == "basic"


def delivery_of(headers: Mapping[str, str], body: bytes) -> str | None:  # noqa: ARG001 - it is in the body
    match read_document(body):
        case {"id": str(id_)}:
            return matching(DELIVERY, id_)
        case _:
            return None


def read_event(headers: Mapping[str, str], body: bytes) -> WebhookEvent | None:  # noqa: ARG001 - it is in the body
    match read_document(body):
        case {"eventType": "ms.vss-code.git-pullrequest-comment-event", "resource": dict(resource)}:
            return _about_comment(resource)
        case {"eventType": str(kind), "createdDate": str(at), "resource": dict(request)} if kind.startswith(
            "git.pullrequest."
        ):
            return _about_request(kind, at, request)
        case {"eventType": str()}:
            return None
        case _:
            raise ValueError("it names no type")


def _about_request(type_: str, at: str, request: dict[str, Any]) -> WebhookEvent | None:
    """Who pushed is not in it, so the plan of a push is for the author of the pull request."""
    match request:
        case {"pullRequestId": int(number), "status": str(status), "createdBy": dict(author), **rest}:
            kind = _KINDS.get((type_, status))
            if kind is None:
                return None
            closed_by = rest.get("closedBy") if status != "active" else None
            return WebhookEvent(
                kind=kind,
                number=read_number(number),
                at=read_time(at),
                project=_project(request),
                head=read_commit(rest.get("lastMergeSourceCommit")),
                **_sender(closed_by if isinstance(closed_by, dict) else author),
            )
        case _:
            raise ValueError("it does not describe a pull request")


def _about_comment(resource: dict[str, Any]) -> WebhookEvent | None:
    """Only new ones: an edited comment may have been answered before."""
    match resource:
        case {
            "comment": {
                "id": int(id_),
                "content": str(body),
                "publishedDate": str(at),
                "author": dict(author),
                **rest,
            },
            "pullRequest": {"pullRequestId": int(number)} as request,
        }:
            command = parse_command(body)
            edited = rest.get("lastContentUpdatedDate", at) != at or rest.get("isDeleted") is True
            if command is None or edited:
                return None
            return WebhookEvent(
                kind=EventKind.COMMENT,
                number=read_number(number),
                at=read_time(at),
                project=_project(request),
                comment=id_,
                thread=_thread(rest.get("_links")),
                command=command,
                **_sender(author),
            )
        case {"pullRequest": dict()}:
            return None
        case _:
            raise ValueError("it has no pull request; choose the version 2.0 of the event")


def _project(request: Mapping[str, Any]) -> str:
    match request.get("repository"):
        case {"name": str(name), "project": {"name": str(project)}}:
            return f"{project}/{name}"
        case _:
            raise ValueError("it names no repository")


def _sender(user: Mapping[str, Any]) -> dict[str, Any]:
    match user:
        case {"id": str(id_), "uniqueName": str(name)}:
            return {"sender": name, "sender_id": matching(ID, id_)}
        case _:
            raise ValueError("it names no user")


def _thread(links: object) -> int | None:
    match links:
        case {"threads": {"href": str(address)}} if found := _THREAD.search(address):
            return int(found[1])
        case _:
            return None


def read_commit(commit: object) -> str | None:
    match commit:
        case {"commitId": str(id_)}:
            return commit_of(id_)
        case _:
            return None
