"""The tags and labels of a resource before a change, wherever its provider stores them.

Decoded only for the changes that a caller asks about. A resource without tags differs from one with
unreadable tags: the caller decides what the latter means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.kernel.text import plain_text
from holdfast.terraform.plan.model import ResourceChange


class Tags(Struct, frozen=True, kw_only=True):
    """Each tag with its value; None for a value that is not a string."""

    pairs: tuple[tuple[str, str | None], ...] = ()
    unreadable: bool = False
    """An attribute for tags has an unknown shape."""


class _Attributes(msgspec.Struct, frozen=True, gc=False):
    """The attributes in which providers store tags. All others are skipped."""

    tags: Any = None
    tags_all: Any = None
    tag: Any = None
    labels: Any = None
    effective_labels: Any = None
    terraform_labels: Any = None
    user_labels: Any = None
    freeform_tags: Any = None
    defined_tags: Any = None
    metadata: Any = None


class _UnreadableError(Exception):
    pass


_ATTRIBUTES = msgspec.json.Decoder(_Attributes)
_PAIRS = (("key", "value"), ("name", "value"))
_OF_METADATA = ("labels", "annotations")


def tags_before(change: ResourceChange) -> Tags:
    """The tags before the change, not after: a plan must not remove a protection and profit from that."""
    try:
        attributes = _ATTRIBUTES.decode(change.change.before)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Tags(unreadable=True)
    tags: list[tuple[str, str | None]] = []
    unreadable = False
    parts = [getattr(attributes, name) for name in _Attributes.__struct_fields__ if name != "metadata"]
    for part in (*parts, *_inside(attributes.metadata)):
        if part is None:
            continue
        try:
            tags.extend(_pairs(part))
        except _UnreadableError:
            unreadable = True
    return Tags(pairs=tuple(dict.fromkeys(tags)), unreadable=unreadable)


def _inside(metadata: Any) -> Iterator[Any]:
    """Kubernetes stores its labels one level down; other `metadata` attributes are ignored."""
    if metadata is None:
        return
    for block in metadata if isinstance(metadata, list) else [metadata]:
        if isinstance(block, dict):
            yield from (block[name] for name in _OF_METADATA if isinstance(block.get(name), dict))


def _pairs(part: Any) -> Iterator[tuple[str, str | None]]:
    match part:
        case dict():
            yield from ((name, plain_text(value)) for name, value in part.items())
        case list():
            for item in part:
                yield from _of_item(item)
        case _:
            raise _UnreadableError


def _of_item(item: Any) -> Iterator[tuple[str, str | None]]:
    """`{ key = …, value = … }`, or a tag without a value: `gold`, `tier:gold`, `tier=gold`."""
    if isinstance(item, dict):
        for name, value in _PAIRS:
            if isinstance(item.get(name), str):
                yield item[name], plain_text(item.get(value))
                return
    text = plain_text(item)
    if text is None:
        raise _UnreadableError
    yield text, ""
    for sign in ":=":
        name, separator, value = text.partition(sign)
        if separator:
            yield name, value
