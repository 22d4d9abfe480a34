"""One reconcile at a time, when the run is dead and no Terraform of another reconcile is running.

The claim belongs to the dead run, so it does not exclude a second reconcile of that run; this lock does.
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


def require_holder_dead(store: RunStore, identity: Identity, claim: Claim, declared: str | None) -> None:
    """A live process cannot be declared dead; one on an unreachable machine only by the user."""
    journal = collect_journal(store, claim)
    now = holder_liveness(store, claim, journal)
    dead = now.proved_dead or journal.ended is not None or declared is not None
    if now.alive or (dead and journal.started is None and not prevent_start(store, claim)):
        raise Busy(
            "HF-LOCK-2",
            f"{claim.stack}: run {claim.run} of {claim.intent.who} is still running",
            hint="Wait until it finishes, then try again.",
        )
    if declared is not None and (change := claim.intent.change) is not None:
        lanes.declare_dead(store, identity, change, declared)
    if dead:
        return
    raise Busy(
        "HF-LOCK-3",
        f"{claim.stack}: cannot prove that run {claim.run} of {claim.intent.who} has ended; "
        f"its last heartbeat was {now.heartbeat or claim.intent.started}",
        hint="If its machine no longer exists: --holder-dead --reason TEXT",
    )


@contextlib.contextmanager
def hold_reconcile_lock(
    store: RunStore, identity: Identity, claim: Claim, *, declared: str | None
) -> Iterator[None]:
    """`declared` is why the user declares another holder dead; a live holder is never displaced."""
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
            hint="Wait until it finishes. If its machine no longer exists: --holder-dead --reason TEXT",
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
            f"{claim.stack}: run {claim.run} was just resolved by another process",
            hint="Plan again to see what is left.",
        )


def start_import_journal(store: RunStore, claim: Claim) -> str:
    """The id of the journal of the imports; stored so that the next reconcile finds it."""
    journal = clock.new_id()
    store.runs.write(claim.run, _IMPORTING, journal.encode())
    return journal


def _require_no_import(store: RunStore, claim: Claim) -> None:
    """A killed reconcile can leave a Terraform that finishes its imports; an unstarted one is prevented."""
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
            f"{claim.stack}: a reconcile of run {claim.run} was killed; its Terraform is still importing",
            hint="Wait until it finishes, then try again.",
        )
