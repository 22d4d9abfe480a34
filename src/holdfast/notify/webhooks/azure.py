"""Azure DevOps: facts about a pull request for its service hooks, and what is written beside it."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from msgspec import structs

from holdfast.kernel.secret import Secret
from holdfast.notify.hosts.azure import AZURE, VERSION, AzureApi
from holdfast.notify.hosts.client import HostError
from holdfast.notify.webhooks.azure_events import ID, delivery_of, is_signed, read_commit, read_event
from holdfast.notify.webhooks.interface import (
    CONTEXT,
    TOKEN_HINT,
    RequestState,
    WebhookEvent,
    WebhookHost,
    WebhookSettings,
)

_REPOSITORIES: Final = "2e9eb7ed-3c0a-47d4-87c1-0ffdd275fd87"
"""The security namespace of Git repositories."""
_CONTRIBUTE: Final = 4
_NAME: Final = r"[^\x00-\x1f\x7f/\\?#%\"<>|:*]{1,64}"
_REFUSED: Final = frozenset({203, 401, 403, 404})
_SATISFIED: Final = frozenset({"approved", "notApplicable"})
_STATES: Final = {"pending": "pending", "success": "succeeded", "failure": "failed"}


class AzureRequestApi(AzureApi):
    def authorization(self, token: Secret) -> tuple[str, str, Secret]:
        """Of a personal access token."""
        return "Authorization", "Basic ", Secret(base64.b64encode(f":{token.reveal()}".encode()).decode())

    def request_state(self, number: int) -> RequestState:
        request = self.client.request("GET", f"{self._request(number)}?{VERSION}")
        match request:
            case {"status": str(status), "targetRefName": str(branch), **rest}:
                head, base = (
                    read_commit(rest.get(f"lastMerge{side}Commit")) for side in ("Source", "Target")
                )
                if head is None or base is None:
                    raise HostError(0, "the response does not name the commits of the pull request")
                return RequestState(
                    open=status == "active",
                    head=head,
                    base=base,
                    branch=branch.removeprefix("refs/heads/"),
                    fork=rest.get("forkSource") is not None,
                    merge=read_commit(rest.get("lastMergeCommit")) if status == "completed" else None,
                    blocked=self._reason(number, rest) if status == "active" else None,
                )
            case _:
                raise HostError(0, "the response does not describe the pull request")

    def _reason(self, number: int, request: Mapping[Any, Any]) -> str | None:
        if request.get("isDraft") is True:
            return "it is a draft"
        if request.get("mergeStatus") == "conflicts":
            return "it has conflicts with its target"
        if request.get("mergeStatus") != "succeeded":
            return "Azure DevOps has not merged it on trial yet"
        match request.get("repository"):
            case {"project": {"id": str(project)}} if ID.match(project):
                artifact = quote(f"vstfs:///CodeReview/CodeReviewId/{project}/{number}", safe="")
            case _:
                raise HostError(0, "the response does not name the project")
        url = f"{self.client.api}/_apis/policy/evaluations?artifactId={artifact}&{VERSION}-preview.1"
        try:
            missing = any(map(_is_missing, self._values(url)))
        except HostError as error:
            if error.status in _REFUSED:
                return "the token of the webhook may not read its policies"
            raise
        return "a required review or check is missing" if missing else None

    def may_write(self, event: WebhookEvent) -> bool:
        """By the effective permissions of the user, if the token may read them; otherwise no user may."""
        if event.sender_id is None:
            return False
        try:
            return self._contributes(event.sender_id)
        except HostError as error:
            if error.status in _REFUSED:
                return False
            raise

    def _contributes(self, user: str) -> bool:
        identities = f"{_identities(self.collection)}/_apis/identities?identityIds={user}&{VERSION}"
        match self._values(identities):
            case [{"descriptor": str(descriptor), "isActive": True}]:
                pass
            case _:
                return False
        match self.client.request("GET", f"{self.repository}?{VERSION}"):
            case {"id": str(repository), "project": {"id": str(project)}}:
                token = quote(f"repoV2/{project}/{repository}", safe="")
            case _:
                raise HostError(0, "the response does not describe the repository")
        query = f"token={token}&descriptors={quote(descriptor, safe='')}&includeExtendedInfo=true&{VERSION}"
        match self._values(f"{self.collection}/_apis/accesscontrollists/{_REPOSITORIES}?{query}"):
            case [{"acesDictionary": dict(entries)}, *_]:
                match entries.get(descriptor):
                    case {"extendedInfo": {"effectiveAllow": int(allowed)}}:
                        return bool(allowed & _CONTRIBUTE)
        return False

    def merge_base(self, base: str, head: str) -> str:
        url = f"{self.repository}/commits/{base}/mergeBases?otherCommitId={head}&{VERSION}-preview.1"
        match self._values(url):
            case [first, *_] if (commit := read_commit(first)) is not None:
                return commit
            case _:
                raise HostError(0, "the response does not name the merge base")

    def react(self, event: WebhookEvent, *, accepted: bool) -> None:
        """There are only likes."""
        if accepted and event.thread is not None:
            comment = f"{self._threads(event.number)}/{event.thread}/comments/{event.comment}"
            self.client.request("POST", f"{comment}/likes?{VERSION}-preview.1", {})

    def set_status(self, number: int, commit: str, state: str, text: str) -> None:  # noqa: ARG002 - other hosts need it
        context = {"name": CONTEXT, "genre": CONTEXT}
        document = {"state": _STATES[state], "description": text, "context": context}
        self.client.request("POST", f"{self._request(number)}/statuses?{VERSION}", document)

    def _request(self, number: int) -> str:
        return f"{self.repository}/pullRequests/{number}"

    def _values(self, url: str) -> list[Any]:
        match self.client.request("GET", url):
            case {"value": list(values)} | list(values):
                return values
            case _:
                raise HostError(0, "the response is not a list")


def _is_missing(evaluation: object) -> bool:
    """What a policy requires and is not there. One that says nothing of itself counts as required."""
    match evaluation:
        case {"configuration": {"isBlocking": False}} | {"configuration": {"isEnabled": False}}:
            return False
        case {"status": str(status)}:
            return status not in _SATISFIED
        case _:
            return True


def _identities(collection: str) -> str:
    """Azure DevOps Services has them at a host of their own, which also takes the token."""
    parts = urlsplit(collection)
    return f"https://vssps.dev.azure.com{parts.path}" if parts.hostname == "dev.azure.com" else collection


def _place(settings: WebhookSettings) -> tuple[str, str]:
    project, _, repository = settings.project.partition("/")
    return f"{settings.api}/{quote(project)}", quote(repository)


AZURE_WEBHOOK: Final = WebhookHost(
    host=structs.replace(
        AZURE,
        token="the token of the webhook",  # noqa: S106 - a text for messages
        token_hint=TOKEN_HINT,
        permission_hint="Its owner needs `Contribute to pull requests` in the repository's settings.",
        full_report="the run on the server",
    ),
    is_signed=is_signed,
    delivery=delivery_of,
    read_event=read_event,
    open_api=AzureRequestApi,
    project=re.compile(rf"{_NAME}/{_NAME}\Z"),
    api=None,
    place=_place,
)
