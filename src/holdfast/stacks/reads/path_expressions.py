"""Finds the parts of an expression that may read or name a file, before any value is known. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from holdfast.hcl.nodes import (
    Access,
    Call,
    Conditional,
    Expression,
    For,
    Literal,
    Object,
    Template,
    Traversal,
    references,
)
from holdfast.kernel.patterns import pattern

READERS = frozenset(
    (
        *("file", "filebase64", "fileexists", "filemd5", "filesha1", "filesha256", "filesha512"),
        *("filebase64sha256", "filebase64sha512", "templatefile"),
    )
)
"""Functions whose first argument is a file path, relative to the root module's folder."""
TAKES_PATHS = READERS | {"fileset", "templatestring"}

TAGS = frozenset(("tags", "labels", "default_tags", "annotations", "tags_all"))

_FOLDERY = pattern(
    r"(?:^|_)(?:sources?|files?|filename|paths?|dirs?|directory|directories|folders?|charts?|templates?"
    r"|manifests?|context|scripts?|playbook|package|archive|zip|location|workdir)(?:_|$)"
)
_STRONG = pattern(
    r"^(?:source|sources|filename|chart|scripts?|source_(?:dir|directory|file|path|code)"
    r"|\w+_(?:file|files|dir|directory|script))$"
)
_USE_AS_TEXT = frozenset(
    ("basename", "dirname", "length", "md5", "replace", "sha1", "sha256", "sha512", "split")
)
"""Functions that only use a path as text: the file is not read."""
_NEVER_PATHS = frozenset(
    (
        *("alltrue", "anytrue", "can", "compact", "concat", "contains", "distinct", "flatten", "jsonencode"),
        *("keys", "length", "max", "merge", "min", "setunion", "sort", "split", "sum", "tobool", "tolist"),
        *("tomap", "tonumber", "toset", "values", "yamlencode", "zipmap"),
    )
)
"""Functions whose result is never a file name; their arguments may be."""
_BUILDERS = frozenset(("format", "formatlist", "join", "replace", "pathexpand", "dirname", "abspath"))


def may_name_folder(name: str) -> bool:
    """An attribute whose value may be a folder even if it is a plain word: `chart = "web"`."""
    return bool(_FOLDERY.search(name))


def expects_file(name: str) -> bool:
    """An attribute that almost certainly names a file: if its value is unknown, it may be any file."""
    return bool(_STRONG.match(name))


class NamedPath(Struct, frozen=True, kw_only=True):
    """A string that is built here, or assigned where a file is expected: it may name a file."""

    expression: Expression
    folder: bool
    expects_file: bool
    of_path: bool
    """It contains `path.module`, `path.root` or `path.cwd`."""


class FileRead(Struct, frozen=True, kw_only=True):
    """A function that reads files."""

    call: Call
    name: str


class LoopPaths(Struct, frozen=True, kw_only=True):
    """Path expressions inside a `for`, evaluated once per element."""

    expression: For
    inside: tuple[PathExpression, ...]


class BranchPaths(Struct, frozen=True, kw_only=True):
    """Path expressions of a conditional; only one side counts once the condition is known."""

    expression: Conditional
    yes: tuple[PathExpression, ...]
    no: tuple[PathExpression, ...]


PathExpression = NamedPath | FileRead | LoopPaths | BranchPaths


def path_expressions(expression: Expression, name: str | None) -> tuple[PathExpression, ...]:
    """`name`: the attribute or object key that the expression is assigned to; None if it names no file."""
    return tuple(_paths(expression, name))


def _paths(expression: Expression, name: str | None) -> Iterator[PathExpression]:
    """`name` is None where a function uses the result as text, so it names no file."""
    match expression:
        case Literal():
            return
        case For():
            yield from _paths(expression.collection, None if name is None else "")
            inside = tuple(
                path
                for part in expression.parts()
                if part is not expression.collection
                for path in _paths(part, name)
            )
            if inside:
                yield LoopPaths(expression=expression, inside=inside)
        case Conditional():
            yield from _paths(expression.condition, None)
            yes, no = tuple(_paths(expression.yes, name)), tuple(_paths(expression.no, name))
            if yes or no:
                yield BranchPaths(expression=expression, yes=yes, no=no)
        case Object():
            for key, value in expression.items:
                yield from _paths(key, name and "")
                yield from _paths(value, _key_name(key, name))
        case _:
            yield from _direct(expression, name)
            for at, part in enumerate(expression.parts()):
                yield from _paths(part, _inner_name(expression, at, name))


def _key_name(key: Expression, name: str | None) -> str | None:
    if name is None or name in TAGS:
        return name
    return str(key.value) if isinstance(key, Literal) else name


def _direct(expression: Expression, name: str | None) -> Iterator[PathExpression]:
    if isinstance(expression, Call):
        function = expression.name.removeprefix("core::")
        if function in TAKES_PATHS:
            yield FileRead(call=expression, name=function)
            return
    if name is None:
        return
    of_path = _uses_path(expression)
    built = isinstance(expression, Template) or (
        isinstance(expression, Call) and expression.name not in _NEVER_PATHS
    )
    assigned = isinstance(expression, Traversal | Access) and (may_name_folder(name) or expects_file(name))
    if built or assigned:
        yield NamedPath(
            expression=expression,
            folder=may_name_folder(name),
            expects_file=expects_file(name),
            of_path=of_path,
        )


def _inner_name(expression: Expression, at: int, name: str | None) -> str | None:
    """Inside a template or a call there is no attribute name; None where the argument names no file."""
    match expression:
        case Call(name=function):
            function = function.removeprefix("core::")
            as_text = function in _USE_AS_TEXT or function == "fileset"
            return None if name is None or as_text or (function in TAKES_PATHS and at == 0) else ""
        case Template():
            return name and ""
        case Traversal() | Access():
            return None
        case _:
            return name


def _uses_path(expression: Expression) -> bool:
    """Whether `path.module` or the like is part of the text, not inside another call."""
    match expression:
        case Traversal(root="path"):
            return True
        case Template():
            return any(_uses_path(piece) for piece in expression.pieces)
        case Call():
            inside = [part for part in expression.arguments if not isinstance(part, Call)]
            return expression.name in _BUILDERS and any(
                reference.root == "path" for part in inside for reference in references(part)
            )
        case _:
            return False
