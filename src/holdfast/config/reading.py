"""What the file says, held against the shape: typed values out, every mistake noted with its place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, assert_never

from holdfast.config.problems import Problems, did_you_mean, listed
from holdfast.config.references import is_reference, read_reference
from holdfast.config.scalars import BAD, Bad, kind, read_scalar, wrong
from holdfast.config.shape import (
    WRONG_VALUE,
    Anything,
    Choice,
    Duration,
    Either,
    Flag,
    Form,
    ListOf,
    Names,
    Number,
    Record,
    SecretOnly,
    Shape,
    Size,
    Text,
    Version,
    Whole,
    paths,
)
from holdfast.config.valid import SecretRef, Value
from holdfast.config.yaml import BrokenNode, Entry, ListNode, MapNode, Node, ScalarNode
from holdfast.kernel.errors import Place
from holdfast.kernel.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """A value and where it stands. A record is a mapping of these, a list a tuple of them."""

    value: Any
    place: Place
    form: str | None = None
    """Of a record with forms: the one it has."""

    def get(self, key: str, default: Any = None) -> Any:
        """A key of a record that is there and right."""
        found = self.value.get(key) if isinstance(self.value, Mapping) else None
        return default if found is None or found.value is BAD else found.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Fillable:
    """Text that may hold placeholders, and the keys that lead to it."""

    keys: tuple[str | int, ...]
    text: str
    place: Place


_Keys = tuple[str | int, ...]


def shown(keys: _Keys) -> str:
    """`stacks[0].backend.settings`, for messages."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return text.removeprefix(".") or "the file"


