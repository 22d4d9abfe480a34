"""Reads Terragrunt files as Terragrunt would, as far as their values are certain. Read-only; runs nothing.

Absolute paths start with `CHECKOUT`, whatever folder the repository is in: a value that contains it depends
on the machine.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NoReturn

import yaml
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.evaluate import Scope, evaluate
from holdfast.hcl.eval.values import known
from holdfast.hcl.eval.worktree import PathKind
from holdfast.hcl.nodes import Attribute, Block, Expression, Object, Traversal
from holdfast.hcl.reader import UNKNOWN, Unknown, read, values
from holdfast.onboarding.translators.translation import variable_mark
from holdfast.stacks.listing import ROOT

CHECKOUT: Final = "/@checkout"
UNIT_FILES: Final = ("terragrunt.hcl", "terragrunt.hcl.json")
ALL_OUTPUTS: Final = "*"
"""The key of an input that stands for all outputs of a unit."""
_COMMANDS: Final = {
    "vars": ("apply", "console", "destroy", "import", "plan", "push", "refresh"),
    "input": ("apply", "import", "init", "plan", "refresh"),
    "locking": ("apply", "destroy", "import", "init", "plan", "refresh", "taint", "untaint"),
    "parallelism": ("apply", "plan", "destroy"),
}
_UNCERTAIN: Final = (
    *("run_cmd", "sops_decrypt_file", "get_platform", "get_working_dir", "get_terraform_command"),
    *("get_terraform_cli_args", "get_aws_account_id", "get_aws_account_alias", "get_aws_caller_identity_arn"),
    *("get_aws_caller_identity_user_id", "get_terragrunt_source_cli_flag"),
)
_MOST_PARTS: Final = 100_000


class OutputOf(Unknown):
    """An output of another unit, passed on as it is."""

    __slots__ = ("folder", "mock", "output")

    def __init__(self, folder: str | None, output: str, mock: object) -> None:
        super().__init__(f"{folder}.{output}")
        self.folder, self.output, self.mock = folder, output, mock


class Members(Mapping[str, object]):
    """A mapping whose values are read when they are needed."""

    def __init__(self, names: tuple[str, ...], value_of: Callable[[str], object]) -> None:
        self._names, self._value_of = names, value_of

    def __getitem__(self, name: str) -> object:
        return self._value_of(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Include(Struct, frozen=True, kw_only=True):
    name: str
    config: Config
    strategy: object
    """How Terragrunt merges it: `shallow`, also if there is none, `deep` or `no_merge`."""


class UnitFiles(Struct, kw_only=True):
    """What all files that are read for a unit share."""

    calls: list[str] = field(default_factory=list)
    """Calls that only Terragrunt can evaluate."""
    defaults: list[str] = field(default_factory=list)
    """Environment variables of which the default was used."""
    read: dict[str, Config] = field(default_factory=dict)
    """What `read_terragrunt_config` has read."""


class Place(Struct, frozen=True, kw_only=True):
    """Where a file is read: what the functions that name folders return."""

    unit: str
    """The unit's folder."""
    folder: str
    """The folder of the file that includes or is read: `get_terragrunt_dir()`."""
    included: str | None = None
    """The folder of the file itself, if it is included."""
    values: object = field(default_factory=dict)
    shared: UnitFiles = field(default_factory=UnitFiles)


