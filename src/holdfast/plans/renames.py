"""Is a new stack one that the run store knows under another name?

A renamed stack starts without a state, and its first apply would create everything a second time. While the
store has a state with resources whose stack is gone, a new stack is compared with it: by Git, by where it is
defined, by the values of its variables and by its planned values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.audit.entry import Entry
from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import Refused
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import ChangeContext, Project
from holdfast.plans.environment.backend_config import StateHome, managed_place
from holdfast.plans.state_continuity import Origin
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore, StateRecord
from holdfast.system import git
from holdfast.system.repository import is_other
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.statefile.model import State, StateResource, read_state

_DYNAMIC = {"value", "type"}
"""How a state writes a value whose type the schema leaves open."""
_FIELDS = msgspec.json.Decoder(dict[str, Any] | None)


class OrphanedState(MaskedStruct, frozen=True, kw_only=True):
    """A state with resources whose stack is not in the repository."""

    name: str
    record: StateRecord | None
    state: State | None
    """Its content, or that of its last backup; None if neither is known."""
    lineage: str
    serial: int

    @property
    def managed(self) -> bool:
        return self.record is None or self.record.place == managed_place(self.name)

    def is_from_other(self, repository: str) -> bool:
        """Whether it is known to be the state of another repository."""
        return self.record is not None and is_other(self.record.repository, repository)

    @property
    def resources(self) -> tuple[str, ...] | None:
        """Addresses, as far as they are known."""
        if self.state is None or self.state.resources is None:
            return None
        return tuple(resource.address for resource in self.state.resources if resource.mode == "managed")


def orphaned_state(store: RunStore, name: str) -> OrphanedState | None:
    """None if nothing is known of the name, or its state has no resources."""
    record, current = store.last_seen(name), store.states.current(name)
    if current is not None and (record is None or record.place == managed_place(name)):
        state = read_state(current.state)
        known = state if isinstance(state, State) else None
        if current.resources == 0:
            return None
        return OrphanedState(
            name=name, record=record, state=known, lineage=current.lineage, serial=current.serial
        )
    if record is None or record.resources == 0:
        return None
    backup = store.backups.last(name)
    copy = read_state(backup.state if backup is not None and backup.lineage == record.lineage else b"")
    known = copy if isinstance(copy, State) else None
    return OrphanedState(name=name, record=record, state=known, lineage=record.lineage, serial=record.serial)


def orphaned_states(project: Project, store: RunStore) -> tuple[OrphanedState, ...]:
    """Without retired ones, and without those that a stack of the repository has at the same place."""
    return project.code.once("orphaned states", lambda: tuple(_orphaned_states(project, store)))


def _orphaned_states(project: Project, store: RunStore) -> Iterator[OrphanedState]:
    names = store.names.known - project.stacks.keys()
    if not names:
        return
    lineages = {record.lineage for name in project.stacks if (record := store.last_seen(name)) is not None}
    for name in sorted(names):
        orphan = orphaned_state(store, name)
        if orphan is None or orphan.lineage in lineages:
            continue
        if not store.names.is_retired(name, lineage=orphan.lineage, serial=orphan.serial):
            yield orphan


def record_at(project: Project, store: RunStore, home: StateHome) -> StateRecord | None:
    """For a new name: the record of the stack that is gone and had its state at this place."""
    if home.managed:
        return None
    names = sorted(store.names.known - project.stacks.keys())
    records = (record for name in names if (record := store.last_seen(name)) is not None)
    return next((record for record in records if record.place == home.place), None)


def origin_of(project: Project, stack: Stack, plan: Plan, last_seen: StateRecord | None) -> Origin:
    known = last_seen.repository if last_seen is not None and not plan.has_changes else ""
    digest = hashlib.sha256(stack.module.encode())
    for name, variable in sorted(plan.variables.items()):
        digest.update(f"\0{name}\0".encode())
        digest.update(bytes(variable.value))
    return Origin(stack.own_file or stack.module, digest.hexdigest(), known or project.repository)


# The comparison. Pure.


class Likeness(StrEnum):
    """Why a new stack is taken for an old one, as text after its name."""

    MOVED = "Git shows that it was moved from there"
    SAME_SOURCE = "both are defined by the same file or folder"
    SAME_VARIABLES = "it has the same module and the same variables"
    SAME_VALUES = "its planned values equal those in that state"
    SAME_ADDRESSES = "it has the same resource addresses"

    @property
    def refuses(self) -> bool:
        return self is not Likeness.SAME_ADDRESSES


def likeness(stack: Stack, origin: Origin, plan: Plan, old: OrphanedState, *, moved: bool) -> Likeness | None:
    """How a new stack resembles an old one; None: it does not."""
    record = old.record
    if moved:
        return Likeness.MOVED
    if record is not None and record.source == origin.source and stack.kind is not RuleKind.NAMED:
        return Likeness.SAME_SOURCE
    if record is not None and record.variables and record.variables == origin.variables:
        return Likeness.SAME_VARIABLES
    created = [
        change for change in plan.changes if change.actions == ("create",) and change.mode == "managed"
    ]
    held = _current(old.state)
    there = [change for change in created if change.address in held]
    same = sum(_same_values(held[change.address], bytes(change.change.after)) for change in there)
    # Half of what it creates or of what the old one holds: a rename often comes with a small change, and
    # resources that are added to it do not hide the others.
    enough = min(len(created), len(held))
    if there and same * 2 >= enough:
        return Likeness.SAME_VALUES
    return Likeness.SAME_ADDRESSES if there and len(there) * 2 >= enough else None


def _current(state: State | None) -> Mapping[str, StateResource]:
    resources = (state.resources or ()) if state is not None else ()
    return {
        resource.address: resource
        for resource in resources
        if resource.deposed is None and resource.mode == "managed"
    }


def _same_values(resource: StateResource, after: bytes) -> bool:
    """What is planned and known is in the state. A plan leaves out what is known only after the apply."""
    return _within(_FIELDS.decode(after), resource.read())


def _within(planned: Any, held: Any) -> bool:
    if isinstance(held, dict) and held.keys() == _DYNAMIC and planned != held:
        held = held["value"]
    match planned:
        case None:
            return True
        case dict():
            return isinstance(held, dict) and all(
                _within(value, held.get(key)) for key, value in planned.items()
            )
        case list():
            same_length = isinstance(held, list) and len(held) == len(planned)
            return same_length and all(_within(*pair) for pair in zip(planned, held, strict=True))
        case _:
            return bool(planned == held)


# The decision


def require_not_a_rename(
    context: ChangeContext, stack: Stack, plan: Plan, origin: Origin, *, declared: bool
) -> tuple[str, ...]:
    """Notes on states with the same addresses. `declared`: the user says that the stack is not renamed."""
    if stack.device:
        return ()  # Devices of a blueprint are alike.
    project, store = context.project, context.store
    orphans = orphaned_states(project, store)
    if not orphans:
        return ()
    known = store.names.not_renamed_from(stack.name)
    orphans = tuple(
        old for old in orphans if old.name not in known and not old.is_from_other(origin.repository)
    )
    alike = dict(_alike(project, stack, plan, origin, orphans))
    refusing = {name: how for name, how in alike.items() if how.refuses}
    if refusing and declared:
        details = {"from": ", ".join(refusing)}
        context.identity.audit.record(
            Entry(what="not-a-rename", stack=stack.name, outcome="done", details=details)
        )
        store.names.record_not_renamed(stack.name, frozenset(refusing))
        return tuple(f"recorded: {stack.name} is not {name} under another name" for name in refusing)
    for name, how in refusing.items():
        raise Refused(
            "HF-STATE-11",
            f"{stack.name} has no state and looks like {name}, which is gone and whose state still has "
            f"resources: {how}",
            hint=f"If it was renamed: holdfast state rename {name} {stack.name}. If it is another stack: add "
            f"--not-a-rename. If {name} is no longer needed: holdfast state retire {name} --reason TEXT",
        )
    return tuple(
        f"{how} as {name}, which is gone and whose state still has resources; if {stack.name} is that stack: "
        f"holdfast state rename {name} {stack.name}"
        for name, how in alike.items()
    )


def _alike(
    project: Project, stack: Stack, plan: Plan, origin: Origin, orphans: tuple[OrphanedState, ...]
) -> Iterator[tuple[str, Likeness]]:
    tree = git.find(project.root, project.environment.variables)
    for old in orphans:
        source = old.record.source if old.record is not None else ""
        moved = tree is not None and bool(source) and tree.is_moved(project.root, source, origin.source)
        how = likeness(stack, origin, plan, old, moved=moved)
        if how is not None:
            yield old.name, how
