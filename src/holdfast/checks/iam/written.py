"""From Terraform's expressions to documents: `jsonencode`, heredocs and quoted JSON, `file`, locals.

What an expression refers to is followed as far as it is constant; the rest is a hole. Nothing is guessed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from holdfast.checks.iam.document import (
    HOLE,
    Fields,
    Malformed,
    Node,
    compact,
    is_list,
    plain,
    read_text,
)
from holdfast.checks.subjects import Module
from holdfast.hcl.nodes import Attribute, Call, Conditional, Expression, Literal, Object, Template, Tuple
from holdfast.hcl.nodes import Traversal as Reference
from holdfast.hcl.reader import UNKNOWN
from holdfast.kernel.patterns import pattern
from holdfast.stacks.evaluate import Scope, evaluate
from holdfast.stacks.values import text_of

_INTERPOLATION = pattern(r"(?<!\$)\$\{[^{}]*\}")
_DEEPEST: Final = 8


class Written(Struct, frozen=True):
    """A document where it is written, whatever it is used as."""

    document: Node | Malformed
    text: str
    file: str
    line: int
    column: int
    own_file: bool = False
    """The file holds this document and nothing else."""


class Untold(Struct, frozen=True):
    """An expression that cannot be followed to a document."""

    expression: Expression


class Writing:
    """Reads the documents of one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.scope = Scope(locals=module.code.locals)
        self._locals: dict[str, tuple[str, Attribute]] = {}
        for file in module.files:
            for block in file.body.blocks_of("locals"):
                self._locals.update({one.name: (file.path, one) for one in block.body.attributes})

    def written(self, expression: Expression, file: str, depth: int = 0) -> Iterator[Written | Untold]:
        """Every document that an expression may be: one for each side of a condition."""
        match expression:
            case _ if depth > _DEEPEST:
                yield Untold(expression)
            case Conditional():
                for side in (expression.yes, expression.no):
                    yield from self.written(side, file, depth + 1)
            case Call(name="jsonencode", arguments=(value,)):
                document = self.node(value)
                yield Written(document, compact(document), file, expression.line, expression.column)
            case Call(name="file" | "templatefile" | "trimspace", arguments=(first, *_)):
                if expression.name == "trimspace":
                    yield from self.written(first, file, depth + 1)
                    return
                found = self._from_file(expression, first)
                yield found if found is not None else Untold(expression)
            case Reference(root="local", steps=(str() as name,)) if name in self._locals:
                place, attribute = self._locals[name]
                yield from self.written(attribute.expression, place, depth + 1)
            case Literal(value=str()) | Template():
                yield self._from_text(expression, file)
            case Literal(value=None):
                return
            case _:
                yield Untold(expression)

    def _from_file(self, call: Call, argument: Expression) -> Written | None:
        path = evaluate(argument, self.scope)
        if not isinstance(path, str) or path.startswith("/"):
            return None
        found = posixpath.normpath(posixpath.join(self.module.folder, path))
        text = None if found.startswith("..") else self.module.checkout.text(found)
        if text is None:
            return None
        if call.name == "templatefile":
            if "%{" in text:
                return None
            text = _INTERPOLATION.sub(HOLE, text).replace("$${", "${")
        return Written(read_text(text), text, found, 1, 1, own_file=True)

    def _from_text(self, expression: Expression, file: str) -> Written:
        text = self.text(expression)
        line, column = expression.line, expression.column
        if self._is_heredoc(file, line, column):
            document = read_text(text, line=line + 1, columns=False)
        else:
            document = _pinned(read_text(text), line, column)
        return Written(document, text, file, line, column)

    def _is_heredoc(self, file: str, line: int, column: int) -> bool:
        lines = self.module.checkout.lines(file)
        return line <= len(lines) and lines[line - 1][column - 1 :].startswith("<<")

    def text(self, expression: Expression) -> str:
        """A text with a hole for each part that is not known."""
        if isinstance(expression, Template):
            return "".join(self.text(piece) for piece in expression.pieces)
        found = text_of(evaluate(expression, self.scope))
        return HOLE if found is None else found

    def node(self, expression: Expression) -> Node:
        """A value with the places of its parts, as far as they stand where the value does."""
        line, column = expression.line, expression.column
        if type(expression) is Literal:
            return Node(expression.value, line, column)
        match expression:
            case Object():
                pairs = tuple((self.node(key), self.node(value)) for key, value in expression.items)
                sure = tuple((key, value) for key, value in pairs if key.text is not None)
                return Node(Fields(pairs=sure, more=len(sure) != len(pairs)), line, column)
            case Tuple():
                return Node(tuple(self.node(item) for item in expression.items), line, column)
            case Call(name="concat", expand_final=False):
                return Node(tuple(self._joined(expression)), line, column)
            case Template(pieces=pieces) if len(pieces) > 1:
                return Node(self.text(expression), line, column)
            case _:
                return plain(evaluate(expression, self.scope), line, column)

    def _joined(self, call: Call) -> Iterator[Node]:
        """The items of lists put together; a list that is not known is one hole."""
        for argument in call.arguments:
            yield from self.node(argument).items


def _pinned(document: Node | Malformed, line: int, column: int) -> Node | Malformed:
    """All of it on the line of the quotes that it stands in."""
    if isinstance(document, Malformed):
        return document._replace(line=line, column=column)
    content = document.content
    if isinstance(content, Fields):
        pairs = tuple((_pin(key, line, column), _pin(value, line, column)) for key, value in content.pairs)
        return Node(content._replace(pairs=pairs), line, column)
    if is_list(document):
        return Node(tuple(_pin(item, line, column) for item in document.items), line, column)
    return Node(content, line, column)


def _pin(node: Node, line: int, column: int) -> Node:
    pinned = _pinned(node, line, column)
    return pinned if isinstance(pinned, Node) else node


def unknown(line: int, column: int) -> Node:
    return Node(UNKNOWN, line, column)
