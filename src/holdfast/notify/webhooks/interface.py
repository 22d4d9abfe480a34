"""What every code host's webhook offers: signed events, and facts about the pull request they are about."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from msgspec import Struct

from holdfast.kernel.values import MaskedStruct
from holdfast.notify.hosts.client import RetryLimits
from holdfast.notify.hosts.interface import CiRun, CodeHost, CommentApi
from holdfast.system.environment import Environment

MAX_AGE: Final = 7 * 86400.0
"""Seconds. Older events are refused, and younger ones are remembered: none is accepted twice."""

CONTEXT: Final = "holdfast"
"""The name of the status beside a commit."""
TOKEN_HINT: Final = "Set it again: PUT /api/v1/repositories/NAME/webhook"  # noqa: S105 - a text for messages


class EventKind(StrEnum):
    OPENED = "opened"
    """Also reopened."""
    UPDATED = "updated"
    """It has other commits, or another base."""
    MERGED = "merged"
    CLOSED = "closed"
    COMMENT = "comment"


class Command(Struct, frozen=True, kw_only=True):
    """A comment such as `holdfast apply prod/network`."""

    name: str
    arguments: tuple[str, ...] = ()


class WebhookEvent(Struct, frozen=True, kw_only=True):
    kind: EventKind
    project: str
    """The repository's name on the host."""
    number: int
    """Of the pull request."""
    at: datetime
    """By the clock of the host, and signed by it."""
    sender: str
    """The login of the user who acted."""
    sender_id: str | None = None
    """Their id, where the host knows users by it."""
    head: str | None = None
    """Of an event about commits."""
    comment: int | None = None
    thread: int | None = None
    """Of the comment, where the host numbers comments by thread."""
    command: Command | None = None


class RequestState(Struct, frozen=True, kw_only=True):
    """A pull request as it is now: events may arrive late, twice or in another order."""

    open: bool
    head: str
    base: str
    """The commit of the branch that it is for."""
    branch: str
    """The name of that branch."""
    fork: bool
    """Its code is in another repository, where others may write."""
    merge: str | None = None
    """The commit that merged it."""
    blocked: str | None = None
    """Why the host does not let it be merged."""


class ApplyMode(StrEnum):
    ON_COMMENT = "on_comment"
    ON_MERGE = "on_merge"


class GithubApp(MaskedStruct, frozen=True, kw_only=True):
    """An app that is installed in the repository, in place of a token."""

    id: str
    """Or its client id."""
    installation: str
    private_key: str
    """In PEM."""


class WebhookSettings(MaskedStruct, frozen=True, kw_only=True):
    """The webhook of one registered repository. Stored encrypted."""

    host: str
    project: str
    api: str
    secret: str
    """Signs the events."""
    token: str = ""
    """For the API of the host: read pull requests, write comments and commit statuses."""
    app: GithubApp | None = None
    """Of GitHub, in place of a token."""
    apply: ApplyMode = ApplyMode.ON_COMMENT
    users: tuple[str, ...] = ()
    """Logins that may plan and apply without write permission on the repository."""
    stacks: tuple[str, ...] = ("*",)
    """Patterns of the stacks that pull requests may plan and apply."""


class RequestApi(CommentApi, Protocol):
    """May raise `HostError` and `RetriesExhaustedError`."""

    def request_state(self, number: int) -> RequestState: ...

    def may_write(self, event: WebhookEvent) -> bool:
        """Whether its sender may change the repository."""
        ...

    def merge_base(self, base: str, head: str) -> str: ...

    def react(self, event: WebhookEvent, *, accepted: bool) -> None:
        """To its comment, so that the author sees that it was read."""
        ...

    def set_status(self, number: int, commit: str, state: str, text: str) -> None:
        """`pending`, `success` or `failure`, beside the pull request or its commit."""
        ...


class WebhookHost(Struct, frozen=True, kw_only=True):
    host: CodeHost
    is_signed: Callable[[Mapping[str, str], bytes, str], bool]
    """From the headers, the body and the secret. In constant time."""
    delivery: Callable[[Mapping[str, str], bytes], str | None]
    """Its id, from the headers or the body; None: it has none."""
    read_event: Callable[[Mapping[str, str], bytes], WebhookEvent | None]
    """None: not about a pull request, or nothing to do. ValueError: not what the host sends."""
    open_api: Callable[[CiRun, Environment, RetryLimits], RequestApi]
    project: re.Pattern[str]
    """The names of repositories."""
    api: str | None
    """The address of the API, unless another is set; None: one must be set."""
    place: Callable[[WebhookSettings], tuple[str, str]] = lambda settings: (settings.api, settings.project)
    """The address of the API and the repository there, as `CiRun` has them."""
    new_secret: Callable[[bytes], str] = bytes.hex
    """From random bytes, in the form that the host takes."""
