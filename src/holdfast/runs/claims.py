"""One run at a time claims a stack; the next one learns who holds it, or how that run ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from msgspec import Struct

from holdfast.kernel.errors import Busy, HoldfastError, Refused, UnknownOutcome
from holdfast.plans.context import Control, Identity
from holdfast.runs.intent import Intent
from holdfast.stacks.stack import Stack
from holdfast.store import output_buffer
from holdfast.store.journal import Journal, read_journal
from holdfast.store.run_records import FENCED, HEARTBEAT, TAIL, StoredClaim, journal_name
from holdfast.store.run_store import RunStore
from holdfast.store.shipping import ship_rest
from holdfast.system import clock, files, process_table
from holdfast.system.process_table import Liveness, ProcessId

POLL_SECONDS = 0.5
SILENT_SECONDS = 60.0
"""A holder whose death cannot be proved is not waited for after this long without a heartbeat."""


class Claim(Struct, frozen=True, kw_only=True):
    stack: str
    run: str
    intent: Intent


def claim_on(store: RunStore, stack: str) -> Claim | None:
    stored = store.claims.of(stack)
    return _claim(stored) if stored is not None else None


def all_claims(store: RunStore) -> tuple[Claim, ...]:
    return tuple(_claim(stored) for stored in store.claims.all())


def readable_claims(store: RunStore) -> dict[str, Claim | None]:
    """By run, for a list; None: what it is for cannot be read, which stops only its own stack."""
    claims: dict[str, Claim | None] = {}
    for stored in store.claims.all():
        try:
            claims[stored.run] = _claim(stored)
        except UnknownOutcome:
            claims[stored.run] = None
    return claims


def _claim(stored: StoredClaim) -> Claim:
    return Claim(stack=stored.stack, run=stored.run, intent=Intent.from_document(stored.intent))


@contextlib.asynccontextmanager
async def hold_claim(
    store: RunStore, control: Control, identity: Identity, stack: Stack, operation: str
) -> AsyncIterator[None]:
    """For an operation of one step: afterwards the stack is free, whatever the result."""
    intent = Intent(
        operation=operation,
        who=identity.who,
        started=clock.now().isoformat(),
        process=process_table.this_process(),
    )
    claim = Claim(stack=stack.name, run=identity.change, intent=intent)
    await take_claim(store, control, claim)
    try:
        yield
    finally:
        store.claims.release(stack.name, claim.run)


async def take_claim(store: RunStore, control: Control, claim: Claim) -> None:
    """Claim the stack, or raise `Busy` that names the holder. Waits as long as the caller allows."""
    end = clock.monotonic() + control.wait
    while True:
        holder = await asyncio.to_thread(_take, store, claim)
        if holder.run == claim.run:
            return
        working = is_working(store, holder)
        if clock.monotonic() >= end or control.stop.level or not working:
            raise stack_busy(holder, working=working)
        await asyncio.sleep(POLL_SECONDS)


def _take(store: RunStore, claim: Claim) -> Claim:
    """The claim that holds the stack. After an error ours may have been written: it is withdrawn."""
    store.machines.record()
    try:
        stored = store.claims.take(StoredClaim(claim.stack, claim.run, claim.intent.document()))
        # A rotation of the key looks for claims after it has announced itself: one of the two sees the other.
        store.require_unchanged_key()
    except HoldfastError:
        with contextlib.suppress(HoldfastError):
            store.claims.release(claim.stack, claim.run)
        raise
    return claim if stored.run == claim.run else _claim(stored)


def stack_busy(claim: Claim, *, working: bool = True) -> Busy:
    hint = "Wait until that run ends, then try again. apply and destroy can wait for it: --wait 30m"
    if not working:
        hint = f"That run was interrupted; resolve it first: holdfast runs reconcile {claim.run}"
    doing = {"apply": "being applied", "push": "being updated"}.get(claim.intent.operation, "in use")
    return Busy(
        "HF-LOCK-2",
        f"{claim.stack} is {doing} by {claim.intent.who}, run {claim.run}, "
        f"since {claim.intent.started[:19]}Z",
        hint=hint,
    )


def holder_not_proved_dead(claim: Claim, holder: HolderLiveness) -> Busy:
    return Busy(
        "HF-LOCK-3",
        f"{claim.stack}: cannot prove that run {claim.run} of {claim.intent.who} has ended; "
        f"its last heartbeat was {holder.heartbeat or claim.intent.started}",
        hint="If its process or its machine no longer exists: "
        f"holdfast runs reconcile {claim.run} --holder-dead --reason TEXT",
    )


class HolderLiveness(Struct, frozen=True, kw_only=True):
    """Which processes of a run may still work on its stack, and its last heartbeat."""

    caller: Liveness
    supervisor: Liveness | None
    """None: Terraform was never started, as far as the journal says."""
    heartbeat: str | None

    @property
    def alive(self) -> bool:
        return Liveness.ALIVE in (self.caller, self.supervisor)

    @property
    def proved_dead(self) -> bool:
        return self.caller is Liveness.DEAD and self.supervisor in (None, Liveness.DEAD)


def holder_liveness(store: RunStore, claim: Claim, journal: Journal) -> HolderLiveness:
    supervisor = None
    if journal.started is not None:
        supervisor = store.machines.liveness(_supervisor(journal.started))
    heartbeat = store.runs.read(claim.run, HEARTBEAT)
    caller = store.machines.liveness(claim.intent.process)
    dead = caller is Liveness.DEAD and supervisor in (None, Liveness.DEAD)
    if not dead and store.on_server and store.runs.read(claim.run, FENCED) is not None:
        # A worker, which may live on without the change that it lost: it starts and writes nothing more.
        caller = Liveness.DEAD
        if journal.ended is not None:
            # Terraform has ended; the worker keeps the process for its next command.
            supervisor = Liveness.DEAD
    return HolderLiveness(
        caller=caller,
        supervisor=supervisor,
        heartbeat=heartbeat.decode() if heartbeat is not None else None,
    )


def collect_journal(store: RunStore, claim: Claim) -> Journal:
    """The whole journal of the run, with what a dead process left on this machine."""
    journal = store.runs.journal(claim.run)
    spooled = files.content_of(store.spool / journal_name(claim.run)) if store.spool else None
    output = _unread_output(journal)
    if (spooled is None and output is None) or not store.shows_output:
        return journal
    if holder_liveness(store, claim, journal).alive:
        return journal
    try:
        if spooled is not None:
            ship_rest(store.blobs, claim.run, spooled)
        if output is not None and store.can_apply:
            store.runs.write(claim.run, TAIL, output)
            output_buffer.remove_buffer(str(_buffer_name(journal)))
    except Refused:
        # On a server, the run of another person: who takes it over stores the rest.
        return read_journal(store.cipher, claim.run, spooled) if spooled is not None else journal
    return store.runs.journal(claim.run)


def _buffer_name(journal: Journal) -> object:
    return (journal.started or {}).get("output_buffer")


def _unread_output(journal: Journal) -> bytes | None:
    """Output of Terraform that no process had read: only on the machine of the dead run."""
    started, name = journal.started, _buffer_name(journal)
    if not isinstance(name, str) or started is None or journal.ended is not None:
        return None
    if process_table.liveness(_supervisor(started)) is not Liveness.DEAD:
        return None
    return output_buffer.read_buffer(name)


def is_working(store: RunStore, claim: Claim) -> bool:
    """Whether the run is at work; on another machine, whether it had a heartbeat lately."""
    journal = collect_journal(store, claim)
    holder = holder_liveness(store, claim, journal)
    if holder.alive:
        return True
    if holder.proved_dead or journal.ended is not None:
        return False
    return clock.seconds_since(holder.heartbeat or claim.intent.started) < SILENT_SECONDS


def _supervisor(started: Mapping[str, object]) -> ProcessId:
    process = started["process"]
    if not isinstance(process, Mapping):
        raise UnknownOutcome(
            "HF-STORE-2",
            "the run store has a journal that does not name its process",
            hint="Restore it from a backup. Holdfast runs nothing until the store is readable.",
        )
    return ProcessId.of(process)
