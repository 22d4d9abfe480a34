"""Old runs are forgotten: by count and age, and never one that a stack still waits for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from holdfast.store import output_buffer
from holdfast.store.run_store import RunStore
from holdfast.system import clock

KEEP = 1000
MAX_AGE = 90 * 86400.0


def too_many(
    ids: Iterable[str], *, held: frozenset[str], now: float, keep: int = KEEP, max_age: float = MAX_AGE
) -> tuple[str, ...]:
    """Of runs, newest first: what lies beyond the newest `keep`, is older than `max_age` and has no claim."""
    beyond = tuple(ids)[keep:]
    return tuple(one for one in beyond if one not in held and now - clock.made_at(one) > max_age)


def forget_old(store: RunStore) -> int:
    """How many went. Looks no further than the names where there are few."""
    ids = store.runs.ids()
    if len(ids) <= KEEP:
        return 0
    held = frozenset(claim.run for claim in store.claims.all())
    gone = too_many(ids, held=held, now=clock.now().timestamp())
    for run in gone:
        store.runs.remove(run)
    return len(gone)


def forget_words(store: RunStore, memory: Path = output_buffer.MEMORY) -> None:
    """What Terraform said and nobody needs any more: its run has ended, and somebody was killed just then.

    Words of a run whose end is not known are evidence, and those of another store's are not ours to judge.
    """
    for run, name in output_buffer.leftover_buffers(memory):
        if store.runs.outcome(run) is not None:
            output_buffer.remove_buffer(name)
