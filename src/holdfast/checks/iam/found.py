"""Every policy document of a module and of a variables file, with what each is used as. Read once each."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from holdfast.checks.iam import data_source
from holdfast.checks.iam.document import HOLE, Malformed, Node, compact, read_text
from holdfast.checks.iam.kinds import USES, Kind, Use, guess, looks_like_policy
from holdfast.checks.iam.statements import Statement, statements
from holdfast.checks.iam.written import Untold, Writing, Written
from holdfast.checks.subjects import CheckedStack, Checkout, Module, Resource, VariablesFile, bodies, nested
from holdfast.hcl.nodes import (
    Attribute,
    Block,
    Call,
    Expression,
    Literal,
    Object,
    Template,
    references,
    walk,
)
from holdfast.kernel.patterns import pattern

_MARK: Final = b"Statement"
_TYPES: Final = frozenset(type_ for type_, _ in USES)
_USES: Final = {
    type_: tuple((name, use) for (other, name), use in USES.items() if other == type_) for type_ in _TYPES
}
_NOT_POLICIES: Final = (".tf.json", ".tofu.json", ".tfvars.json")
_CALLED_POLICY = pattern(r"policy|policies|trust|assume.?role", re.IGNORECASE)


class Policy(Struct, frozen=True):
    """A document that was found."""

    document: Node
    use: Use
    text: str
    file: str
    address: str | None
    statements: tuple[Statement, ...]

    @property
    def kind(self) -> Kind:
        return self.use.kind


def policy_of(document: Node, use: Use, text: str, file: str, address: str | None = None) -> Policy:
    return Policy(document, use, text, file, address, statements(document))


class Broken(Struct, frozen=True):
    """What is meant as a document and is no JSON."""

    malformed: Malformed
    file: str
    address: str | None = None


class Policies(Struct, frozen=True):
    found: tuple[Policy, ...] = ()
    broken: tuple[Broken, ...] = ()
    untold: tuple[tuple[str, str], ...] = ()
    """File and address of what only Terraform knows."""
    files: tuple[str, ...] = ()
    """The JSON files that were looked into, whatever they turned out to hold."""


def of_module(module: Module) -> Policies:
    made: Policies = module.checkout.code.once(("policies", module.folder), lambda: _Search(module).all())
    return made


def of_variables(variables: VariablesFile) -> Policies:
    """Those that it holds, those in JSON files that it names, and those beside it."""
    key = ("policies of", variables.path)
    made: Policies = variables.checkout.code.once(key, lambda: _beside(variables))
    return made


def files_beside(subject: Module | VariablesFile | CheckedStack) -> Iterator[str]:
    """The JSON files in which documents were looked for, for rules that look at all of these."""
    match subject:
        case Module():
            yield from of_module(subject).files
        case VariablesFile():
            yield from of_variables(subject).files
        case CheckedStack():
            for folder in subject.folders:
                yield from of_module(subject.checkout.module(folder)).files


class _Search:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._writing = Writing(module)
        self._found: list[Policy] = []
        self._broken: list[Broken] = []
        self._untold: list[tuple[str, str]] = []
        self._seen: set[tuple[str, int, int]] = set()
        self._data: dict[str, list[Use]] = {}
        self._files: set[str] = set()

    def all(self) -> Policies:
        for resource in self._module.resources(mode="managed"):
            if resource.type in _TYPES:
                self._resource(resource)
        for resource in self._module.resources(data_source.TYPE, mode="data"):
            self._data_source(resource)
        self._elsewhere()
        self._json_files()
        return Policies(
            tuple(self._found), tuple(self._broken), tuple(self._untold), tuple(sorted(self._files))
        )

    def _resource(self, resource: Resource) -> None:
        for name, use in _USES[resource.type]:
            block, _, inner = name.rpartition(".")
            bodies = [one.body for one in nested(resource.body, block)] if block else [resource.body]
            for body in bodies:
                attribute = body.attribute(inner)
                if attribute is not None:
                    self._used(attribute.expression, use, resource)

    def _used(self, expression: Expression, use: Use, resource: Resource) -> None:
        named = {one.names[2] for one in references(expression) if _is_data(one.names)}
        for name in named:
            self._data.setdefault(name, []).append(use)
        file = resource.block.file
        for way in self._writing.written(expression, file):
            if isinstance(way, Written):
                self._add(way, use, resource.address)
            elif not any(_is_data(one.names) for one in references(way.expression)):
                self._untold.append((file, resource.address))

    def _add(self, written: Written, use: Use | None, address: str | None, name: str = "") -> None:
        key = (written.file, written.line, written.column)
        if key in self._seen:
            return
        self._seen.add(key)
        if written.own_file:
            self._files.add(written.file)
            address = None
        document = written.document
        if isinstance(document, Malformed):
            if HOLE in written.text:
                self._untold.append((written.file, address or written.file))
            elif use is not None and written.text.strip():
                self._broken.append(Broken(document, written.file, address))
        elif use is not None and _untold(document):
            self._untold.append((written.file, address or written.file))
        elif (use is not None and use.kind is not Kind.ORGANIZATION) or looks_like_policy(document):
            used = use if use is not None else guess(name, document)
            self._found.append(policy_of(document, used, written.text, written.file, address))

    def _data_source(self, resource: Resource) -> None:
        line, column = resource.block.line, resource.block.column
        document = data_source.document_of(resource.body, self._writing, line, column)
        uses = list(dict.fromkeys(self._data.get(resource.name, ())))
        guessed = Use(Kind.UNCLEAR) if uses else guess(resource.name, document)
        use = uses[0] if len(uses) == 1 else guessed
        listed = document.fields.get("Statement")
        if listed is not None and listed.items:
            text = compact(document)
            self._found.append(policy_of(document, use, text, resource.place.file, resource.address))

    def _elsewhere(self) -> None:
        """Documents in locals, arguments of modules and resources that are not in the table."""
        for file in self._module.files:
            if _MARK not in (self._module.checkout.content(file.path) or b""):
                continue
            marked = self._marked(file.path)
            for block in file.body.blocks:
                if not _is_read(block) and _holds(block, marked):
                    for body in bodies(block):
                        for attribute in body.attributes:
                            self._expression(attribute, block, file.path)

    def _marked(self, path: str) -> list[int]:
        lines = self._module.checkout.lines(path)
        return [number for number, line in enumerate(lines, start=1) if "Statement" in line]

    def _expression(self, attribute: Attribute, block: Block, file: str) -> None:
        for part in walk(attribute.expression):
            if _may_be_document(part):
                for way in self._writing.written(part, file):
                    if not isinstance(way, Untold):
                        name = f"{' '.join(block.labels)} {attribute.name}"
                        self._add(way, None, _address(block, attribute.name), name)

    def _json_files(self) -> None:
        tree, folder = self._module.checkout.code.tree, self._module.folder
        for name in tree.names(folder):
            path = tree.join(folder, name)
            if path in self._files or not _may_be_policy(path):
                continue
            self._files.add(path)
            if (policy := _policy_file(self._module.checkout, path)) is not None:
                self._found.append(policy)
            elif (broken := _malformed(self._module.checkout, path, "")) is not None:
                self._broken.append(broken)


def _untold(document: Node) -> bool:
    """Whether nothing of its statements is known."""
    listed = document.fields.get("Statement")
    return not document.told or (listed is not None and not listed.told)


def _is_data(names: tuple[str, ...]) -> bool:
    return len(names) > 2 and names[:2] == ("data", data_source.TYPE)  # noqa: PLR2004 - data, type, name


def _may_be_document(part: Expression) -> bool:
    match part:
        case Call(name="jsonencode", arguments=(Object(items=items),)):
            return any(isinstance(key, Literal) and key.value == "Statement" for key, _ in items)
        case Literal(value=str() as text):
            return '"Statement"' in text
        case Template(pieces=pieces):
            return any(isinstance(one, Literal) and '"Statement"' in str(one.value) for one in pieces)
        case _:
            return False


def _is_read(block: Block) -> bool:
    """A block whose documents were found by their use."""
    kind = (block.type, block.labels[0] if block.labels else "")
    return (kind[0] == "resource" and kind[1] in _TYPES) or kind == ("data", data_source.TYPE)


def _holds(block: Block, lines: list[int]) -> bool:
    """Whether one of these lines is the block's. In JSON syntax a block has no end: then it may be."""
    first, last = block.line, block.end_line
    return first == last or any(first <= line <= last for line in lines)


