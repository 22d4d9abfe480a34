"""Which variables and local values of a module are read in it. Worked out once for each module."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.code.bodies import lines_with
from holdfast.checks.model.subjects import Module, expressions
from holdfast.hcl.nodes import Block, Expression, File, Literal, Opaque, Traversal, walk
from holdfast.kernel.patterns import pattern
from holdfast.kernel.values import dataclass

_READ = pattern(rb"\b(?:var|local)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    variables: frozenset[str]
    locals: frozenset[str]
    unread: str | None
    """A file of which a part could not be read: anything may be read there."""


def reads_of(module: Module) -> Reads:
    return module.checkout.code.once(("reads", module.folder), lambda: _reads(module))


def _reads(module: Module) -> Reads:
    variables: set[str] = set()
    locals_: set[str] = set()
    unread = next((file.path for file in module.files if file.problems), None)
    for file, block, name, expression in _expressions(module):
        if type(expression) is Literal:
            continue
        own = block.labels[0] if block is not None and block.type == "variable" and block.labels else None
        for part in walk(expression):
            if isinstance(part, Traversal):
                root, first = part.root, part.steps[0] if part.steps else None
                if root not in ("var", "local") or not isinstance(first, str):
                    continue
                if root == "local":
                    locals_.add(first)
                elif first != own or name not in ("condition", "error_message"):
                    variables.add(first)
            elif isinstance(part, Opaque) and part.unread:
                unread = unread or file.path
    return Reads(variables=frozenset(variables), locals=frozenset(locals_), unread=unread)


def _expressions(module: Module) -> Iterator[tuple[File, Block | None, str, Expression]]:
    """Those of blocks in which one may be read."""
    for file in module.files:
        lines = lines_with(_READ, module.checkout.content(file.path) or b"")
        for block, name, expression in expressions(file, lines):
            yield file, block, name, expression
