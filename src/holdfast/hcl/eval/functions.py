"""Terraform's functions, as far as their result is certain. Pure.

Each takes known arguments and returns a value or an unknown; for arguments it cannot handle it may raise
one of `ERRORS`, which counts as unknown. The result of a function that is not in the table is unknown:
nothing is guessed. No function returns much more than it was given: what could grow is measured first.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Final

from holdfast.hcl.eval.values import SetOf, bool_of, number_of, pairs, set_of, text_of, unknown_of
from holdfast.hcl.reader import UNKNOWN, Unknown
from holdfast.kernel.patterns import pattern

ERRORS: Final = (ArithmeticError, LookupError, StopIteration, TypeError, ValueError)
LONGEST_TEXT: Final = 1_000_000
_WIDEST: Final = 1000
_VERB = pattern(r"%(0\d+)?([a-zA-Z%])")


def _text(value: object) -> str:
    text = text_of(value)
    if text is None:
        raise TypeError("not a simple value")
    return text


def _list(value: object) -> tuple[object, ...]:
    if not isinstance(value, tuple):
        raise TypeError("not a list")
    return value


def _map(value: object) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise TypeError("not a map")
    return value


def _format(spec: object, *arguments: object) -> object:
    left = iter(arguments)
    understood = True

    def fill(match: re.Match[str]) -> str:
        nonlocal understood
        padding, verb = match.groups()
        if verb == "%":
            return "%"
        if verb not in "svd" or (padding and verb != "d"):
            understood = False
            return ""
        value = next(left)
        width = int(padding or 0)
        if width > _WIDEST or (verb == "d" and (isinstance(value, bool) or not isinstance(value, int))):
            raise TypeError("not a whole number, or too wide")
        return _text(value).zfill(width)

    template = _text(spec)
    formatted = _VERB.sub(fill, template)
    complete = next(left, UNKNOWN) is UNKNOWN and "%" not in _VERB.sub("", template)
    return formatted if understood and complete else UNKNOWN


def _join(separator: object, first: object, *more: object) -> object:
    lists = (first, *more)
    items = [_text(item) for value in lists for item in _list(value)]
    between = _text(separator)
    if sum(map(len, items)) + len(between) * len(items) > LONGEST_TEXT:
        return UNKNOWN
    return between.join(items)


def _concat(first: object, *more: object) -> object:
    lists = (first, *more)
    return UNKNOWN if SetOf in map(type, lists) else tuple(item for value in lists for item in _list(value))


def _merge(*maps: object) -> object:
    return {key: item for value in maps if value is not None for key, item in _map(value).items()}


def _lookup(value: object, key: object, *default: object) -> object:
    items = _map(value)
    name = _text(key)
    return items[name] if name in items else default[0]


def _coalesce(*values: object) -> object:
    """The arguments must have one type, to which Terraform converts them."""
    types = {type(value) for value in values if value is not None}
    if types - {str, int, float} and types - {str, bool} and len(types) > 1:
        return UNKNOWN
    return next(value for value in values if value is not None and value != "")


def _replace(text: object, old: object, new: object) -> object:
    pattern, subject, put = _text(old), _text(text), _text(new)
    if pattern.startswith("/") and pattern.endswith("/") and len(pattern) > 1:
        return UNKNOWN
    longest = len(subject) + subject.count(pattern) * len(put)
    return subject.replace(pattern, put) if longest <= LONGEST_TEXT else UNKNOWN


def _basename(path: object) -> object:
    text = _text(path)
    return posixpath.basename(text.rstrip("/")) or ("/" if text else ".")


def _dirname(path: object) -> object:
    """Go's filepath.Dir: what precedes the last slash, normalised."""
    return posixpath.normpath(_text(path).rpartition("/")[0] or ("/" if _text(path)[:1] == "/" else "."))


def _is_simple(text: str) -> bool:
    """Whether each code point is a character of its own, as Terraform counts them."""
    return text.isascii() and "\r\n" not in text


def _length(value: object) -> object:
    if isinstance(value, str):
        return len(value) if _is_simple(value) else UNKNOWN
    if isinstance(value, tuple | Mapping):
        return len(value)
    raise TypeError("no length")