class Config:
    """One file, read for one unit."""

    def __init__(self, code: Code, path: str, place: Place) -> None:
        self.code, self.path, self.place = code, path, place
        file = code.file(path) if code.tree.kind(path) is PathKind.FILE else None
        self.body = file.body if file is not None else None
        self.problems = file.problems if file is not None else ()
        blocks = list(self.body.blocks_of("locals")) if self.body is not None else []
        self.dependencies: Mapping[str, object] = {}
        names = {
            "include": Members((), self._include_value),
            "dependency": Members((), lambda name: self.dependencies[name]),
            "values": place.values,
            "feature": UNKNOWN,
            "inputs": {},  # not defined in Terragrunt: `try` continues
        }
        self.scope = Scope(
            locals={local.name: local.expression for block in blocks for local in block.body.attributes},
            roots=names,
            functions=self._functions(),
        )
        self._includes: list[Include] | None = None

    # What the file contains

    def value(self, expression: Expression) -> object:
        return evaluate(expression, self.scope)

    def attribute(self, name: str, block: Block | None = None) -> Attribute | None:
        body = self.body if block is None else block.body
        return body.attribute(name) if body is not None else None

    def attribute_value(self, name: str, block: Block | None = None) -> object:
        """None if it is not set."""
        attribute = self.attribute(name, block)
        return None if attribute is None else self.value(attribute.expression)

    def blocks(self, *types: str) -> Iterator[Block]:
        return self.body.blocks_of(*types) if self.body is not None else iter(())

    @property
    def includes(self) -> list[Include]:
        if self._includes is None:
            self._includes = []  # ends the recursion if a file includes itself
            if self.place.included is None:
                self._includes = [self._include(block) for block in self.blocks("include")]
        return self._includes

    def _include(self, block: Block) -> Include:
        path = self.attribute_value("path", block)
        inside = self.inside(path) if isinstance(path, str) else None
        place = replace(self.place, included=posixpath.dirname(inside or "") or ROOT)
        return Include(
            name=block.labels[0] if block.labels else "",
            config=Config(self.code, inside or "?", place),
            strategy=self.attribute_value("merge_strategy", block),
        )

    def _include_value(self, name: str) -> object:
        found = {include.name: include.config for include in self.includes}
        return found[""].members()[name] if "" in found else found[name].members()

    def members(self) -> Members:
        """The file as a value: what `read_terragrunt_config` and an exposed `include` return."""
        names = tuple(self.scope.locals)
        parts: dict[str, Callable[[], object]] = {
            "locals": lambda: Members(names, self._local),
            "inputs": lambda: self.attribute_value("inputs"),
        }
        return Members(tuple(parts), lambda name: parts[name]() if name in parts else UNKNOWN)

    def _local(self, name: str) -> object:
        return self.value(Traversal(0, 0, "local", (name,))) if name in self.scope.locals else missing(name)

    # Paths

    def inside(self, path: str) -> str | None:
        """A path relative to the root of the repository; None if it is outside."""
        whole = posixpath.normpath(posixpath.join(absolute(self.place.folder), path))
        if whole != CHECKOUT and not whole.startswith(f"{CHECKOUT}/"):
            return None
        return whole[len(CHECKOUT) + 1 :] or ROOT

    def _included_folder(self, name: str = "") -> str:
        """The folder of the included file, as the functions about includes see it."""
        if self.place.included is not None:
            return self.place.included
        includes = {include.name: include.config.place.included for include in self.includes}
        if not includes:
            return self.place.folder
        folder = next(iter(includes.values())) if len(includes) == 1 else includes[name]
        return folder or ROOT

    # Functions

    def _functions(self) -> Mapping[str, Callable[..., object]]:
        folder = absolute(self.place.folder)
        beside = absolute(posixpath.dirname(self.path) or ROOT)
        from_root = posixpath.relpath(absolute(self.place.unit), CHECKOUT)
        return {
            "find_in_parent_folders": self._find_in_parent_folders,
            "path_relative_to_include": lambda *name: posixpath.relpath(
                folder, absolute(self._included_folder(*name))
            ),
            "path_relative_from_include": lambda *name: posixpath.relpath(
                absolute(self._included_folder(*name)), folder
            ),
            "get_parent_terragrunt_dir": lambda *name: absolute(self._included_folder(*name)),
            "get_terragrunt_dir": lambda: folder,
            "get_original_terragrunt_dir": lambda: absolute(self.place.unit),
            "get_repo_root": lambda: CHECKOUT,
            "get_path_from_repo_root": lambda: from_root,
            "get_path_to_repo_root": lambda: posixpath.relpath(CHECKOUT, absolute(self.place.unit)),
            "get_env": self._get_env,
            "read_terragrunt_config": self._read_config,
            "read_tfvars_file": lambda path: json_text(lists(_plain(values(read(self._text(path), path))))),
            "file": lambda path: self._text(posixpath.join(beside, path)),
            "fileexists": lambda path: self._is_file(posixpath.join(beside, path)),
            "yamldecode": lambda text: _decoded(yaml.safe_load, text),
            "jsondecode": lambda text: _decoded(json.loads, text),
            "jsonencode": lambda value: json_text(lists(value)),
            "mark_as_read": lambda path: path,
            "strcontains": lambda text, part: part in text,
            **{
                f"get_terraform_commands_that_need_{what}": lambda commands=commands: commands
                for what, commands in _COMMANDS.items()
            },
            **{name: lambda *arguments, name=name: self._uncertain(name, *arguments) for name in _UNCERTAIN},
        }

    def _uncertain(self, name: str, *arguments: object) -> object:
        self.place.shared.calls.append(_call_text(name, arguments[0] if arguments else None))
        return UNKNOWN

    def _find_in_parent_folders(self, name: str = "", *fallback: str) -> object:
        folder = self.place.folder
        while folder != ROOT:
            folder = posixpath.dirname(folder) or ROOT
            for candidate in (name,) if name else UNIT_FILES:
                path = posixpath.normpath(posixpath.join(folder, candidate))
                if self.code.tree.kind(path) is not PathKind.MISSING:
                    return absolute(path)
        return fallback[0] if fallback else UNKNOWN

    def _get_env(self, name: str, *default: str) -> object:
        if not default:
            return variable_mark(name)
        self.place.shared.defaults.append(name)
        return default[0]

    def _existing(self, path: str) -> str:
        inside = self.inside(path)
        if inside is None:
            raise LookupError(path)
        return inside

    def _is_file(self, path: str) -> bool:
        return self.code.tree.kind(self._existing(path)) is PathKind.FILE

    def _text(self, path: str) -> str:
        content = self.code.content(self._existing(path))
        if content is None:
            self.place.shared.calls.append(f"{self._existing(path)}, which does not exist")
            raise LookupError(path)
        return content.decode()

    def _read_config(self, path: str, *default: object) -> object:
        inside = self._existing(path)
        if self.code.tree.is_folder(inside):
            inside = self.code.tree.join(inside, UNIT_FILES[0])
        if not self._is_file(absolute(inside)):
            return default[0] if default else UNKNOWN
        read_before = self.place.shared.read
        if inside not in read_before:
            folder = posixpath.dirname(inside) or ROOT
            place = Place(unit=self.place.unit, folder=folder, shared=self.place.shared)
            read_before[inside] = Config(self.code, inside, place)
        return read_before[inside].members()

    # Why a value is not known

    def uncertain(self, expression: Expression) -> str | None:
        """The call that only Terragrunt can evaluate, if the value of an expression depends on one."""
        shared = UnitFiles()
        Config(self.code, self.path, replace(self.place, shared=shared)).value(expression)
        return shared.calls[0] if shared.calls else None


