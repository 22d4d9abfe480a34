"""`{name}` in text and in path patterns: finding the placeholders, and filling them in.

`{{` and `}}` are literal braces. `{var.X}` is the value of X in the variables files, `{values.X}` that in
`values`. A stack's `environment`,
`account`, `region`, `target` and `name` may be written with placeholders that name each other, so they are
filled in by need; `var` stands for the variables files, whose paths may contain placeholders too.

In a path pattern (`Accounts/{account}/**/{name}.tfvars`) `{x}` and `*` match a part of one segment, `**` any
number of whole segments. `stacks/pattern.py` does the matching; the grammar is here, so that a mistake in a
pattern is reported with its line.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct

from holdfast.kernel.patterns import pattern

VAR: Final = "var."
VALUES: Final = "values."
_TOKEN: Final = pattern(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
NAME: Final = pattern(
    r"[A-Za-z_][A-Za-z0-9_]*|var\.[A-Za-z_][A-Za-z0-9_-]*|values(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)+"
)


class MalformedError(ValueError):
    """A brace without its counterpart, or text in braces that cannot be a name."""


class Literal(Struct, frozen=True, kw_only=True):
    text: str


class Placeholder(Struct, frozen=True, kw_only=True):
    name: str


Part = Literal | Placeholder


class Template(Struct, frozen=True, kw_only=True):
    """Parsed text, to be filled in many times."""

    text: str
    parts: tuple[Part, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Each name once, in the order of the text."""
        return tuple(dict.fromkeys(part.name for part in self.parts if isinstance(part, Placeholder)))

    @property
    def literals(self) -> tuple[str, ...]:
        return tuple(part.text for part in self.parts if isinstance(part, Literal))

    def fill(self, value_of: Callable[[str], str]) -> str:
        return "".join(
            [part.text if isinstance(part, Literal) else value_of(part.name) for part in self.parts]
        )


def parse(text: str, names: re.Pattern[str] = NAME) -> Template:
    """Raises MalformedError, whose text says what is wrong. `names`: what can be in braces."""
    parts: list[Part] = []
    literal = ""
    end = 0
    for token in _TOKEN.finditer(text):
        literal += text[end : token.start()]
        end = token.end()
        match token.group():
            case "{{":
                literal += "{"
            case "}}":
                literal += "}"
            case "{":
                raise MalformedError("a `{` without its `}`")
            case "}":
                raise MalformedError("a `}` without its `{`")
            case braces:
                name = token.group(1)
                if not names.fullmatch(name):
                    raise MalformedError(f"{braces}, which is not the name of a placeholder")
                if literal:
                    parts.append(Literal(text=literal))
                    literal = ""
                parts.append(Placeholder(name=name))
    literal += text[end:]
    if literal:
        parts.append(Literal(text=literal))
    return Template(text=text, parts=tuple(parts))


def escape(text: str) -> str:
    """Text that `parse` and `fill` return unchanged."""
    return text.replace("{", "{{").replace("}", "}}")


# Which derived value of a stack needs which other

DERIVED: Final = ("environment", "account", "region", "target", "name")
FILES: Final = "var"
"""The values in the variables files."""
SHARED_VALUES: Final = "values"

Needs = Mapping[str, tuple[str, ...]]


def direct_needs(texts: Mapping[str, Iterable[str]], captured: Collection[str]) -> Needs:
    """For each derived value the ones that its text names. Names captured by the pattern need nothing."""
    keys = (*DERIVED, FILES, SHARED_VALUES)
    return {key: tuple(dict.fromkeys(_names(texts.get(key, ()), captured))) for key in keys}


def _names(texts: Iterable[str], captured: Collection[str]) -> Iterable[str]:
    for text in texts:
        try:
            names = parse(text).names
        except MalformedError:
            continue
        for name in names:
            kind, dot, _ = name.partition(".")
            if dot or (name in DERIVED and name not in captured):
                yield kind


