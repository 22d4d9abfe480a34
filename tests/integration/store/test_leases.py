"""Leases over real blobs, with real processes: who holds a lane, and when that one may be passed over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ciphers import encrypted_on
from flaky_s3 import Fault, FlakyS3, LostAnswer, Twice
from memory_blobs import MemoryBlobs
from server_made import made_server

from holdfast.identity.roles import Role
from holdfast.kernel.errors import Exit, UnknownOutcome
from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.leases import HeldByOther, Holder, Lease, LeaseLost, Leases
from holdfast.store.place import FolderBlobs
from holdfast.store.s3_blobs import S3Blobs
from holdfast.store.server_blobs import ServerBlobs
from holdfast.store.server_store import ServerRunStore
from holdfast.system import process_table
from holdfast.system.aws import S3Timeouts
from holdfast.system.process_table import Liveness, ProcessId

LANE = "lanes/aws"
SOMEWHERE_ELSE = ProcessId(host="another", boot="b", pid=1, started="1")


@pytest.fixture(params=["folder", "server"])
def encrypted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EncryptedBlobs]:
    if request.param == "folder":
        yield encrypted_on(FolderBlobs(tmp_path / "store"))
        return
    with made_server(request.getfixturevalue("database")) as server:
        token = server.token(Role.OPERATOR)
        yield ServerRunStore(ServerBlobs(server.url, lambda: token, {})).encrypted


@pytest.fixture
def leases(encrypted: EncryptedBlobs) -> Leases:
    return Leases(encrypted)


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """Another process of this machine, that waits to be killed."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def holder(change: str, process: ProcessId | None = None) -> Holder:
    return Holder(
        change=change,
        who=f"{change}@host",
        what="apply of 4 stacks",
        process=process or process_table.this_process(),
        since="2026-01-01T00:00:00+00:00",
    )


def taken(answer: Lease | HeldByOther) -> Lease:
    assert isinstance(answer, Lease)
    return answer


def test_a_lane_is_held_by_one_and_named(leases: Leases) -> None:
    """Who comes second is told who has it, what for, and that it lives; after the release it is free."""
    first = taken(leases.take(LANE, holder("one")))
    held = leases.take(LANE, holder("two"))
    assert isinstance(held, HeldByOther)
    assert (held.holder, held.number, held.life) == (holder("one"), first.number, Liveness.ALIVE)
    assert held.beat
    leases.release(first)
    leases.release(first)
    second = taken(leases.take(LANE, holder("two")))
    assert second.number == first.number + 1
    leases.release(first)
    leases.require(second)


def test_a_killed_holder_is_passed_over_and_cannot_come_back(
    leases: Leases, other: subprocess.Popen[bytes]
) -> None:
    """No declaration takes a lease from a live holder, and none is needed once it is proved dead."""
    old = taken(leases.take(LANE, holder("one", process_table.process(other.pid))))
    answer = leases.take_over(LANE, holder("two"), number=old.number, declared="ann: it hangs")
    assert isinstance(answer, HeldByOther)
    other.kill()
    other.wait()
    new = taken(leases.take(LANE, holder("two")))
    assert new.number == old.number + 1
    assert new.taken_from is not None
    assert (new.taken_from.holder.change, new.taken_from.life) == ("one", "dead")
    for late in (leases.renew, leases.require):
        with pytest.raises(LeaseLost, match=r"two@host holds it") as caught:
            late(old)
        assert caught.value.problem.code == "HF-STORE-9"
        assert caught.value.exit == Exit.BUSY
    leases.release(old)
    leases.require(new)


def test_an_unknown_holder_is_replaced_only_if_declared_dead(leases: Leases) -> None:
    """The word is recorded, and counts for the holder that the person saw, not for the next one."""
    old = taken(leases.take(LANE, holder("one", SOMEWHERE_ELSE)))
    assert isinstance(leases.take(LANE, holder("two")), HeldByOther)
    assert isinstance(leases.take_over(LANE, holder("two"), number=old.number, declared=None), HeldByOther)
    assert isinstance(
        leases.take_over(LANE, holder("two"), number=old.number + 1, declared="ann"), HeldByOther
    )
    new = taken(leases.take_over(LANE, holder("two"), number=old.number, declared="ann: the runner is gone"))
    renewed = leases.renew(new)
    again = taken(leases.take(LANE, holder("two")))
    for one in (new, renewed, again):
        assert one.taken_from is not None
        assert one.taken_from.declared == "ann: the runner is gone"
    with pytest.raises(LeaseLost):
        leases.renew(old)


