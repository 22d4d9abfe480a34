"""What is written down of a run: its claim with what it means to do, a copy of the state, and its end."""

from __future__ import annotations

import contextlib
import json
import zipfile

import msgspec
from msgspec import structs

from holdfast.kernel.errors import HoldfastError, UnknownOutcome
from holdfast.plans.context import Session
from holdfast.plans.plan_file import ReadyPlan
from holdfast.plans.result import ErrorShown, StackResult
from holdfast.plans.status import STATUS_OF_EXIT
from holdfast.runs.intent import Intent, planned_changes
from holdfast.states.versions import prune
from holdfast.store.claims import Claim
from holdfast.store.snapshots import StateSnapshot
from holdfast.system import clock, process_table
from holdfast.system.files import file_error
from holdfast.terraform.argv import PLAN_FILE
from holdfast.terraform.statefile.model import State, read_state

_RECORD = 1
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def claim_of(session: Session, planned: StackResult, ready: ReadyPlan, operation: str) -> Claim:
    """Everything that recovery will need, if this process is not there any more to ask."""
    run, stack = str(planned.run), planned.stack
    me = process_table.this_process()
    engine = ready.terraform.identity
    began = clock.now().isoformat()
    intent = Intent(
        run=run,
        change=session.change,
        stack=stack.name,
        operation=operation,
        digest=str(planned.digest),
        lineage=ready.prior.lineage,
        serial=ready.prior.serial,
        place=ready.terraform.prepared.home.place,
        engine={"kind": engine.kind.value, "product": engine.product.value, "version": engine.version},
        who=session.who,
        host=me.host,
        pid=me.pid,
        started=began,
        work=str(ready.terraform.prepared.work.folder),
        backup=_version_kept(session, ready),
        changes=planned_changes(ready.plan),
    )
    return Claim(
        stack=stack.name,
        run=run,
        intent={
            "operation": operation,
            "who": session.who,
            "started": began,
            "process": me.document(),
            "intent": json.loads(intent.to_bytes()),
        },
    )


def _version_kept(session: Session, ready: ReadyPlan) -> str | None:
    """A kept state is its own backup: its versions never change."""
    if not ready.terraform.prepared.home.managed:
        return None
    numbers = session.store.states.numbers(ready.terraform.prepared.stack.name)
    return str(numbers[-1]) if numbers else None


def keep_backup(session: Session, planned: StackResult, ready: ReadyPlan) -> None:
    """The state as it was before, from the plan itself: Terraform applies it to no other."""
    prepared = ready.terraform.prepared
    if prepared.home.managed or not ready.prior.lineage:
        return
    content = _before(ready)
    state = read_state(content) if content is not None else None
    if content is None or not isinstance(state, State):
        return
    session.store.backups.add(
        planned.stack.name,
        StateSnapshot.of(content, state, run=planned.run, who=session.who, why="before an apply"),
        name=planned.run,
    )


def _before(ready: ReadyPlan) -> bytes | None:
    """`tfstate-prev` is what the backend gave, but for serial and lineage, which Terraform leaves out there.

    None where OpenTofu encrypted the plan.
    """
    try:
        with zipfile.ZipFile(ready.terraform.prepared.work.module / PLAN_FILE) as archive:
            fields = _FIELDS.decode(archive.read("tfstate-prev"))
    except (zipfile.BadZipFile, KeyError, msgspec.DecodeError):
        return None
    identity = {"serial": ready.prior.serial, "lineage": ready.prior.lineage}
    return msgspec.json.encode({**fields, **identity})


def failed_as(planned: StackResult, error: HoldfastError) -> StackResult:
    shown = ErrorShown(code=error.problem.code, message=error.problem.message, hint=error.problem.hint)
    return structs.replace(planned, status=STATUS_OF_EXIT[error.exit], error=shown)


def ended(session: Session, result: StackResult, *, operation: str, began: str) -> None:
    """The end is written, and then the stack is free. An end that cannot be written is not known."""
    try:
        record(session, result, operation=operation, began=began)
        session.store.claims.release(result.stack.name, str(result.run))
    except (HoldfastError, OSError) as error:
        why = error.problem.message if isinstance(error, HoldfastError) else file_error(error).problem.message
        raise UnknownOutcome(
            "HF-RUN-11",
            f"{result.stack.name}: the run is {result.status}, and that could not be recorded: {why}",
            hint=f"When the run store answers again: holdfast runs reconcile {result.run}",
        ) from error
    with contextlib.suppress(HoldfastError, OSError):
        # What is too old can go another time; the run itself is over and told.
        prune(session.store, result.stack.name, session.config.backups)


def record(
    session: Session, result: StackResult, *, operation: str, began: str, durable: bool = True
) -> None:
    if result.run is None:
        return
    counts = result.plan.counts.document() if result.plan is not None else None
    session.store.runs.finish(
        result.run,
        {
            "version": _RECORD,
            "id": result.run,
            "change": session.change,
            "stack": result.stack.name,
            "operation": operation,
            "status": result.status.value,
            "started": began,
            "ended": clock.now().isoformat(),
            "who": session.who,
            "maker": session.audit.who.document(),
            "digest": result.digest,
            "engine": str(result.engine) if result.engine is not None else None,
            "changes": counts,
            "error": {"code": result.error.code, "message": result.error.message} if result.error else None,
            "notes": list(result.notes),
        },
        durable=durable,
    )
