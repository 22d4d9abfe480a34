"""What the routes of runs do: submit, find, decide, cancel, retry. As the caller of a request may."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.audit.entry import Entry
from holdfast.database.database import Database
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.kernel.errors import Refused
from holdfast.runs.lanes import LANE_WAIT
from holdfast.server.audit_log import ServerAudit, TenantStores, actor_of
from holdfast.server.decisions import (
    BREAK_GLASS_DETAILS,
    DecidedPlan,
    about_apply,
    add_decision,
    expiry_of,
    log_decision,
    require_break_glass,
    require_decidable,
    store_rejection,
)
from holdfast.server.exceptions import problem, standard_denial
from holdfast.server.guards import not_permitted
from holdfast.server.problems import Denial, FieldProblem
from holdfast.server.stale_plans import StalePlans, other_plan
from holdfast.store.approvals import ApprovalKind
from holdfast.store.database_blobs import read_several
from holdfast.store.run_store import RunStore
from holdfast.store.server_runs.claiming import ClaimLimits
from holdfast.store.server_runs.contents import (
    ChangeOptions,
    RunLog,
    read_checks,
    read_options,
    result_name,
    write_options,
)
from holdfast.store.server_runs.phases import Operation, RunPhase
from holdfast.store.server_runs.rows import (
    APPLY_PRIORITY,
    PLAN_PRIORITY,
    Change,
    ChangeRows,
    NewChange,
    NewRun,
    Run,
    RunRows,
)
from holdfast.store.server_runs.sources import RepositoryRows, Source, SourceRows
from holdfast.store.server_runs.waiting import waiting_for
from holdfast.store.server_states.rows import StateRows

_PATTERN_SIGNS: Final = "*?[:!"
"""Of a glob or a filter such as `env:prod`: only the code says which stacks it matches."""
_APPLICABLE: Final = frozenset({"planned", "waiting", "refused"})
"""Statuses with a plan that can be applied, perhaps after a decision."""


class RunRequest(Struct, frozen=True, kw_only=True):
    stacks: tuple[str, ...]
    operation: Operation
    source: str
    options: ChangeOptions
    reason: str
    retried_from: Mapping[str, str] = {}
    """By stack: the run that this one repeats, or whose plan it applies."""
    event: str | None = None
    """The event of a device that is reconciled."""


class Decisions(Struct, frozen=True, kw_only=True):
    """Of a person who reconciles: about resources and processes of which Holdfast has no proof."""

    imports: dict[str, str] = {}
    recreate: tuple[str, ...] = ()
    holder_dead: bool = False


class Caller(Struct, frozen=True, kw_only=True):
    principal: Principal
    address: str

    @property
    def tenant(self) -> str:
        return self.principal.home_tenant


class RunRequests:
    def __init__(
        self,
        database: Database,
        stores: TenantStores,
        audit: ServerAudit,
        states: StateRows,
        limits: ClaimLimits | None = None,
    ) -> None:
        """`limits`: to say what a run waits for."""
        self._database = database
        self._limits = limits or ClaimLimits()
        self.changes = ChangeRows(database)
        self.runs = RunRows(database)
        self.sources = SourceRows(database)
        self.repositories = RepositoryRows(database)
        self._stores = stores
        self._stale = StalePlans(database, stores, states)
        self.audit = audit

    def store(self, caller: Caller) -> RunStore:
        return self._stores.of(caller.tenant)

    def submit(self, caller: Caller, request: RunRequest) -> Change:
        """A stack that is named exactly gets its run at once; a worker selects the others.

        What the caller may do with each stack is checked again while the worker runs it for them.
        """
        who = caller.principal
        require_operation(who, request.operation)
        named = [stack for stack in request.stacks if not is_pattern(stack)]
        if not all(map(who.covers_stack, named)):
            raise problem(not_permitted(who, needed_for(request.operation)))
        new = NewChange(
            tenant=caller.tenant,
            operation=request.operation,
            source=request.source,
            requester=who,
            patterns=request.stacks,
            runs=tuple(
                NewRun(stack=stack, retried_from=request.retried_from.get(stack))
                for stack in dict.fromkeys(named)
            )
            if len(named) == len(request.stacks)
            else (),
            reason=request.reason,
            priority=APPLY_PRIORITY if request.operation.changes_states else PLAN_PRIORITY,
            event=request.event,
        )
        write_options(self.store(caller).encrypted, new.id, request.options)
        return self.changes.submit(new)

    def run(self, caller: Caller, id_: str) -> Run:
        """404 also if it is another tenant's, or of a stack that the caller's token does not cover."""
        run = self.runs.of(id_)
        if run is None or run.tenant != caller.tenant or not caller.principal.covers_stack(run.stack):
            raise problem(
                Denial(
                    status=404,
                    code="HF-RUN-20",
                    message=f"there is no run {id_}",
                    hint="List the runs: holdfast runs list",
                )
            )
        return run

    def change(self, caller: Caller, id_: str) -> Change:
        """404 as for runs: the caller covers all its stacks."""
        change = self.changes.of(id_)
        if change is None or change.tenant != caller.tenant or not _covers(caller.principal, change):
            raise problem(Denial(status=404, code="HF-RUN-24", message=f"there is no change {id_}"))
        return change

    def waiting_for(self, caller: Caller, change: Change, run: Run | None = None) -> str | None:
        """Of the change, or of one of its runs that has not begun."""
        reason = waiting_for(self._database, change, self._limits)
        if run is None or reason is not None or run.phase is not RunPhase.QUEUED:
            return reason
        # Its worker waits for a lane, which it says in the log, or does the others first.
        lines = [text for _, text in RunLog(self.store(caller).encrypted, run.id).lines()]
        if lines and lines[-1].startswith(LANE_WAIT):
            return f"its lane: {lines[-1].removeprefix(LANE_WAIT)}"
        return f"the other stacks of change {change.id}"

    def result(self, caller: Caller, run: Run) -> dict[str, Any] | None:
        """What the worker stored of it: as `holdfast plan --json` prints it for one stack, masked."""
        blob = self.store(caller).encrypted.read(result_name(run.id))
        return None if blob is None else msgspec.json.decode(blob.data, type=dict[str, Any])

    def results(self, caller: Caller, runs: Sequence[Run]) -> dict[str, msgspec.Raw]:
        """The same of several, by run, without reading them; of a run without one, nothing."""
        names = {result_name(run.id): run.id for run in runs}
        blobs = read_several(self.store(caller).encrypted, names)
        return {names[name]: msgspec.Raw(blob.data) for name, blob in blobs.items()}

    def checks(self, caller: Caller, change: str) -> dict[str, Any] | None:
        """The findings of its stacks; None: its worker checked nothing yet."""
        return read_checks(self.store(caller).encrypted, change)

    def decide(
        self,
        caller: Caller,
        run: Run,
        kind: ApprovalKind,
        digest: str,
        reason: str,
        *,
        break_glass: bool = False,
    ) -> None:
        """Of the plan that was shown. The audit log comes first: what cannot be logged does not count.

        `break_glass`: an admin's override, also of the approvals that are missing.
        """
        if break_glass:
            require_break_glass(caller.principal, kind)
        if run.operation is Operation.PLAN:
            raise about_apply(run, self.runs.apply_of(run.id))
        if run.phase is not RunPhase.WAITING:
            raise _wrong_phase(run, "does not wait for a decision", f"holdfast runs show {run.id}")
        if run.digest != digest:
            raise other_plan(run)
        store, who = self.store(caller), actor_of(caller.principal, caller.address)
        plan = DecidedPlan(digest, run.stack, self.runs.shown_plan(run) or run.id)
        require_decidable(store, who, kind, plan, f"runs override {run.id}", break_glass=break_glass)
        if kind is not ApprovalKind.REJECTION:
            self._stale.require_current(run, plan.run, who.name)
        until = expiry_of(kind, self._stores.rules(caller.tenant))
        entry = Entry(
            what=kind.value,
            digest=digest,
            stack=run.stack,
            run=run.id,
            reason=reason or None,
            until=until,
            details={**(BREAK_GLASS_DETAILS if break_glass else {}), **self._event_of(run)},
        )
        self.audit.record(caller.tenant, caller.principal, entry, address=caller.address)
        add_decision(
            *(store, caller.principal, who, kind, plan),
            reason=reason,
            until=until,
            break_glass=break_glass,
        )
        log_decision(
            store, run, who, kind, reason
        )  # Before: who follows the log stops at the end of the run.
        if kind is ApprovalKind.REJECTION:
            store_rejection(store, run)
        if not self.changes.decide(run.id, digest, rejected=kind is ApprovalKind.REJECTION):
            raise _wrong_phase(run, "was changed at the same moment", f"holdfast runs show {run.id}")

    def cancel(self, caller: Caller, change: Change, reason: str, *, force: bool = False) -> Change:
        """By who asked for it, or may apply all its stacks. `force`: the second interrupt of Terraform.

        That must be asked for: a request that is sent twice must not lose resources.
        """
        who = caller.principal
        if change.requester.subject != who.subject and not who.may(Permission.RUN):
            raise problem(not_permitted(who, Permission.RUN))
        if change.phase == "done":
            raise Refused("HF-RUN-26", f"the change {change.id} is done; nothing is left to cancel")
        if force and change.cancel is None:
            raise Refused(
                "HF-RUN-26",
                f"the change {change.id} was not cancelled before, so it is not stopped at once",
                hint="Cancel it without `force` first: Terraform then finishes the resources in progress.",
            )
        details = {"force": "the second interrupt"} if force else {}
        details |= {"event": change.event} if change.event is not None else {}
        why = f"cancelled by {who.name}{f': {reason}' if reason else ''}"
        for run in change.runs:
            if run.phase is not RunPhase.DONE:
                entry = Entry(
                    what="cancel", stack=run.stack, run=run.id, reason=reason or None, details=details
                )
                self.audit.record(caller.tenant, who, entry, address=caller.address)
                RunLog(self.store(caller).encrypted, run.id).add(f"{run.stack}: {why}")
        error = {
            "code": "HF-RUN-40",
            "message": why,
            "hint": "To repeat a run of it: holdfast runs retry RUN",
        }
        return self.changes.request_cancel(change.id, who.name, error=error, force=force) or change

    def _event_of(self, run: Run) -> dict[str, str]:
        """For the audit log: the event of a device that the run belongs to."""
        change = self.changes.of(run.change)
        return {"event": change.event} if change is not None and change.event is not None else {}

    def repeat(
        self,
        caller: Caller,
        run: Run,
        operation: Operation,
        reason: str,
        decide: Callable[[ChangeOptions], ChangeOptions] = lambda options: options,
    ) -> Change:
        """A new change of one stack, with the code and options of the run."""
        return self._submit_again(caller, run.change, (run,), operation, reason, decide)

    def apply_plans(self, caller: Caller, change: Change, plans: Mapping[str, str], reason: str) -> Change:
        """Exactly the plans that a person saw, by run: these digests and no others."""
        if change.operation is not Operation.PLAN:
            hint = (
                f"To repeat one of its runs: holdfast runs retry {change.runs[0].id}" if change.runs else ""
            )
            raise Refused("HF-RUN-36", f"the change {change.id} is not a plan", hint=hint)
        runs = tuple(self._planned(change, id_, digest) for id_, digest in plans.items())
        destroys = read_options(self.store(caller).encrypted, change.id).destroy
        operation = Operation.DESTROY if destroys else Operation.APPLY
        return self._submit_again(caller, change.id, runs, operation, reason)

    def _planned(self, change: Change, id_: str, digest: str) -> Run:
        run = next((run for run in change.runs if run.id == id_), None)
        if run is None or run.status not in _APPLICABLE or run.digest is None:
            raise Refused(
                "HF-RUN-36",
                f"run {id_} of change {change.id} has no plan that can be applied",
                hint=f"What became of its runs: holdfast runs watch {change.id}",
            )
        if run.digest != digest:
            raise other_plan(run)
        return run

    def _submit_again(
        self,
        caller: Caller,
        change: str,
        runs: tuple[Run, ...],
        operation: Operation,
        reason: str,
        decide: Callable[[ChangeOptions], ChangeOptions] = lambda options: options,
    ) -> Change:
        """With the code and the options of the change."""
        before = self.changes.of(change)
        source = self._source_again(before) if before is not None else None
        if before is None or source is None:
            raise Refused(
                "HF-RUN-27",
                f"the code of change {change} is no longer stored",
                hint="Submit a new run: uploads are removed a day after their last use.",
            )
        return self.submit(
            caller,
            RunRequest(
                stacks=tuple(run.stack for run in runs),
                operation=operation,
                source=source.id,
                options=decide(read_options(self.store(caller).encrypted, before.id)),
                reason=reason,
                retried_from={run.stack: run.id for run in runs},
                event=before.event,
            ),
        )

    def _source_again(self, change: Change) -> Source | None:
        """The code of a blueprint never expires, and only events and their reconciliation use it."""
        if change.event is not None:
            return self.sources.of(change.source)
        return self.sources.use(change.tenant, change.source)

    def retry(self, caller: Caller, run: Run, reason: str) -> Change:
        if run.phase is not RunPhase.DONE:
            raise _wrong_phase(run, "is not done", f"To end it: holdfast runs cancel {run.id}")
        if run.status == "unknown":
            hint = f"Find out what it did first: holdfast runs reconcile {run.id}"
            raise _wrong_phase(run, "has an unknown outcome, so it is not repeated", hint)
        change = self.changes.of(run.change)
        if change is not None and change.event is not None:
            hint = f"Repeat the event: holdfast events retry {change.event}"
            raise _wrong_phase(run, "belongs to an event of a device", hint)
        return self.repeat(caller, run, run.operation, reason)

    def reconcile(self, caller: Caller, run: Run, reason: str, decisions: Decisions) -> Change:
        if run.status != "unknown":
            raise _wrong_phase(run, "has no unknown outcome", f"holdfast runs show {run.id}")
        if decisions.holder_dead and not reason.strip():
            raise invalid_field("/reason", "a declaration that the run is dead needs a reason")
        if both := sorted(set(decisions.imports) & set(decisions.recreate)):
            raise invalid_field("/recreate", f"{', '.join(both)} is to be imported, too")

        def decide(options: ChangeOptions) -> ChangeOptions:
            return replace(
                options,
                imports=decisions.imports,
                recreate=decisions.recreate,
                declared=reason if decisions.holder_dead else None,
            )

        return self.repeat(caller, run, Operation.RECONCILE, reason, decide)


def _covers(who: Principal, change: Change) -> bool:
    """Before its stacks are selected, it may be about any that its patterns and its requester allow."""
    if not change.runs:
        named = change.patterns or change.requester.stacks
        return who.covers_patterns(named) or who.covers_patterns(change.requester.stacks)
    return all(who.covers_stack(run.stack) for run in change.runs)


def is_pattern(stack: str) -> bool:
    return any(sign in stack for sign in _PATTERN_SIGNS)


def needed_for(operation: Operation) -> Permission:
    return Permission.RUN if operation.changes_states else Permission.PLAN


def require_operation(principal: Principal, operation: Operation) -> None:
    if not principal.may(needed_for(operation)):
        raise problem(not_permitted(principal, needed_for(operation)))


def invalid_field(path: str, message: str) -> Exception:
    return problem(standard_denial(422, errors=(FieldProblem(path=path, message=message),)))


def _wrong_phase(run: Run, what: str, hint: str) -> Refused:
    return Refused(
        "HF-RUN-26", f"{run.stack}: run {run.id} is {run.status or run.phase}: it {what}", hint=hint
    )
