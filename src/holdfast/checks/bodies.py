"""What stands in the bodies of blocks: attributes with their values, blocks, expressions at any depth."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.hcl.nodes import Block, Body, Expression, File
from holdfast.hcl.reader import constant
from holdfast.stacks.evaluate import Scope, evaluate


class Absent:
    """The answer of `value` where an attribute is not written at all. There is only one of it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT: Final = Absent()


def value(body: Body, name: str, scope: Scope | None = None) -> object:
    """`ABSENT` if it is not written, `UNKNOWN` or `COMPUTED` if it cannot be told, else the plain value.

    Without a scope only what is written out is told; `CheckedStack.scopes` knows variables and locals too.
    """
    attribute = body.attribute(name)
    if attribute is None:
        return ABSENT
    return constant(attribute.expression) if scope is None else evaluate(attribute.expression, scope)


def nested(body: Body, *types: str) -> Iterator[Block]:
    """The blocks of these types inside a body, and the content of `dynamic` blocks that make such."""
    for block in body.blocks:
        if block.type in types:
            yield block
        elif block.type == "dynamic" and block.labels[:1] and block.labels[0] in types:
            yield from block.body.blocks_of("content")


def expressions(file: File) -> Iterator[tuple[Block | None, str, Expression]]:
    """Those of one file: each with the block at the top and the attribute's name."""
    for attribute in file.body.attributes:
        yield None, attribute.name, attribute.expression
    for block in file.body.blocks:
        for body in bodies(block):
            for attribute in body.attributes:
                yield block, attribute.name, attribute.expression


def bodies(block: Block) -> Iterator[Body]:
    """The body of a block and of every block inside it."""
    waiting = [block]
    while waiting:
        found = waiting.pop()
        yield found.body
        waiting.extend(reversed(found.body.blocks))
