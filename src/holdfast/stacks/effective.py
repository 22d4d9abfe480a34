"""The effective configuration of a stack: every value and where it comes from. Pure, apart from files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from holdfast.config.declarations import At, KeyPath
from holdfast.config.output_refs import OutputRef
from holdfast.config.secret_refs import SecretRef
from holdfast.config.stack_rules import Backend, RuleKind, StackRule
from holdfast.hcl.eval.code import Code, auto_loaded
from holdfast.hcl.eval.values import known
from holdfast.hcl.reader import constant
from holdfast.kernel.errors import Place
from holdfast.stacks.generated import code_of
from holdfast.stacks.scope import PlaceholderScope
from holdfast.stacks.stack import Stack
from holdfast.terraform.statefile.sensitive import declared_sensitive

_ELSEWHERE: Final = ("folder", "matrix", "variables", "inputs")
"""How stacks are found, and variables."""
_DERIVED: Final = ("name", "module", "environment", "account", "region", "target", "workspace")
_ADDED: Final = ("pass_env", "reads", "ignores")
"""Lists of the entry and of the file, which are united."""
_TF_VAR: Final = "TF_VAR_"
COMPUTED: Final = "(computed)"


class Setting(Struct, frozen=True, kw_only=True):
    key: str
    value: Any
    """Text, numbers, bools, lists and mappings; a secret is only its reference."""
    source: str
    place: Place | None = None
    sensitive: bool = False
    """Of a variable: the value is then None."""


def effective_settings(stack: Stack, scope: PlaceholderScope) -> Iterator[Setting]:
    """In the order of the reference page. What is set nowhere and how the stack is found are left out."""
    written = scope.rule.written.value
    for key in StackRule.keys:
        at = written.get(key)
        if key in _ADDED:
            yield from _added_settings(key, stack, at, scope)
        elif key in _DERIVED:
            yield from _derived_settings(key, stack, scope, at)
        elif key == "variables_files" and at is not None:
            yield from _files(stack, at)
        elif at is not None and key not in _ELSEWHERE:
            yield from _leaves(key, at, scope)
        if key == "backend" and stack.backend is not None:
            yield from _from_files(stack.backend, written[key], scope)
    if stack.depends_on:
        reads = tuple(dict.fromkeys(derived.source for derived in stack.derived))
        source = ", ".join((*(("depends_on",) if "depends_on" in written else ()), *reads))
        yield Setting(key="dependencies", value=list(stack.depends_on), source=source)
    yield Setting(key="lane", value=stack.lane, source="target" if stack.target else "environment")
    yield Setting(key="production", value=stack.production, source=stack.environment_reason)


def _files(stack: Stack, at: At) -> Iterator[Setting]:
    """Without the stack's own file."""
    missing = f"; {', '.join(stack.absent_files)}: not there" if stack.absent_files else ""
    value = [path for path in stack.variables_files if path != stack.own_file]
    source = f"{_source(at.keys)}{missing}"
    yield Setting(key="variables_files", value=value, source=source, place=at.place)


def _added_settings(key: str, stack: Stack, at: At | None, scope: PlaceholderScope) -> Iterator[Setting]:
    if value := getattr(stack, key):
        of_file = getattr(scope.config, key)
        own = f"{_source(at.keys)} and " if at is not None and of_file else ""
        source = f"{own}the file" if of_file or at is None else _source(at.keys)
        yield Setting(key=key, value=list(value), source=source, place=at.place if at else None)


def _derived_settings(key: str, stack: Stack, scope: PlaceholderScope, at: At | None) -> Iterator[Setting]:
    value = getattr(stack, key)
    if key == "target" and stack.target is not None:
        value = stack.target.name
    if value is None:
        return
    source, place = "built-in default", None
    if at is not None:
        source, place = _source(at.keys), at.place
    elif key in scope.captured:
        source = "matrix" if scope.entry.pattern is None else f"pattern {scope.entry.pattern}"
        place = scope.entry.place
    elif key == "environment":
        source = stack.environment_reason
    elif key == "name" or (key == "module" and scope.entry.kind is RuleKind.FOLDER):
        source, place = f"path {scope.path}", scope.entry.place
    yield Setting(key=key, value=value, source=source, place=place)


