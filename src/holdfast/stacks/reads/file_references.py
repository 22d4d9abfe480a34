"""The places of a module's code that may read a file, found once for each module. Pure.

Values differ from stack to stack, the code does not: what can be said without values is said here.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from holdfast.hcl.nodes import (
    Attribute,
    Block,
    Body,
    Call,
    Expression,
    File,
    Literal,
    Object,
    Opaque,
    Traversal,
    Tuple,
    walk,
)
from holdfast.stacks.reads.path_expressions import TAGS, TAKES_PATHS, Point, may_name_folder, path_expressions

_PROSE = frozenset(("description", "error_message"))
_PLAIN_PROVISIONERS = frozenset(("file", "remote-exec"))
_PASSED_OVER = frozenset(("backend", "cloud", "required_providers", "provider_meta"))
_LONGEST_PATH = 1024


def may_be_path(text: str) -> bool:
    """Whether a string may name a file at all. Dots and slashes alone are separators far more often."""
    return (
        0 < len(text) <= _LONGEST_PATH
        and "\n" not in text
        and "\0" not in text
        and "://" not in text
        and bool(text.strip("./"))
    )


class Site(Struct, frozen=True, kw_only=True):
    """An expression whose value must be looked at for each stack."""

    expression: Expression
    file: str
    points: tuple[Point, ...]


class Group(Struct, frozen=True, kw_only=True):
    """A block: what it repeats over, and the sites inside that see `each`, `count` or an iterator."""

    for_each: Expression | None = None
    count: Expression | None = None
    iterator: str | None = None
    """The name a dynamic block gives its element; None for a block of the top."""
    repeats: bool = False
    """Whether anything inside asks which element it is."""
    sites: tuple[Site, ...] = ()
    inner: tuple[Group, ...] = ()
    runs: tuple[str, ...] = ()
    """Reasons why any file may be read here, whatever the values."""


class Sites(Struct, frozen=True, kw_only=True):
    groups: tuple[Group, ...]
    words: frozenset[str]
    """Strings of the code that may name a file."""
    folder_words: frozenset[str]
    """Those of them that may name a folder although they look like a plain word."""
    unread: tuple[str, ...]
    """Files that could only be read in part."""


def find_references(files: tuple[File, ...]) -> Sites:
    words: set[str] = set()
    folder_words: set[str] = set()
    groups: list[Group] = []
    unread = [
        f"{problem.place or file.path} cannot be read" for file in files for problem in file.problems[:1]
    ]
    for file in files:
        for block in _looked_at(file.body):
            try:
                groups.append(_group(block, file.path))
                _words(block, words, folder_words)
            except RecursionError:
                unread.append(f"{file.path}:{block.place.line} nests too deeply to be followed")
    return Sites(
        groups=tuple(group for group in groups if group.sites or group.inner or group.runs),
        words=frozenset(words),
        folder_words=frozenset(folder_words),
        unread=tuple(unread),
    )


def _looked_at(body: Body) -> Iterator[Block]:
    """All but a module's own settings: a backend's path is no file that decides a plan."""
    for block in body.blocks:
        if block.type == "terraform":
            yield from (inner for inner in block.body.blocks if inner.type not in _PASSED_OVER)
        elif block.type != "moved":
            yield block


def _words(block: Block, words: set[str], folder_words: set[str]) -> None:
    for attribute in block.body.attributes:
        if attribute.name in _PROSE or _settles_the_module(block, attribute):
            continue
        for name, literal in _literals(attribute.name, attribute.expression):
            if may_name_folder(name):
                folder_words.add(literal)
            elif may_be_path(literal):
                words.add(literal)
    for inner in block.body.blocks:
        _words(inner, words, folder_words)


def _settles_the_module(block: Block, attribute: Attribute) -> bool:
    """A variable's type and a module's source are followed in their own way."""
    return (block.type, attribute.name) in (("variable", "type"), ("module", "source"), ("module", "version"))


def _literals(name: str, expression: Expression) -> Iterator[tuple[str, str]]:
    """Every string with the name of the attribute, or of the object's key, that it is given to."""
    if isinstance(expression, Object) and name not in TAGS:
        for key, value in expression.items:
            if isinstance(key, Literal) and isinstance(key.value, str):
                yield "", key.value
                yield from _literals(key.value, value)
            else:
                yield from _literals("", key)
                yield from _literals(name, value)
    elif isinstance(expression, Literal | Tuple | Object):
        if isinstance(expression, Literal) and isinstance(expression.value, str):
            yield name, expression.value
        for part in expression.parts():
            yield from _literals(name, part)
    else:
        taken = isinstance(expression, Call) and expression.name in TAKES_PATHS
        for part in expression.parts():
            if not (taken and isinstance(part, Literal)):
                yield from _literals("", part)


