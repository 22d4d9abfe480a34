"""Is the state that Terraform would see the one this stack had, or is another one left elsewhere?

A state that is lost never counts as new: Terraform would create everything again.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from holdfast.config.settings import DEFAULT_STORE
from holdfast.kernel.errors import Refused, UnknownOutcome
from holdfast.kernel.text import plural
from holdfast.plans.context import Project
from holdfast.plans.environment.backend_config import StateHome, managed_place, state_home, states_beside
from holdfast.plans.saved_plan import StateIdentity
from holdfast.stacks.stack import Stack
from holdfast.store.blobs import encode_name
from holdfast.store.run_store import RunStore, StateRecord
from holdfast.system import clock, files
from holdfast.terraform.statefile.model import State, StateFile, UnreadableState, read_state
from holdfast.terraform.workdirs.workdir import hold_unsaved_states


class Origin(NamedTuple):
    """What a stack was applied from, to recognise it under another name."""

    source: str = ""
    """Its own variables file, or the folder of its module."""
    variables: str = ""
    """A digest of its module and the values of its variables."""
    repository: str = ""
    """See `repository_of`."""


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


def require_same_state(stack: Stack, home: StateHome, record: StateRecord | None, prior: StateFile) -> None:
    """The state that Terraform reads must be the recorded one or a later version of it."""
    require_not_lost(stack, home, record, prior)
    if isinstance(prior, State):
        require_recorded(stack, record, prior, place=home.place)


def require_not_lost(stack: Stack, home: StateHome, record: StateRecord | None, prior: StateFile) -> None:
    """Refuse an empty state if the stack had resources: the backend moved or lost its content."""
    if record is None or record.resources == 0:
        return
    seen = identity(prior)
    if holds_something(prior) or seen.lineage == record.lineage:
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


def holds_something(state: StateFile) -> bool:
    return isinstance(state, State) and (state.managed is None or state.managed > 0)


def require_recorded(
    stack: Stack, record: StateRecord | None, state: State, *, place: str | None = None
) -> None:
    """A state that is older than the recorded one, or another one, is an unknown outcome."""
    what = difference_from_record(record, state, place=place)
    if what is None or record is None:
        return
    if state.lineage == record.lineage:
        restore = (
            f"Restore the newest version (holdfast state versions {stack.name}): holdfast state rollback "
            f"{stack.name} VERSION."
        )
    else:
        restore = "Correct the backend's settings, or restore the right state in the backend."
    raise UnknownOutcome(
        "HF-STATE-10",
        f"{stack.name}: {what}; Holdfast recorded serial {record.serial} of lineage {record.lineage} "
        f"with {_resources(record)}",
        hint=f"Find out who replaced it: a plan could create resources twice. {restore} To accept the state "
        f"as it is: holdfast state adopt {stack.name} --accept-older --reason TEXT",
    )


def difference_from_record(
    record: StateRecord | None, state: State, *, place: str | None = None
) -> str | None:
    """How a state fails to be the recorded one or a later version of it; None if it is. Pure.

    A state without resources that moved elsewhere, or was created anew, has lost nothing.
    """
    if record is None or not record.lineage:
        return None
    if record.resources == 0 and (not holds_something(state) or (place or record.place) != record.place):
        return None
    if state.lineage != record.lineage:
        return f"its state has another lineage ({state.lineage or 'none'}): it is not the state of this stack"
    if state.serial < record.serial:
        return f"its state is older (serial {state.serial}) than the recorded one"
    return None


def require_not_stale(stack: Stack, record: StateRecord | None, planned: StateIdentity) -> None:
    """A saved plan for an earlier state is stale, also where the backend was set back to that state."""
    if is_stale(record, planned):
        raise stale_plan(stack.name, record)


def is_stale(record: StateRecord | None, planned: StateIdentity) -> bool:
    if record is None or not record.lineage:
        return False
    if planned.lineage == record.lineage:
        return planned.serial < record.serial
    return not planned.lineage and record.resources != 0


def stale_plan(stack: str, record: StateRecord | None = None) -> Refused:
    by = f" (run {record.run} was applied)" if record is not None and record.run else ""
    return Refused(
        "HF-BUND-11",
        f"{stack}: the state changed after the plan was made{by}, so the plan was not applied",
        hint=f"Plan again: holdfast plan {stack}",
    )


def _contents_text(record: StateRecord) -> str:
    return f"{_resources(record)} (serial {record.serial})"


def _resources(record: StateRecord) -> str:
    """Not counted in an encrypted state."""
    return "resources" if record.resources is None else plural(record.resources, "resource")


def identity(state: StateFile) -> StateIdentity:
    match state:
        case State(lineage=lineage, serial=serial):
            return StateIdentity(lineage=lineage, serial=serial)
        case _:
            return StateIdentity(lineage="", serial=0)


def record(
    store: RunStore,
    stack: str,
    home: StateHome,
    state: StateFile,
    *,
    known: StateRecord | None = None,
    origin: Origin | None = None,
    run: str = "",
    product: str = "",
) -> None:
    """Record the state that was seen, so that its loss is noticed; `run` is the apply that wrote it.

    `known` is the last record, if the caller has read it: the same is not written again. A plan job records
    nothing: what it says about a state does not count.
    """
    if isinstance(state, State) and state.lineage and store.can_apply:
        _record(store, stack, home.place, state, known, origin, run, product)


def record_managed(store: RunStore, stack: str, state: State) -> None:
    _record(store, stack, managed_place(stack), state, None, None, "")


def _record(
    store: RunStore,
    stack: str,
    place: str,
    state: State,
    known: StateRecord | None,
    origin: Origin | None,
    run: str,
    product: str = "",
) -> None:
    if known is None and (origin is None or not run):
        known = store.last_seen(stack)
    before = Origin(known.source, known.variables, known.repository) if known is not None else Origin()
    source, variables, repository = origin or before
    seen = StateRecord(
        place=place,
        lineage=state.lineage,
        serial=state.serial,
        resources=state.managed,
        seen=clock.now().isoformat(),
        source=source,
        variables=variables,
        run=run or _writer(known, state),
        product=product or (known.product if known is not None else ""),
        # Only an apply takes a state over from another repository.
        repository=repository if run else before.repository or repository,
    )
    if known is None or structs.replace(known, seen=seen.seen) != seen:
        store.record(stack, seen)


def _writer(known: StateRecord | None, state: State) -> str:
    """The run that wrote this version, if it is the recorded one."""
    same = known is not None and (known.lineage, known.serial) == (state.lineage, state.serial)
    return known.run if known is not None and same else ""


def record_empty(store: RunStore, stack: str) -> None:
    seen = clock.now().isoformat()
    store.record(stack, StateRecord(place="none", lineage="", serial=0, resources=0, seen=seen))


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
    if any((root / DEFAULT_STORE).glob(f"states/{encode_name(stack.name)}/[!.]*")):
        move = f"holdfast state import {DEFAULT_STORE} --state {stack.name}"
        if not store.on_server:
            move = (
                f"with `store: {DEFAULT_STORE}` holdfast state pull {stack.name} > state.json; with the new "
                f"store holdfast state push {stack.name} state.json"
            )
        raise Refused(
            "HF-STATE-1",
            f"{stack.name}: {store.blobs.shown} has no state of it, but the folder {DEFAULT_STORE} has one",
            hint=f"Move it: {move}. If it is no longer needed, move the folder {DEFAULT_STORE} away.",
        )


def unrelated_states(root: Path, stack: Stack, home: StateHome) -> tuple[str, ...]:
    """Notes on states next to the code of a stack with a managed state."""
    beside = states_beside(root / stack.module) if home.managed else ()
    return tuple(
        f"{path.relative_to(root)} is next to the code but is not the state of this stack" for path in beside
    )


def state_files_read(project: Project, stack: Stack) -> frozenset[str]:
    """State files that it reads with `terraform_remote_state`: a saved plan has hashes of their outputs."""
    owners = {derived.stack for derived in stack.derived if derived.output is None}
    files_read = (
        state_home(
            *(other, project.code_backend(other), other.backend.settings if other.backend else {}),
            root=project.root,
        ).file
        for name in owners
        if (other := project.stacks.get(name)) is not None
    )
    return frozenset(
        file.relative_to(project.root).as_posix()
        for file in files_read
        if file is not None and file.is_relative_to(project.root)
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
            hint=f"Save it first: holdfast state push {stack.name}. To look at it: "
            f"holdfast state show {stack.name} --unsaved",
        )
