"""Which variables and local values of a module are read in it. Worked out once for each module."""

from __future__ import annotations

from holdfast.checks.subjects import Module
from holdfast.hcl.nodes import Literal, Opaque, Traversal, walk
from holdfast.kernel.values import dataclass


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
    for file, block, name, expression in module.expressions():
        if type(expression) is Literal:
            continue
        own = block.labels[0] if block is not None and block.type == "variable" and block.labels else None
        for part in walk(expression):
            if isinstance(part, Opaque) and part.unread:
                unread = unread or file.path
            if not isinstance(part, Traversal) or not part.steps or not isinstance(part.steps[0], str):
                continue
            if part.root == "var" and (part.steps[0] != own or name not in ("condition", "error_message")):
                variables.add(part.steps[0])
            elif part.root == "local":
                locals_.add(part.steps[0])
    return Reads(variables=frozenset(variables), locals=frozenset(locals_), unread=unread)
