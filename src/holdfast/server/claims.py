"""Claims of stacks on the server. Who holds the lease of the state holds the claim of the stack.

Both are taken, passed on and ended in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holdfast import __version__
from holdfast.kernel.errors import Refused
from holdfast.server.blob_names import CLAIMS, absent, changed, decoded, invalid
from holdfast.server.exceptions import problem
from holdfast.server.problems import Denial
from holdfast.server.run_folders import RunFolder, RunFolders
from holdfast.store.blob_cipher import BlobCipher
from holdfast.store.blobs import EncryptedBlobs, decode_name, encode_name
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.server_states.blobs import RunId
from holdfast.store.server_states.changes import StateChange, StateKey
from holdfast.store.server_states.locks import (
    Caller,
    HolderKind,
    LockRequest,
    StateLock,
    StateRefusal,
    is_holder,
    run_lease,
)
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.rules import granted_lock, refuse_locked, taken_over_lock
from holdfast.store.stack_names import require_no_device
from holdfast.system import clock

if TYPE_CHECKING:
    from psycopg import Connection


class Claim(Struct, frozen=True, kw_only=True):
    """What the server must know of a claim. Its intent is the client's own."""

    stack: str
    run: RunId
    intent: dict[str, object]


class FencedChange(NamedTuple):
    """A change that a worker has: with another fence, another worker has it."""

    id: str
    fence: int

    def require(self, connection: Connection[Any]) -> None:
        """Who takes the change over waits for this transaction: it sees all that is written in it."""
        statement = "select 1 from changes where id = %s and fence = %s and phase = 'running' for share"
        if connection.execute(statement, self).fetchone() is None:
            raise Refused(
                "HF-RUN-30",
                "another worker has taken the change over, so nothing was applied here",
                hint="Its run goes on there: holdfast runs list",
            )


class ServerClaims:
    """Of one tenant, for one verified caller."""

    def __init__(
        self,
        rows: StateRows,
        tenant: str,
        caller: Caller,
        *,
        runs: RunFolders,
        blobs: DatabaseBlobs,
        cipher: Callable[[], BlobCipher],
        change: FencedChange | None = None,
    ) -> None:
        """`change`: of the worker for which the claims are taken."""
        self._rows = rows
        self._tenant = tenant
        self._caller = caller
        self._runs = runs
        self._blobs = blobs
        self._cipher = cipher
        self._change = change

    def take(self, name: str, data: bytes) -> None:
        claim = claim_of(data)
        if claim.stack != decode_name(name.split("/")[1]):
            raise invalid("the claim is that of another stack")
        if self._change is None:
            require_no_device((claim.stack,))
        request, refused = self._lease(claim.run), None
        with self._changing(name) as (change, blobs):
            lock = change.row.lock
            if not blobs.create(name, data):
                raise changed(name)
            if lock is not None and lock.kind is HolderKind.RUN:
                # Of a run that has no claim any more.
                change.release(lock)
                lock = None
            try:
                change.hold(granted_lock(replace(change.row, lock=lock), request))
            except StateRefusal as refusal:
                refused = refusal
                change.wait(request)
                blobs.remove(name)
            folder = RunFolder(claim.stack, self._caller.subject)
            if self._runs.create(claim.run, folder, change.connection).holder != folder.holder:
                raise invalid(f"the run {claim.run} is another's")
        if refused is not None:
            raise refused

    def release(self, name: str, tag: str | None) -> None:
        """By its holder. Another takes it over first, which needs a proof or a declaration."""
        with self._changing(name) as (change, blobs):
            claim, lock = blobs.read(name), change.row.lock
            if claim is None:
                raise absent(name)
            if tag not in (None, claim.tag):
                raise changed(name)
            run = claim_of(claim.data).run
            held = lock is not None and lock.run == run
            if lock is not None and held and not is_holder(lock, self._caller):
                refuse_locked(lock)
            folder = None if held else self._runs.of(run)
            if not held and (folder is None or folder.holder != self._caller.subject):
                raise no_claim(decode_name(name.split("/")[1]), run)
            blobs.remove(name, tag=claim.tag)
            if lock is not None and held:
                change.release(lock)

    def take_over(self, stack: str, run: str, *, declared: str | None) -> None:
        """The claim and the lease of a run that is proved or declared dead pass to the caller. Recorded.

        A run with a heartbeat is alive, whatever anyone declares. Nothing happens to the caller's own.
        """
        name = f"{CLAIMS}/{encode_name(stack)}"
        with self._changing(name) as (change, blobs):
            claim, lock = blobs.read(name), change.row.lock
            if claim is None or claim_of(claim.data).run != run:
                raise no_claim(stack, run)
            if lock is None:
                lock = granted_lock(change.row, self._lease(run))
                change.record(self._caller.who, "take over", f"run {run}: its lease was ended")
            elif lock.run != run or not is_holder(lock, self._caller):
                if lock.run == run and not lock.expired(change.row.now):
                    raise _has_heartbeat(stack, lock)
                number, dead = lock.number, declared is None
                lock = taken_over_lock(
                    change.row, self._lease(run), number=number, dead=dead, declared=declared
                )
                change.record(self._caller.who, "take over", lock.taken_from)
            change.hold(lock)
            self._runs.give(run, self._caller.subject, change.connection)

    def _lease(self, run: str) -> LockRequest:
        who, created = self._caller, clock.now().isoformat()
        return run_lease(run, run, who=who.who, holder=who.subject, created=created, version=__version__)

    @contextmanager
    def _changing(self, claim: str) -> Iterator[tuple[StateChange, EncryptedBlobs]]:
        """The state of this claim with its row locked, and the blobs, in one transaction."""
        key = StateKey(self._tenant, decode_name(claim.split("/")[1]))
        with self._rows.change(key) as change:
            if self._change is not None:
                self._change.require(change.connection)
            yield change, EncryptedBlobs(self._blobs.within(change.connection), self._cipher)


def claim_of(data: bytes) -> Claim:
    return decoded(data, Claim, "the claim does not name its stack, its run and what it is for")


def no_claim(stack: str, run: str) -> Exception:
    return problem(
        Denial(
            status=409,
            code="HF-STORE-26",
            message=f"the run {run} has no claim on {stack} that is yours",
            hint=f"See who has: holdfast runs list. Then plan again: holdfast plan {stack}",
        )
    )


def _has_heartbeat(stack: str, lock: StateLock) -> Exception:
    return problem(
        Denial(
            status=423,
            code="HF-LOCK-8",
            message=f"{stack}: run {lock.run} of {lock.who} had a heartbeat at {lock.beat:%H:%M:%S} UTC",
            hint=f"If it is dead, repeat the command after {lock.expires:%H:%M:%S} UTC.",
        )
    )
