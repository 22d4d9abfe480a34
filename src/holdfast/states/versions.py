"""The versions of a stack's state: of one that Holdfast keeps, or the copies of one that lies elsewhere.

A version is named by its number, a copy by its name or an unambiguous beginning of it; either by `serial:N`.
`current` is what Terraform would be given now.
"""

from __future__ import annotations

import functools

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import Failed, HoldfastError, UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import ChangeContext, Project
from holdfast.runs.record import register_run_secrets
from holdfast.stacks.stack import Stack
from holdfast.states import operations
from holdfast.store.retention import prune_states
from holdfast.store.run_store import RunStore
from holdfast.store.states import StateSnapshot
from holdfast.terraform.statefile.model import State, read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state

CURRENT = "current"
_SERIAL = "serial:"


class Entry(Struct, frozen=True, kw_only=True):
    """One version. `at`, `who`, `why` and `run` are None for what was just read from the backend."""

    name: str
    serial: int
    lineage: str
    resources: int | None
    at: str | None = None
    who: str | None = None
    why: str | None = None
    run: str | None = None
    current: bool = False

    @property
    def shown(self) -> str:
        """For a sentence."""
        if self.name == CURRENT:
            return f"the state as it is now (serial {self.serial})"
        return f"version {self.name} (serial {self.serial}){', the current one' if self.current else ''}"


class Loaded(MaskedStruct, frozen=True, kw_only=True):
    entry: Entry
    content: bytes


class Versions(Struct, frozen=True, kw_only=True):
    kept: bool
    """By Holdfast; else these are copies."""
    entries: tuple[Entry, ...]
    """Newest first."""
    current: Entry | None
    """What is there now. None: nothing, or it could not be looked at."""
    unseen: str | None = None
    """Why the backend could not be looked at."""


def is_managed(project: Project, stack: Stack) -> bool:
    """Whether Holdfast keeps the state, because neither code nor configuration name a backend."""
    configured = stack.backend.type if stack.backend is not None else None
    return project.code_backend(stack.module) is None and configured is None


