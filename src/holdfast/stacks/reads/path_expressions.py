"""The points of an expression where a file may be read or named, found before any value is known. Pure."""

from __future__ import annotations

import re
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

READERS = frozenset(
    ("file", "filebase64", "fileexists", "filemd5", "filesha1", "filesha256", "filesha512")
) | frozenset(("filebase64sha256", "filebase64sha512", "templatefile"))
"""Functions whose first argument is the path of a file, seen from the root module's folder."""
TAKES_PATHS = READERS | {"fileset", "templatestring"}

TAGS = frozenset(("tags", "labels", "default_tags", "annotations", "tags_all"))

_FOLDERY = re.compile(
    r"(?:^|_)(?:sources?|files?|filename|paths?|dirs?|directory|directories|folders?|charts?|templates?"
    r"|manifests?|context|scripts?|playbook|package|archive|zip|location|workdir)(?:_|$)"
)
_STRONG = re.compile(
    r"^(?:source|sources|filename|chart|scripts?|source_(?:dir|directory|file|path|code)"
    r"|\w+_(?:file|files|dir|directory|script))$"
)
_TAKEN_APART = frozenset(
    ("basename", "dirname", "length", "md5", "replace", "sha1", "sha256", "sha512", "split")
)
"""Functions of which only the answer goes on: the path they are given is not read."""
_NEVER_TEXT = (
    frozenset(
        (
            "alltrue",
            "anytrue",
            "can",
            "compact",
            "concat",
            "contains",
            "distinct",
            "flatten",
            "jsonencode",
            "keys",
        )
    )
    | frozenset(
        ("length", "max", "merge", "min", "setunion", "sort", "split", "sum", "tobool", "tolist", "tomap")
    )
    | frozenset(("tonumber", "toset", "values", "yamlencode", "zipmap"))
)
"""Functions whose answer is no string that names a file; what goes into them may be."""
_BUILDERS = frozenset(("format", "formatlist", "join", "replace", "pathexpand", "dirname", "abspath"))


def may_name_folder(name: str) -> bool:
    """An attribute whose plain word may well name a folder: `chart = "web"`, not `environment = "dev"`."""
    return bool(_FOLDERY.search(name))


def expects_file(name: str) -> bool:
    """An attribute that all but certainly names a file: if its value is unknown, any file may be meant."""
    return bool(_STRONG.match(name))


class Named(Struct, frozen=True, kw_only=True):
    """A string that is made here, or given where a file is expected: it may name something."""

    expression: Expression
    folder: bool
    expects_file: bool
    of_path: bool
    """`path.module` or its like is part of it."""


class Read(Struct, frozen=True, kw_only=True):
    """A function that reads files."""

    call: Call
    name: str


class Each(Struct, frozen=True, kw_only=True):
    """Points inside a `for`, seen once for each element."""

    expression: For
    inside: tuple[Point, ...]


class Either(Struct, frozen=True, kw_only=True):
    """Points of which only one side is seen once the condition is known."""

    expression: Conditional
    yes: tuple[Point, ...]
    no: tuple[Point, ...]


Point = Named | Read | Each | Either


def path_expressions(expression: Expression, name: str) -> tuple[Point, ...]:
    """`name`: the attribute, or the key of an object, that the expression is given to."""
    return tuple(_points(expression, name))


def _points(expression: Expression, name: str | None) -> Iterator[Point]:
    """None for a name: what is made here is taken apart by a function, and names nothing."""
    match expression:
        case Literal():
            return
        case For():
            yield from _points(expression.collection, None if name is None else "")
            inside = tuple(
                point
                for part in expression.parts()
                if part is not expression.collection
                for point in _points(part, name)
            )
            if inside:
                yield Each(expression=expression, inside=inside)
        case Conditional():
            yield from _points(expression.condition, None)
            yes, no = tuple(_points(expression.yes, name)), tuple(_points(expression.no, name))
            if yes or no:
                yield Either(expression=expression, yes=yes, no=no)
        case Object():
            for key, value in expression.items:
                yield from _points(key, name and "")
                yield from _points(value, _key_name(key, name))
        case _:
            yield from _own(expression, name)
            for at, part in enumerate(expression.parts()):
                yield from _points(part, _inner_name(expression, at, name))


def _key_name(key: Expression, name: str | None) -> str | None:
    if name is None or name in TAGS:
        return name
    return str(key.value) if isinstance(key, Literal) else name


def _own(expression: Expression, name: str | None) -> Iterator[Point]:
    if isinstance(expression, Call):
        function = expression.name.removeprefix("core::")
        if function in TAKES_PATHS:
            yield Read(call=expression, name=function)
            return
    if name is None:
        return
    of_path = _made_of_path(expression)
    made = isinstance(expression, Template) or (
        isinstance(expression, Call) and expression.name not in _NEVER_TEXT
    )
    given = isinstance(expression, Traversal | Access) and (may_name_folder(name) or expects_file(name))
    if made or given:
        yield Named(
            expression=expression,
            folder=may_name_folder(name),
            expects_file=expects_file(name),
            of_path=of_path,
        )


def _inner_name(expression: Expression, at: int, name: str | None) -> str | None:
    """Inside text or a call nothing has a name; what is taken apart, or read right there, names nothing."""
    match expression:
        case Call(name=function):
            function = function.removeprefix("core::")
            taken = function in _TAKEN_APART or function == "fileset" or (function in TAKES_PATHS and at == 0)
            return None if taken or name is None else ""
        case Template():
            return name and ""
        case Traversal() | Access():
            return None
        case _:
            return name


def _made_of_path(expression: Expression) -> bool:
    """Whether `path.module` and its like stand in it, as text and not inside another call."""
    match expression:
        case Traversal(root="path"):
            return True
        case Template():
            return any(_made_of_path(piece) for piece in expression.pieces)
        case Call():
            inside = [part for part in expression.arguments if not isinstance(part, Call)]
            return expression.name in _BUILDERS and any(
                reference.root == "path" for part in inside for reference in references(part)
            )
        case _:
            return False
