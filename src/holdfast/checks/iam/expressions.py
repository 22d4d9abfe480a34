"""From Terraform's expressions to documents: `jsonencode`, heredocs and quoted JSON, `file`, locals.

What an expression refers to is followed as far as it is constant; the rest is a hole.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from holdfast.checks.iam.document import (
    HOLE,
    Either,
    Malformed,
    Node,
    compact,
    is_heredoc,
    pinned,
    read_text,
    shown,
)
from holdfast.checks.iam.partial_eval import Filling
from holdfast.checks.iam.policy_types import looks_like_policy
from holdfast.hcl.eval.evaluate import evaluate
from holdfast.hcl.nodes import Call, Conditional, Expression, Literal, Template, references
from holdfast.hcl.nodes import Traversal as Reference
from holdfast.hcl.reader import UNKNOWN

DATA_SOURCE: Final = "aws_iam_policy_document"
_DEEPEST: Final = 8
_MOST_FILES: Final = 50


class Written(Struct, frozen=True):
    """A document where it is written, whatever it is used as."""

    document: Node | Malformed
    text: str
    file: str
    line: int
    column: int
    own_file: bool = False
    """The file holds this document and nothing else."""
    one_of_many: bool = False
    """It is one of the files that may be meant: a part of the name is not known."""


class Untold(Struct, frozen=True):
    """An expression that cannot be followed to a document."""

    expression: Expression


class StateWriter(Filling):
    """Reads the documents of one module."""

    def written(self, expression: Expression, file: str, depth: int = 0) -> Iterator[Written | Untold]:
        """Every document that an expression may be: one for each side of a condition."""
        if depth == 0:
            self.begin()
        match expression:
            case _ if depth > _DEEPEST:
                yield Untold(expression)
            case Conditional():
                for side in (expression.yes, expression.no):
                    yield from self.written(side, file, depth + 1)
            case Call():
                yield from self._from_call(expression, file, depth)
            case Reference(root="local", steps=(str() as name,)) if name in self.locals:
                place, attribute = self.locals[name]
                yield from self.written(attribute.expression, place, depth + 1)
            case Literal(value=str()) | Template():
                yield self._from_text(expression, file)
            case Literal(value=None):
                return
            case _:
                yield Untold(expression)

    def _from_call(self, call: Call, file: str, depth: int) -> Iterator[Written | Untold]:
        match call:
            case Call(name="jsonencode", arguments=(value,)):
                yield from self._encoded(value, file)
            case Call(name="trimspace" | "tostring" | "sensitive" | "nonsensitive", arguments=(first,)):
                yield from self.written(first, file, depth + 1)
            case Call(name="try" | "coalesce", arguments=arguments):
                for argument in arguments:
                    yield from self.written(argument, file, depth + 1)
            case Call(name="file" | "templatefile", arguments=(first, *given)):
                found = tuple(self._from_files(first, given[0] if given else None))
                yield from found or (Untold(call),)
            case _:
                yield Untold(call)

    def _encoded(self, value: Expression, file: str) -> Iterator[Written]:
        """A local that is encoded stands where the local does."""
        match value:
            case Reference(root="local", steps=(str() as name,)) if name in self.locals:
                file, attribute = self.locals[name]
                value = attribute.expression
        document = self.node(value)
        ways = document.content.ways if isinstance(document.content, Either) else (document,)
        for way in ways:
            yield Written(way, compact(way), file, value.line, value.column)

    def plainly(self, expression: Expression, file: str) -> Written:
        """An object that is a document before anybody encodes it."""
        self.begin()
        document = self.node(expression)
        return Written(document, compact(document), file, expression.line, expression.column)

    def _from_files(self, argument: Expression, given: Expression | None) -> Iterator[Written]:
        """The file of that name. Where a part of the name is not known, each policy that it may be."""
        path = self.text(argument)
        if path.startswith("/"):
            return
        many = HOLE in path
        for found in self._paths(posixpath.normpath(posixpath.join(self.module.folder, path))):
            text = None if found.startswith("..") else self.module.checkout.text(found)
            if text is not None and given is not None:
                text = self._template(text, given)
            if text is None:
                continue
            document = read_text(text)
            if not many or (isinstance(document, Node) and looks_like_policy(document)):
                yield Written(document, text, found, 1, 1, own_file=True, one_of_many=many)

    def _paths(self, path: str) -> Iterator[str]:
        if HOLE not in path:
            yield path
            return
        folder, _, name = path.rpartition("/")
        known = shown(name).replace("[", "[[]").replace("*", "[*]").replace("?", "[?]").replace("…", "*")
        if HOLE in folder:
            return
        tree = self.module.checkout.code.tree
        listed = (one for one in tree.names(folder or ".") if fnmatch.fnmatchcase(one, known))
        for number, one in enumerate(listed):
            if number < _MOST_FILES:
                yield tree.join(folder or ".", one)

    def _template(self, text: str, given: Expression) -> str | None:
        """None where lines of it stand in `%{ if }` or `%{ for }`."""
        if "%{" in text:
            return None
        if "${" not in text:
            return text
        from holdfast.hcl.native import read_template  # noqa: PLC0415 - hardly any policy is a template

        template = read_template(text, line=1, column=1)
        names: dict[str, object] = dict.fromkeys((one.root for one in references(template)), UNKNOWN)
        values = evaluate(given, self.scope)
        if isinstance(values, Mapping):
            names.update(values)
        return self.bound(names).text(template)

    def _from_text(self, expression: Expression, file: str) -> Written:
        text = self.text(expression)
        line, column = expression.line, expression.column
        if is_heredoc(self.module.checkout.lines(file), line, column):
            document = read_text(text, line=line + 1, columns=False)
        else:
            document = read_text(text)
            document = (
                document._replace(line=line, column=column)
                if isinstance(document, Malformed)
                else pinned(document, line, column)
            )
        return Written(document, text, file, line, column)

    def decoded(self, argument: Expression) -> Node:
        """`jsondecode` of a document. One of a data source is looked at where that stands."""
        line, column = argument.line, argument.column
        ways: list[Node] = []
        for way in self.written(argument, "", depth=1):
            if isinstance(way, Written) and isinstance(way.document, Node):
                ways.append(pinned(way.document, line, column))
            elif isinstance(way, Written) or not names_data(way.expression):
                ways.append(unknown(line, column))
        return ways[0] if len(ways) == 1 else Node(Either(*ways), line, column)


def names_data(expression: Expression) -> tuple[str, ...]:
    """The data sources of documents that an expression refers to."""
    named = (one.names for one in references(expression))
    return tuple(names[2] for names in named if len(names) > 2 and names[:2] == ("data", DATA_SOURCE))  # noqa: PLR2004 - data, type, name


def unknown(line: int, column: int) -> Node:
    return Node(UNKNOWN, line, column)
