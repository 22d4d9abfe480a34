"""Reads a contract file and reports every mistake with its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from holdfast.config import yaml
from holdfast.config.problems import Problems, did_you_mean, listed
from holdfast.config.yaml import BrokenNode, Entry, ListNode, MapNode, Node, ScalarNode
from holdfast.contract.schema import Contract, Part, Type, Unless
from holdfast.kernel.errors import Place, Problem

BUILT_IN: Final = ("platform-v1",)
"""Contracts that ship with Holdfast, each a file next to this one. A released contract never changes."""

_VERSION: Final = 1
_TOP: Final = ("version", "name", "extends", "types", "outputs")
PART_KEYS: Final = ("type", "required", "unless", "says", "one_of", "aliases", "keys", "any_of", "items")
_STRING_TYPES: Final = frozenset(Type) - {Type.ANY, Type.NUMBER, Type.BOOL, Type.LIST, Type.MAP, Type.OBJECT}


class InvalidContract(Struct, frozen=True, kw_only=True):
    """A contract that cannot be used, and why."""

    problems: tuple[Problem, ...]


def built_in(name: str) -> Contract:
    """One of `BUILT_IN`."""
    contract = read_contract(Path(__file__).with_name(f"{name}.yaml").read_text("utf-8"), file=f"{name}.yaml")
    if not isinstance(contract, Contract):
        raise AssertionError(contract.problems)  # noqa: TRY004 - our own file; a test reads each
    return contract


def read_contract(text: str, *, file: str) -> Contract | InvalidContract:
    """All mistakes at once. Pure, except that it may read a built-in contract to extend."""
    problems = Problems()
    node = yaml.read(text, file=file, problems=problems)
    contract = _ContractReader(file, problems).contract(node) if node is not None else None
    if problems or contract is None:
        return InvalidContract(problems=problems.sorted())
    return contract


class _ContractReader:
    def __init__(self, file: str, problems: Problems) -> None:
        self._file = file
        self._problems = problems
        self._types: dict[str, Node] = {}
        self._inside: list[str] = []
        """Names of the types being read, to detect a type that contains itself."""

    def _add(self, message: str, place: Place, hint: str | None = None) -> None:
        self._problems.add("HF-CONTRACT-2", message, place=place, hint=hint)

    def contract(self, node: Node) -> Contract | None:
        top = self._entries(node, _TOP, "a contract")
        if top is None:
            return None
        version = top.get("version")
        if version is None or not isinstance(version, ScalarNode) or version.value != _VERSION:
            place = version.place if version is not None else node.place
            self._add(
                f"a contract needs the version of its format: `version: {_VERSION}`",
                place,
                "Write it as the first line.",
            )
        types = top.get("types")
        if isinstance(types, MapNode):
            self._types = {entry.key: entry.value for entry in types.entries}
            self._check_types(types)
        outputs = top.get("outputs")
        own = self._parts(outputs, "outputs") if outputs is not None else {}
        base = self._base(top.get("extends"))
        if outputs is None and not base:
            self._add("a contract needs `outputs`", node.place)
        name = top.get("name")
        merged = {**base, **own}
        self._check_unless(merged, node.place)
        return Contract(
            name=name.text if isinstance(name, ScalarNode) and name.text else self._file,
            outputs=MappingProxyType(merged),
        )

    def _check_types(self, types: MapNode) -> None:
        for entry in types.entries:
            if entry.key in tuple(Type):
                self._add(f"`{entry.key}` is a built-in type", entry.place, "Choose another name.")
            else:
                self._type(entry.key, entry.place)

    def _base(self, node: Node | None) -> Mapping[str, Part]:
        if node is None:
            return {}
        if isinstance(node, ScalarNode) and node.text in BUILT_IN:
            return built_in(node.text).outputs
        shown = node.text if isinstance(node, ScalarNode) else "this"
        self._add(
            f"`{shown}` is not a built-in contract", node.place, f"Only {listed(BUILT_IN)} can be extended."
        )
        return {}

    def _check_unless(self, outputs: Mapping[str, Part], place: Place) -> None:
        for name, part in outputs.items():
            if part.unless is not None and part.unless.output not in outputs:
                self._add(
                    f"`{name}` depends on `{part.unless.output}`, which is not an output",
                    place,
                )

    def _entries(self, node: Node, known: tuple[str, ...], what: str) -> dict[str, Node] | None:
        if isinstance(node, BrokenNode):
            return None
        if not isinstance(node, MapNode):
            self._add(f"{what} must be a mapping", node.place)
            return None
        for entry in node.entries:
            if entry.key not in known:
                hint = did_you_mean(entry.key, known) or f"The keys here are {listed(known)}."
                self._add(f"unknown key `{entry.key}`", entry.place, hint)
        return {entry.key: entry.value for entry in node.entries}

    def _parts(self, node: Node, what: str) -> dict[str, Part]:
        if not isinstance(node, MapNode):
            if not isinstance(node, BrokenNode):
                self._add(f"`{what}` must be a mapping of names to types", node.place)
            return {}
        read = ((entry.key, self._part(entry.value)) for entry in node.entries)
        return {name: part for name, part in read if part is not None}

    def _part(self, node: Node) -> Part | None:
        """The name of a type, or a mapping."""
        if isinstance(node, ScalarNode) and node.value is not None:
            return self._type(node.text, node.place)
        keys = self._entries(node, PART_KEYS, "an output")
        if keys is None:
            return None
        type_ = keys.get("type")
        if not isinstance(type_, ScalarNode) or type_.value is None:
            self._add("an output needs a `type`", node.place, f"Use {listed(tuple(Type))}.")
            return None
        base = self._type(type_.text, type_.place)
        return self._specialise(base, keys) if base is not None else None

    def _type(self, name: str, place: Place) -> Part | None:
        if name in tuple(Type):
            return Part(type=Type(name))
        node = self._types.get(name)
        if node is None:
            known = (*Type, *self._types)
            self._add(
                f"there is no type `{name}`", place, did_you_mean(name, known) or f"Use {listed(known)}."
            )
            return None
        if name in self._inside:
            self._add(f"the type `{name}` contains itself", place)
            return None
        self._inside.append(name)
        part = self._part(node)
        self._inside.pop()
        return part

    def _specialise(self, base: Part, keys: Mapping[str, Node]) -> Part:
        part = Part(
            type=base.type,
            required=self._flag(keys, "required", default=base.required),
            unless=self._unless(keys.get("unless")) or base.unless,
            says=self._text(keys.get("says")) or base.says,
            one_of=self._strings(keys, "one_of") or base.one_of,
            aliases=self._strings(keys, "aliases") or base.aliases,
            keys=self._inner(keys, "keys", base.keys),
            any_of=self._strings(keys, "any_of") or base.any_of,
            items=self._part(keys["items"]) if "items" in keys else base.items,
        )
        self._check_fit(part, keys)
        return part

    def _check_fit(self, part: Part, keys: Mapping[str, Node]) -> None:
        fits: tuple[tuple[str, Callable[[Type], bool], str], ...] = (
            ("keys", lambda type_: type_ is Type.OBJECT, "an object"),
            ("any_of", lambda type_: type_ is Type.OBJECT, "an object"),
            ("items", lambda type_: type_ in (Type.LIST, Type.MAP), "a list or a map"),
            ("one_of", lambda type_: type_ in _STRING_TYPES, "a string"),
        )
        for key, suits, what in fits:
            if key in keys and not suits(part.type):
                self._add(f"`{key}` is only for {what}, but this is `{part.type}`", keys[key].place)
        for name in part.any_of:
            if "any_of" in keys and name not in part.keys:
                self._add(f"`any_of` names `{name}`, which is not in `keys`", keys["any_of"].place)

    def _inner(self, keys: Mapping[str, Node], key: str, base: Mapping[str, Part]) -> Mapping[str, Part]:
        own = self._parts(keys[key], key) if key in keys else {}
        return MappingProxyType({**base, **own})

    def _unless(self, node: Node | None) -> Unless | None:
        if node is None or isinstance(node, BrokenNode):
            return None
        match node:
            case MapNode(entries=(Entry(key=output, value=value),)):
                return Unless(output=output, values=self._string_list(value))
            case _:
                hint = "Write `unless: { cluster_type: [local] }`."
                self._add("`unless` must name one output and its values", node.place, hint)
                return None

    def _strings(self, keys: Mapping[str, Node], key: str) -> tuple[str, ...]:
        return self._string_list(keys[key]) if key in keys else ()

    def _string_list(self, node: Node) -> tuple[str, ...]:
        """One string, or a list of them."""
        items = node.items if isinstance(node, ListNode) else (node,)
        texts = tuple(item.text for item in items if isinstance(item, ScalarNode) and item.value is not None)
        if len(texts) != len(items) or not texts:
            self._add("this must be a string or a list of strings", node.place)
        return texts

    def _text(self, node: Node | None) -> str | None:
        return node.text if isinstance(node, ScalarNode) else None

    def _flag(self, keys: Mapping[str, Node], key: str, *, default: bool) -> bool:
        node = keys.get(key)
        if node is None:
            return default
        if isinstance(node, ScalarNode) and isinstance(node.value, bool):
            return node.value
        self._add(f"`{key}` must be true or false", node.place)
        return default
