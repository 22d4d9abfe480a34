"""The values of placeholders for one stack, computed only when they are needed."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property, lru_cache
from types import MappingProxyType
from typing import Final

from holdfast.config.defaults import Shared, effective_rule, entry_needs, value_at
from holdfast.config.output_refs import OutputRef
from holdfast.config.placeholders import FILES, VALUES, VAR, Needs, Template, all_needs, parse
from holdfast.config.problems import Problems
from holdfast.config.secret_refs import SecretRef, Value
from holdfast.config.settings import Config
from holdfast.config.shapes import shortest_path
from holdfast.config.stack_rules import RuleKind, StackRule
from holdfast.config.yaml import ListNode, ScalarNode
from holdfast.config.yaml import read as read_yaml
from holdfast.hcl.eval.code import LARGEST, auto_loaded
from holdfast.hcl.eval.worktree import Worktree
from holdfast.hcl.reader import encrypted, read, values
from holdfast.kernel.errors import ConfigError, HoldfastError, Place, Problem, internal_error
from holdfast.kernel.text import plain_text
from holdfast.stacks import environment
from holdfast.stacks.listing import Tree, has_file, join_path
from holdfast.stacks.stack import name_from_path

_DECIDING: Final = ("target", "environment")
ENVIRONMENT_VARIABLES: Final = ("environment", "env")
ITEMS: Final = ""
"""The key of the items of a file that contains a list."""
_GLOB_CHARACTERS: Final = frozenset("*?[")

ReadValues = Callable[[str], Mapping[str, object]]
"""From a path relative to the root to the file's values; raises a HoldfastError."""

template = lru_cache(maxsize=4096)(parse)


class MissingValueError(Exception):
    """A placeholder has no value for this stack."""

    text: str | None = None
    """The text that contains it."""


class PathError(Exception):
    """A path with its placeholders filled in leads out of the repository."""


def variables_reader(tree: Worktree) -> ReadValues:
    """A reader of files with values in this tree. A computed value is `UNKNOWN`."""

    def read_values(path: str) -> Mapping[str, object]:
        try:
            content = tree.read_bytes(path, LARGEST + 1)
        except OSError as error:
            raise _error(path, f"cannot read {path}: {error.strerror or error}") from None
        if len(content) > LARGEST:
            raise _error(path, f"{path} is larger than {LARGEST:,} bytes")
        return parse_values(content, path)

    return read_values


def parse_values(content: bytes, path: str) -> Mapping[str, object]:
    """The values in a variables or backend file, and under `ITEMS` those of a YAML or JSON list."""
    if (problem := encrypted(content, path)) is not None:
        raise ConfigError((problem,))
    if path.endswith((".yaml", ".yml")) or content.lstrip()[:1] == b"[":
        return {ITEMS: _list_items(content, path)}
    file = read(content, path)
    if file.problems:
        raise ConfigError(file.problems)
    if file.body.blocks:
        block = file.body.blocks[0]
        raise _error(path, f"{block.place}: {path} contains a block; Holdfast reads only NAME = VALUE here")
    return values(file)


def _list_items(content: bytes, path: str) -> tuple[str, ...]:
    problems = Problems()
    node = read_yaml(content.decode(errors="replace"), file=path, problems=problems)
    problems.raise_any()
    items = node.items if isinstance(node, ListNode) else ()
    texts = tuple(item.text for item in items if isinstance(item, ScalarNode) and item.text)
    if not isinstance(node, ListNode) or len(texts) != len(items):
        raise _error(path, f"{path} must contain a list of texts")
    return texts


def _error(path: str, message: str) -> ConfigError:
    hint = "Check that it is the right file and that you may read it."
    return ConfigError((Problem(code="HF-STACK-13", message=message, hint=hint, place=Place(file=path)),))


