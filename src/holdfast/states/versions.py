"""The versions of a stack's state: of a managed state, or the backups of one in another backend.

A version is named by its number, a backup by its name or an unambiguous prefix, both by `serial:N`; `current`
is what Terraform reads now.
"""

from __future__ import annotations

import functools

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import Failed, HoldfastError, UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import ChangeContext, Project
from holdfast.plans.state_continuity import store_errored_states
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


class VersionInfo(Struct, frozen=True, kw_only=True):
    """One version. `at`, `who`, `why` and `run` are None for the state that the backend has now."""

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
        """For messages."""
        if self.name == CURRENT:
            return f"the current state (serial {self.serial})"
        return f"version {self.name} (serial {self.serial}){', the current one' if self.current else ''}"


class LoadedVersion(MaskedStruct, frozen=True, kw_only=True):
    entry: VersionInfo
    content: bytes


class Versions(Struct, frozen=True, kw_only=True):
    managed: bool
    """By Holdfast; else these are backups."""
    entries: tuple[VersionInfo, ...]
    """Newest first."""
    current: VersionInfo | None
    """The current state. None: there is none, or it could not be read."""
    unseen: str | None = None
    """Why the backend could not be read."""
    unsaved: tuple[VersionInfo, ...] = ()
    """What Terraform could not save. `unsaved` is not saved yet; the others were set aside."""


def is_managed(project: Project, stack: Stack) -> bool:
    """Whether Holdfast stores the state: neither code nor configuration names a backend."""
    configured = stack.backend.type if stack.backend is not None else None
    return project.code_backend(stack) is None and configured is None