class Reader:
    """Walks nodes and shape together. `problems` and `fillable` grow as it goes."""

    def __init__(self, *, whole: Shape, problems: Problems) -> None:
        self.problems = problems
        self.fillable: list[Fillable] = []
        self._everywhere = paths(whole)

    def read(self, shape: Shape, node: Node, keys: _Keys = ()) -> At:
        form: str | None = None
        value: Any
        if isinstance(node, BrokenNode):
            value = BAD
        elif isinstance(shape, Record):
            value, form = self._record(shape, node, keys)
        else:
            value = self._value(shape, node, keys)
        return At(value=value, place=node.place, form=form)

    def _value(self, shape: Shape, node: Node, keys: _Keys) -> Any:  # noqa: PLR0911 - one row per kind
        match shape:
            case Choice() | Flag() | Whole() | Number() | Version() | Duration() | Size():
                return read_scalar(shape, node, where=shown(keys), problems=self.problems)
            case Text():
                return self._text(shape, node, keys)
            case SecretOnly():
                return self._secret_only(node, keys)
            case Anything():
                return self._anything(shape, node, keys)
            case Names():
                return self._names(shape, node, keys)
            case ListOf():
                return self._list(shape, node, keys)
            case Either():
                is_text = isinstance(node, ScalarNode) and node.value is not None
                return self._value(shape.text if is_text else shape.mapping, node, keys)
            case Record():
                return self._record(shape, node, keys)[0]
            case _:
                assert_never(shape)

    def _wrong(self, node: Node, keys: _Keys, expected: str) -> Bad:
        return wrong(node, shown(keys), expected, problems=self.problems)

    def _text(self, shape: Text, node: Node, keys: _Keys) -> str | SecretRef | Bad:
        if shape.secret and is_reference(node):
            return self._reference(node, keys)
        is_text = isinstance(node, ScalarNode) and (
            isinstance(node.value, str)
            or (shape.flags and isinstance(node.value, bool))
            or (shape.numbers and isinstance(node.value, int | float) and not isinstance(node.value, bool))
        )
        if not isinstance(node, ScalarNode) or not is_text:
            return self._wrong(
                node, keys, f"{shape.says} or a secret reference" if shape.secret else shape.says
            )
        text = node.text
        if not text or len(text) > shape.most:
            what = "is empty" if not text else f"is longer than {shape.most} characters"
            self.problems.add(
                shape.code, f"{shown(keys)} {what}", place=node.place, hint=f"Give {shape.says}."
            )
            return BAD
        if shape.pattern is not None and not re.fullmatch(shape.pattern, text):
            message = f"{shown(keys)} is `{text}`, and must be {shape.says}"
            self.problems.add(shape.code, message, place=node.place)
            return BAD
        if shape.path:
            text = shortest(text)
        if shape.fill:
            self._note(text, node.place, keys)
        return text

    def _note(self, text: str, place: Place, keys: _Keys) -> None:
        if "{" in text or "}" in text:
            self.fillable.append(Fillable(keys=keys, text=text, place=place))

    def _reference(self, node: Node, keys: _Keys) -> SecretRef | Bad:
        if not isinstance(node, MapNode):
            return BAD
        found = read_reference(node, where=shown(keys), problems=self.problems)
        if found is None:
            return BAD
        self._note(found.locator, node.entries[0].value.place, (*keys, "secret"))
        return found

    def _secret_only(self, node: Node, keys: _Keys) -> SecretRef | Bad:
        if is_reference(node):
            return self._reference(node, keys)
        self.problems.add(
            "HF-CONF-13",
            f"{shown(keys)} must be a secret reference: the value itself never stands in the file",
            place=node.place,
            hint='Write { secret: "env:NAME" }, or another scheme.',
        )
        return BAD

    def _anything(self, shape: Anything, node: Node, keys: _Keys) -> Value | Bad:
        if isinstance(node, ScalarNode):
            return self._plain(shape, node, keys)
        if is_reference(node):
            return self._reference(node, keys)
        if not shape.nested and not isinstance(node, BrokenNode):
            return self._wrong(node, keys, "text, a number, true, false or a secret reference")
        match node:
            case BrokenNode():
                return BAD
            case MapNode():
                pairs = {
                    entry.key: self._anything(shape, entry.value, (*keys, entry.key))
                    for entry in node.entries
                }
                good = {key: value for key, value in pairs.items() if not isinstance(value, Bad)}
                return MappingProxyType(good) if len(good) == len(pairs) else BAD
            case ListNode():
                items = [self._anything(shape, item, (*keys, index)) for index, item in enumerate(node.items)]
                kept = tuple(item for item in items if not isinstance(item, Bad))
                return kept if len(kept) == len(items) else BAD
            case _:
                assert_never(node)

    def _plain(self, shape: Anything, node: ScalarNode, keys: _Keys) -> Value | Bad:
        if node.value is None:
            return None if shape.null else self._wrong(node, keys, "a value")
        if isinstance(node.value, str):
            self._note(node.text, node.place, keys)
            return node.text
        return node.text if shape.as_text else node.value

    def _names(self, shape: Names, node: Node, keys: _Keys) -> dict[str, At] | Bad:
        if not isinstance(node, MapNode):
            return self._wrong(node, keys, "a mapping")
        found: dict[str, At] = {}
        for entry in node.entries:
            self._check_name(shape, entry, keys)
            found[entry.key] = self.read(shape.value, entry.value, (*keys, entry.key))
        return found

    def _check_name(self, shape: Names, entry: Entry, keys: _Keys) -> None:
        if not re.fullmatch(shape.pattern, entry.key):
            message = f"`{entry.key}` in {shown(keys)} is not {shape.says}"
            self.problems.add(shape.code, message, place=entry.place)
        for refusal in shape.refused:
            if re.fullmatch(refusal.pattern, entry.key):
                self.problems.add(
                    shape.refused_code,
                    f"`{entry.key}` cannot be set in {shown(keys)}",
                    place=entry.place,
                    hint=f"{refusal.why[0].upper()}{refusal.why[1:]}.",
                )

    def _list(self, shape: ListOf, node: Node, keys: _Keys) -> tuple[At, ...] | Bad:
        if shape.single and isinstance(node, ScalarNode) and node.value is not None:
            return (self.read(shape.item, node, keys),)
        if not isinstance(node, ListNode):
            if isinstance(node, ScalarNode) and node.value is not None:
                message = f"{shown(keys)} must be a list, not {kind(node)}"
                hint = f"Write it in brackets: [{node.text}]."
                self.problems.add(WRONG_VALUE, message, place=node.place, hint=hint)
                return BAD
            return self._wrong(node, keys, "a list")
        return tuple(self.read(shape.item, item, (*keys, index)) for index, item in enumerate(node.items))

    def _record(self, shape: Record, node: Node, keys: _Keys) -> tuple[dict[str, At] | Bad, str | None]:
        if not isinstance(node, MapNode):
            return self._wrong(node, keys, "a mapping"), None
        found: dict[str, At] = {}
        for entry in node.entries:
            key = shape.key(entry.key)
            if key is None:
                self._unknown_key(shape, entry, keys)
            else:
                found[entry.key] = self.read(key.shape, entry.value, (*keys, entry.key))
        for key in shape.keys:
            if key.required and key.name not in found:
                self._missing_key(key.name, node.place, keys, version=isinstance(key.shape, Version))
        if shape.at_least_one and not node.entries:
            names = listed(key.name for key in shape.keys)
            self.problems.add("HF-CONF-5", f"{shown(keys)} needs {names}", place=node.place)
        return found, self._form(shape, node, keys) if shape.forms else None

    def _unknown_key(self, shape: Record, entry: Entry, keys: _Keys) -> None:
        hint = did_you_mean(entry.key, (key.name for key in shape.keys))
        elsewhere = [path for path in self._everywhere if path.rpartition(".")[2] == entry.key]
        if hint is None and elsewhere:
            hint = f"The key is known as {listed(f'{path}' for path in elsewhere)}."
        if hint is None:
            hint = f"The keys here are {listed(key.name for key in shape.keys)}."
        where = f"in {shown(keys)}" if keys else "at the top of the file"
        self.problems.add("HF-CONF-4", f"unknown key `{entry.key}` {where}", place=entry.place, hint=hint)

    def _missing_key(self, name: str, place: Place, keys: _Keys, *, version: bool) -> None:
        if version:
            hint = "Write `version: 1` as the first line."
            self.problems.add("HF-CONF-12", "the file does not say its version", place=place, hint=hint)
        else:
            self.problems.add("HF-CONF-5", f"{shown(keys)} needs the key `{name}`", place=place)

    def _form(self, shape: Record, node: MapNode, keys: _Keys) -> str | None:
        entries = {entry.key: entry for entry in node.entries}
        for form in shape.forms:
            if _has_form(form, entries):
                if form.without in entries:
                    self.problems.add(
                        "HF-CONF-17",
                        f"`{form.without}` cannot stand beside `{form.key}` in {shown(keys)}: {form.why}",
                        place=entries[form.without].place,
                        hint=f"Keep `{form.key}` and take `{form.without}` away, or make two entries.",
                    )
                return form.kind
        self.problems.add(
            "HF-CONF-17",
            f"{shown(keys)} does not say how its stacks are found",
            place=node.place,
            hint="Give `variables: path/{name}.tfvars`, `folder: path/{name}`, or a `name` of its own.",
        )
        return None


def _has_form(form: Form, entries: Mapping[str, Entry]) -> bool:
    entry = entries.get(form.key)
    if entry is None:
        return False
    return not form.text or not isinstance(entry.value, MapNode)


def shortest(path: str) -> str:
    """`./a//b/` is `a/b`; the root itself is `.`."""
    return "/".join(part for part in path.split("/") if part not in {"", "."}) or "."
