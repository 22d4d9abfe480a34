"""Every policy document of a module and of a variables file, with what each is used as. Read once each."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.checks.iam import data_source
from holdfast.checks.iam.document import HOLE, Malformed, Node, compact, read_text
from holdfast.checks.iam.kinds import USES, Kind, Use, guess, looks_like_policy
from holdfast.checks.iam.written import Untold, Writing, Written
from holdfast.checks.subjects import Checkout, Module, Resource, VariablesFile, nested
from holdfast.hcl.nodes import Block, Call, Expression, Literal, Object, Template, references, walk

_MARK: Final = b"Statement"
_TYPES: Final = frozenset(type_ for type_, _ in USES)
_NOT_POLICIES: Final = (".tf.json", ".tofu.json", ".tfvars.json")
_CALLED_POLICY = re.compile(r"policy|policies|trust|assume.?role", re.IGNORECASE)


class Policy(NamedTuple):
    """A document that was found."""

    document: Node
    use: Use
    text: str
    file: str
    address: str | None = None

    @property
    def kind(self) -> Kind:
        return self.use.kind


class Broken(NamedTuple):
    """What is meant as a document and is no JSON."""

    malformed: Malformed
    file: str
    address: str | None = None


class Policies(NamedTuple):
    found: tuple[Policy, ...] = ()
    broken: tuple[Broken, ...] = ()
    untold: tuple[tuple[str, str], ...] = ()
    """File and address of what only Terraform knows."""


def of_module(module: Module) -> Policies:
    made: Policies = module.checkout.code.once(("policies", module.folder), lambda: _Search(module).all())
    return made


def of_variables(variables: VariablesFile) -> Policies:
    """Those that it holds, those in JSON files that it names, and those beside it."""
    key = ("policies of", variables.path)
    made: Policies = variables.checkout.code.once(key, lambda: _beside(variables))
    return made


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
        return Policies(tuple(self._found), tuple(self._broken), tuple(self._untold))

    def _resource(self, resource: Resource) -> None:
        for (type_, name), use in USES.items():
            if type_ != resource.type:
                continue
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
        for way in self._writing.written(expression, resource.place.file):
            if isinstance(way, Written):
                self._add(way, use, resource.address)
            elif not any(_is_data(one.names) for one in references(way.expression)):
                self._untold.append((resource.place.file, resource.address))

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
        elif (use is not None and use.kind is not Kind.ORGANIZATION) or looks_like_policy(document):
            used = use if use is not None else guess(name, document)
            self._found.append(Policy(document, used, written.text, written.file, address))

    def _data_source(self, resource: Resource) -> None:
        line, column = resource.place.line or 1, resource.place.column or 1
        document = data_source.document_of(resource.body, self._writing, line, column)
        uses = list(dict.fromkeys(self._data.get(resource.name, ())))
        guessed = Use(Kind.UNCLEAR) if uses else guess(resource.name, document)
        use = uses[0] if len(uses) == 1 else guessed
        listed = document.fields.get("Statement")
        if listed is not None and listed.items:
            text = compact(document)
            self._found.append(Policy(document, use, text, resource.place.file, resource.address))

    def _elsewhere(self) -> None:
        """Documents in locals, arguments of modules and resources that are not in the table."""
        content = self._module.checkout.content
        told = {file.path for file in self._module.files if _MARK in (content(file.path) or b"")}
        for file, block, name, expression in self._module.expressions() if told else ():
            if file.path not in told:
                continue
            for part in walk(expression):
                if _may_be_document(part):
                    for way in self._writing.written(part, file.path):
                        if not isinstance(way, Untold):
                            self._add(way, None, _address(block, name), f"{_labels(block)} {name}")

    def _json_files(self) -> None:
        tree, folder = self._module.checkout.code.tree, self._module.folder
        for name in tree.names(folder):
            path = tree.join(folder, name)
            if path not in self._files and (policy := _policy_file(self._module.checkout, path)) is not None:
                self._found.append(policy)


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


def _labels(block: Block | None) -> str:
    return " ".join(block.labels) if block is not None else ""


def _address(block: Block | None, name: str) -> str | None:
    match block:
        case Block(type="locals"):
            return f"local.{name}"
        case Block(type="resource", labels=(type_, label)):
            return f"{type_}.{label}"
        case Block(type=("module" | "variable" | "output") as kind, labels=(label,)):
            return f"{'var' if kind == 'variable' else kind}.{label}"
        case _:
            return None


def _policy_file(checkout: Checkout, path: str, name: str = "") -> Policy | None:
    """A JSON file that is a policy by what it holds."""
    if not path.endswith(".json") or path.endswith(_NOT_POLICIES):
        return None
    content = checkout.content(path)
    if content is None or _MARK not in content:
        return None
    text = checkout.text(path) or ""
    document = checkout.code.once(("policy file", path), lambda: read_text(text))
    if isinstance(document, Malformed) or not looks_like_policy(document):
        return None
    return Policy(document, guess(f"{name} {path.rpartition('/')[2]}", document), text, path)


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
        yield Policy(document, guess(name, document), text, variables.path, f"var.{name}")


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
    if not path.endswith(".json") or path.endswith(_NOT_POLICIES) or not _CALLED_POLICY.search(called):
        return None
    text = checkout.text(path)
    if text is None or "${" in text or "%{" in text:
        return None
    document = checkout.code.once(("policy file", path), lambda: read_text(text))
    return Broken(document, path) if isinstance(document, Malformed) else None
