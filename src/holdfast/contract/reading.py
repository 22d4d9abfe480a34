"""A contract as a file says it: held against what a contract can say, every mistake with its place."""

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
"""Contracts that come with Holdfast: each a file beside this one, never changed once it was out."""

_VERSION: Final = 1
_TOP: Final = ("version", "name", "extends", "types", "outputs")
PART_KEYS: Final = ("type", "required", "unless", "says", "one_of", "aliases", "keys", "any_of", "items")
_TEXTS: Final = frozenset(Type) - {Type.ANY, Type.NUMBER, Type.BOOL, Type.LIST, Type.MAP, Type.OBJECT}


class Broken(Struct, frozen=True, kw_only=True):
    """A contract that cannot be used, and why."""

    problems: tuple[Problem, ...]


def built_in(name: str) -> Contract:
    """One of `BUILT_IN`."""
    found = read_contract(Path(__file__).with_name(f"{name}.yaml").read_text("utf-8"), file=f"{name}.yaml")
    if not isinstance(found, Contract):
        raise AssertionError(found.problems)  # noqa: TRY004 - a file of ours; a test reads each
    return found


def read_contract(text: str, *, file: str) -> Contract | Broken:
    """Every mistake at once. Pure, but for the built-in contract that it may extend."""
    problems = Problems()
    node = yaml.read(text, file=file, problems=problems)
    contract = _Reading(file, problems).contract(node) if node is not None else None
    if problems or contract is None:
        return Broken(problems=problems.sorted())
    return contract


