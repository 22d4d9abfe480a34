"""Variables and outputs of a module, and what nobody says about them: override files count, too."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.model.subjects import Module
from holdfast.hcl.nodes import Block
from holdfast.hcl.reader import constant


def without(module: Module, type_: str, attribute: str) -> Iterator[Block]:
    """The first block of each name in which nobody says this; an empty text says nothing."""
    first: dict[str, Block] = {}
    said: set[str] = set()
    for block in module.blocks(type_):
        if not block.labels:
            continue
        name = block.labels[0]
        first.setdefault(name, block)
        found = block.body.attribute(attribute)
        if found is not None and not _blank(constant(found.expression)):
            said.add(name)
    return (block for name, block in first.items() if name not in said)


def _blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()
