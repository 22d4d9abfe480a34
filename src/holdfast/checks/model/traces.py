"""What an old content of a file was, where and when. Never what it says."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Mark(Enum):
    """With its article, as findings say it."""

    STATE = "a state under another name"
    PLAN = "a plan file under another name"
    SHOWN_PLAN = "a plan as JSON"
    KEY = "a private key"
    SECRET = "a secret"  # noqa: S105 - a kind, not one


class Trace(Struct, frozen=True):
    mark: Mark
    path: str
    commit: str
    """The first that brought it."""
    date: str
    what: str = ""
    """For a secret: its kind."""
    line: int | None = None
    """For a secret: in the content of then."""
    digest: str = ""
    """For a secret: tells whether two are one."""


class Unread(Struct, frozen=True):
    """An old content that nobody could look into."""

    path: str
    reason: str