def _address(block: Block, name: str) -> str | None:
    match block:
        case Block(type="locals"):
            return f"local.{name}"
        case Block(type="resource", labels=(type_, label)):
            return f"{type_}.{label}"
        case Block(type=("module" | "variable" | "output") as kind, labels=(label,)):
            return f"{'var' if kind == 'variable' else kind}.{label}"
        case _:
            return None


def _may_be_policy(path: str) -> bool:
    return path.endswith(".json") and not path.endswith(_NOT_POLICIES)


def _policy_file(checkout: Checkout, path: str, name: str = "") -> Policy | None:
    """A JSON file that is a policy by what it holds."""
    if not _may_be_policy(path):
        return None
    content = checkout.content(path)
    if content is None or _MARK not in content:
        return None
    text = checkout.text(path) or ""
    document = checkout.code.once(("policy file", path), lambda: read_text(text))
    if isinstance(document, Malformed) or not looks_like_policy(document):
        return None
    return policy_of(document, guess(f"{name} {path.rpartition('/')[2]}", document), text, path)


# Variables files


def _beside(variables: VariablesFile) -> Policies:
    checkout, tree = variables.checkout, variables.checkout.code.tree
    inline: list[Policy] = []
    paths: dict[str, str] = {}
    for attribute in variables.file.body.attributes:
        for text, expression in _texts(attribute.expression):
            if '"Statement"' in text:
                inline.extend(_inline(variables, attribute.name, text, expression))
            elif (path := _named(variables, text)) is not None:
                paths[path] = attribute.name
    folder = posixpath.dirname(variables.path) or "."
    for name in tree.names(folder):
        paths.setdefault(tree.join(folder, name), "")
    found = [_policy_file(checkout, path, name) for path, name in paths.items()]
    broken = [_malformed(checkout, path, name) for path, name in paths.items()]
    return Policies(
        (*inline, *(one for one in found if one is not None)),
        tuple(one for one in broken if one is not None),
        files=tuple(sorted(filter(_may_be_policy, paths))),
    )


