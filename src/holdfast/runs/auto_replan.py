"""Whether a new plan may follow a failed apply automatically; `runs.executor` makes it.

The same plan is never applied twice. The new plan may do less than the one that was allowed, never more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from holdfast.terraform.diagnostics import Diagnostic
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import OutputChange, Plan, ResourceChange
from holdfast.terraform.plan.same_plan import uncovered_path
from holdfast.terraform.tables.transient import Phase, RefusedCreate, shipped_table

_SEEN_AGAIN = frozenset({"update", "delete", "read"})
"""After these the state has the resource: the next plan refreshes it and sees what was done."""


class ApplyOutcome(Struct, frozen=True, kw_only=True):
    """How an apply ended that exited by itself and saved its state."""

    errors: tuple[Diagnostic, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    """Addresses whose change failed, with the action."""
    open: frozenset[str] = frozenset()
    """Started, with no result in the log."""
    done: frozenset[str] = frozenset()
    """Addresses with a completed change, or one half of a replacement."""
    steps_failed: bool = False
    """A provisioner or a provider action failed: no state has what it did."""
    provisioned: frozenset[str] = frozenset()
    """Addresses whose provisioner started after a create: the resource is in the state, perhaps tainted."""


def may_replan(end: ApplyOutcome, plan: Plan, refused: tuple[RefusedCreate, ...]) -> tuple[str, ...] | None:
    """Why, for the user; None if a person must look first."""
    if not end.errors or end.open or end.steps_failed:
        return None
    if any(action not in _SEEN_AGAIN and action != "create" for action in end.failed.values()):
        return None
    if creates_in_doubt(end, plan, refused):
        return None
    rows = [_permission(error, end, plan, refused) for error in end.errors]
    return tuple(dict.fromkeys(row for row in rows if row is not None)) if None not in rows else None


def creates_in_doubt(end: ApplyOutcome, plan: Plan, refused: tuple[RefusedCreate, ...]) -> tuple[str, ...]:
    """Creates that failed but may have created their resource."""
    creates = [address for address, action in end.failed.items() if action not in _SEEN_AGAIN]
    return tuple(sorted(address for address in creates if not _is_refused(address, end, plan, refused)))


def _is_refused(address: str, end: ApplyOutcome, plan: Plan, refused: tuple[RefusedCreate, ...]) -> bool:
    """Whether every error of this address is known to occur before anything is created."""
    errors = [error for error in end.errors if error.address == address]
    return bool(errors) and all(_refusal(error, plan, refused) is not None for error in errors)


def _refusal(error: Diagnostic, plan: Plan, refused: tuple[RefusedCreate, ...]) -> RefusedCreate | None:
    providers = {change.provider for change in plan.changes if change.address == error.address}
    text = _text(error)
    if shipped_table().permanent_row(text) is not None:
        return None
    return next((row for row in refused if any(row.matches(provider, text) for provider in providers)), None)


def _permission(
    error: Diagnostic, end: ApplyOutcome, plan: Plan, refused: tuple[RefusedCreate, ...]
) -> str | None:
    row = shipped_table().transient_row(_text(error), Phase.PLAN)
    if row is not None:
        return row.id
    if error.address is not None and end.failed.get(error.address) == "create":
        refusal = _refusal(error, plan, refused)
        return f"{refusal.provider}: {refusal.text}" if refusal is not None else None
    return None


def _text(error: Diagnostic) -> str:
    return f"{error.summary} {error.detail}"


def extra_changes(old: Plan, new: Plan, *, done: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """What the new plan would do that the old one did not, or that is done already. Fewer is fine."""
    return tuple(dict.fromkeys(_extra_changes(old, new, done)))


def _extra_changes(old: Plan, new: Plan, done: frozenset[str]) -> Iterator[str]:
    if new.errored:
        yield "the plan itself"
    changes = {(change.address, change.deposed): change for change in old.changes}
    for change in new.changes:
        before = changes.get((change.address, change.deposed))
        again = change.address in done and change.kind is not ChangeKind.READ
        if change.has_effect and (before is None or again or not _same(before, change)):
            yield change.address
    outputs = {output.name: output for output in old.outputs}
    for output in new.outputs:
        if output.kind is not ChangeKind.NO_OP and not _same_output(outputs.get(output.name), output):
            yield f"output.{output.name}"
    shown = {action.key for action in old.action_invocations}
    yield from (action.address for action in new.action_invocations if action.key not in shown)


def _same(old: ResourceChange, new: ResourceChange) -> bool:
    """Whether the resource gets the same values in the same way. A move or an import may be done by now."""
    return (
        old.kind is new.kind
        and old.mode == new.mode
        and old.provider == new.provider
        and (not new.moved or new.previous_address == old.previous_address)
        and (new.importing is None or new.importing == old.importing)
        and uncovered_path(old.change, new.change) is None
    )


def _same_output(old: OutputChange | None, new: OutputChange) -> bool:
    """An output that was to be created may exist by now, and is then updated."""
    if old is None or old.kind is ChangeKind.NO_OP or ChangeKind.UNKNOWN in {old.kind, new.kind}:
        return False
    both_delete = (old.kind is ChangeKind.DELETE) == (new.kind is ChangeKind.DELETE)
    return both_delete and uncovered_path(old.change, new.change) is None