class _StoredVersions:
    """The versions of one state in the run store."""

    def __init__(self, store: RunStore, stack: str, *, managed: bool) -> None:
        self._store = store
        self._stack = stack
        self.managed = managed

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Newest first."""
        if self.managed:
            return tuple(str(number) for number in reversed(self._store.states.numbers(self._stack)))
        return tuple(reversed(self._store.backups.names(self._stack)))

    def read(self, name: str) -> LoadedVersion | None:
        snapshot: StateSnapshot | None = (
            self._store.states.version(self._stack, int(name))
            if self.managed
            else self._store.backups.read(self._stack, name)
        )
        if snapshot is None:
            return None
        current = self.managed and name == self.names[0]
        return LoadedVersion(entry=_info(name, snapshot, current=current), content=snapshot.state)

    def all(self) -> tuple[LoadedVersion, ...]:
        """Newest first, without those that were pruned in the meantime."""
        return tuple(version for name in self.names if (version := self.read(name)) is not None)


def _info(name: str, snapshot: StateSnapshot, *, current: bool) -> VersionInfo:
    return VersionInfo(
        name=name,
        serial=snapshot.serial,
        lineage=snapshot.lineage,
        resources=snapshot.resources,
        at=snapshot.at,
        who=snapshot.who,
        why=snapshot.why,
        run=snapshot.run,
        current=current,
    )


async def versions(context: ChangeContext, stack: Stack) -> Versions:
    """Newest first. A backend that does not respond hides no backups."""
    managed = is_managed(context.project, stack)
    stored = _StoredVersions(context.store, stack.name, managed=managed)
    entries = tuple(version.entry for version in stored.all())
    unsaved = tuple(version.entry for version in _unsaved(context, stack))
    if managed:
        current = entries[0] if entries else None
        return Versions(managed=True, entries=entries, current=current, unsaved=unsaved)
    try:
        now = await _from_backend(context, stack)
    except HoldfastError as error:
        unseen = error.problem.message
        return Versions(managed=False, entries=entries, current=None, unseen=unseen, unsaved=unsaved)
    return Versions(
        managed=False,
        entries=_marked(entries, now),
        current=now.entry if now is not None else None,
        unsaved=unsaved,
    )


def _unsaved(context: ChangeContext, stack: Stack) -> tuple[LoadedVersion, ...]:
    """Every state of the stack that Terraform could not save, readable or not."""
    store = context.store
    store_errored_states(context.project, store, stack)
    copies = ((name, store.errored(stack.name, name)) for name in store.errored_names(stack.name))
    return tuple(_unsaved_version(name, content) for name, content in copies if content is not None)


def _unsaved_version(name: str, content: bytes) -> LoadedVersion:
    state = read_state(content)
    known = state if isinstance(state, State) else State(lineage="", serial=0)
    why = None if isinstance(state, State) else "cannot be read"
    entry = VersionInfo(
        name=name, serial=known.serial, lineage=known.lineage, resources=known.managed, why=why
    )
    return LoadedVersion(entry=entry, content=content)


def load_unsaved(context: ChangeContext, stack: Stack, wanted: str | None) -> LoadedVersion:
    """A state that Terraform could not save: by its name or a prefix, by default the one to be saved."""
    copies = _unsaved(context, stack)
    matching = [copy for copy in copies if copy.entry.name.startswith(wanted or "unsaved")]
    if len(matching) > 1:
        raise _ambiguous(stack.name, str(wanted), tuple(copy.entry.name for copy in matching))
    if not matching:
        raise UsageError(
            "HF-STATE-20",
            f"{stack.name}: there is no {'such ' if wanted else ''}unsaved state",
            hint=f"List what was set aside: holdfast state versions {stack.name}",
        )
    _register_secrets(context, stack, matching[0])
    return matching[0]


def _marked(entries: tuple[VersionInfo, ...], now: LoadedVersion | None) -> tuple[VersionInfo, ...]:
    """Mark the newest backup of the current state."""
    marked: list[VersionInfo] = []
    for entry in entries:
        same = now is not None and (entry.lineage, entry.serial) == (now.entry.lineage, now.entry.serial)
        first = same and not any(entry.current for entry in marked)
        marked.append(replace(entry, current=first))
    return tuple(marked)


async def load(context: ChangeContext, stack: Stack, wanted: str) -> LoadedVersion:
    """One version, by its name in `state versions`. Registers its secrets with the redactor."""
    stored = _StoredVersions(context.store, stack.name, managed=is_managed(context.project, stack))
    if wanted == CURRENT:
        version = await _current(context, stack, stored)
    else:
        version = stored.read(_choose(stack.name, stored, wanted))
    if version is None:
        raise UsageError(
            "HF-STATE-22",
            f"{stack.name} has no state"
            if wanted == CURRENT
            else f"{stack.name}: version {wanted} no longer exists",
            hint=f"List the versions: holdfast state versions {stack.name}",
        )
    _register_secrets(context, stack, version)
    return version


def _register_secrets(context: ChangeContext, stack: Stack, version: LoadedVersion) -> None:
    """Sensitive values of the state, and the secrets of its run and stack, which no state marks."""
    context.redactor.register_all(sensitive_in_state(read_state(version.content)))
    register_run_secrets(context, version.entry.run, stack.name)


async def load_pair(
    context: ChangeContext, stack: Stack, before: str | None, after: str | None
) -> tuple[LoadedVersion, LoadedVersion]:
    """Two versions to compare; by default the current one and the one before it."""
    new = await load(context, stack, after or CURRENT)
    if before is not None:
        return await load(context, stack, before), new
    stored = _StoredVersions(context.store, stack.name, managed=is_managed(context.project, stack))
    for old in stored.all():
        if (old.entry.lineage, old.entry.serial) != (new.entry.lineage, new.entry.serial):
            _register_secrets(context, stack, old)
            return old, new
    raise UsageError(
        "HF-STATE-23",
        f"{stack.name} has no earlier version to compare with",
        hint=f"List the versions: holdfast state versions {stack.name}",
    )


async def backup(context: ChangeContext, stack: Stack) -> VersionInfo:
    """Back up the state. A managed state needs no backup: its newest version is returned."""
    stored = _StoredVersions(context.store, stack.name, managed=is_managed(context.project, stack))
    current = await _current(context, stack, stored)
    if current is None:
        raise no_state(stack)
    entry = current.entry
    if not stored.managed:
        who = context.identity.who
        entry = add_backup(context.store, who, stack, current.content, why="requested", run=None)
    prune_states(context.store, stack.name, context.project.config.backups)
    return entry


def no_state(stack: Stack) -> UsageError:
    return UsageError("HF-STATE-22", f"{stack.name} has no state", hint="The first apply creates it.")


def add_backup(
    store: RunStore, who: str, stack: Stack, content: bytes, *, why: str, run: str | None
) -> VersionInfo:
    """A durable backup of a state in another backend."""
    state = _readable(stack, content)
    added = store.backups.add(stack.name, StateSnapshot.of(content, state, run=run, who=who, why=why))
    return _info(added.name, added, current=True)


def _choose(stack: str, stored: _StoredVersions, wanted: str) -> str:
    names = stored.names
    if wanted.startswith(_SERIAL):
        serial = wanted.removeprefix(_SERIAL)
        entries = [version.entry for version in stored.all() if str(version.entry.serial) == serial]
        if len({entry.lineage for entry in entries}) > 1:
            raise _ambiguous(stack, wanted, tuple(entry.name for entry in entries))
        matching = tuple(entry.name for entry in entries[:1])
    elif wanted in names or stored.managed:
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
        hint="Give more characters of the name.",
    )


async def _current(context: ChangeContext, stack: Stack, stored: _StoredVersions) -> LoadedVersion | None:
    if not stored.managed:
        return await _from_backend(context, stack)
    return stored.read(stored.names[0]) if stored.names else None


async def _from_backend(context: ChangeContext, stack: Stack) -> LoadedVersion | None:
    content = await operations.pull(context, stack)
    if not content:
        return None
    state = _readable(stack, content)
    entry = VersionInfo(
        name=CURRENT, serial=state.serial, lineage=state.lineage, resources=state.managed, current=True
    )
    return LoadedVersion(entry=entry, content=content)


def _readable(stack: Stack, content: bytes) -> State:
    state = read_state(content)
    if not isinstance(state, State):
        raise Failed("HF-STATE-24", f"{stack.name}: its backend does not contain a valid state")
    return state
