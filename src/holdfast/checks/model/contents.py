"""Recognises files by their content, and describes old versions of files. Pure."""

from __future__ import annotations

import functools
import re
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from holdfast.checks.model.subjects import Checkout

_STATE = (b'"lineage"', b'"serial"', b'"terraform_version"')
_PEM = (
    rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:\s|\\+[nr])+"
    # Headers, one per line, or all in one line before the key.
    rb"(?:[A-Za-z-]+: [^\r\n]*[\r\n]\s*)*(?:[A-Za-z-]+: [^\r\n]*\s)?[A-Za-z0-9+/=]{20}"
)
_PUTTY = b"PuTTY-User-Key-File-"
_AGE = b"AGE-SECRET-KEY-1"
_ZIP = b"PK\x03\x04"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


def in_utf8(inside: bytes) -> bytes:
    """Decodes UTF-16, which PowerShell writes with `>`."""
    if inside[:2] not in _UTF_16:
        return inside
    return inside.decode("utf-16", errors="replace").encode(errors="replace")


def is_state(inside: bytes) -> bool:
    return all(mark in inside for mark in _STATE)


def is_packed_plan(inside: bytes) -> bool:
    """Written by `plan -out`: an archive with the plan and its prior state."""
    return inside.startswith(_ZIP) and b"tfplan" in inside and b"tfstate" in inside


def is_shown_plan(inside: bytes) -> bool:
    """Written by `show -json`."""
    return b'"format_version"' in inside and (
        b'"resource_changes"' in inside or b'"planned_values"' in inside
    )


def holds_key(inside: bytes) -> bool:
    """Contains a private key somewhere."""
    if b"PRIVATE KEY" in inside and _pem().search(inside) is not None:
        return True
    return inside.startswith(_PUTTY) or (
        _AGE in inside and re.search(_AGE + rb"[0-9A-Z]{58}", inside) is not None
    )


def is_key(inside: bytes) -> bool:
    """Starts with a private key."""
    return inside.startswith(_PUTTY) or _pem().match(inside[:4_000].lstrip()) is not None


@functools.cache
def _pem() -> re.Pattern[bytes]:
    return re.compile(_PEM)


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


class Commit(Struct, frozen=True, kw_only=True):
    id: str
    date: str
    paths: tuple[str, ...]
    """Paths that it added."""
    blobs: tuple[tuple[str, str], ...] = ()
    """Path and blob id of every version that it added."""


class History(Struct, kw_only=True, eq=False, dict=True):
    checkout: Checkout
    commits: tuple[Commit, ...]
    """Newest first; `shallow` if the clone does not have all."""
    shallow: bool = False
    traces: tuple[HistoryMatch, ...] = ()
    """Matches in old versions, oldest first."""
    unread: tuple[UnreadVersion, ...] = ()
    """Old versions that could not be searched."""