class _Reading:
    def __init__(self, file: str, problems: Problems) -> None:
        self._file = file
        self._problems = problems
        self._types: dict[str, Node] = {}
        self._inside: list[str] = []
        """Names of types that are being read: a type that holds itself has no end."""

    def _wrong(self, message: str, place: Place, hint: str | None = None) -> None:
        self._problems.add("HF-CONTRACT-2", message, place=place, hint=hint)

    def contract(self, node: Node) -> Contract | None:
        top = self._entries(node, _TOP, "a contract")
        if top is None:
            return None
        version = top.get("version")
        if version is None or not isinstance(version, ScalarNode) or version.value != _VERSION:
            place = version.place if version is not None else node.place
            self._wrong(
                f"a contract says the version of its format: `version: {_VERSION}`",
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
            self._wrong("a contract names `outputs`", node.place)
        name = top.get("name")
        every = {**base, **own}
        self._check_unless(every, node.place)
        return Contract(
            name=name.text if isinstance(name, ScalarNode) and name.text else self._file,
            outputs=MappingProxyType(every),
        )

    def _check_types(self, types: MapNode) -> None:
        for entry in types.entries:
            if entry.key in tuple(Type):
                self._wrong(f"`{entry.key}` is a type already", entry.place, "Give it another name.")
            else:
                self._named(entry.key, entry.place)

    def _base(self, node: Node | None) -> Mapping[str, Part]:
        if node is None:
            return {}
        if isinstance(node, ScalarNode) and node.text in BUILT_IN:
            return built_in(node.text).outputs
        shown = node.text if isinstance(node, ScalarNode) else "this"
        self._wrong(
            f"`{shown}` is no contract that can be extended", node.place, f"There is {listed(BUILT_IN)}."
        )
        return {}

    def _check_unless(self, outputs: Mapping[str, Part], place: Place) -> None:
        for name, part in outputs.items():
            if part.unless is not None and part.unless.output not in outputs:
                self._wrong(f"`{name}` depends on `{part.unless.output}`, which is no output here", place)

    def _entries(self, node: Node, known: tuple[str, ...], what: str) -> dict[str, Node] | None:
        if isinstance(node, BrokenNode):
            return None
        if not isinstance(node, MapNode):
            self._wrong(f"{what} is a mapping", node.place)
            return None
        for entry in node.entries:
            if entry.key not in known:
                hint = did_you_mean(entry.key, known) or f"The keys here are {listed(known)}."
                self._wrong(f"unknown key `{entry.key}`", entry.place, hint)
        return {entry.key: entry.value for entry in node.entries}

    def _parts(self, node: Node, what: str) -> dict[str, Part]:
        if not isinstance(node, MapNode):
            if not isinstance(node, BrokenNode):
                self._wrong(f"`{what}` is a mapping from names to what is wanted", node.place)
            return {}
        read = ((entry.key, self._part(entry.value)) for entry in node.entries)
        return {name: part for name, part in read if part is not None}

    def _part(self, node: Node) -> Part | None:
        """`address`, or a mapping that says more."""
        if isinstance(node, ScalarNode) and node.value is not None:
            return self._named(node.text, node.place)
        said = self._entries(node, PART_KEYS, "what is wanted")
        if said is None:
            return None
        type_ = said.get("type")
        if not isinstance(type_, ScalarNode) or type_.value is None:
            self._wrong("what is wanted needs a `type`", node.place, f"It is {listed(tuple(Type))}.")
            return None
        base = self._named(type_.text, type_.place)
        return self._with(base, said) if base is not None else None

    def _named(self, name: str, place: Place) -> Part | None:
        if name in tuple(Type):
            return Part(type=Type(name))
        node = self._types.get(name)
        if node is None:
            known = (*Type, *self._types)
            self._wrong(
                f"there is no type `{name}`", place, did_you_mean(name, known) or f"It is {listed(known)}."
            )
            return None
        if name in self._inside:
            self._wrong(f"the type `{name}` holds itself", place)
            return None
        self._inside.append(name)
        part = self._part(node)
        self._inside.pop()
        return part

    def _with(self, base: Part, said: Mapping[str, Node]) -> Part:
        part = Part(
            type=base.type,
            required=self._flag(said, "required", default=base.required),
            unless=self._unless(said.get("unless")) or base.unless,
            says=self._text(said.get("says")) or base.says,
            one_of=self._texts(said, "one_of") or base.one_of,
            aliases=self._texts(said, "aliases") or base.aliases,
            keys=self._inner(said, "keys", base.keys),
            any_of=self._texts(said, "any_of") or base.any_of,
            items=self._part(said["items"]) if "items" in said else base.items,
        )
        self._check_fit(part, said)
        return part

    def _check_fit(self, part: Part, said: Mapping[str, Node]) -> None:
        fits: tuple[tuple[str, Callable[[Type], bool], str], ...] = (
            ("keys", lambda type_: type_ is Type.OBJECT, "an object"),
            ("any_of", lambda type_: type_ is Type.OBJECT, "an object"),
            ("items", lambda type_: type_ in (Type.LIST, Type.MAP), "a list or a map"),
            ("one_of", lambda type_: type_ in _TEXTS, "a text"),
        )
        for key, suits, what in fits:
            if key in said and not suits(part.type):
                self._wrong(f"`{key}` is for {what}, and this is `{part.type}`", said[key].place)
        for name in part.any_of:
            if "any_of" in said and name not in part.keys:
                self._wrong(f"`any_of` names `{name}`, which is not in `keys`", said["any_of"].place)

    def _inner(self, said: Mapping[str, Node], key: str, base: Mapping[str, Part]) -> Mapping[str, Part]:
        own = self._parts(said[key], key) if key in said else {}
        return MappingProxyType({**base, **own})

    def _unless(self, node: Node | None) -> Unless | None:
        if node is None or isinstance(node, BrokenNode):
            return None
        match node:
            case MapNode(entries=(Entry(key=output, value=value),)):
                return Unless(output=output, values=self._words(value))
            case _:
                hint = "Write `unless: { cluster_type: [local] }`."
                self._wrong("`unless` names one output and its values", node.place, hint)
                return None

    def _texts(self, said: Mapping[str, Node], key: str) -> tuple[str, ...]:
        return self._words(said[key]) if key in said else ()

    def _words(self, node: Node) -> tuple[str, ...]:
        """One text, or a list of them."""
        items = node.items if isinstance(node, ListNode) else (node,)
        found = tuple(one.text for one in items if isinstance(one, ScalarNode) and one.value is not None)
        if len(found) != len(items) or not found:
            self._wrong("a list of texts is wanted here", node.place)
        return found

    def _text(self, node: Node | None) -> str | None:
        return node.text if isinstance(node, ScalarNode) else None

    def _flag(self, said: Mapping[str, Node], key: str, *, default: bool) -> bool:
        node = said.get(key)
        if node is None:
            return default
        if isinstance(node, ScalarNode) and isinstance(node.value, bool):
            return node.value
        self._wrong(f"`{key}` is true or false", node.place)
        return default
