"""Who may reconcile: one at a time, when the run is dead and no Terraform of another reconcile is at work.

The claim is the dead run's, so it keeps nobody out who reconciles that run; this does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from holdfast.kernel.errors import Busy
from holdfast.plans.context import Identity
from holdfast.runs import lanes
from holdfast.runs.claims import Claim, collect_journal, holder_liveness
from holdfast.runs.outcome import prevent_start
from holdfast.store.blobs import encode_name
from holdfast.store.leases import Holder, Lease
from holdfast.store.run_store import RunStore
from holdfast.system import clock, process_table
from holdfast.system.process_table import Liveness, ProcessId

_IMPORTING = "importing"


def require_dead(store: RunStore, identity: Identity, claim: Claim, declared: str | None) -> None:
    """A process that lives is never declared dead; one that cannot be seen only by a person."""
    journal = collect_journal(store, claim)
    now = holder_liveness(store, claim, journal)
    dead = now.proved_dead or journal.ended is not None or declared is not None
    if now.alive or (dead and journal.started is None and not prevent_start(store, claim)):
        raise Busy(
            "HF-LOCK-2",
            f"{claim.stack}: run {claim.run} of {claim.intent.who} is still at work",
            hint="Wait until it is done, then look again.",
        )
    if declared is not None and (change := claim.intent.change) is not None:
        lanes.declare_dead(store, identity, change, declared)
    if dead:
        return
    raise Busy(
        "HF-LOCK-3",
        f"{claim.stack}: nobody here can prove that run {claim.run} of {claim.intent.who} is over; "
        f"its last sign of life was {now.heartbeat or claim.intent.started}",
        hint="If its machine is gone, say so: --holder-dead --reason TEXT",
    )


@contextlib.contextmanager
def alone(store: RunStore, identity: Identity, claim: Claim, *, declared: str | None) -> Iterator[None]:
    """`declared` is why a person says that whoever else may be at it is dead; it moves nobody who lives."""
    leases, name = store.leases, f"reconcile/{encode_name(claim.stack)}"
    holder = Holder(
        change=identity.change,
        who=identity.who,
        what=f"reconcile of {claim.stack}",
        process=process_table.this_process(),
        since=clock.now().isoformat(),
    )
    got = leases.take(name, holder)
    if not isinstance(got, Lease) and declared is not None:
        got = leases.take_over(name, holder, number=got.number, declared=f"{identity.who}: {declared}")
    if not isinstance(got, Lease):
        raise Busy(
            "HF-LOCK-5",
            f"{claim.stack}: run {claim.run} is being reconciled by {got.holder.who} "
            f"on {got.holder.process.host} since {got.holder.since}",
            hint="Wait until that is done. If its machine is gone, say so: --holder-dead --reason TEXT",
        )
    try:
        _require_open(store, claim)
        _require_no_import(store, claim)
        yield
    finally:
        leases.release(got)


def _require_open(store: RunStore, claim: Claim) -> None:
    now = store.claims.of(claim.stack)
    if now is None or now.run != claim.run:
        raise Busy(
            "HF-LOCK-5",
            f"{claim.stack}: run {claim.run} was settled by somebody else just now",
            hint="Plan again to see what is left.",
        )


def importing(store: RunStore, claim: Claim) -> str:
    """The id under which the imports are journalled from now on; whoever comes next finds it."""
    journal = clock.new_id()
    store.runs.write(claim.run, _IMPORTING, journal.encode())
    return journal


def _require_no_import(store: RunStore, claim: Claim) -> None:
    """A killed reconcile leaves a Terraform that finishes its imports; one that has not begun never will."""
    named = store.runs.read(claim.run, _IMPORTING)
    if named is None or store.runs.prevent_start(named.decode()):
        return
    journal = store.runs.journal(named.decode(), store.key)
    process = journal.started.get("process") if journal.started is not None else None
    if journal.ended is None and isinstance(process, Mapping):
        if process_table.liveness(ProcessId.of(process)) is not Liveness.ALIVE:
            return
        raise Busy(
            "HF-LOCK-5",
            f"{claim.stack}: a reconcile of run {claim.run} was ended, and its Terraform still imports",
            hint="Wait until that is done, then do it again.",
        )
