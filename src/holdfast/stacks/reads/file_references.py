"""Finds the expressions of a module that may read a file, once per module. Pure.

Values differ from stack to stack, the code does not: this is the part that needs no values.
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


class FileReference(Struct, frozen=True, kw_only=True):
    """An attribute that may read or name files; it is evaluated for each stack."""

    expression: Expression
    file: str
    paths: tuple[PathExpression, ...]


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
    unfollowed: tuple[str, ...] = ()
    """Reasons why any file may be read here, regardless of values."""
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
    unread: tuple[str, ...]
    """Sentences about files that could only be read in part."""


def find_references(files: tuple[File, ...]) -> ModuleReferences:
    literals: set[str] = set()
    folder_literals: set[str] = set()
    absolute_files: set[str] = set()
    kubeconfigs: set[str] = set()
    blocks: list[ReferenceBlock] = []
    unread = [
        f"{problem.place or file.path} cannot be read" for file in files for problem in file.problems[:1]
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
                unread.append(f"{file.path}:{block.place.line} is nested too deeply to be followed")
    return ModuleReferences(
        blocks=tuple(block for block in blocks if block.references or block.nested or block.unfollowed),
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


def _add_literals(block: Block, literals: set[str], folder_literals: set[str]) -> None:
    for attribute in block.body.attributes:
        if attribute.name in _PROSE or _handled_elsewhere(block, attribute):
            continue
        for name, literal in _literals(attribute.name, attribute.expression):
            if may_name_folder(name):
                folder_literals.add(literal)
            elif may_be_path(literal):
                literals.add(literal)
    for inner in block.body.blocks:
        _add_literals(inner, literals, folder_literals)


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
    references, nested, unfollowed = _contents(block, file)
    return ReferenceBlock(
        for_each=attributes.get("for_each"),
        count=None if dynamic else attributes.get("count"),
        iterator=iterator,
        repeats=dynamic or _uses_instance(references, nested),
        references=references,
        nested=nested,
        unfollowed=unfollowed,
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
    block: Block, file: str
) -> tuple[tuple[FileReference, ...], tuple[ReferenceBlock, ...], tuple[str, ...]]:
    references: list[FileReference] = []
    nested: list[ReferenceBlock] = []
    unfollowed: list[str] = []
    if _runs_program(block):
        what = " ".join((block.type, *block.labels[:1]))
        unfollowed.append(f"{file}:{block.place.line} runs a program ({what}) that may read any file")
    for attribute in block.body.attributes:
        if not _handled_elsewhere(block, attribute) and (
            paths := path_expressions(attribute.expression, attribute.name)
        ):
            references.append(FileReference(expression=attribute.expression, file=file, paths=paths))
        if any(isinstance(part, Opaque) and part.unread for part in walk(attribute.expression)):
            unfollowed.append(f"{file}:{attribute.place.line} cannot be read")
    for inner in block.body.blocks:
        if inner.type == "dynamic":
            nested.append(_reference_block(inner, file))
            continue
        inner_references, inner_blocks, inner_unfollowed = _contents(inner, file)
        references.extend(inner_references)
        nested.extend(inner_blocks)
        unfollowed.extend(inner_unfollowed)
    return tuple(references), tuple(nested), tuple(unfollowed)


def _runs_program(block: Block) -> bool:
    label = block.labels[0] if block.labels else ""
    if block.type == "provisioner":
        return label not in _PLAIN_PROVISIONERS
    return block.type == "data" and label == "external"
