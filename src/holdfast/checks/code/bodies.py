"""Attributes, values and nested blocks of a body."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.nodes import Block, Body
from holdfast.hcl.reader import constant


class Absent:
    """The result of `value` for an attribute that is not set. A singleton."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT: Final = Absent()


def value(body: Body, name: str, scope: Scope | None = None) -> object:
    """`ABSENT` if it is not set, `UNKNOWN` or `COMPUTED` if it is not known, otherwise the plain value.

    Without a scope only literals are known; `CheckedStack.scopes` also know variables and locals.
    """
    attribute = body.attribute(name)
    if attribute is None:
        return ABSENT
    return constant(attribute.expression) if scope is None else evaluate(attribute.expression, scope)


def nested(body: Body, *types: str) -> Iterator[Block]:
    """The blocks of these types inside a body, and the content of `dynamic` blocks of these types."""
    for block in body.blocks:
        if block.type in types:
            yield block
        elif block.type == "dynamic" and block.labels[:1] and block.labels[0] in types:
            yield from block.body.blocks_of("content")


def bodies(block: Block) -> Iterator[Body]:
    """The body of a block and of every block inside it."""
    waiting = [block]
    while waiting:
        inner = waiting.pop()
        yield inner.body
        waiting.extend(reversed(inner.body.blocks))


def lines_with(mark: re.Pattern[bytes], content: bytes) -> list[int]:
    """The lines with a match. Searching is much faster than parsing."""
    lines, line, at = [], 1, 0
    for match in mark.finditer(content):
        line, at = line + content.count(b"\n", at, match.start()), match.start()
        lines.append(line)
    return lines


def holds(block: Block, lines: Sequence[int]) -> bool:
    """Whether the block contains one of these lines. In JSON syntax a block has no end line, so it may."""
    first, last = block.line, block.end_line
    at = bisect.bisect_left(lines, first)
    return first == last or (at < len(lines) and lines[at] <= last)
