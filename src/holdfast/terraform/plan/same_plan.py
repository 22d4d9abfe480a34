"""Does a new plan do exactly what another plan showed? Pure.

A value that was shown as known after the apply, or that came from a mock, matches any value. Everything else
must be equal: what is done to which resource, where it comes from, and the values before and after. A read of
data may be missing: with more values known, Terraform reads it during the plan. What a plan uses without
showing it is compared in `unshown`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.terraform.addresses import Path, path_text
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.configuration import FALSE
from holdfast.terraform.plan.model import ActionInvocation, Change, InvocationKey, Plan, ResourceChange
from holdfast.terraform.plan.value_text import read_json
from holdfast.terraform.plan.values import any_true

_SHORTEST_PART = 4
"""A shorter mock counts only as a whole value: it could be part of any text by chance."""
_VERBS = {
    ChangeKind.CREATE: "create",
    ChangeKind.READ: "read",
    ChangeKind.UPDATE: "update",
    ChangeKind.DELETE: "delete",
    ChangeKind.DELETE_THEN_CREATE: "replace",
    ChangeKind.CREATE_THEN_DELETE: "replace (creating the new resource first)",
    ChangeKind.FORGET: "remove from the state",
    ChangeKind.CREATE_THEN_FORGET: "create again and forget the old one of",
    ChangeKind.FORGET_THEN_CREATE: "forget and create again",
    ChangeKind.UNKNOWN: "change",
}


class Mocks:
    """Values that a plan was made with because the real ones did not exist yet."""

    def __init__(self, values: Iterable[object] = ()) -> None:
        self._whole = list(_parts_of(read_json(msgspec.json.encode(list(values)))))
        texts = {text for text in self._whole if isinstance(text, str) and len(text) >= _SHORTEST_PART}
        longest_first = sorted(texts, key=lambda text: (-len(text), text))
        self._texts = re.compile("|".join(map(re.escape, longest_first))) if texts else None

    def match(self, shown: Any, new: Any) -> bool:
        """Whether the shown value is a mock, or a text with mocks in it whose other parts are equal."""
        if any(type(shown) is type(mock) and shown == mock for mock in self._whole):
            return True
        if self._texts is None or not isinstance(shown, str) or not isinstance(new, str):
            return False
        parts = self._texts.split(shown)
        return len(parts) > 1 and _fits(parts, new)


def _parts_of(mock: Any) -> Iterator[Any]:
    """A mock and everything in it that can stand alone; `true`, `false` and null say too little."""
    if isinstance(mock, dict | list):
        if mock:
            yield mock
        for part in mock.values() if isinstance(mock, dict) else mock:
            yield from _parts_of(part)
    elif mock is not None and not isinstance(mock, bool) and mock != "":
        yield mock


def _fits(parts: list[str], text: str) -> bool:
    """Whether the text consists of these parts, in this order, with anything between them."""
    first, *middle, last = parts
    at = len(first) if text.startswith(first) else -1
    for part in middle:
        at = text.find(part, at) + len(part) if at >= 0 and part in text[at:] else -1
    return 0 <= at <= len(text) - len(last) and text.endswith(last)


NO_MOCKS = Mocks()


def plan_differences(shown: Plan, new: Plan, mocks: Mocks = NO_MOCKS) -> tuple[str, ...]:
    """What the new plan does otherwise, the most dangerous first: `it would also delete lab_object.a`."""
    if new.errored:
        return ("Terraform could not complete the new plan",)
    differences = [
        *_resource_differences(shown, new, mocks),
        *_output_differences(shown, new, mocks),
        *_action_differences(shown, new, mocks),
    ]
    return tuple(
        dict.fromkeys(text for _, text in sorted(differences, key=lambda difference: not difference[0]))
    )


_Differences = Iterator[tuple[bool, str]]
"""Whether a resource is destroyed or forgotten, and the clause."""


def _resource_differences(shown: Plan, new: Plan, mocks: Mocks) -> _Differences:
    before, after = _effects(shown), _effects(new)
    for key, change in after.items():
        old = before.get(key)
        if old is None:
            yield change.loses, f"it would also {_verb(change)} {_name(change)}"
        elif old.actions != change.actions:
            yield change.loses, f"it would {_verb(change)} {_name(change)}, not {_verb(old)} it"
        elif (what := _other_values(old, change, mocks)) is not None:
            yield change.loses, f"it would {_verb(change)} {_name(change)} with {what}"
    for key, old in before.items():
        if key not in after and old.kind is not ChangeKind.READ:
            yield False, f"it would no longer {_verb(old)} {_name(old)}"
    postponed = {(deferred.change.address, deferred.change.deposed) for deferred in shown.deferred}
    for deferred in new.deferred:
        if (deferred.change.address, deferred.change.deposed) not in postponed:
            yield False, f"it would also postpone {deferred.change.address}"


_Key = tuple[str, str | None, bool]


def _effects(plan: Plan) -> Mapping[_Key, ResourceChange]:
    """A duplicate key would hide a change: Terraform writes none, and two are never the same plan."""
    effects: dict[_Key, ResourceChange] = {}
    for effect in plan.effects:
        change, count = effect.change, 0
        while (key := (f"{change.address}{'#' * count}", change.deposed, effect.state_only)) in effects:
            count += 1
        effects[key] = change
    return effects


def _verb(change: ResourceChange) -> str:
    if change.kind is ChangeKind.NO_OP:
        return "import" if change.importing is not None else "move"
    return _VERBS[change.kind]


def _name(change: ResourceChange) -> str:
    return f"{change.address} (deposed {change.deposed})" if change.deposed is not None else change.address


def _other_values(old: ResourceChange, new: ResourceChange, mocks: Mocks) -> str | None:
    """Which part of a change with the same actions differs; None if none does."""
    if (old.mode, old.provider, old.type) != (new.mode, new.provider, new.type):
        return "another provider"
    if old.previous_address != new.previous_address:
        return f"another previous address ({new.previous_address or 'none'})"
    if not _same_import(old, new, mocks):
        return f"another import ({new.importing or 'none'})"
    if not set(new.replace_paths) <= set(old.replace_paths):
        return "another reason to replace it"
    known = read_json(FALSE)
    path = _first_difference(read_json(old.change.before), known, read_json(new.change.before), known)
    if path is not None:
        return f"another current value of {_path(path)}"
    path = uncovered_path(old.change, new.change, mocks)
    return f"another value of {_path(path)}" if path is not None else None


def _path(path: Path) -> str:
    return path_text(path) or "its attributes"


def _same_import(old: ResourceChange, new: ResourceChange, mocks: Mocks) -> bool:
    then, now = old.importing, new.importing
    if then is None or now is None:
        return then is now
    return then.unknown or then == now or (then.identity == now.identity and mocks.match(then.id, now.id))


def _output_differences(shown: Plan, new: Plan, mocks: Mocks) -> _Differences:
    """An output that was unknown may turn out to have the value it has; that is no change of a resource."""
    for name in dict.fromkeys((*shown.output_changes, *new.output_changes)):
        old, now = shown.output_changes.get(name), new.output_changes.get(name)
        if old is None or now is None:
            changes = (change for change in (old, now) if change is not None)
            same = all(change.actions == ("no-op",) for change in changes)
        else:
            removed = ("delete" in old.actions) == ("delete" in now.actions)
            same = removed and uncovered_path(old, now, mocks) is None
        if not same:
            yield now is None or "delete" in now.actions, f"it would set output {name} to another value"


def _action_differences(shown: Plan, new: Plan, mocks: Mocks) -> _Differences:
    before, after = (Counter(action.key for action in plan.action_invocations) for plan in (shown, new))
    for key in after - before:
        yield False, f"it would also invoke {key[0]}"
    for key in before - after:
        yield False, f"it would no longer invoke {key[0]}"
    if before != after:
        return
    shown_by_key = _by_invocation(shown.action_invocations)
    for key, actions in _by_invocation(new.action_invocations).items():
        for old, now in zip(shown_by_key[key], actions, strict=True):
            values = (read_json(old.config_values), read_json(old.config_unknown))
            path = _first_difference(
                *values, read_json(now.config_values), read_json(now.config_unknown), mocks
            )
            if path is not None:
                yield False, f"it would invoke {now.address} with another value of {_path(path)}"


def _by_invocation(actions: Iterable[ActionInvocation]) -> dict[InvocationKey, list[ActionInvocation]]:
    grouped: dict[InvocationKey, list[ActionInvocation]] = {}
    for action in actions:
        grouped.setdefault(action.key, []).append(action)
    return grouped


# Values


def same_value(shown: Any, new: Any, mocks: Mocks = NO_MOCKS) -> bool:
    """Of two known values."""
    known = read_json(FALSE)
    return _first_difference(shown, known, new, known, mocks) is None


def uncovered_path(shown: Change, new: Change, mocks: Mocks = NO_MOCKS) -> Path | None:
    """Where a new value is not the one that was shown, nor was shown as unknown; None: nowhere."""
    old = read_json(shown.after), read_json(shown.after_unknown)
    return _first_difference(*old, read_json(new.after), read_json(new.after_unknown), mocks)


def _first_difference(
    old: Any, old_unknown: Any, new: Any, new_unknown: Any, mocks: Mocks = NO_MOCKS, path: Path = ()
) -> Path | None:
    if old_unknown is True or (new_unknown is not True and mocks.match(old, new)):
        return None
    if new_unknown is True:
        return path
    steps: Iterable[str | int] | None = None
    if isinstance(old, dict) and isinstance(new, dict):
        # Unknown values are missing in the values, and only in the mask.
        steps = dict.fromkeys((*old, *new, *_names(old_unknown), *_names(new_unknown)))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        steps = range(len(old))
    if steps is None:
        return None if type(old) is type(new) and old == new and not any_true(new_unknown) else path
    for step in steps:
        sides = (_item(old, step), _mask(old_unknown, step), _item(new, step), _mask(new_unknown, step))
        if (different := _first_difference(*sides, mocks, (*path, step))) is not None:
            return different
    return None


_ABSENT = object()
"""A missing key differs from a null value."""


def _item(value: Any, step: Any) -> Any:
    return value[step] if isinstance(value, list) else value.get(step, _ABSENT)


def _names(mask: Any) -> tuple[str, ...]:
    return tuple(mask) if isinstance(mask, dict) else ()


def _mask(mask: Any, step: str | int) -> Any:
    if isinstance(mask, dict):
        return mask.get(str(step), False)
    if isinstance(mask, list) and isinstance(step, int):
        return mask[step] if step < len(mask) else False
    return mask is True
