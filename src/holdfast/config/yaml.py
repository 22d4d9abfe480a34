"""YAML, read safely: bounded, without surprises, and with the place of every key and value.

Only what a configuration needs is taken: one document of mappings, lists and plain values. Anchors, aliases
and tags are refused, so a small file can never grow into a large one, and nothing in it is ever executed.
Plain values follow the core rules of YAML 1.2: `no`, `off` and `on` stay text, and so does a number that
starts with a zero (an account's id must not lose it).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml
from msgspec import Struct, field

from holdfast.config.problems import Problems
from holdfast.kernel.errors import Place

MAX_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 32
MAX_NODES: Final = 100_000

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})")
_WHOLE_OTHER: Final = re.compile(r"0o[0-7]{1,20}|0x[0-9a-fA-F]{1,20}")
_FRACTION: Final = re.compile(
    r"[-+]?(?:\.[0-9]{1,30}|(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{0,30})?)(?:[eE][-+]?[0-9]{1,4})?"
)
_UNWRITABLE: Final = re.compile("[\x00\ud800-\udfff]")
_BARE_PLACEHOLDER: Final = re.compile(r"(?:[:,\[-]\s+|\[)\{\w+\}\S")
_FAST_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ScalarNode(Struct, frozen=True, kw_only=True):
    place: Place
    value: str | int | float | bool | None
    text: str
    """As it was written, without quotes: where text is wanted, `1.10` is not 1.1."""


class ListNode(Struct, frozen=True, kw_only=True):
    place: Place
    items: tuple[Node, ...]


class Entry(Struct, frozen=True, kw_only=True):
    key: str
    place: Place
    value: Node


class MapNode(Struct, frozen=True, kw_only=True):
    place: Place
    entries: tuple[Entry, ...]


class BrokenNode(Struct, frozen=True, kw_only=True):
    """Something here was refused already; whoever meets it says nothing more."""

    place: Place


Node = ScalarNode | ListNode | MapNode | BrokenNode


def read(text: str, *, file: str, problems: Problems, loader: Any = _FAST_LOADER) -> Node | None:
    """The document, or None where it cannot be followed to its end. What is wrong is added to `problems`."""
    text = text.removeprefix("\ufeff")
    start = Place(file=file, line=1, column=1)
    if found := _UNWRITABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        problems.add(
            "HF-CONF-3",
            f"{file} holds a character that cannot be in a text file",
            place=Place(file=file, line=line),
            hint="Take it away, or write the file anew as UTF-8.",
        )
        return None
    if len(text.encode()) > MAX_BYTES:
        problems.add(
            "HF-CONF-11",
            f"{file} is larger than {MAX_BYTES:,} bytes",
            place=start,
            hint="A configuration is small. Is it the right file?",
        )
        return None
    reading = _Reading(file=file, problems=problems)
    try:
        return reading.run(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file=file, line=mark.line + 1, column=mark.column + 1) if mark else start
        what = " ".join(part for part in (error.context, error.problem) if part)
        hint = _hint_for(what, text, place)
        problems.add("HF-CONF-3", f"not valid YAML: {what}", place=place, hint=hint)
    except yaml.YAMLError as error:
        problems.add(
            "HF-CONF-3",
            f"not valid YAML: {getattr(error, 'reason', 'it cannot be read')}",
            place=_place_of_character(text, getattr(error, "position", 0), file),
            hint="Take the character away, or write it as an escape in double quotes.",
        )
    return None


def _hint_for(what: str, text: str, place: Place) -> str:
    lines = text.split("\n")
    line = lines[place.line - 1] if place.line is not None and place.line <= len(lines) else ""
    if "\\t" in what or "\t" in line:
        return "Indent with spaces, not with tabs."
    if _BARE_PLACEHOLDER.search(line):
        return 'Text that starts with a placeholder needs quotes: "{name}/…".'
    return "Look at this line and the one before it."


def _place_of_character(text: str, position: int, file: str) -> Place:
    return Place(file=file, line=text.count("\n", 0, position) + 1)


def resolve(text: str) -> str | int | float | bool | None:
    """The value of a plain scalar (one without quotes)."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _WHOLE_OTHER.fullmatch(text):
        return int(text, 0)
    if _FRACTION.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text


class _TooMuchError(Exception):
    """The document is larger than any configuration; the mistake has been noted."""