class VariablesFiles:
    """The values in files of variables, backends and matrices. Each is read, and its error reported, once."""

    def __init__(self, read_values: ReadValues, tree: Tree) -> None:
        self._read_values = read_values
        self._tree = tree
        self._unread: dict[str, tuple[Problem, ...]] = {}
        self._missed: set[str] = set()
        self._cached: Callable[[str], Mapping[str, object]] = cache(self._values)
        self.beside: Callable[[str], tuple[str, ...]] = cache(self._beside)

    def values(self, path: str) -> Mapping[str, object]:
        """Nothing if the file cannot be read; `take_problems` then has the reasons."""
        values = self._cached(path)
        if path in self._unread:
            self._missed.add(path)
        return values

    def items(self, path: str) -> tuple[str, ...] | None:
        """The list in a file, as `values`; None if the file cannot be read or contains none."""
        items = self.values(path).get(ITEMS)
        if isinstance(items, tuple):
            return items
        self._unread.setdefault(path, _error(path, f"{path} must contain a list of texts").problems)
        return None

    def need(self, paths: Iterable[str]) -> bool:
        """Whether one of these files was read before and cannot be read: `take_problems` then has it."""
        unread = self._unread.keys() & set(paths)
        self._missed |= unread
        return bool(unread)

    def take_problems(self) -> tuple[Problem, ...]:
        """Of the files that were needed since the last call and cannot be read."""
        if not self._missed:
            return ()
        problems = tuple(problem for path in sorted(self._missed) for problem in self._unread[path])
        self._missed.clear()
        return problems

    def _values(self, path: str) -> Mapping[str, object]:
        try:
            return self._read_values(path)
        except HoldfastError as error:
            problems = error.problems
        except Exception as error:  # noqa: BLE001 - only the stacks that need this file fail
            problems = internal_error(error, f"reading {path}").problems
        place = Place(file=path)
        self._unread[path] = tuple(problem._replace(place=problem.place or place) for problem in problems)
        return {}

    def _beside(self, module: str) -> tuple[str, ...]:
        """The files that Terraform loads by itself, in its order."""
        listing = self._tree.listing(module)
        names = listing.files if listing is not None else ()
        return tuple(join_path(module, name) for name in auto_loaded(names))


class EntryRules:
    """An entry with the defaults of a target and an environment."""

    def __init__(self, entry: StackRule, config: Config, captured: tuple[str, ...]) -> None:
        self.entry = entry
        self.shared: Shared = config.shared
        self.needs: Needs = entry_needs(entry.written, self.shared, captured)
        self.merged: Callable[[str | None, str | None], StackRule] = cache(self._effective_rule)
        self.deciding: Callable[[str], tuple[str, ...]] = cache(self.shared.deciding)
        self.has_defaults = bool(self.shared.every_layer)

    def _effective_rule(self, target: str | None, environment: str | None) -> StackRule:
        return effective_rule(self.entry, self.shared.layers(target, environment))


