"""The values of placeholders for one stack, computed only when they are needed."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping
from functools import cache, cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from holdfast.config.output_refs import OutputRef
from holdfast.config.placeholders import FILES, VAR, Needs, Template, all_needs, direct_needs, parse
from holdfast.config.secret_refs import SecretRef, Value
from holdfast.config.settings import Config
from holdfast.config.shapes import shortest_path
from holdfast.config.stack_rules import RuleKind, StackRule
from holdfast.hcl.eval.code import auto_loaded
from holdfast.hcl.reader import read, values
from holdfast.kernel.errors import ConfigError, HoldfastError, Place, Problem
from holdfast.kernel.text import plain_text
from holdfast.stacks import environment
from holdfast.stacks.listing import Tree, has_file, join_path
from holdfast.stacks.stack import name_from_path

ENVIRONMENT_VARIABLES: Final = ("environment", "env")
_TEXT_KEYS: Final = ("environment", "account", "region", "target", "name")
_GLOB_CHARACTERS: Final = frozenset("*?[")

LARGEST: Final = 16 * 1024 * 1024

ReadValues = Callable[[str], Mapping[str, object]]
"""From a path relative to the root to the file's values; raises a HoldfastError."""

template = lru_cache(maxsize=4096)(parse)


class MissingValueError(Exception):
    """A placeholder has no value for this stack."""


class PathError(Exception):
    """A path with its placeholders filled in leads out of the repository."""


def variables_reader(root: Path) -> ReadValues:
    """A reader of `.tfvars` and `.tfvars.json` files below this root. A computed value is `UNKNOWN`."""

    def read_values(path: str) -> Mapping[str, object]:
        try:
            with (root / path).open("rb") as handle:
                content = handle.read(LARGEST + 1)
        except OSError as error:
            raise _error(path, f"cannot read the variables file {path}: {error.strerror or error}") from None
        if len(content) > LARGEST:
            raise _error(path, f"the variables file {path} is larger than {LARGEST:,} bytes")
        file = read(content, path)
        if file.problems:
            raise ConfigError(file.problems)
        return values(file)

    return read_values


def _error(path: str, message: str) -> ConfigError:
    hint = "Check that it is the right file and that you may read it."
    return ConfigError((Problem(code="HF-STACK-13", message=message, hint=hint, place=Place(file=path)),))


class VariablesFiles:
    """The values in variables files. Each file is read, and each error reported, at most once."""

    def __init__(self, read_values: ReadValues, tree: Tree) -> None:
        self._read_values = read_values
        self._tree = tree
        self.problems: list[tuple[str, tuple[Problem, ...]]] = []
        self.values: Callable[[str], Mapping[str, object]] = cache(self._values)
        self.beside: Callable[[str], tuple[str, ...]] = cache(self._beside)

    def _values(self, path: str) -> Mapping[str, object]:
        try:
            return self._read_values(path)
        except HoldfastError as error:
            self.problems.append((path, error.problems))
            return {}

    def _beside(self, module: str) -> tuple[str, ...]:
        """The files that Terraform loads by itself, in its order."""
        listing = self._tree.listing(module)
        names = listing.files if listing is not None else ()
        return tuple(join_path(module, name) for name in auto_loaded(names))


class PlaceholderScope:
    """The placeholder values of one stack, from its entry, the pattern's captures and variables files.

    The configuration reader has already rejected placeholders that depend on each other in a cycle.
    """

    def __init__(
        self,
        *,
        rule: StackRule,
        config: Config,
        captured: Mapping[str, str],
        path: str | None,
        needs: Needs,
        files: VariablesFiles,
        tree: Tree,
    ) -> None:
        self.rule = rule
        self.config = config
        self.captured = captured
        self.path = path
        """The path that matched the pattern."""
        self._needs = needs
        self._files = files
        self._tree = tree

    def fill(self, text: str) -> str:
        if "{" not in text and "}" not in text:
            return text
        return template(text).fill(self.value_of)

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
        value: str | None
        if name == "company":
            value = self.config.company
        elif name == "environment":
            value = self.environment.environment
        else:
            value = getattr(self, name)  # name, account, region or target: the reader rejects all others
        if value is None:
            raise MissingValueError(f"{{{name}}} has no value")
        return value

    @cached_property
    def name(self) -> str:
        if self.rule.name is not None:
            return self.fill(self.rule.name)
        path = self.path or ""
        return path if self.rule.kind is RuleKind.FOLDER else name_from_path(path)

    def _own(self, key: str, text: str | None) -> str | None:
        return self.fill(text) if text is not None else self.captured.get(key)

    @cached_property
    def account(self) -> str | None:
        return self._own("account", self.rule.account)

    @cached_property
    def region(self) -> str | None:
        return self._own("region", self.rule.region)

    @cached_property
    def target(self) -> str | None:
        return self._own("target", self.rule.target)

    @cached_property
    def module(self) -> str:
        if self.rule.kind is RuleKind.FOLDER and self.path is not None:
            return self.path
        return self.fill_path(self.rule.module or ".")

    @cached_property
    def variables_files(self) -> tuple[str, ...]:
        shared = tuple(self.fill_path(text) for text in self.rule.variables_files)
        own = (self.path,) if self.rule.kind is RuleKind.VARIABLES and self.path is not None else ()
        return (*shared, *own)

    @cached_property
    def environment(self) -> environment.EnvironmentDecision:
        return environment.decide(
            stated=self._own("environment", self.rule.environment),
            account=self.account if self._is_independent("account") else None,
            in_files=self._environment_in_files,
            environments=self.config.environments,
        )

    def _is_independent(self, key: str) -> bool:
        """Whether this value does not depend on the environment."""
        return "environment" not in all_needs(self._needs, key)

    def _environment_in_files(self) -> str | None:
        for name in ENVIRONMENT_VARIABLES:
            inline = self.rule.inputs.get(name, self.rule.variables.get(name))
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

    def _variable(self, variable: str) -> str:
        value = self._lookup(variable)
        text = plain_text(value)
        if text is None:
            why = "is not set in its variables files" if value is None else "is not a string, number or bool"
            raise MissingValueError(f"{{{VAR}{variable}}}: `{variable}` {why}")
        return text


def needs_of(rule: StackRule, captured: tuple[str, ...]) -> Needs:
    """Which values of an entry depend on which placeholders."""
    texts = {key: (text,) for key in _TEXT_KEYS if (text := getattr(rule, key)) is not None}
    files = (*rule.variables_files, *((rule.module,) if rule.module is not None else ()))
    return direct_needs({**texts, FILES: files}, captured)
