"""Safe, bounded YAML with the place of every key and value.

Holdfast accepts only what a configuration needs: one document of mappings, lists and plain values. Anchors,
aliases and tags are refused, so a small file cannot expand into a large one, and nothing in it is executed.
Plain values follow the core schema of YAML 1.2: `no`, `off` and `on` are text, and so is a number that starts
with a zero (an account id must not lose it).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct, field

from holdfast.config.problems import Problems
from holdfast.kernel.errors import Place
from holdfast.kernel.patterns import compile_on_use, pattern

with compile_on_use():
    # One of its expressions, which only its own reader uses, takes half as long to compile as all the rest.
    import yaml

MAX_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 32
MAX_NODES: Final = 100_000

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WHOLE: Final = pattern(r"[-+]?(?:0|[1-9][0-9]{0,30})")
_WHOLE_OTHER: Final = pattern(r"0o[0-7]{1,20}|0x[0-9a-fA-F]{1,20}")
_FRACTION: Final = pattern(
    r"[-+]?(?:\.[0-9]{1,30}|(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{0,30})?)(?:[eE][-+]?[0-9]{1,4})?"
)
_UNWRITABLE: Final = pattern("[\x00\ud800-\udfff]")
_BARE_PLACEHOLDER: Final = r"(?:[:,\[-]\s+|\[)\{\w+\}\S"
_FAST_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ScalarNode(Struct, frozen=True, kw_only=True):
    place: Place
    value: str | int | float | bool | None
    text: str
    """As written, without quotes: where text is expected, `1.10` is not 1.1."""


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
    """A value that was already reported."""

    place: Place


Node = ScalarNode | ListNode | MapNode | BrokenNode


def read(text: str, *, file: str, problems: Problems, loader: Any = _FAST_LOADER) -> Node | None:
    """The document, or None if it cannot be read to its end. Mistakes are added to `problems`."""
    text = text.removeprefix("\ufeff")
    start = Place(file=file, line=1, column=1)
    if unwritable := _UNWRITABLE.search(text):
        problems.add(
            "HF-CONF-3",
            f"{file} contains a character that is not allowed in text files",
            place=_place_of_character(text, unwritable.start(), file),
            hint="Remove it, or save the file as UTF-8.",
        )
        return None
    if len(text.encode()) > MAX_BYTES:
        message = f"{file} is larger than {MAX_BYTES:,} bytes"
        problems.add("HF-CONF-11", message, place=start, hint="Check that this is the right file.")
        return None
    try:
        return _Builder(file=file, problems=problems).build(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file=file, line=mark.line + 1, column=mark.column + 1) if mark else start
        what = " ".join(part for part in (error.context, error.problem) if part)
        hint = _hint_for(what, text, place)
        problems.add("HF-CONF-3", f"not valid YAML: {what}", place=place, hint=hint)
    except yaml.YAMLError as error:
        problems.add(
            "HF-CONF-3",
            f"not valid YAML: {getattr(error, 'reason', 'unreadable')}",
            place=_place_of_character(text, getattr(error, "position", 0), file),
            hint="Remove the character, or write it as an escape in double quotes.",
        )
    return None


def _hint_for(what: str, text: str, place: Place) -> str:
    lines = text.split("\n")
    line = lines[place.line - 1] if place.line is not None and place.line <= len(lines) else ""
    if "\\t" in what or "\t" in line:
        return "Indent with spaces, not with tabs."
    if re.search(_BARE_PLACEHOLDER, line):
        return 'Text that starts with a placeholder needs quotes: "{name}/…".'
    return "Check this line and the one before it."


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


class _TooLargeError(Exception):
    """The document exceeds a limit; the mistake has been added."""


class _Open(Struct, kw_only=True):
    """A list or mapping that has not ended yet."""

    place: Place
    is_map: bool
    items: list[Node] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    seen: dict[str, Place] = field(default_factory=dict)
    key: Node | None = None


class _Builder:
    """Builds nodes from the parser's events without recursion."""

    def __init__(self, *, file: str, problems: Problems) -> None:
        self._file = file
        self._problems = problems
        self._open: list[_Open] = []
        self._root: Node | None = None
        self._nodes = 0
        self._documents = 0

    def build(self, events: Iterator[Any]) -> Node | None:
        try:
            for event in events:
                self._take(event)
                if self._documents > 1:
                    break
        except _TooLargeError:
            return None
        if self._root is None:
            return ScalarNode(place=Place(file=self._file, line=1, column=1), value=None, text="")
        return self._root

    def _take(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                self._check(event)
                self._put(self._scalar(event))
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._check(event)
                place = self._place(event)
                if len(self._open) >= MAX_DEPTH:
                    hint = "Nest it less, or move the value to a variables file."
                    self._stop(f"nested more than {MAX_DEPTH} levels deep", place, hint)
                self._open.append(_Open(place=place, is_map=isinstance(event, yaml.MappingStartEvent)))
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                ended = self._open.pop()
                if ended.is_map:
                    self._put(MapNode(place=ended.place, entries=tuple(ended.entries)))
                else:
                    self._put(ListNode(place=ended.place, items=tuple(ended.items)))
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    self._refuse(event, "a second document in one file", "Remove the `---`.")
            case yaml.AliasEvent():
                self._refuse(event, f"an alias (*{event.anchor})", "Repeat the value.")
                self._put(BrokenNode(place=self._place(event)))

    def _place(self, event: Any) -> Place:
        return Place(file=self._file, line=event.start_mark.line + 1, column=event.start_mark.column + 1)

    def _refuse(self, event: Any, what: str, hint: str) -> None:
        self._problems.add("HF-CONF-10", f"{what} is not allowed here", place=self._place(event), hint=hint)

    def _stop(self, message: str, place: Place, hint: str) -> None:
        self._problems.add("HF-CONF-11", message, place=place, hint=hint)
        raise _TooLargeError

    def _check(self, event: Any) -> None:
        if event.anchor is not None:
            self._refuse(
                event,
                f"an anchor (&{event.anchor})",
                "Put what several stacks share in `defaults`, or repeat the value.",
            )
        if event.tag is not None:
            self._refuse(event, f"a tag ({event.tag})", "Remove the tag; put text in quotes.")

    def _scalar(self, event: Any) -> Node:
        place, text = self._place(event), event.value
        if _UNWRITABLE.search(text):
            message = "the text contains a character that is not allowed (NUL or half of a surrogate pair)"
            self._problems.add("HF-CONF-3", message, place=place, hint="Remove the escape.")
            return BrokenNode(place=place)
        plain = not event.style and event.tag is None
        return ScalarNode(place=place, value=resolve(text) if plain else text, text=text)

    def _put(self, node: Node) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            hint = "Find stacks with a pattern instead of listing each of them."
            self._stop(f"more than {MAX_NODES:,} values", node.place, hint)
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
            message = "a list or mapping as a key is not allowed here"
            hint = 'A placeholder at the start of a text needs quotes: "{name}".'
            self._problems.add("HF-CONF-10", message, place=key.place, hint=hint)
            return
        first = parent.seen.get(key.text)
        if first is not None:
            message = f"duplicate key `{key.text}`: first in line {first.line}, column {first.column}"
            self._problems.add("HF-CONF-8", message, place=key.place, hint="Keep one of them.")
            return
        parent.seen[key.text] = key.place
        parent.entries.append(Entry(key=key.text, place=key.place, value=value))
