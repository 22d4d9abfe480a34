"""The baseline: findings that a repository had when it was written, so that only new ones count. Pure.

An entry identifies a finding by rule, file, address and message, not by its line. It holds only what every
report shows: nothing of the code, and no digest from which a short secret could be guessed. How often a
finding may occur is its `count`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs

from holdfast.checks.model.interface import Severity
from holdfast.kernel.errors import UsageError
from holdfast.kernel.patterns import pattern

BASELINE = "holdfast.baseline.json"
"""Beside `holdfast.yaml`."""
_VERSION = 1
_LINE = pattern(r"\bline \d+")
_WRITE = "Write it again: holdfast check --baseline write"


class BaselineEntry(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    rule: str
    severity: Severity
    """A finding that became more severe is a new one."""
    file: str | None = None
    stack: str | None = None
    """Only of a finding without a file."""
    address: str | None = None
    message: str
    count: Annotated[int, Meta(ge=1)] = 1
    """How often, under every path that links give its file."""

    @property
    def identity(self) -> tuple[str | None, ...]:
        return self.file, self.stack, self.rule, self.address, self.message


class _Baseline(Struct, frozen=True, kw_only=True):
    version: int
    findings: tuple[BaselineEntry, ...] = ()


def line_independent(message: str) -> str:
    return _LINE.sub("line …", message)


def read_baseline(content: bytes) -> tuple[BaselineEntry, ...]:
    try:
        baseline = msgspec.json.decode(content, type=_Baseline)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError("HF-CHECK-7", f"{BASELINE} cannot be read: {error}", hint=_WRITE) from None
    if baseline.version != _VERSION:
        raise UsageError(
            "HF-CHECK-7",
            f"{BASELINE} has version {baseline.version}; this Holdfast reads version {_VERSION}",
            hint=_WRITE,
        )
    return baseline.findings


def write_baseline(entries: Iterable[BaselineEntry]) -> str:
    """One line for each entry, sorted, so that a review shows what was added and removed."""
    lines = [f"    {json.dumps(_written(entry), ensure_ascii=False)}" for entry in _joined(entries)]
    inside = "\n" + ",\n".join(lines) + "\n  " if lines else ""
    return f'{{\n  "version": {_VERSION},\n  "findings": [{inside}]\n}}\n'


def _written(entry: BaselineEntry) -> dict[str, Any]:
    fields = ((name, getattr(entry, name)) for name in entry.__struct_fields__)
    return {name: value for name, value in fields if value is not None and (name, value) != ("count", 1)}


def _joined(entries: Iterable[BaselineEntry]) -> list[BaselineEntry]:
    """Equal ones as one, with their count."""
    counts: Counter[BaselineEntry] = Counter()
    for entry in entries:
        counts[structs.replace(entry, count=1)] += entry.count
    joined = (structs.replace(entry, count=count) for entry, count in counts.items() if count > 0)
    return sorted(joined, key=lambda entry: (*(part or "" for part in entry.identity), entry.severity.rank))


def common_entries(
    entries: Iterable[BaselineEntry], base: Iterable[BaselineEntry]
) -> tuple[BaselineEntry, ...]:
    """The entries that count in the review of a change: those that its base has, as often as there."""
    remaining = RemainingEntries(base)
    taken = ((entry, remaining.take(entry)) for entry in _joined(entries))
    return tuple(structs.replace(entry, count=count) for entry, count in taken if count)


class RemainingEntries:
    """The entries that no finding has used yet."""

    def __init__(self, entries: Iterable[BaselineEntry]) -> None:
        self._by_identity: dict[tuple[str | None, ...], list[BaselineEntry]] = {}
        for entry in _joined(entries):
            self._by_identity.setdefault(entry.identity, []).append(entry)

    def take(self, entry: BaselineEntry) -> int:
        """Uses entries like this one that are at least as severe: as many as there are, at most its count."""
        known = self._by_identity.get(entry.identity, [])
        missing = entry.count
        for number, other in enumerate(known):
            if other.severity.is_at_least(entry.severity):
                used = min(missing, other.count)
                known[number] = structs.replace(other, count=other.count - used)
                missing -= used
        return entry.count - missing

    def take_whole(self, entry: BaselineEntry) -> bool:
        """Whether there are as many as its count; otherwise none is used."""
        known = self._by_identity.get(entry.identity, [])
        available = sum(other.count for other in known if other.severity.is_at_least(entry.severity))
        return available >= entry.count and self.take(entry) > 0

    def left(self) -> tuple[BaselineEntry, ...]:
        return tuple(_joined(entry for entries in self._by_identity.values() for entry in entries))
