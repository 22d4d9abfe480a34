"""Removes what the run store need not hold any more: old runs, versions and backups of states, output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from holdfast.config.settings import BackupSettings
from holdfast.store import output_buffer
from holdfast.store.run_store import RunStore
from holdfast.system import clock
from holdfast.terraform.statefile.retention import Aged, expired, too_old

KEEP_RUNS = 1000
MAX_RUN_AGE = 90 * 86400.0


def expired_runs(
    ids: Iterable[str],
    *,
    claimed: frozenset[str],
    now: float,
    keep: int = KEEP_RUNS,
    max_age: float = MAX_RUN_AGE,
) -> tuple[str, ...]:
    """Of runs, newest first: those after the newest `keep`, older than `max_age` and without a claim."""
    older = tuple(ids)[keep:]
    return tuple(run for run in older if run not in claimed and now - clock.made_at(run) > max_age)


def prune_runs(store: RunStore) -> int:
    """How many were removed. Reads nothing but names where there are few."""
    ids = store.runs.ids()
    if len(ids) <= KEEP_RUNS:
        return 0
    claimed = frozenset(claim.run for claim in store.claims.all())
    expired_ids = expired_runs(ids, claimed=claimed, now=clock.now().timestamp())
    for run in expired_ids:
        store.runs.remove(run)
    return len(expired_ids)


def remove_orphaned_output(store: RunStore, memory: Path = output_buffer.MEMORY) -> None:
    """Output buffers of runs that ended and whose process was killed before it removed them.

    The buffer of a run whose outcome is unknown is evidence. Runs of other stores are left alone.
    """
    for run, name in output_buffer.leftover_buffers(memory):
        if store.runs.outcome(run) is not None:
            output_buffer.remove_buffer(name)


def prune_states(store: RunStore, stack: str, settings: BackupSettings) -> tuple[str, ...]:
    """Remove versions of a managed state and backups that are too many and too old; the names removed."""

    def version_written(name: str) -> str | None:
        version = store.states.version(stack, int(name))
        return version.at if version is not None else None

    def backup_written(name: str) -> str | None:
        backup = store.backups.read(stack, name)
        return backup.at if backup is not None else None

    versions = tuple(str(number) for number in reversed(store.states.numbers(stack)))
    old_versions = _expired(versions, version_written, settings, current=versions[:1])
    for name in old_versions:
        store.states.drop(stack, int(name))
    old_backups = _expired(tuple(reversed(store.backups.names(stack))), backup_written, settings)
    for name in old_backups:
        store.backups.drop(stack, name)
    return (*old_versions, *old_backups)


def _expired(
    names: Sequence[str],
    written: Callable[[str], str | None],
    settings: BackupSettings,
    current: Sequence[str] = (),
) -> tuple[str, ...]:
    """Of names, newest first. They are read from the oldest to the first that stays, and no further."""
    now = clock.now()
    times: dict[str, str] = {}
    for name in reversed(names[settings.keep :]):
        at = written(name)
        if at is None or not too_old(at, max_age=settings.max_age, now=now):
            break
        times[name] = at
    entries = [Aged(name=name, at=times.get(name), current=name in current) for name in names]
    return expired(entries, keep=settings.keep, max_age=settings.max_age, now=now)