def _flatten(value: object) -> object:
    items: list[object] = []
    for item in _list(value):
        inner = _flatten(item) if isinstance(item, tuple) else item
        if isinstance(inner, Unknown):
            return unknown_of(inner)
        items.extend(inner if isinstance(inner, tuple) else (inner,))
    return tuple(items)


def _distinct(value: object) -> object:
    items = [item for item in _list(value) if isinstance(item, str)]
    return tuple(dict.fromkeys(items)) if len(items) == len(_list(value)) else UNKNOWN


def _contains(value: object, wanted: object) -> object:
    items = _list(value)
    if not isinstance(wanted, str) or not all(isinstance(item, str) for item in items):
        return UNKNOWN
    return wanted in items


def _element(value: object, index: object) -> object:
    items = _list(value)
    at = number_of(index)
    if isinstance(value, SetOf) or not isinstance(at, int) or at < 0:
        return UNKNOWN
    return items[at % len(items)]


def _substr(value: object, offset: object, length: object) -> object:
    text, start, size = _text(value), number_of(offset), number_of(length)
    if not _is_simple(text) or not isinstance(start, int) or not isinstance(size, int):
        return UNKNOWN
    if size == 0 and start < 0:
        size = -1  # Terraform returns the rest of the text.
    start = max(start + len(text), 0) if start < 0 else start
    return text[start:] if size < 0 else text[start : start + size]


def _zipmap(names: object, items: object) -> object:
    if isinstance(items, SetOf):
        return UNKNOWN
    return dict(zip(map(_text, _list(names)), _list(items), strict=True))


def _of_ascii(change: Callable[[str], str]) -> Callable[[object], object]:
    """Outside ASCII, Go and Python disagree about white space and letters."""

    def apply(value: object) -> object:
        text = _text(value)
        return change(text) if text.isascii() else UNKNOWN

    return apply


FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "basename": _basename,
    "coalesce": _coalesce,
    "compact": lambda value: tuple(_text(item) for item in _list(value) if item not in (None, "")),
    "concat": _concat,
    "contains": _contains,
    "dirname": _dirname,
    "distinct": _distinct,
    "element": _element,
    "endswith": lambda text, end: _text(text).endswith(_text(end)),
    "flatten": _flatten,
    "format": _format,
    "join": _join,
    "keys": lambda value: tuple(key for key, _ in pairs(_map(value)) or ()),
    "length": _length,
    "lookup": _lookup,
    "lower": _of_ascii(str.lower),
    "merge": _merge,
    "nonsensitive": lambda value: value,
    "replace": _replace,
    "sensitive": lambda value: value,
    "setunion": lambda first, *more: set_of(item for value in (first, *more) for item in _list(value)),
    "sort": lambda value: tuple(sorted(_text(item) for item in _list(value))),
    "split": lambda separator, text: tuple(_text(text).split(_text(separator))),
    "startswith": lambda text, start: _text(text).startswith(_text(start)),
    "substr": _substr,
    "tobool": bool_of,
    "tolist": lambda value: tuple(_list(value)),
    "tomap": lambda value: dict(_map(value)),
    "tonumber": number_of,
    "toset": lambda value: set_of(_list(value)),
    "tostring": lambda value: None if value is None else _text(value),
    "trimprefix": lambda text, start: _text(text).removeprefix(_text(start)),
    "trimspace": _of_ascii(lambda text: text.strip(" \t\n\v\f\r")),
    "trimsuffix": lambda text, end: _text(text).removesuffix(_text(end)),
    "upper": _of_ascii(str.upper),
    "values": lambda value: tuple(item for _, item in pairs(_map(value)) or ()),
    "zipmap": _zipmap,
}

PARTIAL = frozenset(
    (
        *("concat", "element", "flatten", "keys", "length", "lookup", "merge", "nonsensitive", "sensitive"),
        *("tolist", "tomap", "values", "zipmap"),
    )
)
"""Functions that accept partly unknown arguments: they only move elements."""
