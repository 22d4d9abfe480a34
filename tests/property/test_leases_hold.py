"""Whoever takes, crashes, takes over, loses answers: one holder, growing numbers, no late heartbeat."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from ciphers import encrypted_on
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from memory_blobs import MemoryBlobs

from holdfast.store.leases import HeldByOther, Holder, Lease, LeaseLost, Leases
from holdfast.system.process_table import Liveness, ProcessId

LANE = "lanes/aws"
TAKERS = range(4)


class _Between(MemoryBlobs):
    """A blob store on which somebody can come between a look and a write, and which can lose an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Callable[[], None] | None = None
        self.lose = False

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        first, self.first = self.first, None
        if first is not None:
            first()
        answer = super().replace(name, data, tag=tag)
        lose, self.lose = self.lose, False
        return None if lose else answer


class LeaseMachine(RuleBasedStateMachine):
    """Each taker is a process, and after a crash another one. The model knows who should have the lane."""

    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.blobs = _Between()
        encrypted = encrypted_on(self.blobs)
        self.lease_store = Leases(
            encrypted, life=lambda process: self.lives.get(process.pid, Liveness.UNKNOWN)
        )
        self.lives: dict[int, Liveness] = {}
        self.pids = {taker: taker for taker in TAKERS}
        for taker in TAKERS:
            self.lives[taker] = Liveness.ALIVE
        self.now: tuple[int, int] | None = None
        """Who holds it: the number of the process, and the lease's."""
        self.greatest = 0

    def holder(self, taker: int) -> Holder:
        pid = self.pids[taker]
        process = ProcessId(host="h", boot="b", pid=pid, started=str(pid))
        return Holder(change=f"c{pid}", who=f"taker {taker}", what="apply", process=process, since="now")

    def learn(self, taker: int, answer: Lease | HeldByOther, *, free: bool) -> Lease | None:
        """Check an answer against the model, and take it into the model."""
        pid = self.pids[taker]
        if isinstance(answer, HeldByOther):
            assert self.now is not None
            assert (answer.holder.process.pid, answer.number) == self.now
            assert answer.holder.process.pid != pid
            return None
        if self.now is not None and self.now[0] == pid:
            assert answer.number == self.now[1], "what is ours already keeps its number"
        else:
            assert free, "it was taken from somebody who may live"
            assert answer.number == self.greatest + 1
            self.greatest = answer.number
        self.now = (pid, answer.number)
        return answer

    def may_be_taken(self) -> bool:
        return self.now is None or self.lives[self.now[0]] is Liveness.DEAD

    @rule(target=leases, taker=st.sampled_from(TAKERS), lose=st.booleans())
    def take(self, taker: int, lose: bool) -> object:  # noqa: FBT001 - Hypothesis gives it
        self.blobs.lose = lose
        free = self.may_be_taken()
        lease = self.learn(taker, self.lease_store.take(LANE, self.holder(taker)), free=free)
        self.blobs.lose = False
        return multiple(lease) if lease is not None else multiple()

    @rule(target=leases, taker=st.sampled_from(TAKERS), other=st.sampled_from(TAKERS))
    def take_while_another_takes(self, taker: int, other: int) -> object:
        """The other one comes between our look and our write."""
        found: list[Lease] = []

        def between() -> None:
            free = self.may_be_taken()
            lease = self.learn(other, self.lease_store.take(LANE, self.holder(other)), free=free)
            found.extend([lease] if lease is not None else [])

        self.blobs.first = between
        answer = self.lease_store.take(LANE, self.holder(taker))
        self.blobs.first = None
        lease = self.learn(taker, answer, free=self.may_be_taken())
        return multiple(*found, *([lease] if lease is not None else []))

    @rule(
        target=leases,
        taker=st.sampled_from(TAKERS),
        back=st.integers(0, 2),
        declared=st.sampled_from([None, "ann"]),
    )
    def take_over(self, taker: int, back: int, declared: str | None) -> object:
        number = self.greatest - back
        believed = (
            declared is not None
            and self.now is not None
            and self.now[1] == number
            and self.lives[self.now[0]] is Liveness.UNKNOWN
        )
        free = self.may_be_taken() or believed
        answer = self.lease_store.take_over(LANE, self.holder(taker), number=number, declared=declared)
        if free:
            assert isinstance(answer, Lease)
        lease = self.learn(taker, answer, free=free)
        return multiple(lease) if lease is not None else multiple()

    @rule(target=leases, lease=consumes(leases), lose=st.booleans())
    def renew(self, lease: Lease, lose: bool) -> object:  # noqa: FBT001
        self.blobs.lose = lose
        if self.now == (lease.holder.process.pid, lease.number):
            renewed = self.lease_store.renew(lease)
            self.lease_store.require(renewed)
            self.blobs.lose = False
            return multiple(lease, renewed)
        with pytest.raises(LeaseLost):
            self.lease_store.renew(lease)
        with pytest.raises(LeaseLost):
            self.lease_store.require(lease)
        self.blobs.lose = False
        return multiple(lease)

    @rule(lease=leases, lose=st.booleans())
    def release(self, lease: Lease, lose: bool) -> None:  # noqa: FBT001
        self.blobs.lose = lose
        self.lease_store.release(lease)
        self.blobs.lose = False
        if self.now == (lease.holder.process.pid, lease.number):
            self.now = None

    @rule(lease=leases, other=st.sampled_from(TAKERS))
    def heartbeat_while_another_takes(self, lease: Lease, other: int) -> None:
        """A heartbeat never takes back what another one has got meanwhile."""

        def between() -> None:
            self.learn(other, self.lease_store.take(LANE, self.holder(other)), free=self.may_be_taken())

        self.blobs.first = between
        with contextlib.suppress(LeaseLost):
            self.lease_store.renew(lease)
            assert self.now == (lease.holder.process.pid, lease.number)
        self.blobs.first = None

    @rule(taker=st.sampled_from(TAKERS), seen=st.sampled_from([Liveness.DEAD, Liveness.UNKNOWN]))
    def crash(self, taker: int, seen: Liveness) -> None:
        """It comes back as another process; what is known of the old one differs."""
        self.lives[self.pids[taker]] = seen
        self.pids[taker] = max(self.lives) + 1
        self.lives[self.pids[taker]] = Liveness.ALIVE

    @invariant()
    def the_record_says_the_same(self) -> None:
        held = self.lease_store.look(LANE)
        assert (None if held is None else (held.holder.process.pid, held.number)) == self.now


LeaseMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestLeases = LeaseMachine.TestCase
