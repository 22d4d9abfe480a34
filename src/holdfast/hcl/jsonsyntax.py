"""Terraform's JSON syntax, read into the same nodes as native syntax where the structure allows it.

JSON does not distinguish blocks from values. Blocks that Terraform itself defines are known by name;
everything else, including nested blocks of providers, is a value.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping
from functools import partial
from json import JSONDecodeError, JSONDecoder

from msgspec import Struct

from holdfast.hcl.native import read_template
from holdfast.hcl.nodes import Attribute, Block, Body, Expression, File, Lazy, Literal, Object, Tuple, number
from holdfast.kernel.errors import Place, Problem
from holdfast.kernel.patterns import pattern

Schema = Mapping[str, int]
"""The name of a block to the number of its labels."""

_TOP: Schema = {
    "action": 2,
    "check": 1,
    "data": 2,
    "ephemeral": 2,
    "import": 0,
    "locals": 0,
    "module": 1,
    "moved": 0,
    "output": 1,
    "provider": 1,
    "removed": 0,
    "resource": 2,
    "terraform": 0,
    "variable": 1,
}
_RESOURCE: Schema = {"connection": 0, "dynamic": 1, "lifecycle": 0, "provisioner": 1}
_INNER: Mapping[str, Schema] = {
    "check": {"assert": 0, "data": 2},
    "data": _RESOURCE,
    "encryption": {"key_provider": 2, "method": 2},
    "ephemeral": _RESOURCE,
    "lifecycle": {"postcondition": 0, "precondition": 0},
    "module": {"providers": 0},
    "output": {"precondition": 0},
    "provisioner": {"connection": 0},
    "removed": {"lifecycle": 0, "provisioner": 1},
    "resource": _RESOURCE,
    "terraform": {"backend": 1, "cloud": 0, "encryption": 0, "provider_meta": 1, "required_providers": 0},
    "variable": {"validation": 0},
}


def read_json(text: str, path: str, *, variables: bool) -> File:
    """`variables`: a `.tfvars.json` file, where everything is a value and strings are not templates."""
    try:
        document = parse_json(text)
    except JSONDecodeError as error:
        place = Place(file=path, line=error.lineno, column=error.colno)
        return _broken(path, "HF-HCL-3", f"not valid JSON: {error.msg}", place)
    except RecursionError:
        return _broken(path, "HF-HCL-3", "not valid JSON: nested too deeply", Place(file=path))
    tops = _objects(document)
    if tops is None:
        place = Place(file=path, line=document.line, column=document.column)
        return _broken(path, "HF-HCL-4", "the file must contain a single JSON object", place)
    if variables:
        attributes = (
            _attribute(key, value, path, literal=True)
            for top in tops
            for key, value in top.pairs
            if key.content != "//"
        )
        return File(path=path, body=Body(attributes=tuple(attributes)))
    return File(path=path, body=_body(tops, _TOP, path))


def _broken(path: str, code: str, message: str, place: Place) -> File:
    hint = "Terraform reads this file as JSON because of its file name."
    return File(
        path=path, body=Body(), problems=(Problem(code=code, message=message, hint=hint, place=place),)
    )


def _objects(value: JsonValue) -> tuple[Members, ...] | None:
    """An object, or a list of objects: Terraform accepts both for a body."""
    if isinstance(value.content, Members):
        return (value.content,)
    if isinstance(value.content, tuple):
        objects = [item.content for item in value.content if isinstance(item.content, Members)]
        return tuple(objects) if len(objects) == len(value.content) else None
    return None


def _body(objects: tuple[Members, ...], schema: Schema, path: str) -> Body:
    attributes: list[Attribute] = []
    blocks: list[Block] = []
    for members in objects:
        for key, value in members.pairs:
            name = str(key.content)
            if name == "//":
                continue
            if name in schema:
                blocks.extend(_blocks(name, (), schema[name], key, value, path))
            else:
                attributes.append(_attribute(key, value, path, literal=False))
    return Body(attributes=tuple(attributes), blocks=tuple(blocks))


def _blocks(
    kind: str, labels: tuple[str, ...], missing: int, key: JsonValue, value: JsonValue, path: str
) -> Iterator[Block]:
    objects = _objects(value)
    if objects is None:
        return
    for members in objects:
        if missing:
            for label, inner in members.pairs:
                if label.content != "//":
                    yield from _blocks(kind, (*labels, str(label.content)), missing - 1, label, inner, path)
        else:
            at = (key.line, key.column)
            body = partial(_body, (members,), _INNER.get(kind, {}), path)
            yield Block(path, *at, kind, labels, *at, Lazy(body))


def _attribute(key: JsonValue, value: JsonValue, path: str, *, literal: bool) -> Attribute:
    lazy = Lazy(partial(_expression, value, literal=literal))
    return Attribute(path, key.line, key.column, str(key.content), lazy)


def _expression(value: JsonValue, *, literal: bool) -> Expression:
    line, column, content = value.line, value.column, value.content
    if isinstance(content, Members):
        items = tuple(
            (_expression(key, literal=literal), _expression(item, literal=literal))
            for key, item in content.pairs
        )
        return Object(line, column, items)
    if isinstance(content, tuple):
        return Tuple(line, column, tuple(_expression(item, literal=literal) for item in content))
    if isinstance(content, str) and not literal and ("${" in content or "%{" in content):
        return read_template(content, line=line, column=column)
    return Literal(line, column, content)


# JSON with line and column of every value, which the standard library does not report

_BLANK = pattern(r"[ \t\r\n]*")
_NUMBER = pattern(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_MAX_DEPTH = 100
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
        digits = _NUMBER.match(text, at)
        if digits is None:
            raise JSONDecodeError("Expecting value", text, at)
        exact = number(digits.group())
        return self._value_at(at, float(digits.group()) if exact is None else exact), digits.end()

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
