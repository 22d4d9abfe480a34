"""Reads policy documents from Terraform expressions: `jsonencode`, heredocs, quoted JSON, `file`, locals.

References are followed as far as they are constant; the rest is unknown.
"""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from holdfast.checks.iam.document import (
    HOLE,
    Alternatives,
    Malformed,
    Node,
    display_text,
    encode_json,
    is_heredoc,
    read_document,
    with_place,
)
from holdfast.checks.iam.partial_eval import PartialEvaluator
from holdfast.checks.iam.policy_types import looks_like_policy
from holdfast.hcl.eval.evaluate import evaluate
from holdfast.hcl.nodes import Call, Conditional, Expression, Literal, Template, references
from holdfast.hcl.nodes import Traversal as Reference
from holdfast.hcl.reader import UNKNOWN

DATA_SOURCE: Final = "aws_iam_policy_document"
_DEEPEST: Final = 8
_MOST_FILES: Final = 50


class WrittenDocument(Struct, frozen=True):
    """A document and its place in the source."""

    document: Node | Malformed
    text: str
    file: str
    line: int
    column: int
    own_file: bool = False
    """The file contains only this document."""
    one_of_many: bool = False
    """One of several files that match, because a part of the name is unknown."""
    certain: bool = True


class UnresolvedDocument(Struct, frozen=True):
    """An expression that cannot be followed to a document."""

    expression: Expression


class DocumentReader(PartialEvaluator):
    """Reads the documents of one module."""

    def documents_in(
        self, expression: Expression, file: str, depth: int = 0
    ) -> Iterator[WrittenDocument | UnresolvedDocument]:
        """Every document that an expression may evaluate to: one for each side of a condition."""
        if depth == 0:
            self.reset_budget()
        match expression:
            case _ if depth > _DEEPEST:
                yield UnresolvedDocument(expression)
            case Conditional():
                for side in (expression.yes, expression.no):
                    yield from self.documents_in(side, file, depth + 1)
            case Call():
                yield from self._from_call(expression, file, depth)
            case Reference(root="local", steps=(str() as name,)) if name in self.locals:
                place, attribute = self.locals[name]
                yield from self.documents_in(attribute.expression, place, depth + 1)
            case Literal(value=str()) | Template():
                yield self._from_text(expression, file)
            case Literal(value=None):
                return
            case _:
                yield UnresolvedDocument(expression)

    def _from_call(self, call: Call, file: str, depth: int) -> Iterator[WrittenDocument | UnresolvedDocument]:
        match call:
            case Call(name="jsonencode", arguments=(value,)):
                yield from self._from_jsonencode(value, file)
            case Call(name="trimspace" | "tostring" | "sensitive" | "nonsensitive", arguments=(first,)):
                yield from self.documents_in(first, file, depth + 1)
            case Call(name="try" | "coalesce", arguments=arguments):
                for argument in arguments:
                    yield from self.documents_in(argument, file, depth + 1)
            case Call(name="file" | "templatefile", arguments=(first, *given)):
                documents = tuple(self._from_files(first, given[0] if given else None))
                yield from documents or (UnresolvedDocument(call),)
            case _:
                yield UnresolvedDocument(call)

    def _from_jsonencode(self, value: Expression, file: str) -> Iterator[WrittenDocument]:
        """The place of an encoded local is that of the local."""
        match value:
            case Reference(root="local", steps=(str() as name,)) if name in self.locals:
                file, attribute = self.locals[name]
                value = attribute.expression
        document = self.node(value)
        ways = document.content.options if isinstance(document.content, Alternatives) else (document,)
        for way in ways:
            yield WrittenDocument(way, encode_json(way), file, value.line, value.column)

    def object_document(self, expression: Expression, file: str) -> WrittenDocument:
        """An object that is a document and is encoded elsewhere."""
        self.reset_budget()
        document = self.node(expression)
        return WrittenDocument(document, encode_json(document), file, expression.line, expression.column)

    def _from_files(self, argument: Expression, variables: Expression | None) -> Iterator[WrittenDocument]:
        """The file with that name, or every policy that matches if a part of the name is unknown."""
        path = self.text(argument)
        if path.startswith("/"):
            return
        many = HOLE in path
        for file in self._paths(posixpath.normpath(posixpath.join(self.module.folder, path))):
            text = None if file.startswith("..") else self.module.checkout.text(file)
            if text is not None and variables is not None:
                text = self._template(text, variables)
            if text is None:
                continue
            document = read_document(text)
            if not many or (isinstance(document, Node) and looks_like_policy(document)):
                yield WrittenDocument(document, text, file, 1, 1, own_file=True, one_of_many=many)

    def _paths(self, path: str) -> Iterator[str]:
        if HOLE not in path:
            yield path
            return
        folder, _, name = path.rpartition("/")
        known = (
            display_text(name).replace("[", "[[]").replace("*", "[*]").replace("?", "[?]").replace("…", "*")
        )
        if HOLE in folder:
            return
        tree = self.module.checkout.code.tree
        listed = (entry for entry in tree.names(folder or ".") if fnmatch.fnmatchcase(entry, known))
        for number, one in enumerate(listed):
            if number < _MOST_FILES:
                yield tree.join(folder or ".", one)

    def _template(self, text: str, variables: Expression) -> str | None:
        """None if the template has directives."""
        if "%{" in text:
            return None
        if "${" not in text:
            return text
        from holdfast.hcl.native import read_template  # noqa: PLC0415 - hardly any policy is a template

        template = read_template(text, line=1, column=1)
        names: dict[str, object] = dict.fromkeys(
            (reference.root for reference in references(template)), UNKNOWN
        )
        values = evaluate(variables, self.scope)
        if isinstance(values, Mapping):
            names.update(values)
        return self.with_names(names).text(template)

    def _from_text(self, expression: Expression, file: str) -> WrittenDocument:
        text = self.text(expression)
        line, column = expression.line, expression.column
        if is_heredoc(self.module.checkout.lines(file), line, column):
            document = read_document(text, line=line + 1, columns=False)
        else:
            document = read_document(text)
            document = (
                document._replace(line=line, column=column)
                if isinstance(document, Malformed)
                else with_place(document, line, column)
            )
        return WrittenDocument(document, text, file, line, column)

    def decode_json(self, argument: Expression) -> Node:
        """`jsondecode` of a document. That of a data source is checked with the data source."""
        line, column = argument.line, argument.column
        ways: list[Node] = []
        for way in self.documents_in(argument, "", depth=1):
            if isinstance(way, WrittenDocument) and isinstance(way.document, Node):
                ways.append(with_place(way.document, line, column))
            elif isinstance(way, WrittenDocument) or not data_source_names(way.expression):
                ways.append(unknown(line, column))
        return ways[0] if len(ways) == 1 else Node(Alternatives(*ways), line, column)


def data_source_names(expression: Expression) -> tuple[str, ...]:
    """The data sources of documents that an expression refers to."""
    named = (reference.names for reference in references(expression))
    return tuple(names[2] for names in named if len(names) > 2 and names[:2] == ("data", DATA_SOURCE))  # noqa: PLR2004 - data, type, name


def unknown(line: int, column: int) -> Node:
    return Node(UNKNOWN, line, column)
