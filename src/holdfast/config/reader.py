"""Reads the nodes of a YAML file by their declarations: values out, every mistake noted with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, assert_never

from msgspec import Struct

from holdfast.config.declarations import (
    BAD,
    At,
    Bad,
    Group,
    KeyPath,
    ListOf,
    Names,
    ScalarOrMapping,
    Section,
    Shape,
    dotted,
    walk,
)
from holdfast.config.output_refs import OutputInput, is_output
from holdfast.config.problems import Problems, did_you_mean, listed
from holdfast.config.secret_refs import SecretRef, is_reference, read_reference
from holdfast.config.shapes import (
    WRONG_VALUE,
    AnyValue,
    FormatVersion,
    MistakeError,
    Scalar,
    SecretOnly,
    Text,
    Verbatim,
    WrongKindError,
)
from holdfast.config.yaml import BrokenNode, Entry, ListNode, MapNode, Node, ScalarNode
from holdfast.kernel.errors import Place


class Fillable(Struct, frozen=True, kw_only=True):
    """Text that may contain placeholders, and the keys that lead to it."""

    keys: KeyPath
    text: str
    place: Place


class Reader:
    """Walks nodes and declarations together. `problems` and `fillable` grow as it goes."""

    def __init__(self, *, whole: type[Section], problems: Problems) -> None:
        self.problems = problems
        self.fillable: list[Fillable] = []
        self._whole = whole

    def read(self, shape: Shape | Group, node: Node, keys: KeyPath = (), *, key: Entry | None = None) -> At:
        value = BAD if isinstance(node, BrokenNode) else self._value(shape, node, keys)
        at = At(value=value, place=node.place, key_place=(key or node).place, keys=keys)
        if isinstance(shape, type) and value is not BAD:
            shape.check(at, self.problems)
        return at

    def _value(self, shape: Shape | Group, node: Node, keys: KeyPath) -> Any:  # noqa: PLR0911 - a row per kind
        match shape:
            case type() | Group():
                return self._section(shape, node, keys)
            case ListOf():
                return self._list(shape, node, keys)
            case Names():
                return self._names(shape, node, keys)
            case ScalarOrMapping():
                is_scalar = isinstance(node, ListNode) or (
                    isinstance(node, ScalarNode) and node.value is not None
                )
                return self._value(shape.scalar if is_scalar else shape.mapping, node, keys)
            case AnyValue(outputs=True) if is_output(node):
                return self._output(node, keys)
            case AnyValue():
                return self._any_value(shape, node, keys)
            case SecretOnly():
                return self._secret_only(node, keys)
            case Verbatim():
                return self._verbatim(node, keys)
            case Text(secret=True) if is_reference(node):
                return self._reference(node, keys)
            case _:
                return self._scalar(shape, node, keys)

    # Single values

    def _scalar(self, shape: Scalar, node: Node, keys: KeyPath) -> Any:
        try:
            if not isinstance(node, ScalarNode):
                raise WrongKindError  # noqa: TRY301 - one answer for every wrong kind
            value = shape.parse(node)
        except WrongKindError:
            secret = isinstance(shape, Text) and shape.secret
            expected = f"{shape.expected} or a secret reference" if secret else shape.expected
            return self._wrong_kind(node, keys, expected)
        except MistakeError as mistake:
            message = f"{dotted(keys)} {mistake}"
            self.problems.add(mistake.code, message, place=node.place, hint=mistake.hint)
            return BAD
        if isinstance(shape, Text) and shape.fill:
            self._note_fillable(str(value), node.place, keys)
        return value

    def _note_fillable(self, text: str, place: Place, keys: KeyPath) -> None:
        if "{" in text or "}" in text:
            self.fillable.append(Fillable(keys=keys, text=text, place=place))

    def _wrong_kind(self, node: Node, keys: KeyPath, expected: str) -> Bad:
        hint: str | None = None
        if isinstance(node, ScalarNode) and node.value is None:
            message = f"{dotted(keys)} has no value"
            hint = f"Give {expected}, or remove the key."
        else:
            message = f"{dotted(keys)} must be {expected}, not {_kind(node)}"
            if isinstance(node, MapNode) and (name := _bare_placeholder(node)):
                hint = f'Put text that starts with a placeholder in quotes: "{{{name}}}".'
            elif isinstance(node, ScalarNode) and not isinstance(node.value, str) and "text" in expected:
                hint = f'If this is text, put it in quotes: "{node.text}".'
            elif isinstance(node, ScalarNode) and expected == "a list":
                hint = f"Write it in brackets: [{', '.join(node.text.split())}]."
        self.problems.add(WRONG_VALUE, message, place=node.place, hint=hint)
        return BAD

    # Secret references and values of any kind

    def _reference(self, node: Node, keys: KeyPath) -> SecretRef | Bad:
        if not isinstance(node, MapNode):
            return BAD
        reference = read_reference(node, where=dotted(keys), problems=self.problems)
        if reference is None:
            return BAD
        self._note_fillable(reference.locator, node.entries[0].value.place, (*keys, "secret"))
        return reference

    def _secret_only(self, node: Node, keys: KeyPath) -> SecretRef | Bad:
        if is_reference(node):
            return self._reference(node, keys)
        self.problems.add(
            "HF-CONF-13",
            f"{dotted(keys)} must be a secret reference: the file never contains the secret itself",
            place=node.place,
            hint='Write { secret: "env:NAME" }, or use another scheme.',
        )
        return BAD

    def _output(self, node: Node, keys: KeyPath) -> Any:
        at = self.read(OutputInput, node, keys)
        return BAD if any(item.value is BAD for item in at.value.values()) else build(OutputInput, at)

    def _any_value(self, shape: AnyValue, node: Node, keys: KeyPath) -> Any:  # noqa: PLR0911 - as above
        if isinstance(node, ScalarNode):
            if node.value is None:
                return None if shape.null else self._wrong_kind(node, keys, "a value")
            if isinstance(node.value, str):
                self._note_fillable(node.text, node.place, keys)
            return node.text if shape.as_text else node.value
        if is_reference(node):
            return self._reference(node, keys)
        if not shape.nested and not isinstance(node, BrokenNode):
            return self._wrong_kind(node, keys, "text, a number, true, false or a secret reference")
        match node:
            case BrokenNode():
                return BAD
            case MapNode():
                pairs = {
                    entry.key: self._any_value(shape, entry.value, (*keys, entry.key))
                    for entry in node.entries
                }
                return BAD if BAD in pairs.values() else MappingProxyType(pairs)
            case ListNode():
                items = tuple(
                    self._any_value(shape, item, (*keys, index)) for index, item in enumerate(node.items)
                )
                return BAD if BAD in items else items
            case _:
                assert_never(node)

    def _verbatim(self, node: Node, keys: KeyPath) -> Any:
        return _plain(node) if isinstance(node, MapNode) else self._wrong_kind(node, keys, "a mapping")

    # Containers

    def _list(self, shape: ListOf, node: Node, keys: KeyPath) -> tuple[At, ...] | Bad:
        if shape.single and isinstance(node, ScalarNode) and node.value is not None:
            return (self.read(shape.item, node, keys),)
        if not isinstance(node, ListNode):
            return self._wrong_kind(node, keys, "a list")
        return tuple(self.read(shape.item, item, (*keys, index)) for index, item in enumerate(node.items))

    def _names(self, shape: Names, node: Node, keys: KeyPath) -> dict[str, At] | Bad:
        if not isinstance(node, MapNode):
            return self._wrong_kind(node, keys, "a mapping")
        values: dict[str, At] = {}
        for entry in node.entries:
            self._check_name(shape, entry, keys)
            values[entry.key] = self.read(shape.value, entry.value, (*keys, entry.key), key=entry)
        return values

    def _check_name(self, shape: Names, entry: Entry, keys: KeyPath) -> None:
        if not re.fullmatch(shape.pattern, entry.key):
            message = f"`{entry.key}` in {dotted(keys)} is not {shape.expected}"
            self.problems.add(shape.code, message, place=entry.place)
        for names in shape.reserved:
            if re.fullmatch(names.pattern, entry.key):
                message = f"`{entry.key}` cannot be set in {dotted(keys)}"
                self.problems.add(shape.reserved_code, message, place=entry.place, hint=names.why)

    def _section(self, shape: type[Section] | Group, node: Node, keys: KeyPath) -> dict[str, At] | Bad:
        if not isinstance(node, MapNode):
            return self._wrong_kind(node, keys, "a mapping")
        values: dict[str, At] = {}
        for entry in node.entries:
            key = shape.keys.get(entry.key)
            if key is not None:
                values[entry.key] = self.read(key.shape, entry.value, (*keys, entry.key), key=entry)
            else:
                self._add_unknown_key(shape, entry, keys)
                values[entry.key] = At(value=BAD, place=entry.place, key_place=entry.place, keys=keys)
        for name, key in shape.keys.items():
            if key.required and name not in values and not _may_be_elsewhere(keys):
                version = isinstance(key.shape, FormatVersion)
                self.problems.add(
                    "HF-CONF-12" if version else "HF-CONF-5",
                    f"{dotted(keys)} needs the key `{name}`",
                    place=node.place,
                    hint="Write `version: 1` as the first line." if version else None,
                )
        return values

    def _add_unknown_key(self, shape: type[Section] | Group, entry: Entry, keys: KeyPath) -> None:
        hint = did_you_mean(entry.key, shape.keys)
        if hint is None:
            elsewhere = [path for path, key in walk(self._whole) if key.name == entry.key]
            hint = (
                f"The key exists as {listed(elsewhere)}."
                if elsewhere
                else f"The keys here are {listed(shape.keys)}."
            )
        where = f"in {dotted(keys)}" if keys else "at the top level"
        self.problems.add("HF-CONF-4", f"unknown key `{entry.key}` {where}", place=entry.place, hint=hint)


def _may_be_elsewhere(keys: KeyPath) -> bool:
    """Whether defaults may complete this mapping: then `defaults.missing_keys` looks for required keys."""
    match keys:
        case ("stacks", int(), *inside) | ("defaults", *inside) | (_, _, "defaults", *inside):
            return bool(inside) and not any(isinstance(key, int) for key in inside)
        case _:
            return False


def _kind(node: Node) -> str:
    match node:
        case MapNode():
            return "a mapping"
        case ListNode():
            return "a list"
        case ScalarNode(value=bool()):
            return node.text
        case ScalarNode(value=int() | float()):
            return f"the number {node.text}"
        case ScalarNode():
            return "text"
        case BrokenNode():
            return "this"
        case _:
            assert_never(node)


def _plain(node: Node) -> Any:
    match node:
        case MapNode():
            return {entry.key: _plain(entry.value) for entry in node.entries}
        case ListNode():
            return [_plain(item) for item in node.items]
        case ScalarNode():
            return node.value
        case BrokenNode():
            return None


def _bare_placeholder(node: MapNode) -> str | None:
    """YAML reads `{account}` without quotes as a mapping; a common slip that deserves its own hint."""
    if len(node.entries) != 1:
        return None
    value = node.entries[0].value
    return node.entries[0].key if isinstance(value, ScalarNode) and value.value is None else None


def build(shape: Shape | Group, at: At, name: str = "") -> Any:  # noqa: PLR0911 - a row per kind
    """The value of what was read, once nothing in the file is wrong."""
    match shape:
        case Group():
            return build_fields(shape, at)
        case type():
            values = build_fields(shape, at)
            for field in shape.from_reader:
                values[field] = _FROM_READER[field](at, name)
            return shape.from_keys(values)
        case ListOf():
            return tuple(build(shape.item, item) for item in at.value)
        case Names():
            items = {name: build(shape.value, item, name) for name, item in at.value.items()}
            if shape.entry is None:
                return MappingProxyType(items)
            return tuple(shape.entry(name, item, at.value[name].place) for name, item in items.items())
        case ScalarOrMapping():
            if isinstance(at.value, Mapping):
                return build(shape.mapping, at)
            value = build(shape.scalar, at)
            return value if shape.from_scalar is None else shape.from_scalar(value)
        case _:
            return at.value


def build_fields(shape: type[Section] | Group, at: At) -> dict[str, Any]:
    """The values of a section's fields, by the name of the field."""
    values: dict[str, Any] = {}
    for name, item in at.value.items():
        key = shape.keys[name]
        value = build(key.shape, item, name)
        values.update(value if isinstance(key.shape, Group) else {key.field: value})
    return values


_FROM_READER: Final[Mapping[str, Any]] = {
    "name": lambda _at, name: name,
    "place": lambda at, _name: at.place,
    "places": lambda at, _name: MappingProxyType({key: item.place for key, item in at.value.items()}),
    "written": lambda at, _name: at,
}
