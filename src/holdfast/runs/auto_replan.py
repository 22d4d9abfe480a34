"""May a new plan be made and applied by itself after an apply that failed? Decided here, done in `stack_run`.

The same plan is never applied twice. What follows may do less than what was allowed, and never more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from holdfast.terraform.diagnostics import Diagnostic
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Change, OutputChange, Plan, ResourceChange
from holdfast.terraform.tables.transient import Phase, RefusedCreate, shipped_table

_SEEN_AGAIN = frozenset({"update", "delete", "read"})
"""After these the state knows the object: the next plan looks at it and sees what was done."""


class ApplyOutcome(Struct, frozen=True, kw_only=True):
    """How an apply ended that ended by itself, with its state saved."""

    errors: tuple[Diagnostic, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    """Addresses whose change ended in an error, and the action that did."""
    open: frozenset[str] = frozenset()
    """Started, with no result in the log."""
    done: frozenset[str] = frozenset()
    """Addresses of which a change, or one half of a replacement, was made."""
    steps_failed: bool = False
    """A provisioner or a provider's action failed: what it did is in no state."""


def may_replan(end: ApplyOutcome, plan: Plan, refused: tuple[RefusedCreate, ...]) -> tuple[str, ...] | None:
    """What says so, for a person to read; None when a person must look first."""
    if not end.errors or end.open or end.steps_failed:
        return None
    if any(action not in _SEEN_AGAIN and action != "create" for action in end.failed.values()):
        return None
    if creates_in_doubt(end, plan, refused):
        return None
    rows = [_says(one, end, plan, refused) for one in end.errors]
    return tuple(dict.fromkeys(row for row in rows if row is not None)) if None not in rows else None


def creates_in_doubt(end: ApplyOutcome, plan: Plan, refused: tuple[RefusedCreate, ...]) -> tuple[str, ...]:
    """Creates that failed and may have made their object all the same."""
    creates = [address for address, action in end.failed.items() if action not in _SEEN_AGAIN]
    return tuple(sorted(address for address in creates if not _shown_refused(address, end, plan, refused)))


def _shown_refused(address: str, end: ApplyOutcome, plan: Plan, refused: tuple[RefusedCreate, ...]) -> bool:
    """Every error of this address, and there is one, is known to come before anything is made."""
    errors = [one for one in end.errors if one.address == address]
    return bool(errors) and all(_refusal(one, plan, refused) is not None for one in errors)


def _refusal(error: Diagnostic, plan: Plan, refused: tuple[RefusedCreate, ...]) -> RefusedCreate | None:
    providers = {change.provider for change in plan.changes if change.address == error.address}
    text = _text(error)
    if shipped_table().permanent_row(text) is not None:
        return None
    return next((row for row in refused if any(row.matches(one, text) for one in providers)), None)


def _says(error: Diagnostic, end: ApplyOutcome, plan: Plan, refused: tuple[RefusedCreate, ...]) -> str | None:
    row = shipped_table().transient_row(_text(error), Phase.PLAN)
    if row is not None:
        return row.id
    if error.address is not None and end.failed.get(error.address) == "create":
        known = _refusal(error, plan, refused)
        return f"{known.provider}: {known.text}" if known is not None else None
    return None


def _text(error: Diagnostic) -> str:
    return f"{error.summary} {error.detail}"


# Is the new plan no more than the one before?


def within(old: Plan, new: Plan, *, done: frozenset[str] = frozenset()) -> bool:
    return not extra_changes(old, new, done=done)


def extra_changes(old: Plan, new: Plan, *, done: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """What the new plan would do that the old one did not say, or that is done already. Fewer is fine."""
    return tuple(dict.fromkeys(_beyond(old, new, done)))


def _beyond(old: Plan, new: Plan, done: frozenset[str]) -> Iterator[str]:
    if new.errored:
        yield "the plan itself"
    changes = {(one.address, one.deposed): one for one in old.changes}
    for change in new.changes:
        before = changes.get((change.address, change.deposed))
        again = change.address in done and change.kind is not ChangeKind.READ
        if change.has_effect and (before is None or again or not _same(before, change)):
            yield change.address
    outputs = {one.name: one for one in old.outputs}
    for output in new.outputs:
        if output.kind is not ChangeKind.NO_OP and not _same_output(outputs.get(output.name), output):
            yield f"output.{output.name}"
    invocations = {(one.address, one.triggered_by, one.event, one.deferred) for one in old.action_invocations}
    for one in new.action_invocations:
        if (one.address, one.triggered_by, one.event, one.deferred) not in invocations:
            yield one.address


def _same(old: ResourceChange, new: ResourceChange) -> bool:
    """The same object becomes the same by the same way. A move or an import may be done by now."""
    return (
        old.kind is new.kind
        and old.mode == new.mode
        and old.provider == new.provider
        and (not new.moved or new.previous_address == old.previous_address)
        and (new.importing is None or new.importing == old.importing)
        and _no_news(old.change, new.change)
    )


def _same_output(old: OutputChange | None, new: OutputChange) -> bool:
    """An output that was to be made may be there by now, and is then only changed."""
    if old is None or old.kind is ChangeKind.NO_OP or ChangeKind.UNKNOWN in {old.kind, new.kind}:
        return False
    return (old.kind is ChangeKind.DELETE) == (new.kind is ChangeKind.DELETE) and _no_news(
        old.change, new.change
    )


def _no_news(old: Change, new: Change) -> bool:
    """Every value is the one that was shown, or was shown as known only after the apply."""
    return _covered(_read(old.after), _read(old.after_unknown), _read(new.after), _read(new.after_unknown))


def _covered(old: Any, old_unknown: Any, new: Any, new_unknown: Any) -> bool:
    if old_unknown is True:
        return True
    if new_unknown is True:
        return False
    if isinstance(new, dict) and isinstance(old, dict):
        # What is not known yet is missing in the values, and stands only in the mask.
        names = {*old, *new, *_names(old_unknown), *_names(new_unknown)}
        return all(
            _covered(
                *(old.get(name, _ABSENT), _part(old_unknown, name)),
                *(new.get(name, _ABSENT), _part(new_unknown, name)),
            )
            for name in names
        )
    if isinstance(new, list) and isinstance(old, list):
        length = max(len(old), len(new))
        return len(old) == len(new) and all(
            _covered(old[index], _part(old_unknown, index), new[index], _part(new_unknown, index))
            for index in range(length)
        )
    return type(old) is type(new) and bool(old == new) and not _any(new_unknown)


_ABSENT = object()
"""A key that is not there is something else than one without a value."""


def _names(mask: Any) -> tuple[str, ...]:
    return tuple(mask) if isinstance(mask, dict) else ()


def _part(mask: Any, step: str | int) -> Any:
    if isinstance(mask, dict):
        return mask.get(str(step), False)
    if isinstance(mask, list) and isinstance(step, int):
        return mask[step] if step < len(mask) else False
    return mask is True


def _any(mask: Any) -> bool:
    if isinstance(mask, dict):
        return any(map(_any, mask.values()))
    return any(map(_any, mask)) if isinstance(mask, list) else mask is True


def _read(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)