class _Row:
    """What the store holds of one state, whichever way it holds it."""

    def __init__(self, store: RunStore, stack: str, *, kept: bool) -> None:
        self._store = store
        self._stack = stack
        self.kept = kept

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Newest first."""
        if self.kept:
            return tuple(str(number) for number in reversed(self._store.states.numbers(self._stack)))
        return tuple(reversed(self._store.backups.names(self._stack)))

    def read(self, name: str) -> Loaded | None:
        found: StateSnapshot | None = (
            self._store.states.version(self._stack, int(name))
            if self.kept
            else self._store.backups.read(self._stack, name)
        )
        if found is None:
            return None
        entry = Entry(
            name=name,
            serial=found.serial,
            lineage=found.lineage,
            resources=found.resources,
            at=found.at,
            who=found.who,
            why=found.why,
            run=found.run,
            current=self.kept and name == self.names[0],
        )
        return Loaded(entry=entry, content=found.state)

    def all(self) -> tuple[Loaded, ...]:
        """Newest first. One that was dropped meanwhile is not there."""
        return tuple(found for name in self.names if (found := self.read(name)) is not None)


async def versions(context: ChangeContext, stack: Stack) -> Versions:
    """What there is, newest first. A backend that does not answer hides none of the copies."""
    kept = is_managed(context.project, stack)
    entries = tuple(found.entry for found in _Row(context.store, stack.name, kept=kept).all())
    if kept:
        return Versions(kept=True, entries=entries, current=entries[0] if entries else None)
    try:
        now = await _from_backend(context, stack)
    except HoldfastError as error:
        return Versions(kept=False, entries=entries, current=None, unseen=error.problem.message)
    return Versions(kept=False, entries=_marked(entries, now), current=now.entry if now is not None else None)


def _marked(entries: tuple[Entry, ...], now: Loaded | None) -> tuple[Entry, ...]:
    """The newest copy of what is there now is marked as current."""
    marked: list[Entry] = []
    for entry in entries:
        same = now is not None and (entry.lineage, entry.serial) == (now.entry.lineage, now.entry.serial)
        first = same and not any(one.current for one in marked)
        marked.append(replace(entry, current=first))
    return tuple(marked)


async def load(context: ChangeContext, stack: Stack, wanted: str) -> Loaded:
    """One version, by what `state versions` calls it. Its secrets are known to the redactor then."""
    kept = is_managed(context.project, stack)
    row = _Row(context.store, stack.name, kept=kept)
    if wanted == CURRENT:
        found = await _current(context, stack, row, kept=kept)
    else:
        found = row.read(_chosen(stack.name, row, wanted))
    if found is None:
        raise UsageError(
            "HF-STATE-22",
            f"{stack.name} has no state"
            if wanted == CURRENT
            else f"{stack.name}: version {wanted} no longer exists",
            hint=f"List the versions: holdfast state versions {stack.name}",
        )
    _know(context, stack, found)
    return found


def _know(context: ChangeContext, stack: Stack, found: Loaded) -> None:
    """What is marked in it, and what its run and its stack took from elsewhere: that is marked nowhere."""
    context.redactor.register_all(sensitive_in_state(read_state(found.content)))
    register_run_secrets(context, found.entry.run, stack.name)


async def load_pair(
    context: ChangeContext, stack: Stack, before: str | None, after: str | None
) -> tuple[Loaded, Loaded]:
    """Two to compare; without names, the one before the current one and the current one."""
    new = await load(context, stack, after or CURRENT)
    if before is not None:
        return await load(context, stack, before), new
    row = _Row(context.store, stack.name, kept=is_managed(context.project, stack))
    for old in row.all():
        if (old.entry.lineage, old.entry.serial) != (new.entry.lineage, new.entry.serial):
            _know(context, stack, old)
            return old, new
    raise UsageError(
        "HF-STATE-23",
        f"{stack.name} has no earlier version to compare with",
        hint=f"List the versions: holdfast state versions {stack.name}",
    )


async def backup(context: ChangeContext, stack: Stack) -> Entry:
    """A copy now. A kept state needs none: its versions never change, and the newest one is named."""
    kept = is_managed(context.project, stack)
    row = _Row(context.store, stack.name, kept=kept)
    found = await _current(context, stack, row, kept=kept)
    if found is None:
        raise UsageError("HF-STATE-22", f"{stack.name} has no state", hint="The first apply creates it.")
    made = (
        found.entry
        if kept
        else copied(context.store, context.identity.who, stack, found.content, why="asked for", run=None)
    )
    prune_states(context.store, stack.name, context.project.config.backups)
    return made


def copied(store: RunStore, who: str, stack: Stack, content: bytes, *, why: str, run: str | None) -> Entry:
    """Durably, of a state that lies elsewhere."""
    state = _readable(stack, content)
    made = store.backups.add(stack.name, StateSnapshot.of(content, state, run=run, who=who, why=why))
    return Entry(
        name=made.name,
        serial=made.serial,
        lineage=made.lineage,
        resources=made.resources,
        at=made.at,
        who=made.who,
        why=made.why,
        run=made.run,
        current=True,
    )


def _chosen(stack: str, row: _Row, wanted: str) -> str:
    """The name that is meant, of those there are."""
    names = row.names
    if wanted.startswith(_SERIAL):
        found = [one.entry for one in row.all() if str(one.entry.serial) == wanted.removeprefix(_SERIAL)]
        if len({one.lineage for one in found}) > 1:
            raise _ambiguous(stack, wanted, tuple(one.name for one in found))
        matching = tuple(one.name for one in found[:1])
    elif wanted in names or row.kept:
        matching = (wanted,) if wanted in names else ()
    else:
        matching = tuple(name for name in names if wanted and name.startswith(wanted.upper()))
    if len(matching) > 1:
        raise _ambiguous(stack, wanted, matching)
    if not matching:
        raise UsageError(
            "HF-STATE-20",
            f"{stack}: there is no version {wanted} of its state",
            hint=f"List the versions: holdfast state versions {stack}",
        )
    return matching[0]


def _ambiguous(stack: str, wanted: str, matching: tuple[str, ...]) -> UsageError:
    return UsageError(
        "HF-STATE-21",
        f"{stack}: {wanted} matches several versions of its state: {', '.join(matching[:5])}",
        hint="Give more of the name.",
    )


async def _current(context: ChangeContext, stack: Stack, row: _Row, *, kept: bool) -> Loaded | None:
    if not kept:
        return await _from_backend(context, stack)
    names = row.names
    return row.read(names[0]) if names else None


async def _from_backend(context: ChangeContext, stack: Stack) -> Loaded | None:
    content = await operations.pull(context, stack)
    if not content:
        return None
    state = _readable(stack, content)
    entry = Entry(
        name=CURRENT,
        serial=state.serial,
        lineage=state.lineage,
        resources=state.managed,
        current=True,
    )
    return Loaded(entry=entry, content=content)


def _readable(stack: Stack, content: bytes) -> State:
    state = read_state(content)
    if not isinstance(state, State):
        raise Failed("HF-STATE-24", f"{stack.name}: its backend does not contain a valid state")
    return state
