"""What a dead run can leave besides resources (processes, a lock, a state), and the lock of a reconcile.

The claim of the dead run does not exclude a second reconcile of that run; `hold_reconcile_lock` does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple, TypeVar

from holdfast.kernel.errors import Busy
from holdfast.plans.context import ChangeContext, Identity
from holdfast.plans.errors import StateLocked, TerraformFailed
from holdfast.plans.stale_locks import is_lock_taken_on
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir
from holdfast.recovery.crash_report import require_plan_intent, state_before, state_now
from holdfast.runs import lanes
from holdfast.runs.claims import Claim
from holdfast.runs.outcome import require_ended
from holdfast.states.operations import push_command, push_content, removed_by_run
from holdfast.states.surgery import require_allowed, state_change
from holdfast.store.blobs import encode_name, to_json
from holdfast.store.journal import Journal
from holdfast.store.leases import Holder, Lease
from holdfast.store.run_records import IMPORTING, IMPORTS_FOR
from holdfast.store.run_store import RunStore
from holdfast.system import clock, process_table, processes
from holdfast.system.process_table import Liveness, ProcessId
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.diagnostics import LockInfo
from holdfast.terraform.statefile.model import State, StateFile, read_state

_FINISH_SECONDS = 10.0
_LOOK_AGAIN = 0.1

T = TypeVar("T")


async def kill_orphans(journal: Journal) -> tuple[str, ...]:
    """Providers outlive a killed Terraform and finish their request: wait for them, then kill them."""
    started = journal.started["process"] if journal.started is not None else None
    if not isinstance(started, Mapping):
        return ()
    supervisor = ProcessId.of(started)
    if (
        process_table.liveness(supervisor) is not Liveness.DEAD
        or process_table.process(supervisor.pid).started
    ):
        # Not proved dead; or dead for so long that its process id now belongs to another process.
        return ()
    end = clock.monotonic() + _FINISH_SECONDS
    # There is no event to wait for when a process is not our child.
    while (orphans := process_table.session_members(supervisor.pid)) and clock.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(_LOOK_AGAIN)
    if not orphans:
        return ()
    processes.kill_all(orphans)
    return (
        f"killed {len(orphans)} orphaned {'process' if len(orphans) == 1 else 'processes'} of the dead run",
    )


def is_lock_of(lock: LockInfo, claim: Claim) -> bool:
    """Whether the lock was taken on the dead run's machine after the run started."""
    return is_lock_taken_on(lock, host=claim.intent.process.host, began=claim.intent.started)


class UnsavedStateOutcome(StrEnum):
    """What happens to a state that Terraform could not save, as text after "the unsaved state"."""

    SAVED = "was saved"
    OLD = "is not newer than the current one and was set aside"
    DAMAGED = "cannot be read and was set aside"
    KEPT = "has a different lineage than the current one and was not saved; Holdfast still stores it"


def unsaved_state_outcome(unsaved: StateFile, now: StateFile) -> UnsavedStateOutcome:
    if not isinstance(unsaved, State):
        return UnsavedStateOutcome.DAMAGED
    if not isinstance(now, State):
        return UnsavedStateOutcome.SAVED
    if now.managed == 0 and not unsaved.lineage:
        return UnsavedStateOutcome.SAVED
    if unsaved.lineage != now.lineage:
        return UnsavedStateOutcome.KEPT
    return UnsavedStateOutcome.SAVED if unsaved.serial > now.serial else UnsavedStateOutcome.OLD


async def retry_past_stale_lock(
    terraform: Terraform, claim: Claim, work: Callable[[], Awaitable[T]], *, declared: bool = False
) -> T:
    """Do work that needs the state lock, releasing a lock that the dead run left, and no other.

    If Terraform does not report the holder, a person must have `declared` it dead.
    """
    try:
        return await work()
    except StateLocked as error:
        if error.lock is None and not declared:
            raise Busy(
                "HF-LOCK-7",
                error.problem.message,
                hint=f"If it is the lock of the dead run: holdfast runs reconcile {claim.run} "
                "--holder-dead --reason TEXT",
            ) from None
        if error.lock is not None and not is_lock_of(error.lock, claim):
            raise
        await terraform.force_unlock(error.lock.id if error.lock is not None else claim.run)
    return await work()


async def release_stale_lock(terraform: Terraform, claim: Claim, *, declared: bool) -> None:
    """Of a remote backend, after `init`. A lock that others hold is reported by the next plan."""
    home = terraform.workdir.home
    if home.managed or home.file is not None:
        return
    with contextlib.suppress(StateLocked, TerraformFailed):
        await retry_past_stale_lock(
            terraform, claim, lambda: terraform.plan(PlanOptions()), declared=declared
        )


