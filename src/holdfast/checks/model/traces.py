"""What an old version of a file was, where and when; never its content."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class ContentKind(Enum):
    """With an article, as used in findings."""

    STATE = "a state under another name"
    PLAN = "a plan file under another name"
    SHOWN_PLAN = "a plan as JSON"
    KEY = "a private key"
    SECRET = "a secret"  # noqa: S105 - a kind, not one


class HistoryMatch(Struct, frozen=True):
    mark: ContentKind
    path: str
    commit: str
    """The first commit with it."""
    date: str
    what: str = ""
    """For a secret: its type."""
    line: int | None = None
    """For a secret: in that version."""
    digest: str = ""
    """For a secret: tells whether two are the same."""


class UnreadVersion(Struct, frozen=True):
    """An old version that could not be searched."""

    path: str
    reason: str
