"""A stack is claimed by one run at a time; the next one is told who is first, or how that one ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

from msgspec import Struct

from holdfast.kernel.errors import Busy, HoldfastError, UnknownOutcome
from holdfast.plans.context import Session
from holdfast.stacks.stack import Stack
from holdfast.store import output_buffer
from holdfast.store.claims import Claim
from holdfast.store.journal import Journal
from holdfast.store.run_records import PULSE, SPOOL, TAIL, journal_name
from holdfast.store.shipping import ship_rest
from holdfast.system import clock, files, process_table
from holdfast.system.process_table import Liveness, ProcessId

_LOOK_AGAIN = 0.5
_SILENT_SECONDS = 60.0
"""On another machine nothing proves a death; a run that gave no sign for this long is not called busy."""


@contextlib.asynccontextmanager
async def claimed(session: Session, stack: Stack, operation: str) -> AsyncIterator[None]:
    """For what is done in one step: afterwards the stack is free, whatever came of it."""
    claim = await take(session, plain_claim(session, stack, operation))
    try:
        yield
    finally:
        session.store.claims.release(stack.name, claim.run)


def plain_claim(session: Session, stack: Stack, operation: str) -> Claim:
    return Claim(
        stack=stack.name,
        run=session.change,
        intent={
            "operation": operation,
            "who": session.who,
            "started": clock.now().isoformat(),
            "process": process_table.this_process().document(),
        },
    )


async def take(session: Session, claim: Claim) -> Claim:
    """Ours, or an error that names the holder. Waits as long as the session may wait."""
    end = clock.monotonic() + session.wait
    while True:
        holds = await asyncio.to_thread(_first, session, claim)
        if holds.run == claim.run:
            return claim
        if clock.monotonic() >= end or session.stop.level or not alive(session, holds):
            raise busy(holds)
        await asyncio.sleep(_LOOK_AGAIN)


def _first(session: Session, claim: Claim) -> Claim:
    """Whose the stack is. Where nobody answers, our claim may stand all the same: it is taken back."""
    try:
        return session.store.claims.take(claim)
    except HoldfastError:
        with contextlib.suppress(HoldfastError):
            session.store.claims.release(claim.stack, claim.run)
        raise


def busy(claim: Claim) -> Busy:
    what = {"apply": "being applied", "push": "being given a state"}.get(
        operation_of(claim), "being worked on"
    )
    return Busy(
        "HF-LOCK-2",
        f"{claim.stack} is {what} already by {claim.intent.get('who')}, run {claim.run}, "
        f"since {claim.intent.get('started')}",
        hint="Wait until that is done (--wait 30m), then plan again.",
    )


def operation_of(claim: Claim) -> str:
    return str(claim.intent.get("operation"))


def change_of(claim: Claim) -> str | None:
    """The change whose run claimed the stack; None for what is done in one step, outside a change."""
    written = claim.intent.get("intent")
    inner = written.get("intent") if isinstance(written, Mapping) else None
    return str(inner.get("change")) if isinstance(inner, Mapping) else None


class Signs(Struct, frozen=True, kw_only=True):
    """Who may still be at work on a claimed stack, and when they were last heard of."""

    asker: Liveness
    supervisor: Liveness | None
    """None: Terraform was never started, as far as the journal says."""
    pulse: str | None

    @property
    def alive(self) -> bool:
        return Liveness.ALIVE in (self.asker, self.supervisor)

    @property
    def proved_dead(self) -> bool:
        return self.asker is Liveness.DEAD and self.supervisor in (None, Liveness.DEAD)


def signs(session: Session, claim: Claim, journal: Journal) -> Signs:
    asker = process_table.liveness(ProcessId.of(_mapping(claim.intent["process"])))
    supervisor = None
    if journal.started is not None:
        supervisor = process_table.liveness(ProcessId.of(_mapping(journal.started["process"])))
    beat = session.store.runs.read(claim.run, PULSE)
    return Signs(asker=asker, supervisor=supervisor, pulse=beat.decode() if beat is not None else None)


def journal_of(session: Session, claim: Claim) -> Journal:
    """The journal as far as anybody has it: what a dead process left on this machine is shipped first."""
    store = session.store
    journal = store.runs.journal(claim.run, store.key)
    shipped = files.content_of(session.environment.home / SPOOL / journal_name(claim.run))
    said = _left_in_memory(journal)
    if (shipped is None and said is None) or signs(session, claim, journal).alive:
        return journal
    if shipped is not None:
        ship_rest(store.blobs, claim.run, shipped)
    if said is not None:
        store.runs.write(claim.run, TAIL, said)
        output_buffer.remove_buffer(str((journal.started or {}).get("spill")))
    return store.runs.journal(claim.run, store.key)


def _left_in_memory(journal: Journal) -> bytes | None:
    """What Terraform had said and nobody had read: only on the machine of the dead run."""
    started = journal.started
    name = started.get("spill") if started is not None else None
    if not isinstance(name, str) or started is None or journal.ended is not None:
        return None
    if process_table.liveness(ProcessId.of(_mapping(started["process"]))) is not Liveness.DEAD:
        return None
    return output_buffer.read_buffer(name)


def alive(session: Session, claim: Claim) -> bool:
    """Whether somebody is at work; on another machine, whether somebody was heard of lately."""
    journal = journal_of(session, claim)
    found = signs(session, claim, journal)
    if found.alive:
        return True
    if found.proved_dead or journal.ended is not None:
        return False
    last = found.pulse or str(claim.intent.get("started"))
    return clock.seconds_since(last) < _SILENT_SECONDS


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise UnknownOutcome("HF-STORE-2", "the run store holds a claim that does not say whose it is")
    return value
