"""Is the state that Terraform would see the one this stack had, or is another one left elsewhere?

A state that is lost never counts as new: Terraform would create everything again.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from holdfast.kernel.errors import Refused, UnknownOutcome
from holdfast.kernel.text import plural
from holdfast.plans.backend_config import StateHome, managed_place, states_beside
from holdfast.plans.context import Project
from holdfast.plans.saved_plan import StateIdentity
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore, StateRecord
from holdfast.system import clock, files
from holdfast.terraform.statefile.model import State, StateFile, UnreadableState, read_state
from holdfast.terraform.workdirs.workdir import hold_unsaved_states


def require_readable(stack: Stack, home: StateHome, record: StateRecord | None) -> None:
    """A local state that is empty, damaged or lost is an unknown outcome, never new."""
    if home.file is None:
        return
    if not home.file.exists():
        if record is not None and record.place == home.place and record.resources != 0:
            raise UnknownOutcome(
                "HF-STATE-3",
                f"{stack.name}: its state {home.file} is missing; it last had {_contents_text(record)}",
                hint=f"{_restore(stack)} A plan would create every resource again.",
            )
        return
    match read_state(home.file.read_bytes()):
        case State():
            return
        case UnreadableState(reason=reason):
            what = f"cannot be read: {reason}"
        case _:
            what = "is empty"
    if files.is_locked(home.file):
        return  # Terraform is writing it now, and reports the lock itself.
    raise UnknownOutcome(
        "HF-STATE-3",
        f"{stack.name}: its state {home.file} {what}",
        hint=f"A crash can leave such a file. {_restore(stack)} If it never had resources, delete the file.",
    )


def _restore(stack: Stack) -> str:
    return (
        f"Restore a version (holdfast state versions {stack.name}): holdfast state rollback {stack.name} "
        f"VERSION; or a file: holdfast state push {stack.name} FILE."
    )


def require_same_place(stack: Stack, home: StateHome, record: StateRecord | None, prior: StateFile) -> None:
    """Refuse an empty state if the stack had resources: the backend moved or lost its content."""
    if record is None or record.resources == 0:
        return
    seen = identity(prior)
    holds_something = isinstance(prior, State) and (prior.managed is None or prior.managed > 0)
    if holds_something or seen.lineage == record.lineage:
        return
    if record.place == home.place:
        raise UnknownOutcome(
            "HF-STATE-3",
            f"{stack.name}: its backend reports no state; it last had {_contents_text(record)}",
            hint="Check the backend: if the state exists, a plan would create every resource again. "
            f"If the state is lost: {_restore(stack)}",
        )
    raise Refused(
        "HF-STATE-2",
        f"{stack.name}: its backend now points to an empty location, while the old one "
        f"had {_contents_text(record)} (old: {record.place}; new: {home.place})",
        hint="Move the state first: with the old settings `holdfast state pull "
        f"{stack.name} > state.json`, with the new ones `holdfast state push {stack.name} state.json`. "
        f"To leave the old resources behind: holdfast state adopt {stack.name} --start-empty.",
    )


def _contents_text(record: StateRecord) -> str:
    count = record.resources  # None for an encrypted state.
    return f"{'resources' if count is None else plural(count, 'resource')} (serial {record.serial})"


def identity(state: StateFile) -> StateIdentity:
    match state:
        case State(lineage=lineage, serial=serial):
            return StateIdentity(lineage=lineage, serial=serial)
        case _:
            return StateIdentity(lineage="", serial=0)


def record(
    store: RunStore, stack: str, home: StateHome, state: StateFile, *, known: StateRecord | None = None
) -> None:
    """Record the state that was seen, so that its loss is noticed.

    `known` is the last record, if the caller has read it: the same is not written again. A plan job records
    nothing: what it says about a state does not count.
    """
    if isinstance(state, State) and state.lineage and store.can_apply:
        seen = _seen(home.place, state.lineage, state.serial, state.managed)
        if known is None or structs.replace(known, seen=seen.seen) != seen:
            store.record(stack, seen)


def record_managed(store: RunStore, stack: str, state: State) -> None:
    store.record(stack, _seen(managed_place(stack), state.lineage, state.serial, state.managed))


def record_empty(store: RunStore, stack: str) -> None:
    store.record(stack, _seen("none", "", 0, 0))


def _seen(place: str, lineage: str, serial: int, resources: int | None) -> StateRecord:
    seen = clock.now().isoformat()
    return StateRecord(place=place, lineage=lineage, serial=serial, resources=resources, seen=seen)


def require_no_leftover_state(root: Path, store: RunStore, stack: Stack, home: StateHome) -> None:
    """A managed state does not start empty while there is another state next to the code."""
    if not home.managed:
        return
    # A version that cannot be read is reported here: Terraform would ask the local state backend again.
    if store.states.current(stack.name) is not None or store.last_seen(stack.name) is not None:
        return
    beside = states_beside(root / stack.module)
    if beside:
        shown = ", ".join(str(path.relative_to(root)) for path in beside[:3])
        raise Refused(
            "HF-STATE-1",
            f"{stack.name}: its code has no backend, but there is a state file: {shown}",
            hint=f"Adopt it: holdfast state adopt {stack.name} (the file is renamed, never deleted).",
        )


def unrelated_states(root: Path, stack: Stack, home: StateHome) -> tuple[str, ...]:
    """Notes on states next to the code of a stack with a managed state."""
    beside = states_beside(root / stack.module) if home.managed else ()
    return tuple(
        f"{path.relative_to(root)} is next to the code but is not the state of this stack" for path in beside
    )


def store_errored_states(project: Project, store: RunStore, stack: Stack) -> None:
    """Store the states that killed runs of the stack left unsaved in their work directories."""
    with hold_unsaved_states(project.environment.home, project.root, stack.name) as unsaved:
        for file in unsaved:
            store_errored_state(store, stack, file)


def store_errored_state(store: RunStore, stack: Stack, file: Path) -> None:
    """Store an unsaved state encrypted, then remove the plaintext file."""
    store.keep_errored(stack.name, file.read_bytes())
    file.unlink()


def require_state_saved(store: RunStore, stack: Stack) -> None:
    """Nothing is planned before an unsaved state is saved."""
    if store.errored(stack.name) is not None:
        raise UnknownOutcome(
            "HF-STATE-5",
            f"{stack.name}: the last apply could not save its state; Holdfast stored it encrypted",
            hint=f"Save it first: holdfast state push {stack.name}",
        )