def _call_text(name: str, argument: object) -> str:
    return f'{name}("{argument}")' if isinstance(argument, str) else f"{name}()"


def absolute(path: str) -> str:
    return CHECKOUT if path == ROOT else f"{CHECKOUT}/{path}"


def object_items(expression: Expression | None) -> Mapping[str, Expression]:
    """The values of an object as they are written, by key."""
    if not isinstance(expression, Object):
        return {}
    return {str(getattr(key, "value", "")): value for key, value in expression.items}


def lists(value: object) -> object:
    """A value of HCL as JSON and the configuration have it."""
    if isinstance(value, tuple):
        return [lists(item) for item in value]
    return {str(key): lists(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def json_text(value: object) -> str:
    """As Go writes it."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def from_json(value: object, left: list[int] | None = None) -> object:
    """A value of YAML or JSON as the evaluator has it. Raises TypeError for dates and ValueError if huge."""
    left = [_MOST_PARTS] if left is None else left
    left[0] -= 1
    if left[0] < 0:
        raise ValueError("too large")
    match value:
        case Mapping():
            return {str(key): from_json(item, left) for key, item in value.items()}
        case list():
            return tuple(from_json(item, left) for item in value)
        case str() | bool() | int() | float() | None:
            return value
        case _:
            raise TypeError(type(value).__name__)


def _decoded(decode: Callable[[str], object], text: str) -> object:
    """Unknown if the text is broken: only Terragrunt can say what happens then."""
    try:
        return from_json(decode(text))
    except (yaml.YAMLError, ValueError, AttributeError, RecursionError):
        return UNKNOWN


def merged(below: object, above: object, *, deep: bool) -> object:
    """Inputs of an included file with those above it, which win."""
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return above if below is None else below if above is None else UNKNOWN
    result = dict(below)
    for name, value in above.items():
        result[name] = _deep(below[name], value) if deep and name in below else value
    return result


def _deep(below: object, above: object) -> object:
    match below, above:
        case Mapping(), Mapping():
            return merged(below, above, deep=True)
        case tuple(), tuple():
            return (*below, *above)
        case _ if isinstance(below, tuple | Mapping | Unknown) and isinstance(above, Unknown):
            return UNKNOWN
        case _:
            return above


def _plain(value: object) -> object:
    if not known(value):
        raise LookupError
    return value


def missing(name: str) -> NoReturn:
    raise KeyError(name)
