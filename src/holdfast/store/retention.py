"""Removes what the run store need not hold any more: old runs, versions and backups of states, output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from holdfast.config.settings import BackupSettings
from holdfast.store import output_buffer
from holdfast.store.run_store import RunStore
from holdfast.system import clock

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
    return tuple(run for run in older if run not in claimed and now - clock.created_at(run) > max_age)


def prune_runs(store: RunStore) -> int:
    """How many were removed. Reads nothing but names where there are few. A plan job removes none."""
    if not store.can_apply:
        return 0
    ids = store.runs.ids()
    if len(ids) <= KEEP_RUNS:
        return 0
    claimed = frozenset(claim.run for claim in store.claims.all())
    expired_ids = expired_runs(ids, claimed=claimed, now=clock.now().timestamp())
    for run in expired_ids:
        store.runs.remove(run)
    for change in expired_runs(store.changes.ids(), claimed=frozenset(), now=clock.now().timestamp()):
        store.changes.remove(change)
    return len(expired_ids)


def remove_orphaned_output(store: RunStore, memory: Path = output_buffer.MEMORY) -> None:
    """Output buffers of runs that ended and whose process was killed before it removed them.

    The buffer of a run whose outcome is unknown is evidence. Runs of other stores are left alone.
    """
    for run, name in output_buffer.leftover_buffers(memory):
        outcome = store.runs.outcome_blob(run)
        if outcome is not None and outcome.signed:
            output_buffer.remove_buffer(name)


def prune_states(store: RunStore, stack: str, settings: BackupSettings) -> tuple[str, ...]:
    """Remove versions of a managed state and backups that are too many and too old; the names removed.

    A server prunes the versions of its states itself.
    """

    def version_written(name: str) -> str | None:
        version = store.states.version(stack, int(name))
        return version.at if version is not None else None

    def backup_written(name: str) -> str | None:
        backup = store.backups.read(stack, name)
        return backup.at if backup is not None else None

    now = clock.now()
    numbers = store.states.numbers(stack) if not store.on_server else ()
    versions = tuple(str(number) for number in reversed(numbers))
    old_versions = expired(versions, version_written, settings, now=now, current=versions[:1])
    for name in old_versions:
        store.states.drop(stack, int(name))
    old_backups = expired(tuple(reversed(store.backups.names(stack))), backup_written, settings, now=now)
    for name in old_backups:
        store.backups.drop(stack, name)
    return (*old_versions, *old_backups)


def expired(
    names: Sequence[str],
    written: Callable[[str], str | None],
    settings: BackupSettings,
    *,
    now: datetime,
    current: Sequence[str] = (),
) -> tuple[str, ...]:
    """Of names, newest first: those after the newest `keep` that are older than `max_age`.

    Never the current one or one of unknown age. Read from the oldest to the first that stays, and no further.
    """
    old: list[str] = []
    for name in reversed(names[settings.keep :]):
        if name in current or not _too_old(written(name), settings.max_age, now):
            break
        old.append(name)
    return tuple(reversed(old))


def _too_old(at: str | None, max_age: float, now: datetime) -> bool:
    """False for anything that is not a time."""
    try:
        return at is not None and now - datetime.fromisoformat(at) > timedelta(seconds=max_age)
    except (ValueError, TypeError):
        return False
