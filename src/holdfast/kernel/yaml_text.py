"""Values as YAML that every parser reads alike, whether of version 1.1 or 1.2: every text is in quotes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_INDENT: Final = "  "
_PLAIN_KEY: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_RESERVED: Final = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
_UNPRINTABLE: Final = (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF)
_ESCAPED: Final = {chr(number): f"\\u{number:04x}" for number in _UNPRINTABLE}


def yaml_text(value: Mapping[str, object]) -> str:
    """In block style, in the order of the mapping."""
    return "".join(f"{line}\n" for line in _mapping(value, "")) if value else "{}\n"


def quoted(text: str) -> str:
    """JSON's quotes are YAML's, except for a few characters that count as line breaks there."""
    return "".join(_ESCAPED.get(character, character) for character in json.dumps(text, ensure_ascii=False))


def scalar(value: object) -> str:
    match value:
        case None | bool() | int():
            return json.dumps(value)
        case float():
            if not math.isfinite(value):
                raise ValueError("a number that is not finite")
            text = repr(value)
            # YAML 1.1 takes `1e+21` for text.
            return text if "." in text or "e" not in text else text.replace("e", ".0e")
        case str():
            return quoted(value)
        case _:
            raise TypeError(f"{type(value).__name__} is no value of YAML")


def key_text(key: str) -> str:
    plain = key and set(key) <= _PLAIN_KEY and key[0].isalpha() and key.lower() not in _RESERVED
    return key if plain else quoted(key)


def _mapping(value: Mapping[str, object], indent: str) -> Iterator[str]:
    for key, inner in value.items():
        yield from _entry(f"{indent}{key_text(key)}:", inner, indent)


def _entry(start: str, value: object, indent: str) -> Iterator[str]:
    match value:
        case Mapping() if value:
            yield start
            yield from _mapping(value, indent + _INDENT)
        case list() | tuple() if value:
            yield start
            yield from _items(value, indent + _INDENT)
        case _:
            yield f"{start} {_empty_or_scalar(value)}"


def _items(value: Sequence[object], indent: str) -> Iterator[str]:
    for item in value:
        match item:
            case Mapping() if item:
                yield from _first_after_dash(_mapping(item, indent + _INDENT), indent)
            case list() | tuple() if item:
                yield from _first_after_dash(_items(item, indent + _INDENT), indent)
            case _:
                yield f"{indent}- {_empty_or_scalar(item)}"


def _first_after_dash(lines: Iterator[str], indent: str) -> Iterator[str]:
    yield f"{indent}- {next(lines)[len(indent) + len(_INDENT) :]}"
    yield from lines


def _empty_or_scalar(value: object) -> str:
    match value:
        case Mapping():
            return "{}"
        case list() | tuple():
            return "[]"
        case _:
            return scalar(value)
