"""Reconcile an interrupted run: import what it created and did not record, then free the stack.

Every step is derived from what does not change (claim, journal, the state before the run) and from the
current state, so an interrupted reconcile can simply be repeated. The claim of the dead run keeps the stack
until every resource is accounted for; what was never started is left to the next plan.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import Busy, Failed, Refused, UnknownOutcome, UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext
from holdfast.plans.errors import terraform_error
from holdfast.plans.inputs import inputs_or_none
from holdfast.plans.plan_file import PlanFile
from holdfast.plans.status import Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir, open_workdir
from holdfast.recovery.change_outcome import InstanceKey, OutcomeKind
from holdfast.recovery.cleanup import (
    hold_reconcile_lock,
    kill_orphans,
    release_stale_lock,
    require_holder_dead,
    resolve_unsaved,
    restore_state,
    retry_past_stale_lock,
    start_import_journal,
)
from holdfast.recovery.crash_report import CrashReport, collect, require_plan_intent, state_now
from holdfast.recovery.finish_move import finish_move
from holdfast.recovery.import_plan import plan_imports, updated_imports
from holdfast.recovery.imports import Resolution, imports
from holdfast.runs import audit_trail
from holdfast.runs.claims import Claim, collect_journal
from holdfast.runs.outcome import close_run, failed_creates, finish_from_journal
from holdfast.stacks.stack import Stack
from holdfast.states.operations import push_content
from holdfast.store.journal import Journal
from holdfast.store.states import StateSnapshot
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.statefile.edit import (
    InstanceRecord,
    add_deposed,
    deposed_key,
    find_instance,
    raise_serial,
    remove_instances,
)
from holdfast.terraform.statefile.model import State, read_contents, read_state
from holdfast.terraform.stream import CommandOutput

T = TypeVar("T")


class Request(Struct, frozen=True, kw_only=True):
    """What the user decided about resources whose outcome is unknown."""

    imports: Mapping[str, str] = {}
    """Ids by address, of resources that exist."""
    recreate: frozenset[str] = frozenset()
    """Addresses that may be created again."""
    declared: str | None = None
    """Why the user declares the holder dead."""


class Proposal(MaskedStruct, frozen=True, kw_only=True):
    """What reconcile is about to do, for the user to confirm."""

    stack: Stack
    report: CrashReport
    resolution: Resolution
    undecided: tuple[str, ...]
    """Resources that may exist and that the next apply would create again."""
    plan: Plan | None
    """The plan of the imports; None if there are none, or if it cannot be made yet."""


class Reconciled(Struct, frozen=True, kw_only=True):
    claim: Claim
    report: CrashReport | None
    """None: the journal proved the outcome."""
    resolution: Resolution | None = None
    put_back: tuple[str, ...] = ()
    settled: bool = True
    """False: the user declined."""
    notes: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    """Failed creates that may have created their resource, of a run whose journal proved the outcome."""
    updated: tuple[str, ...] = ()
    """Imported resources that were updated in place with the import."""


Show = Callable[[Proposal], None]
Ask = Callable[[Proposal], Awaitable[bool]]


async def reconcile(
    context: ChangeContext,
    stack: Stack,
    claim: Claim,
    request: Request,
    *,
    show: Show,
    ask: Ask | None,
) -> Reconciled:
    """Without `ask` there is no confirmation: what may exist is given up only if the request names it."""
    if request.declared is not None:
        audit_trail.record_holder_dead(context.identity.audit, stack.name, claim.run, request.declared)
    with audit_trail.audited(
        context.identity, context.control.tell, stack.name, what="reconcile", run=claim.run
    ) as operation:
        result = await _reconcile(context, stack, claim, request, show, ask)
        if not result.settled:
            operation.outcome = "declined"
        return result


async def _reconcile(
    context: ChangeContext, stack: Stack, claim: Claim, request: Request, show: Show, ask: Ask | None
) -> Reconciled:
    journal = collect_journal(context.store, claim)
    proved = finish_from_journal(context.store, context.control.tell, claim, journal)
    if proved is None:
        require_holder_dead(context.store, context.identity, claim, request.declared)
        # The run is over; its last lines may have arrived in the meantime.
        journal = collect_journal(context.store, claim)
        proved = finish_from_journal(context.store, context.control.tell, claim, journal)
    if proved is None and (move := claim.intent.move) is not None:
        notes = await finish_move(context, claim, move, request.declared)
        return Reconciled(claim=claim, report=None, notes=notes)
    if proved is None and claim.intent.plan is None:
        # An operation of one step: there is nothing to import, the stack is freed.
        what = f"the {claim.intent.operation} of run {claim.run}"
        proved = (f"it is unknown whether {what} took effect; check the state",)
        close_run(context.store, claim, Status.FAILED, proved[0])
    if proved is not None:
        doubtful = tuple(sorted(failed_creates(journal) - request.recreate))
        return Reconciled(claim=claim, report=None, notes=proved, doubtful=doubtful)
    require_plan_intent(claim)
    with hold_reconcile_lock(context.store, context.identity, claim, declared=request.declared):
        return await _import_unrecorded(context, stack, claim, journal, request, show, ask)


async def _import_unrecorded(
    context: ChangeContext,
    stack: Stack,
    claim: Claim,
    journal: Journal,
    request: Request,
    show: Show,
    ask: Ask | None,
) -> Reconciled:
    notes = [*await kill_orphans(journal)]
    # Imports are planned with them. A state is restored also where they cannot be read.
    read = await inputs_or_none(context, stack)
    async with open_workdir(context, stack, read=read, for_state=True) as workdir:
        restored = await restore_state(context, workdir, claim, declared=request.declared is not None)
        notes += restored.notes
        content = await state_now(context, workdir)
        report = collect(context.store, claim, journal, content)
        if report.evidence.unseen is not None:
            raise UnknownOutcome(
                "HF-REC-7",
                f"{stack.name}: cannot reconcile: {report.evidence.unseen}",
                hint=f"Restore the state first: holdfast state rollback {stack.name} VERSION, "
                f"or holdfast state push {stack.name} FILE",
            )
        resolution = imports(report.evidence, request.imports)
        _require_needed(resolution, request)
        work = _Work(context, workdir, report, resolution, request)
        done = Reconciled(claim=claim, report=report, resolution=resolution, notes=tuple(notes))
        if not await work.confirm(show, ask):
            return replace(done, settled=False)
        put_back = await work.carry_out(show, ask)
    resolve_unsaved(context.store, stack.name, restored.unsaved)
    close_run(context.store, claim, Status.FAILED, _summary(resolution, request))
    return replace(done, put_back=put_back, updated=work.updated)


def _require_needed(resolution: Resolution, request: Request) -> None:
    """A decision about a resource that needs none is a mistake in the arguments."""
    unneeded = request.recreate - {resource.address for resource in resolution.unresolved}
    wrong = [*resolution.unneeded, *sorted(unneeded)]
    if wrong:
        raise UsageError(
            "HF-REC-8",
            f"{', '.join(wrong)}: no decision is needed there",
            hint="Use --import and --recreate only for resources whose outcome is unknown.",
        )


def _summary(resolution: Resolution, request: Request) -> str:
    declaration = f" (its holder was declared dead: {request.declared})" if request.declared else ""
    done = f"reconciled: {len(resolution.imports)} imported{declaration}"
    unresolved = [resource.address for resource in resolution.unresolved]
    return f"{done}; unresolved: {', '.join(unresolved)}" if unresolved else done


class _Work:
    """The steps that change something; each can be repeated."""

    def __init__(
        self,
        context: ChangeContext,
        workdir: StackWorkdir,
        report: CrashReport,
        resolution: Resolution,
        request: Request,
    ) -> None:
        self._context = context
        self._declared = request.declared is not None
        self._undecided = tuple(
            resource.address
            for resource in resolution.unresolved
            if not resource.harmless and resource.address not in request.recreate
        )
        self.updated: tuple[str, ...] = ()
        """What the shown plan of the imports also updates."""
        self._workdir = workdir
        self._report = report
        self._resolution = resolution
        self._run = report.claim.run
        self._terraform = Terraform(context, workdir)

    async def confirm(self, show: Show, ask: Ask | None) -> bool:
        """Plan the imports and ask; nothing is changed before that.

        If an instance must leave the state first, the plan is made and checked after that.
        """
        await self._terraform.init()
        plan = None
        if self._resolution.imports and not self._to_remove():
            plan = (await self._plan_imports()).plan
        return await self._confirm(plan, show, ask)

    async def _confirm(self, plan: Plan | None, show: Show, ask: Ask | None) -> bool:
        self.updated = updated_imports(plan) if plan is not None else ()
        proposal = Proposal(
            stack=self._workdir.stack,
            report=self._report,
            resolution=self._resolution,
            undecided=self._undecided,
            plan=plan,
        )
        show(proposal)
        if ask is not None:
            return await ask(proposal)
        if self._undecided:
            named = " ".join(f"--recreate {address}" for address in self._undecided)
            raise UnknownOutcome(
                "HF-REC-11",
                f"{self._workdir.stack.name}: these resources may exist: {', '.join(self._undecided)}",
                hint=f"Look each of them up in the provider. To import one: --import ADDR=ID. "
                f"If it does not exist: holdfast runs reconcile {self._run} --yes {named}",
            )
        return True

    async def carry_out(self, show: Show, ask: Ask | None) -> tuple[str, ...]:
        await self._release_stale_lock()
        await self._remove_instances()
        if self._resolution.imports:
            shown = self.updated
            plan_file = await self._plan_imports()
            if updated_imports(plan_file.plan) != shown and not await self._confirm(
                plan_file.plan, show, ask
            ):
                raise Refused(
                    "HF-REC-9",
                    f"{self._workdir.stack.name}: you did not confirm, so nothing was imported",
                    hint=f"Try again: holdfast runs reconcile {self._run}",
                )
            await self._apply_imports(plan_file)
        return await self._add_deposed()

    async def _release_stale_lock(self) -> None:
        """Also without imports: the next plan needs the lock, and reports a lock held by others."""
        if not self._resolution.imports:
            await release_stale_lock(self._terraform, self._report.claim, declared=self._declared)

    def _to_remove(self) -> tuple[InstanceKey, ...]:
        instances = [key for item in self._resolution.imports for key in item.conflict.taken_out]
        deposed = [
            InstanceKey(address=outcome.address, deposed=outcome.deposed)
            for outcome in self._report.evidence.outcomes
            if outcome.kind is OutcomeKind.LEFT_DEPOSED and outcome.forgets
        ]
        return (*instances, *deposed)

    async def _remove_instances(self) -> None:
        """Terraform ignores an import for an address in the state: remove the old instance first."""
        state = self._report.state
        if state is None:
            return
        changed = remove_instances(state, [(record.address, record.deposed) for record in self._to_remove()])
        if changed != state:
            await self._write(state, changed)

    async def _add_deposed(self) -> tuple[str, ...]:
        """An old resource that may still exist becomes deposed: the next plan refreshes and deletes it."""
        wanted = [(item, key) for item in self._resolution.imports for key in item.conflict.put_back]
        if not wanted:
            return ()
        state = await state_now(self._context, self._workdir)
        if state is None:
            return ()
        changed, done = state, []
        for item, instance in wanted:
            old = self._old_instance(instance)
            if old is not None:
                key = instance.deposed or deposed_key(run=self._run, address=item.address)
                changed = add_deposed(changed, item.address, old, key)
                done.append(f"{item.address} (deposed {key})")
        if changed != state:
            await self._write(state, changed)
        return tuple(done)

    def _old_instance(self, instance: InstanceKey) -> InstanceRecord | None:
        for source in (self._report.state, self._report.before):
            if source is not None:
                old = find_instance(source, instance.address, deposed=instance.deposed)
                if old is not None:
                    return old
        return None

    async def _write(self, before: bytes, after: bytes) -> None:
        """Under the claim, with a backup of the current state, and with the next serial."""
        context, stack = self._context, self._workdir.stack
        was = read_state(before)
        content = raise_serial(after, was.serial + 1) if isinstance(was, State) else b""
        will_be = read_state(content)
        if not isinstance(was, State) or not isinstance(will_be, State):
            raise Failed("HF-REC-7", f"{stack.name}: the state cannot be read; it was not changed")
        if self._workdir.home.managed:
            numbers = context.store.states.numbers(stack.name)
            new = StateSnapshot.of(content, will_be, run=self._run, who=context.identity.who, why="reconcile")
            if context.store.states.add(stack.name, new, after=numbers[-1] if numbers else 0) is None:
                raise Busy("HF-LOCK-2", f"{stack.name}: its state was just written by another process")
            return
        context.store.backups.add(
            stack.name,
            StateSnapshot.of(before, was, run=self._run, who=context.identity.who, why="before a reconcile"),
        )
        await self._with_lock(lambda: push_content(context, self._workdir, content, run=self._run))

    async def _plan_imports(self) -> PlanFile:
        return await plan_imports(self._context, self._terraform, self._resolution.imports, self._with_lock)

    async def _with_lock(self, work: Callable[[], Awaitable[T]]) -> T:
        return await retry_past_stale_lock(self._terraform, self._report.claim, work, declared=self._declared)

    async def _apply_imports(self, plan_file: PlanFile) -> None:
        """Journalled under its own id; the outcome belongs to the interrupted run."""
        output = CommandOutput()
        given = self._workdir.variables_files if plan_file.ephemeral else ()
        journal = start_import_journal(self._context.store, self._context.identity, self._report.claim)
        answer = await self._terraform.apply(given, output, self._run, journal=journal)
        if answer.killed or answer.code != 0:
            error = terraform_error(self._workdir, "apply", answer, output)
            raise UnknownOutcome(
                "HF-REC-9",
                f"{self._workdir.stack.name}: the imports did not finish: {error.problem.message}",
                hint=f"Nothing is lost. Try again: holdfast runs reconcile {self._run}",
            )
        now = await state_now(self._context, self._workdir)
        contents = read_contents(now)
        missing = [item.address for item in self._resolution.imports if item.address not in contents.current]
        if missing:
            raise UnknownOutcome(
                "HF-REC-9",
                f"{self._workdir.stack.name}: imported, but not in the state: {', '.join(missing)}",
                hint=f"Try again: holdfast runs reconcile {self._run}",
            )
        state_continuity.record(
            self._context.store, self._workdir.stack.name, self._workdir.home, read_state(now or b"")
        )
