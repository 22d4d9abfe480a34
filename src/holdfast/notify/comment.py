"""One comment for one report: which of those that are there is ours, and what becomes of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from msgspec import Struct

from holdfast.kernel.values import MaskedStruct

_MARKER = re.compile(r"<!-- holdfast ([0-9a-f]{16}) ([0-9]{1,18})\.([0-9]{1,18}) -->\Z")
REPLACED = "This report was replaced by a newer one, in an earlier comment here."


class Comment(MaskedStruct, frozen=True, kw_only=True):
    id: int
    author: str
    body: str


class Todo(Struct, frozen=True, kw_only=True):
    """What to do with the comments that are there."""

    update: int | None = None
    """The comment that is rewritten; None: a new one is written."""
    retire: tuple[int, ...] = ()
    """Others of the same report: two jobs at the same moment can make two. They must not go on saying it."""
    newer: bool = False
    """A newer run has spoken already: nothing is written."""


def marker(name: str, age: tuple[int, int]) -> str:
    """The last line of a comment; nobody sees it."""
    return f"<!-- holdfast {_key(name)} {age[0]}.{age[1]} -->"


def to_do(comments: Iterable[Comment], *, author: str, name: str, age: tuple[int, int]) -> Todo:
    """Anyone can write a marker, so the author counts too. The oldest is kept: people have linked to it."""
    ours = [
        (comment.id, found)
        for comment in comments
        if comment.author == author and (found := _age(comment.body, name)) is not None
    ]
    if any(found > age for _, found in ours):
        return Todo(newer=True)
    ids = sorted(id_ for id_, _ in ours)
    return Todo(update=ids[0] if ids else None, retire=tuple(ids[1:]))


def _age(body: str, name: str) -> tuple[int, int] | None:
    """Which run wrote it. The marker counts only at the very end: what stands before it may quote a plan."""
    found = _MARKER.search(body.rstrip())
    if found is None or found[1] != _key(name):
        return None
    return int(found[2]), int(found[3])


def _key(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
