"""JSON with line and column of every value, which the standard library does not report."""

from __future__ import annotations

import bisect
import re
from json import JSONDecodeError, JSONDecoder

from msgspec import Struct

_BLANK = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_MAX_DEPTH = 200
_MAX_DIGITS = 400
"""Python refuses to convert thousands of digits; longer numbers are read as floats."""
_STRINGS = JSONDecoder()


class JsonValue(Struct, frozen=True, kw_only=True):
    """`content`: text, number, bool or None; a tuple of values; or, as members, pairs of key and value."""

    line: int
    column: int
    content: Content


class Members(Struct, frozen=True, kw_only=True):
    """In the order of the file, with duplicates: Terraform allows the same block twice."""

    pairs: tuple[tuple[JsonValue, JsonValue], ...]


def parse_json(text: str) -> JsonValue:
    """Raises json.JSONDecodeError, which has line and column."""
    reader = _Reader(text)
    value, end = reader.value(reader.skip(0), 0)
    end = reader.skip(end)
    if end != len(text):
        raise JSONDecodeError("Extra data", text, end)
    return value


Content = str | float | bool | None | tuple[JsonValue, ...] | Members


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = [0, *(newline.end() for newline in re.finditer("\n", text))]

    def skip(self, at: int) -> int:
        blank = _BLANK.match(self._text, at)
        return blank.end() if blank else at

    def _value_at(self, at: int, content: Content) -> JsonValue:
        row = bisect.bisect_right(self._lines, at)
        return JsonValue(line=row, column=at - self._lines[row - 1] + 1, content=content)

    def value(self, at: int, depth: int) -> tuple[JsonValue, int]:
        text = self._text
        first = text[at : at + 1]
        if depth > _MAX_DEPTH:
            raise JSONDecodeError("Nested too deeply", text, at)
        if first == "{":
            return self._object(at, depth + 1)
        if first == "[":
            return self._array(at, depth + 1)
        if first == '"':
            return self._string(at)
        for word, value in _WORDS.items():
            if text.startswith(word, at):
                return self._value_at(at, value), at + len(word)
        number = _NUMBER.match(text, at)
        if number is None:
            raise JSONDecodeError("Expecting value", text, at)
        value_ = float(number.group())
        whole = not (number.group(1) or number.group(2)) and number.end() - at < _MAX_DIGITS
        if whole or value_.is_integer():
            return self._value_at(at, int(number.group()) if whole else int(value_)), number.end()
        return self._value_at(at, value_), number.end()

    def _string(self, at: int) -> tuple[JsonValue, int]:
        text, end = _STRINGS.raw_decode(self._text, at)
        return self._value_at(at, text), end

    def _array(self, at: int, depth: int) -> tuple[JsonValue, int]:
        items: list[JsonValue] = []
        here = self.skip(at + 1)
        while self._text[here : here + 1] != "]":
            if items:
                here = self._comma(here)
            item, here = self.value(here, depth)
            items.append(item)
            here = self.skip(here)
        return self._value_at(at, tuple(items)), here + 1

    def _object(self, at: int, depth: int) -> tuple[JsonValue, int]:
        pairs: list[tuple[JsonValue, JsonValue]] = []
        here = self.skip(at + 1)
        while self._text[here : here + 1] != "}":
            if pairs:
                here = self._comma(here)
            if self._text[here : here + 1] != '"':
                raise JSONDecodeError("Expecting a key in double quotes", self._text, here)
            key, here = self._string(here)
            here = self.skip(here)
            if self._text[here : here + 1] != ":":
                raise JSONDecodeError("Expecting ':'", self._text, here)
            value, here = self.value(self.skip(here + 1), depth)
            pairs.append((key, value))
            here = self.skip(here)
        return self._value_at(at, Members(pairs=tuple(pairs))), here + 1

    def _comma(self, here: int) -> int:
        if self._text[here : here + 1] != ",":
            raise JSONDecodeError("Expecting ','", self._text, here)
        return self.skip(here + 1)