def _texts(expression: Expression) -> Iterator[tuple[str, Literal]]:
    for part in walk(expression):
        if isinstance(part, Literal) and isinstance(part.value, str):
            yield part.value, part


def _inline(variables: VariablesFile, name: str, text: str, at: Literal) -> Iterator[Policy]:
    lines = variables.checkout.lines(variables.path)
    heredoc = at.line <= len(lines) and lines[at.line - 1][at.column - 1 :].startswith("<<")
    document = read_text(text, line=at.line + 1 if heredoc else at.line, columns=False)
    if isinstance(document, Node) and looks_like_policy(document):
        yield policy_of(document, guess(name, document), text, variables.path, f"var.{name}")


def _named(variables: VariablesFile, text: str) -> str | None:
    """The JSON file that a value names: from its own folder, from a root module's, from the root."""
    if not text.endswith(".json") or text.endswith(_NOT_POLICIES) or len(text) > 1000:  # noqa: PLR2004 - no path
        return None
    folders = (
        posixpath.dirname(variables.path) or ".",
        *(stack.stack.module for stack in variables.stacks),
        ".",
    )
    for folder in dict.fromkeys(folders):
        path = posixpath.normpath(posixpath.join(folder, text))
        if not path.startswith(("..", "/")) and variables.checkout.content(path) is not None:
            return path
    return None


def _malformed(checkout: Checkout, path: str, name: str) -> Broken | None:
    """A file that is called a policy and is no JSON."""
    called = f"{name} {path.rpartition('/')[2]}"
    if not _may_be_policy(path) or not _CALLED_POLICY.search(called):
        return None
    text = checkout.text(path)
    if text is None or "${" in text or "%{" in text:
        return None
    document = checkout.code.once(("policy file", path), lambda: read_text(text))
    return Broken(document, path) if isinstance(document, Malformed) else None
