from __future__ import annotations

from holdfast.store.retention import expired_runs
from holdfast.system import clock

DAY = 86400.0


def test_an_id_says_when_it_was_made() -> None:
    """Ids sort by time because the time is in them."""
    before = clock.now().timestamp()
    made = clock.created_at(clock.new_id())
    assert before - 1 < made <= clock.now().timestamp()
    assert clock.created_at("nonsense") >= before


def test_only_old_runs_beyond_the_newest_go() -> None:
    """Neither a young run, nor one of the newest, nor one that a stack waits for is forgotten."""
    ids = [clock.new_id() for _ in range(5)]
    later = clock.now().timestamp() + 100 * DAY
    none: frozenset[str] = frozenset()
    assert expired_runs(ids, claimed=none, now=later, keep=2, max_age=90 * DAY) == tuple(ids[2:])
    assert expired_runs(ids, claimed=frozenset({ids[3]}), now=later, keep=2, max_age=90 * DAY) == (
        ids[2],
        ids[4],
    )
    assert expired_runs(ids, claimed=none, now=later - 20 * DAY, keep=2, max_age=90 * DAY) == ()
    assert expired_runs(ids, claimed=none, now=later, keep=5, max_age=90 * DAY) == ()