def _leaves(key: str, at: At, scope: PlaceholderScope) -> Iterator[Setting]:
    if isinstance(at.value, Mapping) and any(isinstance(item, At) for item in at.value.values()):
        for name, item in at.value.items():
            yield from _leaves(f"{key}.{name}", item, scope)
    else:
        value = _unread(at)
        if key.startswith("generate.") and key.endswith(".content"):
            # A template has placeholders of its own.
            yield Setting(key=key, value=value, source=_source(at.keys), place=at.place)
            return
        value = shown(scope.fill_value(value))
        yield Setting(key=key, value=value, source=_source(at.keys), place=at.place)


def _unread(value: Any) -> Any:
    """Values without their places."""
    match value:
        case At():
            return _unread(value.value)
        case tuple():
            return tuple(map(_unread, value))
        case Mapping():
            return {key: _unread(item) for key, item in value.items()}
        case _:
            return value


def _from_files(backend: Backend, at: At, scope: PlaceholderScope) -> Iterator[Setting]:
    own = at.get("settings", {})
    for name, value in backend.settings.items():
        if name not in own:
            path = next(path for path in reversed(backend.files) if name in scope.values_in(path))
            yield Setting(
                key=f"backend.settings.{name}",
                value=shown(value),
                source="backend file",
                place=Place(file=path),
            )


def _source(keys: KeyPath) -> str:
    match keys:
        case ("stacks", *_):
            return "entry"
        case (("targets" | "environments") as level, name, *_):
            return f"defaults of {level.removesuffix('s')} {name}"
        case ("env", *_):
            return "env of the file"
        case _:
            return "defaults of the file"


def shown(value: object) -> Any:
    """A value for people and documents: secrets stay references."""
    match value:
        case SecretRef():
            return {"secret": str(value)}
        case OutputRef():
            return {"output": str(value), "mock": shown(value.mock)}
        case Mapping():
            return {str(key): shown(item) for key, item in value.items()}
        case tuple() | list():
            return [shown(item) for item in value]
        case _:
            return value if known(value) else COMPUTED


def effective_variables(stack: Stack, code: Code, scope: PlaceholderScope) -> Iterator[Setting]:
    """The root module's variables by name, each with the value that wins before `-var`."""
    module = code_of(code, stack).module(stack.module)
    winners: dict[str, tuple[Any, str, Place | None]] = {}
    for name, variable in module.variables.items():
        if variable.default is not None:
            winners[name] = constant(variable.default), "default in the code", variable.place
    for name, value in stack.env.items():
        if name.startswith(_TF_VAR):
            winners[name.removeprefix(_TF_VAR)] = value, "env", None
    beside = (code.tree.join(stack.module, name) for name in auto_loaded(code.tree.names(stack.module)))
    for path in (*beside, *stack.variables_files):
        file = code.file(path)
        for attribute in file.body.attributes if file is not None else ():
            winners[attribute.name] = constant(attribute.expression), "variables file", attribute.place
    for key in ("variables", "inputs"):
        at = scope.rule.written.value.get(key)
        items = at.value if at is not None and isinstance(at.value, Mapping) else {}
        for name, item in items.items():
            value = item.value
            filled = scope.fill_output(value) if isinstance(value, OutputRef) else scope.fill_value(value)
            winners[name] = filled, f"{key}, {_source(item.keys)}", item.place
    sensitive = declared_sensitive(code, stack.module)
    for name in sorted(winners):
        value, source, place = winners[name]
        hidden = name in sensitive
        value = None if hidden else shown(value)
        yield Setting(key=name, value=value, source=source, place=place, sensitive=hidden)
