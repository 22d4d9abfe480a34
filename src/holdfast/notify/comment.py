"""The comment of a report: found by marker and author, rewritten in place, marked when out of date."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from msgspec import Struct

from holdfast.notify.hosts.interface import Comment, CommentApi

REPLACED = "This report was replaced by a newer one in an earlier comment."
_MARKER = re.compile(r"<!-- holdfast ([0-9a-f]{16}) ([0-9]{1,18})\.([0-9]{1,18}) -->\Z")
_BANNER_END = "<!-- holdfast: end of the notice -->"
_BANNER = re.compile(rf"## ⚠️ Out of date: [^\n]*\n\n{re.escape(_BANNER_END)}\n\n")


class CommentPlan(Struct, frozen=True, kw_only=True):
    update: int | None = None
    """The comment to rewrite; None: create one."""
    retire: tuple[int, ...] = ()
    """Further comments of the same report, which two jobs can create at the same time: mark as replaced."""
    newer: bool = False
    """A newer run has already reported: do nothing."""


def marker(name: str, age: tuple[int, int]) -> str:
    """The invisible last line of a comment."""
    return f"<!-- holdfast {comment_key(name)} {age[0]}.{age[1]} -->"


def comment_key(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def plan_comment(comments: Iterable[Comment], *, author: str, name: str, age: tuple[int, int]) -> CommentPlan:
    """Anyone can write a marker, so the author must match too. The oldest one stays: it may be linked."""
    ours = [
        (comment.id, written)
        for comment in comments
        if comment.author == author and (written := _age(comment.body, comment_key(name))) is not None
    ]
    if any(written > age for _, written in ours):
        return CommentPlan(newer=True)
    ids = sorted(id_ for id_, _ in ours)
    return CommentPlan(update=ids[0] if ids else None, retire=tuple(ids[1:]))


def _age(body: str, key: str) -> tuple[int, int] | None:
    """The run that wrote it. The marker must be at the very end: the text before it may quote a plan."""
    match = _MARKER.search(body.rstrip())
    if match is None or match[1] != key:
        return None
    return int(match[2]), int(match[3])


def write_comment(api: CommentApi, number: int, body: str, *, name: str, age: tuple[int, int]) -> None:
    author = api.author()
    while True:
        plan = plan_comment(api.comments(number), author=author, name=name, age=age)
        if plan.newer:
            return
        if plan.update is not None:
            api.update(number, plan.update, body)
            for old in plan.retire:
                api.update(number, old, REPLACED)
            return
        if api.create(number, body):
            return


def write_banner(api: CommentApi, number: int, banner: str, *, key: str, age: tuple[int, int]) -> bool:
    """Put a first line before the report of one run; False if there is none. `banner` is trusted Markdown.

    A newer report is left alone: its plan may not be out of date.
    """
    author = api.author()
    ours = [
        comment
        for comment in api.comments(number)
        if comment.author == author and _age(comment.body, key) == age
    ]
    if not ours:
        return False
    first = min(ours, key=lambda comment: comment.id)
    body = with_banner(first.body, banner)
    if body != first.body:
        api.update(number, first.id, body)
    return True


def with_banner(body: str, banner: str) -> str:
    """A comment with this banner instead of an older one."""
    # GitLab and Azure DevOps may return other line ends than were sent.
    report = _BANNER.sub("", body.replace("\r\n", "\n"), count=1)
    return f"## ⚠️ Out of date: {banner}\n\n{_BANNER_END}\n\n{report}"