class PlaceholderScope:
    """The placeholder values of one stack, from its entry, the pattern's captures and variables files.

    The configuration reader has already rejected placeholders that depend on each other in a cycle.
    """

    def __init__(
        self,
        *,
        rules: EntryRules,
        config: Config,
        captured: Mapping[str, str],
        path: str | None,
        files: VariablesFiles,
        tree: Tree,
        sources: tuple[str, ...] = (),
    ) -> None:
        self.rules = rules
        self.entry = rules.entry
        self.config = config
        self.captured = captured
        self.path = path
        """The path that matched the pattern."""
        self.sources = sources
        """The files and folders that gave the matrix its values."""
        self._needs = rules.needs
        self._files = files
        self._tree = tree

    def values_in(self, path: str) -> Mapping[str, object]:
        """Of a variables or backend file."""
        return self._files.values(path)

    def fill(self, text: str) -> str:
        if "{" not in text and "}" not in text:
            return text
        try:
            return template(text).fill(self.value_of)
        except MissingValueError as error:
            error.text = error.text or text
            raise

    def fill_value(self, value: Value) -> Value:
        match value:
            case str():
                return self.fill(value)
            case SecretRef():
                return SecretRef(scheme=value.scheme, locator=self.fill(value.locator))
            case tuple():
                return tuple(self.fill_value(item) for item in value)
            case Mapping():
                return MappingProxyType({key: self.fill_value(item) for key, item in value.items()})
            case _:
                return value

    def fill_values(self, values: Mapping[str, Value]) -> Mapping[str, Value]:
        return MappingProxyType({key: self.fill_value(value) for key, value in values.items()})

    def fill_output(self, reference: OutputRef) -> OutputRef:
        return OutputRef(text=self.fill(reference.text), mock=self.fill_value(reference.mock))

    def fill_path(self, text: str) -> str:
        path = self.fill(text)
        if path.startswith("/") or "\\" in path or ".." in path.split("/"):
            raise PathError(path)
        return shortest_path(path)

    def as_glob(self, text: str) -> str | None:
        """The glob, with the values of placeholders escaped; None if the text was not written as a glob."""
        parts: Template = template(text)
        if not any(_GLOB_CHARACTERS & set(literal) for literal in parts.literals):
            return None
        return parts.fill(lambda name: glob.escape(self.value_of(name)))

    def value_of(self, name: str) -> str:
        if name in self.captured:
            return self.captured[name]
        if name.startswith(VAR):
            return self._variable(name.removeprefix(VAR))
        if name.startswith(VALUES):
            return self._shared_value(name.removeprefix(VALUES))
        value: str | None = None
        if name == "company":
            value = self.config.company
        elif name == "environment":
            value = self.environment.environment
        elif name in ("name", "account", "region", "target"):
            value = getattr(self, name)  # A default may name what only other entries have.
        if value is None:
            raise MissingValueError(f"{{{name}}} has no value")
        return value

    @cached_property
    def name(self) -> str:
        if self.entry.name is not None:
            return self.fill(self.entry.name)
        path = self.path or ""
        return path if self.entry.kind is RuleKind.FOLDER else name_from_path(path)

    @cached_property
    def rule(self) -> StackRule:
        """The entry with its defaults, as far as target and environment are known."""
        if not self.rules.has_defaults:
            return self.entry
        return self.rules.merged(self._known("target"), self._known("environment"))

    def _known(self, name: str) -> str | None:
        try:
            return self.target if name == "target" else self.environment.environment
        except MissingValueError:
            return None

    def _rule_with(self, key: str) -> StackRule:
        """The entry with the default of this key: of target and environment only if they decide it."""
        if not self.rules.has_defaults or key in self.entry.written.value or key in self.captured:
            return self.entry
        deciding = self.rules.deciding(key)
        return self.rules.merged(*(self._known(name) if name in deciding else None for name in _DECIDING))

    def _own(self, key: str) -> str | None:
        text = getattr(self._rule_with(key), key)
        return self.fill(text) if text is not None else self.captured.get(key)

    @cached_property
    def account(self) -> str | None:
        return self._own("account")

    @cached_property
    def region(self) -> str | None:
        return self._own("region")

    @cached_property
    def target(self) -> str | None:
        return self._own("target")

    @cached_property
    def module(self) -> str:
        if self.entry.kind is RuleKind.FOLDER and self.path is not None:
            return self.path
        return self.fill_path(self.entry.module or ".")

    @cached_property
    def variables_files(self) -> tuple[str, ...]:
        """Without optional files that do not exist."""
        missing = self.absent_files
        own = (self.path,) if self.entry.kind is RuleKind.VARIABLES and self.path is not None else ()
        return (*(path for path, _ in self._layers if path not in missing), *own)

    @cached_property
    def absent_files(self) -> tuple[str, ...]:
        return tuple(path for path, optional in self._layers if optional and not has_file(self._tree, path))

    @cached_property
    def _layers(self) -> tuple[tuple[str, bool], ...]:
        """Paths and whether they are optional. An optional one without a value for its path is left out."""
        layers: list[tuple[str, bool]] = []
        for layer in self._rule_with("variables_files").variables_files:
            try:
                layers.append((self.fill_path(layer.file), layer.optional))
            except MissingValueError:
                if not layer.optional:
                    raise
        return tuple(layers)

    @cached_property
    def environment(self) -> environment.EnvironmentDecision:
        return environment.decide(
            stated=self._own("environment"),
            account=self.account if self._is_independent("account") else None,
            in_files=self._environment_in_files,
            environments=self.config.environments,
        )

    def _is_independent(self, key: str) -> bool:
        """Whether this value does not depend on the environment."""
        return "environment" not in all_needs(self._needs, key)

    def _environment_in_files(self) -> str | None:
        rule = self.rules.merged(None, None)
        for name in ENVIRONMENT_VARIABLES:
            inline = rule.inputs.get(name, rule.variables.get(name))
            if isinstance(inline, str) and "{" not in inline:
                return inline
            value = self._lookup(name) if self._is_independent(FILES) else None
            if text := plain_text(value):
                return text
        return None

    def _lookup(self, variable: str) -> object:
        """As in Terraform, the last file that sets the variable wins."""
        for path in reversed((*self._files.beside(self.module), *self.variables_files)):
            if has_file(self._tree, path):
                values = self._files.values(path)
                if variable in values:
                    return values[variable]
        return None

    def _shared_value(self, path: str) -> str:
        shared = self.rules.shared
        environment = self.environment.environment if shared.environment_values else None
        value = value_at(shared.values_of(environment), path)
        text = self.fill(value) if isinstance(value, str) else plain_text(value)
        if text is None:
            why = "`values` does not set it" if value is None else "it is not a string, number or bool"
            raise MissingValueError(f"{{{VALUES}{path}}} has no value: {why}")
        return text

    def _variable(self, variable: str) -> str:
        value = self._lookup(variable)
        text = plain_text(value)
        if text is None:
            why = "is not set in its variables files" if value is None else "is not a string, number or bool"
            raise MissingValueError(f"{{{VAR}{variable}}}: `{variable}` {why}")
        return text