def test_another_process_of_the_same_change_is_another_holder(leases: Leases) -> None:
    """A job that is run again under its old id waits for the process that still holds the lane."""
    taken(leases.take(LANE, holder("one", SOMEWHERE_ELSE)))
    assert isinstance(leases.take(LANE, holder("one")), HeldByOther)
    # Only a worker knows better: the other one lost the change to it.
    assert isinstance(leases.take(LANE, holder("two"), from_same_change=True), HeldByOther)
    assert isinstance(
        leases.take(LANE, holder("one"), spare=lambda _: True, from_same_change=True), HeldByOther
    )
    assert taken(leases.take(LANE, holder("one"), from_same_change=True)).number == 2


def test_a_dead_holder_is_spared_while_its_work_goes_on(
    leases: Leases, other: subprocess.Popen[bytes]
) -> None:
    """The one who takes is asked: what the dead holder began may still be at work."""
    old = taken(leases.take(LANE, holder("one", process_table.process(other.pid))))
    other.kill()
    other.wait()
    asked: list[HeldByOther] = []

    def spare(held: HeldByOther) -> bool:
        asked.append(held)
        return True

    assert isinstance(leases.take(LANE, holder("two"), spare=spare), HeldByOther)
    assert [(held.number, held.life) for held in asked] == [(old.number, Liveness.DEAD)]
    assert taken(leases.take(LANE, holder("two"), spare=lambda _: False)).number == old.number + 1


class BeatsBetween(MemoryBlobs):
    """Just before the next record is replaced, its holder's heartbeat comes between."""

    def __init__(self) -> None:
        super().__init__()
        self.beats: list[Callable[[], object]] = []

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        if self.beats:
            self.beats.pop()()
        return super().replace(name, data, tag=tag)


def test_a_heartbeat_does_not_undo_a_release() -> None:
    """A lease is free when its release returns, even if a heartbeat was written meanwhile."""
    blobs = BeatsBetween()
    leases = Leases(encrypted_on(blobs))
    lease = taken(leases.take(LANE, holder("one")))
    blobs.beats.append(lambda: leases.renew(lease))
    leases.release(lease)
    assert blobs.beats == []
    assert leases.look(LANE) is None


def test_many_takers_at_once(leases: Leases) -> None:
    """One has it; all others are told the same name."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: leases.take(LANE, holder(f"c{number}")), range(24)))
    winners = [answer for answer in answers if isinstance(answer, Lease)]
    assert [lease.number for lease in winners] == [1]
    assert {answer.holder for answer in answers} == {winners[0].holder}


def test_a_record_of_another_version_is_not_taken_for_free(encrypted: EncryptedBlobs, leases: Leases) -> None:
    """An unreadable lease counts as held."""
    encrypted.create(f"leases/{LANE}", b'{"version":2,"number":7,"holder":null,"beat":""}')
    with pytest.raises(UnknownOutcome) as caught:
        leases.take(LANE, holder("one"))
    assert caught.value.problem.code == "HF-STORE-2"


def test_lost_answers_of_s3_take_nothing_away() -> None:
    """What S3 did and did not say is found to be ours: taking, heartbeat and release go on."""
    with FlakyS3() as s3:
        s3.make_bucket("acme")
        blobs = S3Blobs.open("s3://acme/p", s3.variables, timeouts=S3Timeouts(pause=0.01))
        leases = Leases(encrypted_on(blobs))
        faults: tuple[Fault, ...] = (LostAnswer(), Twice())
        for number, fault in enumerate(faults, start=1):
            s3.disturb(fault, method="PUT", times=2)
            lease = taken(leases.take(LANE, holder("one")))
            assert lease.number == number
            s3.disturb(fault, method="PUT", times=1)
            lease = leases.renew(lease)
            leases.require(lease)
            s3.disturb(fault, method="PUT", times=1)
            leases.release(lease)
            assert leases.look(LANE) is None
