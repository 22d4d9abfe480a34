"""Renames: the `moved` block for a plan that deletes a resource and creates an equal one. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from holdfast.kernel.patterns import pattern
from holdfast.kernel.text import plural
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan, ResourceChange
from holdfast.terraform.plan.value_text import encode, read_json
from holdfast.terraform.plan.values import any_true

_MOST_RESOURCES = 2000
"""Deleted or created: with more, nothing is compared."""
_STEP = pattern(r'module\.[\w-]+|\[(?:[0-9]+|"(?:[^"\\]|\\.)*")\]|(?:data\.)?[\w-]+\.[\w-]+')
_EMPTY: tuple[Any, ...] = (None, "", [], {}, False, 0)
"""Providers report an argument that is not set as any of these."""


class Move(NamedTuple):
    old: str
    new: str
    resources: int
    """How many resources it keeps."""

    @property
    def block(self) -> tuple[str, ...]:
        return ("moved {", f"  from = {self.old}", f"  to   = {self.new}", "}")

    @property
    def sentence(self) -> str:
        them = plural(self.resources, "resource")
        return (
            f"{self.old} looks renamed to {self.new}: {them} would be deleted and created again. "
            f"To keep {'it' if self.resources == 1 else 'them'}, add this to the code:"
        )


def suggested_moves(plan: Plan) -> tuple[Move, ...]:
    """One for each resource, or module, whose deleted resources equal created ones in all that is known."""
    deleted = [change for change in plan.changes if _is(change, ChangeKind.DELETE)]
    created = [change for change in plan.changes if _is(change, ChangeKind.CREATE)]
    if not (deleted and created) or max(len(deleted), len(created)) > _MOST_RESOURCES:
        return ()
    pairs = list(_pairs(deleted, created))
    if not pairs:
        return ()
    left = _prefixes(change for change in plan.changes if change.kind is not ChangeKind.DELETE)
    taken = _prefixes(change for change in plan.changes if change.kind is not ChangeKind.CREATE)
    moves = Counter(_shortest(old, new, left, taken) for old, new in pairs)
    return tuple(Move(old, new, number) for (old, new), number in moves.items())


def _is(change: ResourceChange, kind: ChangeKind) -> bool:
    plain = change.mode == "managed" and change.deposed is None and change.importing is None
    return plain and change.kind is kind


def _pairs(deleted: list[ResourceChange], created: list[ResourceChange]) -> Iterator[tuple[str, str]]:
    """Deleted and created resources of one type with equal values; a doubtful pair is left out."""
    by_type: dict[tuple[str, str], list[tuple[ResourceChange, dict[str, Any]]]] = defaultdict(list)
    for change in deleted:
        before = read_json(change.change.before)
        if isinstance(before, dict):
            by_type[change.type, change.provider].append((change, before))
    equal: dict[Hashable, tuple[list[ResourceChange], list[ResourceChange]]] = {}
    for change in created:
        known = _known(change)
        if all(value in _EMPTY for value in known.values()):
            continue
        kind = (change.type, change.provider)
        names = tuple(sorted(known))
        key = (kind, names, _digest(known, names))
        if key not in equal:
            digest = key[-1]
            same = [old for old, before in by_type[kind] if _digest(before, names) == digest]
            equal[key] = (same, [])
        equal[key][1].append(change)
    for old, new in equal.values():
        yield from _matches(old, new)


def _known(change: ResourceChange) -> dict[str, Any]:
    after, unknown = read_json(change.change.after), read_json(change.change.after_unknown)
    if not isinstance(after, dict) or not isinstance(unknown, dict):
        return {}
    return {name: value for name, value in after.items() if not any_true(unknown.get(name))}


def _digest(values: Mapping[str, Any], names: tuple[str, ...]) -> bytes:
    chosen = (values.get(name) for name in names)
    return encode([None if value in _EMPTY else value for value in chosen])


def _matches(old: list[ResourceChange], new: list[ResourceChange]) -> Iterator[tuple[str, str]]:
    """Of several equal ones, those with the same name and key, or at least the same key, belong together."""
    keys: tuple[Callable[[ResourceChange], Hashable], ...] = (
        lambda change: (change.name, change.index),
        lambda change: (change.module, change.index),
        lambda change: change.index,
        lambda _: None,
    )
    for key in keys:
        olds, news = Counter(map(key, old)), Counter(map(key, new))
        by_key = {key(change): change for change in new}
        for change in list(old):
            wanted = key(change)
            if olds[wanted] == news[wanted] == 1:
                yield change.address, by_key[wanted].address
                old = [other for other in old if other is not change]
                new = [other for other in new if other is not by_key[wanted]]


def _prefixes(changes: Iterable[ResourceChange]) -> frozenset[str]:
    """Their addresses, and those of everything they are in."""
    return frozenset(prefix for change in changes for prefix in _steps(change.address))


def _steps(address: str) -> list[str]:
    """`module.a`, `module.a["x"]`, `module.a["x"].b.c`"""
    return [address[: match.end()] for match in _STEP.finditer(address)]


def _shortest(old: str, new: str, left: frozenset[str], taken: frozenset[str]) -> tuple[str, str]:
    """The outermost module or resource that is renamed as a whole."""
    olds, news = _steps(old), _steps(new)
    for from_, to in zip(olds, news, strict=False) if len(olds) == len(news) else ():
        rest = old[len(from_) :] == new[len(to) :]
        if rest and from_ != to and from_ not in left and to not in taken:
            return from_, to
    return old, new
