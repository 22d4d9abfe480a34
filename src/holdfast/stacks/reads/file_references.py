"""Finds the expressions of a module that may read a file, once per module. Pure.

Values differ from stack to stack, the code does not: this is the part that needs no values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

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
from holdfast.stacks.reads.path_expressions import (
    TAGS,
    TAKES_PATHS,
    PathExpression,
    expects_file,
    may_name_folder,
    path_expressions,
)

_PROSE = frozenset(("description", "error_message"))
_PLAIN_PROVISIONERS = frozenset(("file", "remote-exec"))
_PROGRAMS = frozenset(("external", "local_command", "shell_script"))
"""Data sources that run a program on this machine in every plan."""
_AT_APPLY = frozenset(("provisioner", "connection"))
_QUOTED: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_PATH_MODULE: Final = re.compile(r"\$\{\s*path\.\w+\s*\}/")
_WORDS: Final = re.compile(r"[\s'\"=;|&()<>,]+")
_IGNORED_BLOCKS = frozenset(("backend", "cloud", "required_providers", "provider_meta"))
_RESOURCES = frozenset(("resource", "data"))
_LONGEST_PATH = 1024
_LONGEST_NAME = 255
"""Bytes, as on every common file system."""
_KUBECONFIGS = ("config_path", "config_paths")
_KUBECONFIG = "~/.kube/config"


def may_be_path(text: str) -> bool:
    """Whether a string may name a file. Dots and slashes alone are far more often separators."""
    return (
        0 < len(text) <= _LONGEST_PATH
        and "\n" not in text
        and "\0" not in text
        and "://" not in text
        and bool(text.strip("./"))
        and all(len(name.encode(errors="replace")) <= _LONGEST_NAME for name in text.split("/"))
    )


def quoted_strings(text: str) -> Iterator[str]:
    """Strings in a file that cannot be read otherwise, up to the first expression, as paths of its folder."""
    for quoted in _QUOTED.findall(text):
        string = _PATH_MODULE.sub("./", quoted).partition("${")[0]
        if may_be_path(string):
            yield string


def words_in(command: str) -> Iterator[str]:
    """The words of a command that may name a file, besides the whole text."""
    words = _WORDS.split(command)
    return (word for word in words if len(words) > 1 and ("/" in word or "." in word))


class Reach(Enum):
    """Which files count where it is not clear which are read. The work directory has all of them."""

    EVERYTHING = "every changed file"
    NEARBY = "those of the module, and of the root module"
    NOTHING = "none: it runs when a resource is created or destroyed, and changes no plan"


class Unclear(Struct, frozen=True, kw_only=True):
    """A place in the code that may read files which it does not name."""

    reason: str
    reach: Reach


class FileReference(Struct, frozen=True, kw_only=True):
    """An attribute that may read or name files; it is evaluated for each stack."""

    expression: Expression
    file: str
    paths: tuple[PathExpression, ...]
    program: bool = False
    """Of a program that is run: the words of its command may name files."""
    at_apply: bool = False
    """Of a provisioner: a name that is not known changes no plan."""


class ReferenceBlock(Struct, frozen=True, kw_only=True):
    """A block: what it repeats over, and the references inside."""

    for_each: Expression | None = None
    count: Expression | None = None
    iterator: str | None = None
    """The name a dynamic block gives its element; None for a top-level block."""
    repeats: bool = False
    """Whether anything inside uses `each`, `count` or the iterator."""
    references: tuple[FileReference, ...] = ()
    nested: tuple[ReferenceBlock, ...] = ()
    unclear: tuple[Unclear, ...] = ()
    """Regardless of values."""
    resource: bool = False
    """A resource or data source: the content of the files that it names is part of what it does."""


class ModuleReferences(Struct, frozen=True, kw_only=True):
    blocks: tuple[ReferenceBlock, ...]
    literals: frozenset[str]
    """Strings in the code that may name a file."""
    folder_literals: frozenset[str]
    """Strings that may name a folder although they look like a plain word."""
    absolute_files: frozenset[str]
    """Absolute paths that resources and data sources name where a file is expected."""
    kubeconfigs: frozenset[str]
    """Those that providers name; the usual one if the name is computed."""
    unread: tuple[tuple[str, str], ...]
    """Files that could only be read in part, each with a sentence."""


def find_references(files: tuple[File, ...]) -> ModuleReferences:
    literals: set[str] = set()
    folder_literals: set[str] = set()
    absolute_files: set[str] = set()
    kubeconfigs: set[str] = set()
    blocks: list[ReferenceBlock] = []
    unread = [
        (file.path, f"{problem.place or file.path} cannot be read")
        for file in files
        for problem in file.problems[:1]
    ]
    for file in files:
        for block in _relevant_blocks(file.body):
            try:
                blocks.append(_reference_block(block, file.path))
                _add_literals(block, literals, folder_literals)
                if block.type in _RESOURCES:
                    absolute_files.update(_absolute_files(block))
                elif block.type == "provider":
                    kubeconfigs.update(_kubeconfigs(block.body))
            except RecursionError:
                too_deep = f"{file.path}:{block.place.line} is nested too deeply to be followed"
                unread.append((file.path, too_deep))
    return ModuleReferences(
        blocks=tuple(block for block in blocks if block.references or block.nested or block.unclear),
        literals=frozenset(literals),
        folder_literals=frozenset(folder_literals),
        absolute_files=frozenset(absolute_files),
        kubeconfigs=frozenset(kubeconfigs),
        unread=tuple(unread),
    )


def _relevant_blocks(body: Body) -> Iterator[Block]:
    """All but a module's own settings: a plan does not depend on the file named by a backend's path."""
    for block in body.blocks:
        if block.type == "terraform":
            yield from (inner for inner in block.body.blocks if inner.type not in _IGNORED_BLOCKS)
        elif block.type != "moved":
            yield block


def _add_literals(
    block: Block, literals: set[str], folder_literals: set[str], *, program: bool = False
) -> None:
    program = program or _runs_program(block) or block.type == "provisioner"
    for attribute in block.body.attributes:
        if attribute.name in _PROSE or _handled_elsewhere(block, attribute):
            continue
        for name, literal in _literals(attribute.name, attribute.expression):
            if program:
                literals.update(filter(may_be_path, words_in(literal)))
            if may_name_folder(name):
                folder_literals.add(literal)
            elif may_be_path(literal):
                literals.add(literal)
    for inner in block.body.blocks:
        _add_literals(inner, literals, folder_literals, program=program)


def _absolute_files(block: Block) -> Iterator[str]:
    for attribute in block.body.attributes:
        for name, literal in _literals(attribute.name, attribute.expression):
            if literal.startswith(("/", "~")) and may_be_path(literal) and expects_file(name):
                yield literal
    for inner in block.body.blocks:
        yield from _absolute_files(inner)


def _kubeconfigs(body: Body) -> Iterator[str]:
    """`config_path = …`, also in a block or an object `kubernetes`."""
    for attribute in body.attributes:
        expressions = [(attribute.name, attribute.expression)]
        if isinstance(attribute.expression, Object):
            expressions += [
                (str(key.value), value)
                for key, value in attribute.expression.items
                if isinstance(key, Literal)
            ]
        for name, expression in expressions:
            if name in _KUBECONFIGS:
                texts = [part.value for part in walk(expression) if isinstance(part, Literal)]
                named = [text for text in texts if isinstance(text, str) and text.startswith(("/", "~"))]
                yield from named or [_KUBECONFIG]
    for inner in body.blocks:
        yield from _kubeconfigs(inner.body)


def _handled_elsewhere(block: Block, attribute: Attribute) -> bool:
    """A variable's type and a module's source are evaluated separately."""
    return (block.type, attribute.name) in (("variable", "type"), ("module", "source"), ("module", "version"))


def _literals(name: str, expression: Expression) -> Iterator[tuple[str, str]]:
    """Every string with the name of the attribute, or of the object key, that it is assigned to."""
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
        reads_path = isinstance(expression, Call) and expression.name in TAKES_PATHS
        for part in expression.parts():
            if not (reads_path and isinstance(part, Literal)):
                yield from _literals("", part)


def _reference_block(block: Block, file: str) -> ReferenceBlock:
    """A top-level block, or a dynamic block inside one."""
    dynamic = block.type == "dynamic"
    attributes = {item.name: item.expression for item in block.body.attributes}
    iterator = (block.labels[0] if block.labels else "") if dynamic else None
    name = attributes.get("iterator")
    if dynamic and isinstance(name, Traversal):
        iterator = name.root
    references, nested, unclear = _contents(block, file)
    return ReferenceBlock(
        for_each=attributes.get("for_each"),
        count=None if dynamic else attributes.get("count"),
        iterator=iterator,
        repeats=dynamic or _uses_instance(references, nested),
        references=references,
        nested=nested,
        unclear=unclear,
        resource=block.type in _RESOURCES,
    )


def _uses_instance(references: tuple[FileReference, ...], nested: tuple[ReferenceBlock, ...]) -> bool:
    return any(_refers_to_instance(reference.expression) for reference in references) or any(
        _uses_instance(block.references, block.nested)
        or (block.for_each is not None and _refers_to_instance(block.for_each))
        for block in nested
    )


def _refers_to_instance(expression: Expression) -> bool:
    return any(isinstance(part, Traversal) and part.root in ("each", "count") for part in walk(expression))


def _contents(
    block: Block, file: str, *, at_apply: bool = False
) -> tuple[tuple[FileReference, ...], tuple[ReferenceBlock, ...], tuple[Unclear, ...]]:
    references: list[FileReference] = []
    nested: list[ReferenceBlock] = []
    unclear: list[Unclear] = []
    program = _runs_program(block)
    at_apply = at_apply or block.type in _AT_APPLY
    if program:
        what = " ".join((block.type, *block.labels[:1]))
        reason = f"{file}:{block.place.line} runs a program ({what})"
        unclear.append(Unclear(reason=reason, reach=Reach.NOTHING if at_apply else Reach.NEARBY))
    for attribute in block.body.attributes:
        if not _handled_elsewhere(block, attribute) and (
            paths := path_expressions(attribute.expression, attribute.name)
        ):
            references.append(
                FileReference(
                    expression=attribute.expression,
                    file=file,
                    paths=paths,
                    program=program or at_apply,
                    at_apply=at_apply,
                )
            )
        if any(isinstance(part, Opaque) and part.unread for part in walk(attribute.expression)):
            reason = f"{file}:{attribute.place.line} cannot be read"
            unclear.append(Unclear(reason=reason, reach=Reach.EVERYTHING))
    for inner in block.body.blocks:
        if inner.type == "dynamic":
            nested.append(_reference_block(inner, file))
            continue
        inner_references, inner_blocks, inner_unclear = _contents(inner, file, at_apply=at_apply)
        references.extend(inner_references)
        nested.extend(inner_blocks)
        unclear.extend(inner_unclear)
    return tuple(references), tuple(nested), tuple(unclear)


def _runs_program(block: Block) -> bool:
    label = block.labels[0] if block.labels else ""
    if block.type == "provisioner":
        return label not in _PLAIN_PROVISIONERS
    return block.type == "data" and label in _PROGRAMS
