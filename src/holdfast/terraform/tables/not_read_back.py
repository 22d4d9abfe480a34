"""What providers never read back from their services, by the table `not_read_back.json` beside this file."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

WHOLE: Final = "*"
_WRITE_ONLY: Final = "_wo_version"


class NotReadBack(Struct, frozen=True, kw_only=True):
    """Attributes of a resource in which drift cannot be seen."""

    attributes: tuple[str, ...]
    """Paths; empty: the whole resource."""
    reason: str


class _Table(Struct, frozen=True):
    reasons: dict[str, str]
    types: dict[str, dict[str, list[str] | str]]


def not_read_back(type_: str, values: Mapping[str, Any]) -> Iterator[NotReadBack]:
    """Of a resource with these values in the state: only attributes that it has."""
    table = _table()
    for pattern, rows in table.types.items():
        if not fnmatchcase(type_, pattern):
            continue
        for kind, paths in rows.items():
            present = (
                () if isinstance(paths, str) else tuple(p for p in paths if is_set(values, p.split(".")))
            )
            if present or paths == WHOLE:
                yield NotReadBack(attributes=present, reason=table.reasons[kind])
    written = [name.removesuffix("_version") for name, value in values.items() if _is_version(name, value)]
    if written:
        yield NotReadBack(attributes=tuple(written), reason="a write-only argument is in no state")


def may_be_unread(type_: str, content: msgspec.Raw) -> bool:
    """Without reading the values."""
    return _WRITE_ONLY.encode() in bytes(content) or _is_listed(type_)


@functools.cache
def _is_listed(type_: str) -> bool:
    return any(fnmatchcase(type_, pattern) for pattern in _table().types)


def is_set(value: Any, path: Iterable[str]) -> bool:
    """Whether there is a value at the end of a path; a step into a list is one into each element."""
    steps = list(path)
    if isinstance(value, list):
        return any(is_set(item, steps) for item in value)
    if not steps:
        return value not in (None, "", [], {})
    return isinstance(value, Mapping) and steps[0] in value and is_set(value[steps[0]], steps[1:])


def _is_version(name: str, value: Any) -> bool:
    return name.endswith(_WRITE_ONLY) and value is not None


@functools.cache
def _table() -> _Table:
    data = Path(__file__).with_suffix(".json").read_bytes()
    return msgspec.json.decode(data, type=_Table)
