"""The template language of `import_ids.json` for import ids. Pure.

    {a} {a.0.b} {a|b|"x"} {a~/} {a*/} {a?x} {a=~RE} [...] text

A value is a string, empty, or unknown. An empty value can be left out; with an unknown value there is no id,
because an id with a gap would name another resource. One exception: `id` may replace an unknown alternative,
because it names the resource itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum

from msgspec import Struct

from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import plain_text

_PLACEHOLDER = pattern(r"\{([^{}]*)\}")
_QUOTED = pattern(r'"([^"]*)"')
_VALUE = pattern(r"([a-z_][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?:(=~|[~*?])(.+))?", re.DOTALL)
_ID = ("id",)
_UNKNOWN = None

Step = str | int


class Way(Enum):
    """How a value becomes a string."""

    WHOLE = ""
    TAIL = "~"
    JOINED = "*"
    FLAG = "?"
    GROUP = "=~"


class Literal(Struct, frozen=True, kw_only=True):
    text: str


class Value(Struct, frozen=True, kw_only=True):
    path: tuple[Step, ...]
    way: Way = Way.WHOLE
    with_: str = ""
    """A separator, a text or a regular expression, depending on `way`."""

    @property
    def name(self) -> str:
        return ".".join(map(str, self.path))


class Alternatives(Struct, frozen=True, kw_only=True):
    alternatives: tuple[Literal | Value, ...]


class Group(Struct, frozen=True, kw_only=True):
    parts: tuple[Literal | Alternatives, ...]


class Template(Struct, frozen=True, kw_only=True):
    parts: tuple[Literal | Alternatives | Group, ...]

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes it reads, by the first part of their path."""
        return frozenset(str(value.path[0]) for part in self.parts for value in _values(part))


class Missing(Struct, frozen=True, kw_only=True):
    names: tuple[str, ...]
    """What is unknown, or empty although required."""


def parse(text: str) -> Template:
    """Raises ValueError for an invalid template."""
    parts: list[Literal | Alternatives | Group] = []
    for piece, grouped in _pieces(text):
        inner = tuple(_parts(piece))
        if grouped and not any(isinstance(part, Alternatives) for part in inner):
            raise ValueError(f"[{piece}] has no attribute that could be empty")
        parts.extend((Group(parts=inner),) if grouped else inner)
    if not parts:
        raise ValueError("an empty template")
    return Template(parts=tuple(parts))


def fill(template: Template, values: Mapping[str, object]) -> str | Missing:
    """A name that is missing in `values` is unknown; None is empty."""
    texts: list[str] = []
    missing: list[str] = []
    for part in template.parts:
        match part:
            case Literal():
                texts.append(part.text)
            case Group():
                inside = [_part(each, values) for each in part.parts]
                if _UNKNOWN in inside:
                    missing += (name for each in part.parts for name in _unknown_names(each, values))
                elif all(inside):
                    texts += (text for text in inside if text is not _UNKNOWN)
            case Alternatives():
                text = _part(part, values)
                if text:
                    texts.append(text)
                else:
                    missing += tuple(_unknown_names(part, values)) or (value.name for value in _values(part))
    return Missing(names=tuple(dict.fromkeys(missing))) if missing else "".join(texts)


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Split at brackets outside of placeholders; True for a part inside of brackets."""
    start, depth, grouped = 0, 0, False
    for place, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth or char not in "[]":
            continue
        if grouped != (char == "]"):
            raise ValueError(f"unbalanced brackets in {text}")
        if place > start:
            yield text[start:place], grouped
        start, grouped = place + 1, char == "["
    if depth or grouped:
        raise ValueError(f"unclosed bracket or brace in {text}")
    if start < len(text):
        yield text[start:], False


def _parts(text: str) -> Iterator[Literal | Alternatives]:
    end = 0
    for match in _PLACEHOLDER.finditer(text):
        if match.start() > end:
            yield Literal(text=text[end : match.start()])
        yield _alternatives(match[1])
        end = match.end()
    if end < len(text):
        yield Literal(text=text[end:])


def _alternatives(text: str) -> Alternatives:
    """A regular expression may contain `|`, so it must be the last alternative."""
    alternatives: list[Literal | Value] = []
    more = "|"
    while more:
        first, more, rest = text.partition("|")
        if "=~" in first:
            first, more = text, ""
        alternatives.append(_alternative(first))
        text = rest
    return Alternatives(alternatives=tuple(alternatives))


def _alternative(text: str) -> Literal | Value:
    if quoted := _QUOTED.fullmatch(text):
        return Literal(text=quoted[1])
    match = _VALUE.fullmatch(text)
    if match is None:
        raise ValueError(f"{{{text}}} is invalid")
    path = tuple(int(step) if step.isdigit() else step for step in match[1].split("."))
    value = Value(path=path, way=Way(match[2] or ""), with_=match[3] or "")
    if value.way is Way.GROUP and re.compile(value.with_).groups != 1:
        raise ValueError(f"{{{text}}} needs one group")
    return value


def _values(part: Literal | Alternatives | Group) -> Iterator[Value]:
    match part:
        case Literal():
            return
        case Alternatives():
            yield from (each for each in part.alternatives if isinstance(each, Value))
        case Group():
            for each in part.parts:
                yield from _values(each)


def _unknown_names(part: Literal | Alternatives, values: Mapping[str, object]) -> Iterator[str]:
    return (value.name for value in _values(part) if _read(value, values) is _UNKNOWN)


def _part(part: Literal | Alternatives, values: Mapping[str, object]) -> str | None:
    if isinstance(part, Literal):
        return part.text
    known = True
    for each in part.alternatives:
        text = each.text if isinstance(each, Literal) else _read(each, values)
        if text is _UNKNOWN:
            known = False
        elif text and (known or (isinstance(each, Value) and each.path == _ID)):
            return text
    return "" if known else _UNKNOWN


def _read(value: Value, values: Mapping[str, object]) -> str | None:
    current: object = values
    for step in value.path:
        if isinstance(current, Mapping):
            if step not in current:
                return _UNKNOWN
            current = current[step]
        elif isinstance(current, list) and isinstance(step, int):
            if step >= len(current):
                return ""
            current = current[step]
            if current is None:
                return _UNKNOWN
        else:
            return "" if current is None else _UNKNOWN
    return "" if current is None else _convert(current, value)


def _convert(current: object, value: Value) -> str | None:
    match value.way:
        case Way.FLAG:
            return (value.with_ if current else "") if isinstance(current, bool) else _UNKNOWN
        case Way.JOINED:
            texts = [plain_text(each) for each in current] if isinstance(current, list) else [_UNKNOWN]
            # In a list of a plan, null is an element that is not yet known.
            return _UNKNOWN if _UNKNOWN in texts else value.with_.join(text or "" for text in texts)
        case Way.TAIL:
            text = plain_text(current)
            return text.rpartition(value.with_)[2] if text is not _UNKNOWN else _UNKNOWN
        case Way.GROUP:
            text = plain_text(current)
            inside = re.search(value.with_, text) if text is not _UNKNOWN else None
            return _UNKNOWN if text is _UNKNOWN else (inside[1] or "" if inside is not None else "")
        case Way.WHOLE:
            return plain_text(current)
