"""Settle a run that ended remove_instances an answer: bring back what it made, and let the stack go on.

Every step is worked out anew from what does not change (the claim, the journal, the state of before) and from
the state as it is now: a reconcile that dies in the middle is simply done again. The claim of the dead run
holds the stack until the last object is accounted for; what was never begun is then left to an ordinary plan.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from holdfast.kernel.errors import Busy, Failed, Refused, UnknownOutcome, UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext
from holdfast.plans.errors import StateLocked, TerraformFailed, terraform_error
from holdfast.plans.plan_file import has_ephemeral_variables
from holdfast.plans.status import Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir, open_workdir
from holdfast.recovery import change_outcome as found
from holdfast.recovery.cleanup import end_leftovers, past_the_lock
from holdfast.recovery.crash_report import Aftermath, gather, require_plan_intent, state_now
from holdfast.recovery.imports import Import, Resolution, import_blocks, imports
from holdfast.recovery.reconcile_lock import alone, importing, require_dead
from holdfast.recovery.restore_state import state_back
from holdfast.runs import audit_trail
from holdfast.runs.claims import Claim, collect_journal
from holdfast.runs.outcome import close_run, finish_from_journal
from holdfast.stacks.stack import Stack
from holdfast.states.operations import push_content
from holdfast.store.journal import Journal
from holdfast.store.run_store import RunStore
from holdfast.store.snapshots import StateSnapshot
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.plan.actions import ChangeKind
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.statefile.contents import read_contents
from holdfast.terraform.statefile.edit import (
    InstanceRecord,
    add_deposed,
    deposed_key,
    find_instance,
    raise_serial,
    remove_deposed,
    remove_instances,
)
from holdfast.terraform.statefile.model import State, read_state
from holdfast.terraform.stream import CommandOutput
from holdfast.terraform.workdirs.workdir import remove_files

_BLOCKS = "zz_holdfast_imports.tf"
T = TypeVar("T")

_ONLY_THE_RECORD = frozenset({ChangeKind.NO_OP, ChangeKind.UPDATE, ChangeKind.READ})


class Declared(Struct, frozen=True, kw_only=True):
    """A person says that the holder of a stack is dead, and why."""

    reason: str


class Proposal(MaskedStruct, frozen=True, kw_only=True):
    """What reconcile is about to do, for a person to decide by."""

    aftermath: Aftermath
    resolution: Resolution
    plan: Plan | None
    """Of the imports; None where nothing is imported."""


class Reconciled(Struct, frozen=True, kw_only=True):
    claim: Claim
    aftermath: Aftermath | None
    """None: the record proved the end by itself."""
    resolution: Resolution | None = None
    put_back: tuple[str, ...] = ()
    settled: bool = True
    """False: the person said no."""
    notes: tuple[str, ...] = ()


Confirm = Callable[[Proposal], Awaitable[bool]]


async def reconcile(
    context: ChangeContext,
    stack: Stack,
    claim: Claim,
    *,
    given: Mapping[str, str],
    declared: Declared | None,
    confirm: Confirm,
) -> Reconciled:
    reason = declared.reason if declared is not None else None
    if reason is not None:
        audit_trail.record_holder_dead(context.identity.audit, stack.name, claim.run, reason)
    with audit_trail.audited(
        context.identity, context.control.tell, stack.name, what="reconcile", run=claim.run
    ):
        return await _reconciled(context, stack, claim, given, confirm, reason)


async def _reconciled(
    context: ChangeContext,
    stack: Stack,
    claim: Claim,
    given: Mapping[str, str],
    confirm: Confirm,
    reason: str | None,
) -> Reconciled:
    journal = collect_journal(context.store, claim)
    proved = finish_from_journal(context.store, context.control.tell, claim, journal)
    if proved is None:
        require_dead(context.store, context.identity, claim, reason)
        # It is over; what it said last may have come while we looked.
        journal = collect_journal(context.store, claim)
        proved = finish_from_journal(context.store, context.control.tell, claim, journal)
    if proved is None and claim.intent.plan is None:
        proved = _given_up(context.store, claim)
    if proved is not None:
        return Reconciled(claim=claim, aftermath=None, notes=proved)
    require_plan_intent(claim)
    with alone(context.store, context.identity, claim, declared=reason):
        return await _brought_back(context, stack, claim, journal, given, confirm, declared=reason)


async def _brought_back(
    context: ChangeContext,
    stack: Stack,
    claim: Claim,
    journal: Journal,
    given: Mapping[str, str],
    confirm: Confirm,
    *,
    declared: str | None,
) -> Reconciled:
    notes = [*await end_leftovers(journal)]
    async with open_workdir(context, stack, for_state=True) as ready:
        notes += await state_back(context, ready, claim)
        content = await state_now(context, ready)
        aftermath = gather(context.store, claim, journal, content)
        if aftermath.evidence.unseen is not None:
            raise UnknownOutcome(
                "HF-REC-7",
                f"{stack.name}: {aftermath.evidence.unseen}, so nothing can be reconciled",
                hint=f"Bring the state back first: holdfast state push {stack.name} FILE",
            )
        resolution = imports(aftermath.evidence, given)
        if resolution.unasked:
            raise UsageError(
                "HF-REC-8",
                f"{', '.join(resolution.unasked)}: an id was given, and no import is needed there",
                hint="Give --import only for what the run left open.",
            )
        work = _Work(context, ready, aftermath, resolution, declared=declared is not None)
        if not await work.agreed(confirm):
            return Reconciled(
                claim=claim, aftermath=aftermath, resolution=resolution, settled=False, notes=tuple(notes)
            )
        put_back = await work.done()
    close_run(context.store, claim, Status.FAILED, _summary(resolution, declared))
    return Reconciled(
        claim=claim, aftermath=aftermath, resolution=resolution, put_back=put_back, notes=tuple(notes)
    )


def _given_up(store: RunStore, claim: Claim) -> tuple[str, ...]:
    """Done in one step, by somebody who is out of sight: the stack is free again, and that is all."""
    note = f"nobody knows whether the {claim.intent.operation} of run {claim.run} was done; look at the state"
    close_run(store, claim, Status.FAILED, note)
    return (note,)


def _summary(resolution: Resolution, declared: str | None) -> str:
    said = f" (its holder was declared dead: {declared})" if declared else ""
    done = f"reconciled: {len(resolution.imports)} imported{said}"
    open_ = [one.address for one in resolution.unresolved]
    return f"{done}; not accounted for: {', '.join(open_)}" if open_ else done


class _Work:
    """The steps that change something, each of which can be done again."""

    def __init__(
        self,
        context: ChangeContext,
        ready: StackWorkdir,
        aftermath: Aftermath,
        resolution: Resolution,
        *,
        declared: bool,
    ) -> None:
        self._context = context
        self._declared = declared
        self._ready = ready
        self._aftermath = aftermath
        self._resolution = resolution
        self._run = aftermath.claim.run
        self._terraform = Terraform(context, ready)

    async def agreed(self, confirm: Confirm) -> bool:
        """The imports are planned on the state as it will be, and shown; nothing is changed before that.

        Where a record must leave the state first, the plan can only be made after it, and is checked then.
        """
        await self._terraform.init()
        plan = None
        if self._resolution.imports and not self._to_be_taken_out():
            plan = await self._plan_imports()
        return await confirm(Proposal(aftermath=self._aftermath, resolution=self._resolution, plan=plan))

    async def done(self) -> tuple[str, ...]:
        await self._free_the_lock()
        await self._take_out()
        if self._resolution.imports:
            await self._plan_imports()
            await self._apply_imports()
        return await self._put_back()

    async def _free_the_lock(self) -> None:
        """Also where nothing is imported: the plan that follows needs it. Another's lock is told there."""
        home = self._ready.home
        if self._resolution.imports or home.managed or home.file is not None:
            return
        with contextlib.suppress(StateLocked, TerraformFailed):
            await self._past_the_lock(lambda: self._terraform.plan(PlanOptions()))

    def _to_be_taken_out(self) -> tuple[found.Record, ...]:
        records = [record for one in self._resolution.imports for record in one.standing.taken_out]
        left = [
            found.Record(address=one.address, deposed=one.key)
            for one in self._aftermath.evidence.findings
            if isinstance(one, found.LeftDeposed) and one.forgets
        ]
        return (*records, *left)

    async def _take_out(self) -> None:
        """Terraform ignores an import for an address that it knows: the old record goes first."""
        state = self._aftermath.state
        if state is None:
            return
        changed = state
        for record in self._to_be_taken_out():
            if record.deposed is None:
                changed = remove_instances(changed, (record.address,))
            else:
                changed = remove_deposed(changed, record.address, record.deposed)
        if changed != state:
            await self._write(state, changed)

    async def _put_back(self) -> tuple[str, ...]:
        """An old object that may still exist becomes deposed: the next plan looks at it and deletes it."""
        wanted = [(one, record) for one in self._resolution.imports for record in one.standing.put_back]
        if not wanted:
            return ()
        state = await state_now(self._context, self._ready)
        if state is None:
            return ()
        changed, done = state, []
        for one, record in wanted:
            old = self._old(record)
            if old is not None:
                key = record.deposed or deposed_key(run=self._run, address=one.address)
                changed = add_deposed(changed, one.address, old, key)
                done.append(f"{one.address} (deposed {key})")
        if changed != state:
            await self._write(state, changed)
        return tuple(done)

    def _old(self, record: found.Record) -> InstanceRecord | None:
        for source in (self._aftermath.state, self._aftermath.before):
            if source is not None:
                old = find_instance(source, record.address, deposed=record.deposed)
                if old is not None:
                    return old
        return None

    async def _write(self, before: bytes, after: bytes) -> None:
        """Under the claim, with a copy of what was there, and under the next serial."""
        context, stack = self._context, self._ready.stack
        was = read_state(before)
        content = raise_serial(after, was.serial + 1) if isinstance(was, State) else b""
        will_be = read_state(content)
        if not isinstance(was, State) or not isinstance(will_be, State):
            raise Failed("HF-REC-7", f"{stack.name}: the state cannot be read, so it is not changed")
        if self._ready.home.managed:
            numbers = context.store.states.numbers(stack.name)
            new = StateSnapshot.of(content, will_be, run=self._run, who=context.identity.who, why="reconcile")
            if context.store.states.add(stack.name, new, after=numbers[-1] if numbers else 0) is None:
                raise Busy("HF-LOCK-2", f"{stack.name}: somebody else wrote its state just now")
            return
        context.store.backups.add(
            stack.name,
            StateSnapshot.of(before, was, run=self._run, who=context.identity.who, why="before a reconcile"),
        )
        await self._past_the_lock(lambda: push_content(context, self._ready, content, run=self._run))

    async def _plan_imports(self) -> Plan:
        """A plan of the imports and of nothing else: whatever else it would do is refused."""
        wanted = self._resolution.imports
        try:
            self._ready.work.private_file(_BLOCKS, import_blocks(wanted))
            options = PlanOptions(targets=tuple(one.address for one in wanted))
            await self._past_the_lock(lambda: self._terraform.plan(options))
        finally:
            remove_files(self._ready.work, (_BLOCKS,))
        plan, _ = await self._terraform.show()
        _require_only_imports(self._ready.stack, plan, wanted)
        return plan

    async def _past_the_lock(self, work: Callable[[], Awaitable[T]]) -> T:
        return await past_the_lock(self._terraform, self._aftermath.claim, work, declared=self._declared)

    async def _apply_imports(self) -> None:
        """Journalled under a run of its own; its record belongs to the run that it settles."""
        heard = CommandOutput()
        again = has_ephemeral_variables(self._context.project.code, self._ready.stack)
        given = self._ready.variables_files if again else ()
        answer = await self._terraform.apply(
            given, heard, self._run, journal=importing(self._context.store, self._aftermath.claim)
        )
        if answer.killed or answer.code != 0:
            said = terraform_error(self._ready, "apply", answer, heard)
            raise UnknownOutcome(
                "HF-REC-9",
                f"{self._ready.stack.name}: the imports were not finished: {said.problem.message}",
                hint=f"Nothing is lost. Do it again: holdfast runs reconcile {self._run}",
            )
        now = await state_now(self._context, self._ready)
        contents = read_contents(now)
        missing = [one.address for one in self._resolution.imports if one.address not in contents.current]
        if missing:
            raise UnknownOutcome(
                "HF-REC-9",
                f"{self._ready.stack.name}: imported, and not in the state: {', '.join(missing)}",
                hint=f"Do it again: holdfast runs reconcile {self._run}",
            )
        state_continuity.record(
            self._context.store, self._ready.stack.name, self._ready.home, read_state(now or b"")
        )


def _require_only_imports(stack: Stack, plan: Plan, wanted: tuple[Import, ...]) -> None:
    more = [
        f"{change.address} ({', '.join(change.actions)})"
        for change in plan.changes
        if change.kind not in _ONLY_THE_RECORD
    ]
    if more:
        raise Refused(
            "HF-REC-10",
            f"{stack.name}: with the imports Terraform would also change real objects: {', '.join(more)}",
            hint="Are the ids right? Give others with --import ADDR=ID, or make the code fit what is there.",
        )
    missing = {one.address for one in wanted} - {
        change.address for change in plan.changes if change.importing is not None
    }
    if missing:
        raise Refused(
            "HF-REC-10",
            f"{stack.name}: Terraform does not import {', '.join(sorted(missing))}",
            hint="Is the resource still in the code? It must be there to take its object back.",
        )