def all_needs(needs: Needs, start: str) -> frozenset[str]:
    """Everything that must be known before `start` is."""
    needed: set[str] = set()
    waiting = list(needs.get(start, ()))
    while waiting:
        key = waiting.pop()
        if key not in needed:
            needed.add(key)
            waiting.extend(needs.get(key, ()))
    return frozenset(needed)


def find_cycle(needs: Needs) -> tuple[str, ...] | None:
    """The first cycle, its start repeated at the end: environment, account, environment."""
    for start in needs:
        ways: list[tuple[str, ...]] = [(start,)]
        for way in ways:
            for key in needs.get(way[-1], ()):
                if key == start:
                    return (*way, start)
                if key not in way:
                    ways.append((*way, key))
    return None


MAX_WILD: Final = 4
"""In one segment: more would be ambiguous to readers and slow to match."""
MAX_DEEP: Final = 3

_GLOB: Final = pattern(r"(\*+)")


class Star(Struct, frozen=True, kw_only=True):
    """Any text within one segment, not captured."""


Piece = Literal | Placeholder | Star


class Named(Struct, frozen=True, kw_only=True):
    pieces: tuple[Piece, ...]

    @property
    def literal(self) -> str | None:
        """The segment itself if it has no placeholder and no `*`."""
        match self.pieces:
            case (Literal(text=text),):
                return text
            case _:
                return None


class Deep(Struct, frozen=True, kw_only=True):
    """`**`: any number of segments, none included."""


Segment = Named | Deep


def parse_pattern(text: str) -> tuple[Segment, ...]:
    """Raises MalformedError, whose text says what is wrong."""
    segments = tuple(_segment(pieces) for pieces in _split(text))
    if sum(isinstance(segment, Deep) for segment in segments) > MAX_DEEP:
        raise MalformedError(f"`**` more than {MAX_DEEP} times")
    return segments


def names_in(segments: tuple[Segment, ...]) -> tuple[str, ...]:
    """The placeholders that the pattern gives values to, each once."""
    pieces = [piece for segment in segments if isinstance(segment, Named) for piece in segment.pieces]
    return tuple(dict.fromkeys(piece.name for piece in pieces if isinstance(piece, Placeholder)))


def _split(text: str) -> list[list[Literal | Placeholder]]:
    segments: list[list[Literal | Placeholder]] = [[]]
    for part in parse(text).parts:
        if isinstance(part, Placeholder):
            segments[-1].append(part)
            continue
        first, *rest = part.text.split("/")
        for index, piece in enumerate((first, *rest)):
            if index:
                segments.append([])
            if piece:
                segments[-1].append(Literal(text=piece))
    return segments


def _segment(parts: list[Literal | Placeholder]) -> Segment:
    match parts:
        case []:
            raise MalformedError("an empty part between two `/`")
        case [Literal(text="**")]:
            return Deep()
        case _:
            pieces = tuple(piece for part in parts for piece in _pieces(part))
    wild = [index for index, piece in enumerate(pieces) if not isinstance(piece, Literal)]
    if len(wild) > MAX_WILD:
        raise MalformedError(f"more than {MAX_WILD} placeholders between two `/`")
    if any(after - before == 1 for before, after in itertools.pairwise(wild)):
        raise MalformedError("two placeholders with nothing between them, so the end of the first is unclear")
    return Named(pieces=pieces)


def _pieces(part: Literal | Placeholder) -> list[Piece]:
    if isinstance(part, Placeholder):
        if "." in part.name:
            raise MalformedError(f"{{{part.name}}}, but a pattern only has names that it gives values to")
        return [part]
    pieces: list[Piece] = []
    for text in filter(None, _GLOB.split(part.text)):
        if text == "*":
            pieces.append(Star())
        elif text.startswith("*"):
            raise MalformedError("`**` with other text between two `/`")
        elif glob := re.search(r"[?\[\]]", text):
            raise MalformedError(f"`{glob.group()}`: only `*` and `**` are globs here")
        else:
            pieces.append(Literal(text=text))
    return pieces