class _Open(Struct, kw_only=True):
    """A list or mapping that has begun and not ended."""

    place: Place
    is_map: bool
    items: list[Node] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    seen: dict[str, Place] = field(default_factory=dict)
    key: Node | None = None


class _Reading:
    """Builds nodes from the parser's events without recursion."""

    def __init__(self, *, file: str, problems: Problems) -> None:
        self._file = file
        self._problems = problems
        self._open: list[_Open] = []
        self._root: Node | None = None
        self._nodes = 0
        self._documents = 0

    def run(self, events: Iterator[Any]) -> Node | None:
        try:
            for event in events:
                self._take(event)
                if self._documents > 1:
                    break
        except _TooMuchError:
            return None
        if self._root is None:
            place = Place(file=self._file, line=1, column=1)
            return ScalarNode(place=place, value=None, text="")
        return self._root

    def _take(self, event: Any) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    self._refuse(
                        event, "a second document in one file", "Keep one document: take the `---` away."
                    )
            case yaml.AliasEvent():
                self._refuse(event, f"an alias (*{event.anchor})", "Write the value out.")
                self._put(BrokenNode(place=self._place(event)))
            case yaml.ScalarEvent():
                self._check(event)
                self._put(self._scalar(event))
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._check(event)
                self._begin(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._end()

    def _place(self, event: Any) -> Place:
        return Place(file=self._file, line=event.start_mark.line + 1, column=event.start_mark.column + 1)

    def _refuse(self, event: Any, what: str, hint: str) -> None:
        self._problems.add("HF-CONF-10", f"{what} is not allowed here", place=self._place(event), hint=hint)

    def _check(self, event: Any) -> None:
        if event.anchor is not None:
            self._refuse(event, f"an anchor (&{event.anchor})", "Write the value out where it is needed.")
        if event.tag is not None:
            self._refuse(event, f"a tag ({event.tag})", "Take the tag away; put text in quotes.")

    def _scalar(self, event: Any) -> Node:
        place, text = self._place(event), event.value
        if _UNWRITABLE.search(text):
            self._problems.add(
                "HF-CONF-3",
                "the text holds a character that cannot be written (NUL or half of a pair)",
                place=place,
                hint="Take the escape away.",
            )
            return BrokenNode(place=place)
        plain = not event.style and event.tag is None
        return ScalarNode(place=place, value=resolve(text) if plain else text, text=text)

    def _begin(self, event: Any) -> None:
        if len(self._open) >= MAX_DEPTH:
            self._problems.add(
                "HF-CONF-11",
                f"nested more than {MAX_DEPTH} levels deep",
                place=self._place(event),
                hint="Make it flatter, or keep the value in a variables file.",
            )
            raise _TooMuchError
        is_map = isinstance(event, yaml.MappingStartEvent)
        self._open.append(_Open(place=self._place(event), is_map=is_map))

    def _end(self) -> None:
        done = self._open.pop()
        if done.is_map:
            self._put(MapNode(place=done.place, entries=tuple(done.entries)))
        else:
            self._put(ListNode(place=done.place, items=tuple(done.items)))

    def _put(self, node: Node) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._problems.add(
                "HF-CONF-11",
                f"more than {MAX_NODES:,} values",
                place=node.place,
                hint="Find stacks by a pattern instead of naming each.",
            )
            raise _TooMuchError
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        if not parent.is_map:
            parent.items.append(node)
        elif parent.key is None:
            parent.key = node
        else:
            key, parent.key = parent.key, None
            self._add_entry(parent, key, node)

    def _add_entry(self, parent: _Open, key: Node, value: Node) -> None:
        if isinstance(key, BrokenNode):
            return
        if not isinstance(key, ScalarNode):
            self._problems.add(
                "HF-CONF-10",
                "a list or mapping as a key is not allowed here",
                place=key.place,
                hint='A placeholder at the start of a text needs quotes: "{name}".',
            )
            return
        first = parent.seen.get(key.text)
        if first is not None:
            self._problems.add(
                "HF-CONF-8",
                f"the key `{key.text}` is here twice: first in line {first.line}, column {first.column}",
                place=key.place,
                hint="Keep one of them.",
            )
            return
        parent.seen[key.text] = key.place
        parent.entries.append(Entry(key=key.text, place=key.place, value=value))
