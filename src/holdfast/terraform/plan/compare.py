"""Compares two values part by part, and lists element by element. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

from holdfast.terraform.addresses import Path, Step
from holdfast.terraform.plan.model import Change
from holdfast.terraform.plan.value_text import encode, opcodes, read_json
from holdfast.terraform.plan.values import any_true, item, part_of_mask

_LARGEST_BLOCK = 50
"""Elements of a list that are paired by likeness; more are paired in order."""


class Nothing(Enum):
    ABSENT = "the other side has this element or key"
    NEW = "the other side is all new"


NO_VALUE = (None, Nothing.ABSENT, Nothing.NEW)


class Sides(NamedTuple):
    """One part of a resource, before and after."""

    before: Any
    after: Any
    unknown: Any = False
    before_mask: Any = False
    after_mask: Any = False

    @property
    def secret(self) -> bool:
        return any_true(self.before_mask) or any_true(self.after_mask)

    @property
    def same(self) -> bool:
        """Nothing to show: equal values, none unknown, equally sensitive."""
        if self.unknown is True or any_true(self.unknown):
            return False
        if self.before in NO_VALUE and self.after in NO_VALUE:
            return self.before is self.after or Nothing.NEW in {self.before, self.after}
        return equal(self.before, self.after) and _equally_sensitive(self.before_mask, self.after_mask)

    def steps(self) -> list[tuple[Step | None, Step | None]] | None:
        """The parts to compare, as steps before and after; None: it is shown as one value."""
        if self.before_mask is True or self.after_mask is True or self.unknown is True:
            return None
        values = [value for value in (self.before, self.after) if value not in NO_VALUE]
        if all(isinstance(value, dict) for value in values or [self.unknown]):
            values += [self.unknown] if isinstance(self.unknown, dict) else []
            return [(key, key) for key in dict.fromkeys(key for value in values for key in value)]
        if not all(isinstance(value, list) for value in values or [self.unknown]):
            return None
        if isinstance(self.before, list) and isinstance(self.after, list) and not self.secret:
            return list(_alignment(self.before, self.after, self.unknown))
        values += [self.unknown] if isinstance(self.unknown, list) else []
        return [(number, number) for number in range(max(map(len, values)))]

    def inside(self, old: Step | None, new: Step | None) -> Sides:
        masks = (
            any_true(mask) if step is None else part_of_mask(mask, step)
            for mask, step in ((self.before_mask, old), (self.after_mask, new))
        )
        unknown = self.unknown.get(new) if isinstance(self.unknown, dict) else None
        if isinstance(self.unknown, list) and new is not None:
            unknown = item(self.unknown, new)
        return Sides(_part(self.before, old), _part(self.after, new), unknown, *masks)


def sides_of(change: Change) -> Sides:
    return Sides(
        read_json(change.before),
        read_json(change.after),
        read_json(change.after_unknown),
        read_json(change.before_sensitive),
        read_json(change.after_sensitive),
    )


def _equally_sensitive(before: Any, after: Any) -> bool:
    """Masks of one value, which may have different shapes."""
    if before == after:
        return True
    if isinstance(before, dict) and isinstance(after, dict):
        return all(
            _equally_sensitive(before.get(key), after.get(key)) for key in before.keys() | after.keys()
        )
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return all(map(_equally_sensitive, before, after))
    return before is not True and after is not True and any_true(before) == any_true(after)


def equal(before: Any, after: Any) -> bool:
    """Unlike `==`, `1` is not `true`."""
    if type(before) is not type(after):
        return False
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(equal(part, after[key]) for key, part in before.items())
    if isinstance(before, list):
        return len(before) == len(after) and all(map(equal, before, after))
    return bool(before == after)


def leaves(path: Path, sides: Sides) -> Iterator[tuple[Path, Sides]]:
    if sides.same:
        return
    steps, empty = sides.steps(), True
    for old, new in steps or ():
        step = new if new is not None else old
        for leaf in leaves((*path, step) if step is not None else path, sides.inside(old, new)):
            empty = False
            yield leaf
    if empty and (path or steps is None):
        # Also an empty value, and one of which only nulls are new.
        yield path, sides


def _part(value: Any, step: Step | None) -> Any:
    if isinstance(value, dict):
        return value.get(step, Nothing.ABSENT)
    if isinstance(value, list):
        return value[step] if isinstance(step, int) and step < len(value) else Nothing.ABSENT
    return Nothing.NEW


def _alignment(before: list[Any], after: list[Any], unknown: Any) -> Iterator[tuple[int | None, int | None]]:
    """Elements that were inserted or removed stay alone; the others are compared with their counterpart."""
    old, new = [encode(element) for element in before], [encode(element) for element in after]
    for tag, old_start, old_end, new_start, new_end in opcodes(old, new):
        olds, news = range(old_start, old_end), range(new_start, new_end)
        if tag == "replace":
            yield from _pairs(before, after, olds, news)
        else:
            yield from ((number, None) for number in olds if tag == "delete")
            yield from ((None, number) for number in news if tag == "insert")
            if tag == "equal" and any_true(unknown):
                yield from zip(olds, news, strict=True)
    if isinstance(unknown, list):
        yield from ((None, number) for number in range(len(after), len(unknown)))


def _pairs(
    before: list[Any], after: list[Any], olds: range, news: range
) -> Iterator[tuple[int | None, int | None]]:
    """Each element of the shorter block with the one most like it, in order."""
    few, many = sorted((olds, news), key=len)
    swapped = few is news and few is not olds
    at = 0
    for place, element in enumerate(few):
        room = len(many) - (len(few) - place)
        choices = range(at, room + 1) if len(many) <= _LARGEST_BLOCK else range(at, at + 1)
        best = max(
            choices,
            key=lambda number: _likeness(
                *(
                    (before[many[number]], after[element])
                    if swapped
                    else (before[element], after[many[number]])
                )
            ),
        )
        yield from ((many[number], None) if swapped else (None, many[number]) for number in range(at, best))
        yield (many[best], element) if swapped else (element, many[best])
        at = best + 1
    yield from ((many[number], None) if swapped else (None, many[number]) for number in range(at, len(many)))


def _likeness(before: Any, after: Any) -> int:
    """How many parts two objects have in common."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return 0
    return sum(key in after and equal(part, after[key]) for key, part in before.items())