def _group(block: Block, file: str) -> Group:
    for_each, count = block.body.attribute("for_each"), block.body.attribute("count")
    sites, inner, runs = _inside(block, file)
    return Group(
        for_each=for_each.expression if for_each else None,
        count=count.expression if count else None,
        repeats=_asks(Group(sites=sites, inner=inner), ("each", "count")),
        sites=sites,
        inner=inner,
        runs=runs,
    )


def _dynamic(block: Block, file: str) -> Group:
    for_each, name = block.body.attribute("for_each"), block.body.attribute("iterator")
    iterator = block.labels[0] if block.labels else ""
    if name is not None and isinstance(name.expression, Traversal):
        iterator = name.expression.root
    sites, inner, runs = _inside(block, file)
    return Group(
        for_each=for_each.expression if for_each else None,
        iterator=iterator,
        repeats=True,
        sites=sites,
        inner=inner,
        runs=runs,
    )


def _asks(group: Group, names: tuple[str, ...]) -> bool:
    return any(
        isinstance(found, Traversal) and found.root in names
        for site in group.sites
        for found in walk(site.expression)
    ) or any(
        _asks(inner, names) or (inner.for_each is not None and _refers(inner.for_each, names))
        for inner in group.inner
    )


def _refers(expression: Expression, names: tuple[str, ...]) -> bool:
    return any(isinstance(found, Traversal) and found.root in names for found in walk(expression))


def _inside(block: Block, file: str) -> tuple[tuple[Site, ...], tuple[Group, ...], tuple[str, ...]]:
    sites: list[Site] = []
    groups: list[Group] = []
    runs = [_program(block, file)] if _runs_a_program(block) else []
    for attribute in block.body.attributes:
        points = _points(block, attribute)
        if points:
            sites.append(Site(expression=attribute.expression, file=file, points=points))
        if any(isinstance(part, Opaque) and part.unread for part in walk(attribute.expression)):
            runs.append(f"{file}:{attribute.place.line} cannot be read")
    for inner in block.body.blocks:
        if inner.type == "dynamic":
            groups.append(_dynamic(inner, file))
            continue
        more_sites, more_groups, more_runs = _inside(inner, file)
        sites.extend(more_sites)
        groups.extend(more_groups)
        runs.extend(more_runs)
    return tuple(sites), tuple(groups), tuple(runs)


def _points(block: Block, attribute: Attribute) -> tuple[Point, ...]:
    """A plain reference brings nothing new: its value was looked at where it was made."""
    if _settles_the_module(block, attribute):
        return ()
    return path_expressions(attribute.expression, attribute.name)


def _runs_a_program(block: Block) -> bool:
    if block.type == "provisioner":
        return block.labels[:1] not in tuple((name,) for name in _PLAIN_PROVISIONERS)
    return block.type == "data" and block.labels[:1] == ("external",)


def _program(block: Block, file: str) -> str:
    what = " ".join((block.type, *block.labels[:1]))
    return f"{file}:{block.place.line} runs a program ({what}) that may read any file"
