"""Locks, leases and versions of a state on the server against a model, with kills between any two statements.

Whatever happens: a killed operation happened fully or not at all, an acknowledged version is present, only
the holder of the lock adds versions, and fencing numbers only grow. All clients have the same name and know
the ids of each other's locks and runs. A lock that Terraform takes with the
token of a run ends with the lease of that run.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from faulty_database import Crash, FaultyDatabase
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec.structs import replace
from postgres_made import MadePostgres
from state_backend_made import KEY, envelope, lock_info, state

from holdfast.database.database import Database
from holdfast.store.server_states.changes import Author, StateKey
from holdfast.store.server_states.cipher import StateCipher, VersionPlace
from holdfast.store.server_states.locks import (
    LEASE,
    Caller,
    HolderKind,
    Lease,
    LockRequest,
    StateRefusal,
    run_lease,
)
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.rules import read_new_state
from holdfast.system import clock

_POINTS = st.sampled_from([*[None] * 20, *range(10), *[-1] * 3])
"""Where a kill strikes: at a statement, after the commit, or nowhere."""
_BEHIND = st.sampled_from([0, 0, 1])
_NESTED = st.sampled_from([None, None, "nested-a", "nested-b"])
_HOLDER = "holder"
_BORROWED = st.sampled_from([False, False, False, True])
"""Whether a client names the lock of the holder, which may be another, instead of its own."""
_CLIENTS = st.sampled_from([*[_HOLDER] * 4, "terraform-a", "terraform-b", "run-a", "run-b"])


def _request(client: str) -> LockRequest:
    if client.startswith("run"):
        return run_lease(client, f"id-{client}", who="ada", holder=client, created="", version="1")
    return LockRequest(id=f"id-{client}", info=lock_info(f"id-{client}"), who="ada", holder=client)


def _caller(client: str, *, lease: Lease | None = None, admin: bool = False) -> Caller:
    return Caller(who="ada", subject=client, lease=lease, admin=admin)


class _Machine(RuleBasedStateMachine):
    real: Database

    def __init__(self) -> None:
        super().__init__()
        self.key = StateKey("default", clock.new_id())
        self.database = FaultyDatabase(self.real)
        self.rows = StateRows(self.database, StateCipher([KEY]))  # type: ignore[arg-type]
        # The model.
        self.holder: str | None = None
        self.nested: str | None = None
        self.expired = False
        self.number = 0
        self.released: str | None = None
        self.deleted: int | None = None
        """The serial that the next version must follow, of a state that was deleted."""
        self.versions: list[bytes] = []
        self.unlocked_writes = False

    def client(self, client: str) -> str:
        """Often the one that holds the lock: otherwise hardly anything would happen."""
        return (self.holder or "run-a") if client == _HOLDER else client

    def attempt(self, point: int | None, work: Callable[[], Any], *, allowed: bool) -> bool:
        """Whether the operation happened. A refused one never does."""
        with self.database.crashing(point):
            try:
                work()
            except Crash:
                return point == -1
            except StateRefusal:
                assert not allowed
                return False
        assert allowed
        return True

    def named(self, client: str, *, borrowed: bool) -> str:
        return (self.holder or client) if borrowed else client

    @rule(client=_CLIENTS, point=_POINTS, borrowed=_BORROWED)
    def lock(self, client: str, point: int | None, *, borrowed: bool) -> None:
        client = self.client(client)
        allowed = self.holder in (None, client)
        request = replace(_request(self.named(client, borrowed=borrowed)), holder=client)
        if not self.attempt(point, lambda: self.rows.lock(self.key, request), allowed=allowed):
            return
        if allowed and self.holder is None:
            self._hold(client)

    @rule(
        client=_CLIENTS,
        point=_POINTS,
        ahead=st.sampled_from([1, 1, 1, 2, 0, -1]),
        other=st.booleans(),
        behind=st.sampled_from([None, 0, 1]),
        nested=_NESTED,
        borrowed=_BORROWED,
    )
    def write(
        self,
        client: str,
        point: int | None,
        ahead: int,
        *,
        other: bool,
        behind: int | None,
        nested: str | None,
        borrowed: bool,
    ) -> None:
        """`ahead`: of the current serial. `behind`: how old its fencing number is, where it sends one.
        `nested`: the lock of Terraform with the token of the client.
        """
        client, serial = self.client(client), max(self._serial() + ahead, 0)
        content = (envelope if other else state)(serial)
        number = self.number - behind if behind is not None else None
        stale = number is not None and number != self.number
        current = self.versions[-1] if self.versions else None
        repeated = current == content
        follows = (current is None and self.deleted is None) or serial > self._serial()
        held = self.holder == client and self.nested == nested
        allowed = held and not stale and (repeated or follows)
        lease = Lease(client, self.number) if nested is not None else None

        def work() -> None:
            new = read_new_state(content)
            author = Author(who=client, why="test")
            lock = nested or f"id-{self.named(client, borrowed=borrowed)}"
            caller = _caller(client, lease=lease)
            self.rows.write(self.key, new, author, caller, lock=lock, number=number)

        if self.attempt(point, work, allowed=allowed) and allowed and not repeated:
            self.versions.append(content)

    @rule(point=_POINTS, ahead=st.sampled_from([1, 0, -1]))
    def write_without_a_lock(self, point: int | None, ahead: int) -> None:
        serial = max(self._serial() + ahead, 0)
        content = state(serial)
        current = self.versions[-1] if self.versions else None
        follows = (current is None and self.deleted is None) or serial > self._serial()
        allowed = self.holder is None and self.unlocked_writes and (current == content or follows)
        new = read_new_state(content)
        author = Author(who="anyone", why="test")
        happened = self.attempt(
            point, lambda: self.rows.write(self.key, new, author, _caller("x"), lock=None), allowed=allowed
        )
        if happened and allowed and current != content:
            self.versions.append(content)

    @rule(client=_CLIENTS, point=_POINTS, borrowed=_BORROWED)
    def unlock(self, client: str, point: int | None, *, borrowed: bool) -> None:
        client = self.client(client)
        named = self.named(client, borrowed=borrowed)
        before = f"id-{named}" == self.released and named != self.holder
        allowed = named == client == self.holder or before
        happened = self.attempt(
            point, lambda: self.rows.unlock(self.key, f"id-{named}", _caller(client)), allowed=allowed
        )
        if happened and allowed and not before:
            self._release()

    @rule(client=_CLIENTS, id_=st.sampled_from(["nested-a", "nested-b"]), point=_POINTS, behind=_BEHIND)
    def lock_within_a_lease(self, client: str, id_: str, point: int | None, behind: int) -> None:
        """With a token of the client, perhaps of an earlier lease."""
        client = self.client(client)
        lease = Lease(client, self.number - behind)
        allowed = self._holds(lease) and self.nested in (None, id_)
        request = LockRequest(id=id_, info=lock_info(id_), who="ada", holder=client)
        if self.attempt(point, lambda: self.rows.lock(self.key, request, lease=lease), allowed=allowed):
            self.nested = id_ if allowed else self.nested

    @rule(client=_CLIENTS, id_=st.sampled_from(["nested-a", "nested-b"]), point=_POINTS, behind=_BEHIND)
    def unlock_within_a_lease(self, client: str, id_: str, point: int | None, behind: int) -> None:
        client = self.client(client)
        caller = _caller(client, lease=Lease(client, self.number - behind))
        held = self._holds(caller.lease)
        allowed = held and id_ in (self.nested, self.released)
        happened = self.attempt(point, lambda: self.rows.unlock(self.key, id_, caller), allowed=allowed)
        if happened and allowed and id_ == self.nested:
            self.nested, self.released = None, id_

    @rule(admin=st.booleans(), point=_POINTS)
    def force_unlock(self, point: int | None, *, admin: bool) -> None:
        """Not of a run that is alive."""
        caller = Caller(who="someone", admin=admin)
        alive = self.holder is not None and self.holder.startswith("run") and not self.expired
        allowed = admin and not alive
        if self.attempt(point, lambda: self.rows.force_unlock(self.key, caller), allowed=allowed) and allowed:
            self._release()

    @rule(client=_CLIENTS, point=_POINTS, behind=_BEHIND)
    def heartbeat(self, client: str, point: int | None, behind: int) -> None:
        client = self.client(client)
        number = self.number - behind
        allowed = self.holder == client and number == self.number
        happened = self.attempt(
            point, lambda: self.rows.heartbeat(self.key, f"id-{client}", number), allowed=allowed
        )
        if happened and allowed:
            self.expired = False

    @rule()
    def silence(self) -> None:
        """The holder sends no heartbeat for longer than a lease lasts."""
        with self.real.transaction() as connection:
            connection.execute(
                "update state_locks set beat = beat - %(lease)s, expires = expires - %(lease)s "
                "where state = (select id from states where name = %(name)s and deleted is null)",
                {"lease": LEASE + timedelta(seconds=1), "name": self.key.name},
            )
        self.expired = self.holder is not None and self.holder.startswith("run")

    @rule(
        client=st.sampled_from(["run-a", "run-b"]), dead=st.booleans(), declared=st.booleans(), point=_POINTS
    )
    def take_over(self, client: str, point: int | None, *, dead: bool, declared: bool) -> None:
        number, reason = self.number, "someone: it is gone" if declared else None
        allowed = self.expired and (dead or declared)

        def work() -> None:
            self.rows.take_over(self.key, _request(client), number=number, dead=dead, declared=reason)

        if self.attempt(point, work, allowed=allowed) and allowed:
            self._hold(client)

    @rule(client=_CLIENTS, point=_POINTS, admin=st.booleans(), borrowed=st.booleans())
    def delete(self, client: str, point: int | None, *, admin: bool, borrowed: bool) -> None:
        """Without the id of a lock, or with that of the holder."""
        client, caller = self.client(client), _caller(self.client(client), admin=admin)
        lock = f"id-{self.holder}" if borrowed and self.holder is not None else None
        allowed = self.holder == client and lock is not None and self.nested is None
        allowed = allowed or (self.holder is None and (admin or self.unlocked_writes))
        allowed = allowed or self.rows.look(self.key)[0] is None
        happened = self.attempt(point, lambda: self.rows.delete(self.key, caller, lock=lock), allowed=allowed)
        if happened and allowed and self.versions:
            self.deleted = None if admin else self._serial()
            self.versions = []

    @rule(allowed=st.booleans(), point=_POINTS)
    def allow_unlocked_writes(self, point: int | None, *, allowed: bool) -> None:
        def work() -> None:
            self.rows.allow_unlocked_writes(self.key, Caller(who="admin"), allowed=allowed)

        if self.attempt(point, work, allowed=True):
            self.unlocked_writes = allowed

    @invariant()
    def the_database_agrees_with_the_model(self) -> None:
        row, _ = self.rows.look(self.key)
        stored = self.rows.read(self.key)
        if row is None:
            assert (self.holder, self.versions, stored) == (None, [], None)
            return
        assert row.fence == self.number
        assert (row.lock.holder if row.lock is not None else None) == self.holder
        if row.lock is not None:
            assert (row.lock.number, row.lock.nested) == (self.number, self.nested)
            assert row.lock.expired(row.now) == self.expired
            assert (row.lock.kind is HolderKind.RUN) == row.lock.holder.startswith("run")
        assert (stored.content if stored is not None else None) == (
            self.versions[-1] if self.versions else None
        )
        assert (row.current.number if row.current is not None else 0) == len(self.versions)

    def teardown(self) -> None:
        """Every version that was acknowledged is there, in order, and no other."""
        row, _ = self.rows.look(self.key)
        if row is not None:
            with self.real.transaction() as connection:
                sql = (
                    "select tenant, state, number, data from state_versions where state = %s order by number"
                )
                rows = connection.execute(sql, (row.id,)).fetchall()
            assert [self.rows.decrypt(VersionPlace(*place), data) for *place, data in rows] == self.versions

    def _serial(self) -> int:
        if self.versions:
            return read_new_state(self.versions[-1]).header.serial
        return self.deleted or 0

    def _hold(self, client: str) -> None:
        self.number += 1
        self.holder, self.expired, self.nested = client, False, None

    def _release(self) -> None:
        if self.holder is not None:
            self.released = f"id-{self.holder}"
        self.holder, self.expired, self.nested = None, False, None

    def _holds(self, lease: Lease | None) -> bool:
        run = self.holder if self.holder is not None and self.holder.startswith("run") else None
        return run is not None and lease == (run, self.number)


def test_leases_and_versions_hold(postgres: MadePostgres) -> None:
    _check(postgres, examples=25)


@pytest.mark.long
def test_leases_and_versions_hold_for_long(postgres: MadePostgres) -> None:
    _check(postgres, examples=500)


def _check(postgres: MadePostgres, *, examples: int) -> None:
    with postgres.new_database() as address, Database.open(address, size=4) as database:
        machine = type("Machine", (_Machine,), {"real": database})
        run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=30))
