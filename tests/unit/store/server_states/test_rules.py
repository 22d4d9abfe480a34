"""What the property tests do not spell out: which refusal a writer or a run gets, and what it says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from holdfast.store.server_states.locks import (
    LEASE,
    Caller,
    HolderKind,
    StateLock,
    StateRefusal,
    lock_request,
    run_lease,
)
from holdfast.store.server_states.rules import (
    StateRow,
    accepts_write,
    granted_lock,
    read_new_state,
    released_lock,
    renewed_lease,
    taken_over_lock,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FREE = StateRow(
    id="1", name="net", now=NOW, unlocked_writes=False, fence=4, released=None, lock=None, current=None
)
RUN = run_lease("r1", "lease-1", who="ci", created="2026-01-01T00:00:00Z", version="1")
OTHER = run_lease("r2", "lease-2", who="ci", created="2026-01-01T00:00:00Z", version="1")
STATE = read_new_state(b'{"version":4,"serial":1,"lineage":"l"}')


def _held(lock: StateLock, *, after: timedelta = timedelta()) -> StateRow:
    return replace(FREE, lock=lock, fence=lock.number, now=NOW + after)


def test_a_run_has_a_heartbeat_and_terraform_has_not() -> None:
    lease = granted_lock(FREE, RUN)
    plain = granted_lock(FREE, lock_request(b'{"ID":"a"}', Caller(who="me")))
    assert (lease.number, lease.expires, plain.expires) == (5, NOW + LEASE, None)
    assert not plain.expired(NOW + timedelta(days=400))
    renewed = renewed_lease(_held(lease, after=LEASE * 2), RUN.id, 5)
    assert renewed.expires == NOW + LEASE * 3
    with pytest.raises(StateRefusal, match="lost its lease"):
        renewed_lease(_held(lease), RUN.id, 4)


@pytest.mark.parametrize("dead", [True, False])
@pytest.mark.parametrize("declared", ["an admin: the runner is gone", None])
def test_only_a_silent_run_that_is_dead_is_overtaken(declared: str | None, *, dead: bool) -> None:
    lease = granted_lock(FREE, RUN)
    with pytest.raises(StateRefusal) as alive:
        taken_over_lock(_held(lease), OTHER, number=5, dead=dead, declared=declared)
    assert alive.value.status == 423
    silent = _held(lease, after=LEASE)
    if dead or declared is not None:
        taken = taken_over_lock(silent, OTHER, number=5, dead=dead, declared=declared)
        assert (taken.number, taken.run) == (6, "r2")
        assert "run r1" in str(taken.taken_from)
    else:
        with pytest.raises(StateRefusal):
            taken_over_lock(silent, OTHER, number=5, dead=dead, declared=declared)
    with pytest.raises(StateRefusal, match="no longer the current one"):
        taken_over_lock(silent, OTHER, number=4, dead=True, declared=declared)


def test_plain_terraform_is_never_overtaken() -> None:
    plain = granted_lock(FREE, lock_request(b'{"ID":"a"}', Caller(who="me")))
    with pytest.raises(StateRefusal) as refusal:
        taken_over_lock(
            _held(plain, after=timedelta(days=9)), OTHER, number=5, dead=True, declared="an admin"
        )
    assert refusal.value.status == 423


def test_the_lease_of_a_run_is_released_by_its_owner_or_an_admin() -> None:
    row = _held(granted_lock(FREE, RUN))
    assert released_lock(row, RUN.id, Caller(who="ci")) == row.lock
    assert released_lock(row, RUN.id, Caller(who="root", admin=True)) == row.lock
    with pytest.raises(StateRefusal) as refusal:
        released_lock(row, RUN.id, Caller(who="me"))
    assert (refusal.value.status, refusal.value.code) == (403, "HF-STATE-46")


def test_a_write_with_an_old_fencing_number_is_refused() -> None:
    row = _held(granted_lock(FREE, RUN))
    assert row.lock is not None
    assert row.lock.kind is HolderKind.RUN
    assert accepts_write(row, STATE, Caller(who="ci"), lock=RUN.id, number=5)
    with pytest.raises(StateRefusal) as refusal:
        accepts_write(row, STATE, Caller(who="ci"), lock=RUN.id, number=4)
    assert (refusal.value.status, refusal.value.code) == (409, "HF-STATE-49")
