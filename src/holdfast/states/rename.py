"""A stack that got another name: move its state, or say that the state under the old name is retired."""

from __future__ import annotations

from msgspec import Struct, structs

from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import Place, Refused, UsageError
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext
from holdfast.plans.policies import require_owner_of_state
from holdfast.plans.renames import OrphanedState, orphaned_state
from holdfast.plans.workdir import StackWorkdir, open_workdir
from holdfast.runs import audit_trail
from holdfast.runs.claims import hold_claim
from holdfast.stacks.stack import Stack, may_be
from holdfast.states.operations import current_content
from holdfast.system import clock
from holdfast.system.repository import shown
from holdfast.terraform.statefile.model import State, read_state


class Renamed(Struct, frozen=True, kw_only=True):
    old: str
    serial: int
    resources: tuple[str, ...] | None
    """Addresses; None if they are not known."""


async def rename(context: ChangeContext, old: str, stack: Stack) -> Renamed:
    """Move everything that is stored under the old name. The state keeps its lineage and versions."""
    require_owner_of_state(context.project, context.store, stack, before=old)
    orphan = _require_gone(context, old)
    store, control, identity = context.store, context.control, context.identity
    async with (
        hold_claim(store, control, identity, _named(old), "rename"),
        hold_claim(store, control, identity, stack, "rename"),
        open_workdir(context, stack, for_state=True) as workdir,
    ):
        await _require_movable(context, workdir, orphan)
        serial = str(orphan.serial)
        with audit_trail.audited(
            identity, control.tell, stack.name, what="rename", before=old, serial=serial
        ):
            store.names.copy(old, stack.name)
            if orphan.record is not None:
                store.record(stack.name, structs.replace(orphan.record, place=workdir.home.place))
                store.forget(old)
            store.names.remove_old(old, stack.name)
    return Renamed(old=old, serial=orphan.serial, resources=orphan.resources)


async def _require_movable(context: ChangeContext, workdir: StackWorkdir, orphan: OrphanedState) -> None:
    """The new name must not have another state; one in a backend must be at the new name's place already."""
    stack, store = workdir.stack, context.store
    current = store.states.current(stack.name)
    if orphan.managed != workdir.home.managed:
        raise Refused(
            "HF-STATE-13",
            f"{orphan.name} and {stack.name} do not store their states in the same way: "
            f"{'managed by Holdfast' if orphan.managed else 'in a backend'}, and the other way round",
            hint="Rename the stack with its backend as it was, then move the state to the other backend.",
        )
    if orphan.managed:
        if current is not None and (current.lineage, current.serial) != (orphan.lineage, orphan.serial):
            raise _has_state(stack, current.serial)
        return
    if orphan.record is not None and orphan.record.place == workdir.home.place:
        return
    state = read_state(await current_content(context, workdir))
    if isinstance(state, State) and state.lineage == orphan.lineage and state.serial >= orphan.serial:
        return
    if isinstance(state, State) and state_continuity.holds_something(state):
        raise _has_state(stack, state.serial)
    raise Refused(
        "HF-STATE-13",
        f"{stack.name}: the state of {orphan.name} is still in its old place "
        f"({orphan.record.place if orphan.record is not None else 'unknown'}); the new one is "
        f"{workdir.home.place}",
        hint=f"With the old code: holdfast state pull {orphan.name} > state.json. With the new: holdfast "
        f"state push {stack.name} state.json, and then: holdfast state rename {orphan.name} {stack.name}",
    )


def _has_state(stack: Stack, serial: int) -> Refused:
    return Refused(
        "HF-STATE-13",
        f"{stack.name} already has a state of its own (serial {serial})",
        hint="Holdfast does not merge states. Move the resources with `moved` or `import` blocks.",
    )


async def retire(context: ChangeContext, old: str, *, reason: str) -> OrphanedState:
    """The state stays in the store and its resources exist, but no new stack is compared with it any more."""
    orphan = _require_gone(context, old)
    store, identity = context.store, context.identity
    require_owner_of_state(context.project, store, _named(old))
    async with hold_claim(store, context.control, identity, _named(old), "retire"):
        with audit_trail.audited(
            identity,
            context.control.tell,
            old,
            what="retire",
            reason=reason,
            break_glass=True,
            serial=str(orphan.serial),
            left=", ".join(orphan.resources or ()),
        ):
            at = clock.now().isoformat()
            store.names.retire(
                old, lineage=orphan.lineage, serial=orphan.serial, who=identity.who, reason=reason, at=at
            )
    return orphan


def _require_gone(context: ChangeContext, old: str) -> OrphanedState:
    if old in context.project.stacks or any(may_be(entry, old) for entry in context.project.stacks):
        raise UsageError(
            "HF-STATE-13",
            f"{old} is a stack of this repository",
            hint=f"To delete its resources: holdfast destroy {old}",
        )
    orphan = orphaned_state(context.store, old)
    if orphan is None:
        raise UsageError(
            "HF-STATE-22",
            f"the run store has no state with resources of a stack {old}",
            hint="List what is recorded: holdfast runs list",
        )
    if orphan.record is not None and orphan.is_from_other(context.project.repository):
        raise Refused(
            "HF-STATE-13",
            f"the state of {old} was last applied from {shown(orphan.record.repository)}",
            hint=f"Rename or retire it there. If it is the same repository under a new address: apply {old} "
            "once from a commit that has it, with an override.",
        )
    return orphan


def _named(name: str) -> Stack:
    """A stack that is gone: only its name is known."""
    return Stack(name=name, kind=RuleKind.NAMED, place=Place(file="holdfast.yaml"), module=".")
