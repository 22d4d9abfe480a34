"""One comment per report: finds it among the comments of a pull request, and decides what to do."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from msgspec import Struct

from holdfast.kernel.values import MaskedStruct

_MARKER = re.compile(r"<!-- holdfast ([0-9a-f]{16}) ([0-9]{1,18})\.([0-9]{1,18}) -->\Z")
REPLACED = "This report was replaced by a newer one in an earlier comment."


class Comment(MaskedStruct, frozen=True, kw_only=True):
    id: int
    author: str
    body: str


class CommentPlan(Struct, frozen=True, kw_only=True):
    update: int | None = None
    """The comment to rewrite; None: create one."""
    retire: tuple[int, ...] = ()
    """Further comments of the same report, which two jobs can create at the same time: mark as replaced."""
    newer: bool = False
    """A newer run has already reported: do nothing."""


def marker(name: str, age: tuple[int, int]) -> str:
    """The invisible last line of a comment."""
    return f"<!-- holdfast {_key(name)} {age[0]}.{age[1]} -->"


def plan_comment(comments: Iterable[Comment], *, author: str, name: str, age: tuple[int, int]) -> CommentPlan:
    """Anyone can write a marker, so the author must match too. The oldest one stays: it may be linked."""
    ours = [
        (comment.id, written)
        for comment in comments
        if comment.author == author and (written := _age(comment.body, name)) is not None
    ]
    if any(written > age for _, written in ours):
        return CommentPlan(newer=True)
    ids = sorted(id_ for id_, _ in ours)
    return CommentPlan(update=ids[0] if ids else None, retire=tuple(ids[1:]))


def _age(body: str, name: str) -> tuple[int, int] | None:
    """The run that wrote it. The marker must be at the very end: the text before it may quote a plan."""
    match = _MARKER.search(body.rstrip())
    if match is None or match[1] != _key(name):
        return None
    return int(match[2]), int(match[3])


def _key(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