class RestoredState(NamedTuple):
    notes: tuple[str, ...] = ()
    unsaved: UnsavedStateOutcome | None = None
    """None: there was no unsaved state."""


async def restore_state(
    context: ChangeContext, workdir: StackWorkdir, claim: Claim, *, declared: bool
) -> RestoredState:
    """Save an unsaved state; restore a local state that a kill emptied from its backup.

    An unsaved state that is not pushed stays where it is: `resolve_unsaved` sets it aside once the run is
    resolved.
    """
    stack, store = workdir.stack, context.store
    unsaved = store.errored(stack.name)
    if unsaved is not None:
        now = await state_now(context, workdir) or b""
        outcome = unsaved_state_outcome(read_state(unsaved), read_state(now))
        if outcome is UnsavedStateOutcome.SAVED:
            change = state_change(stack.name, "push", now, unsaved, allowed=removed_by_run(claim))
            require_allowed(context, stack, change, None, command=push_command(stack, None))
            await retry_past_stale_lock(
                Terraform(context, workdir),
                claim,
                lambda: push_content(context, workdir, unsaved, run=claim.run),
                declared=declared,
            )
            store.resolve_errored(stack.name)
        return RestoredState((f"the unsaved state {outcome.value}",), outcome)
    if workdir.home.file is not None and not isinstance(
        read_state(await state_now(context, workdir) or b""), State
    ):
        intent = require_plan_intent(claim)
        before = state_before(context.store, claim, intent)
        if before is not None:
            await push_content(context, workdir, before, run=claim.run)
            note = "the local state was empty or unreadable: restored its backup from before the run"
            return RestoredState((note,))
        if workdir.home.file.exists() and intent.serial == 0:
            # There was no state before: the first write of this run was interrupted.
            workdir.home.file.rename(
                workdir.home.file.with_name(f"{workdir.home.file.name}.damaged-{clock.new_id()}")
            )
            return RestoredState(("the first state of this stack was incomplete and was set aside",))
    return RestoredState()


def resolve_unsaved(store: RunStore, stack: str, outcome: UnsavedStateOutcome | None) -> None:
    """At the end of a reconcile that was not refused."""
    if outcome in (UnsavedStateOutcome.OLD, UnsavedStateOutcome.DAMAGED):
        store.resolve_errored(stack, pushed=False)


def require_holder_dead(store: RunStore, identity: Identity, claim: Claim, declared: str | None) -> None:
    """A live process cannot be declared dead; one on an unreachable machine only by the user."""
    require_ended(store, claim, declared=declared)
    if declared is not None and (change := claim.intent.change) is not None:
        lanes.declare_dead(store, identity, change, declared)


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
            hint="Wait until it finishes. If its machine no longer exists: "
            f"holdfast runs reconcile {claim.run} --holder-dead --reason TEXT",
        )
    try:
        _require_open(store, claim)
        _require_no_import(store, claim, declared=declared is not None)
        yield
    finally:
        leases.release(got)


def _require_open(store: RunStore, claim: Claim) -> None:
    now = store.claims.of(claim.stack)
    if now is None or now.run != claim.run:
        raise Busy(
            "HF-LOCK-5",
            f"{claim.stack}: run {claim.run} was just resolved by another process",
            hint=f"Plan again to see what is left: holdfast plan {claim.stack}",
        )


def start_import_journal(store: RunStore, identity: Identity, claim: Claim) -> str:
    """The id of the journal of the imports; stored so that the next reconcile and `runs list` know it."""
    journal = clock.new_id()
    imports: dict[str, object] = {
        "stack": claim.stack,
        "run": claim.run,
        "who": identity.who,
        "change": identity.change,
    }
    store.runs.write(journal, IMPORTS_FOR, to_json(imports))
    store.runs.write(claim.run, IMPORTING, journal.encode())
    return journal


def _require_no_import(store: RunStore, claim: Claim, *, declared: bool) -> None:
    """A killed reconcile can leave a Terraform that finishes its imports; an unstarted one is prevented."""
    named = store.runs.read(claim.run, IMPORTING)
    if named is None or store.runs.prevent_start(named.decode()):
        return
    journal = store.runs.journal(named.decode())
    process = journal.started.get("process") if journal.started is not None else None
    if journal.ended is None and isinstance(process, Mapping):
        life = store.machines.liveness(ProcessId.of(process))
        if life is Liveness.DEAD or (declared and life is not Liveness.ALIVE):
            return
        raise Busy(
            "HF-LOCK-5",
            f"{claim.stack}: a reconcile of run {claim.run} was killed; its Terraform may still be importing",
            hint="Wait until it finishes, then try again. If its machine no longer exists: "
            f"holdfast runs reconcile {claim.run} --holder-dead --reason TEXT",
        )
