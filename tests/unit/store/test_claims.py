"""Claims, and the journal's name that decides whether a claimed run can still begin."""

from __future__ import annotations

import pytest
from ciphers import encrypted_on
from memory_blobs import MemoryBlobs

from holdfast.kernel.errors import UnknownOutcome
from holdfast.store.run_records import Claims, RunRecords, StoredClaim, journal_name


@pytest.fixture
def blobs() -> MemoryBlobs:
    return MemoryBlobs()


@pytest.fixture
def claims(blobs: MemoryBlobs) -> Claims:
    return Claims(encrypted_on(blobs))


def claim(run: str, stack: str = "a/b") -> StoredClaim:
    return StoredClaim(stack=stack, run=run, intent={"operation": "apply", "of": run})


def test_the_first_one_has_it(claims: Claims) -> None:
    """The second one is told who was first, and what that one means to do."""
    assert claims.take(claim("r1")).run == "r1"
    holds = claims.take(claim("r2"))
    assert (holds.run, holds.intent["of"]) == ("r1", "r1")
    assert claims.take(claim("r2", stack="other")).run == "r2"


def test_taking_twice_is_taking_once(claims: Claims) -> None:
    """An answer that was lost is asked for again."""
    assert claims.take(claim("r1")).run == "r1"
    assert claims.take(claim("r1")).run == "r1"


def test_only_ones_own_is_released(claims: Claims) -> None:
    """A run that comes late takes no stack from the one that has it now."""
    claims.take(claim("r1"))
    claims.release("a/b", "r2")
    claims.release("x", "r1")
    assert [one.run for one in claims.all()] == ["r1"]
    claims.release("a/b", "r1")
    claims.release("a/b", "r1")
    assert claims.all() == ()


class HandsOver(MemoryBlobs):
    """Just before something is removed, its holder lets go and another one takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.handed = False

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        if not self.handed:
            self.handed = True
            super().remove(name)
            Claims(encrypted_on(self)).take(claim("r2"))
        return super().remove(name, tag=tag)


def test_a_late_release_leaves_the_next_one_alone() -> None:
    """A claim that changed since it was read is not removed."""
    claims = Claims(encrypted_on(HandsOver()))
    claims.take(claim("r1"))
    claims.release("a/b", "r1")
    held = claims.of("a/b")
    assert held is not None
    assert held.run == "r2"


class LetsGo(MemoryBlobs):
    """The holder releases the claim right after another run has found it taken."""

    def create(self, name: str, data: bytes) -> bool:
        created = super().create(name, data)
        if not created:
            self.remove(name)
        return created


def test_a_claim_released_while_it_is_taken_is_taken_again() -> None:
    """Nobody believes to have a stack without a claim in the store that says so."""
    claims = Claims(encrypted_on(LetsGo()))
    claims.take(claim("r1"))
    assert claims.take(claim("r2")).run == "r2"
    held = claims.of("a/b")
    assert held is not None
    assert held.run == "r2"


def test_claims_of_stacks_of_any_name_are_listed(claims: Claims) -> None:
    """Also those whose name begins with a dot."""
    for stack in ("a/b", ".hidden/x", "c"):
        claims.take(claim("r1", stack=stack))
    assert {one.stack for one in claims.all()} == {"a/b", ".hidden/x", "c"}


def test_a_damaged_claim_holds(claims: Claims, blobs: MemoryBlobs) -> None:
    """A claim that cannot be read frees nothing: the outcome of that run is unknown."""
    claims.take(claim("r1"))
    blobs.write("claims/a%2Fb", b"gone wrong")
    for use in (
        lambda: claims.of("a/b"),
        claims.all,
        lambda: claims.take(claim("r2")),
        lambda: claims.release("a/b", "r1"),
    ):
        with pytest.raises(UnknownOutcome):
            use()
    assert blobs.read("claims/a%2Fb") is not None


def test_a_run_that_was_barred_is_not_begun(blobs: MemoryBlobs) -> None:
    """One of the two is first: who bars a run, or who begins its journal. Barring twice is no beginning."""
    runs = RunRecords(encrypted_on(blobs))
    assert runs.prevent_start("r1")
    assert not runs.prevent_start("r1")
    assert runs.journal("r1").started is None
    assert not blobs.create(journal_name("r1"), b"a journal")
    blobs.create(journal_name("r2"), b"a journal")
    assert not runs.prevent_start("r2")
