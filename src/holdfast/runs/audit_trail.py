"""Audit log entries of runs and state operations: before they start, and with their outcome."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, structs

from holdfast.audit.break_glass import open_break_glass
from holdfast.audit.entry import Entry, What
from holdfast.audit.log import Audit
from holdfast.guard.decision import NAMES
from holdfast.kernel.errors import HoldfastError
from holdfast.plans.context import Identity
from holdfast.plans.events import Listener, Note
from holdfast.plans.result import StackResult
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore
from holdfast.store.steps import Step

BEGUN = "begun"


def record_start(
    audit: Audit,
    stacks: Iterable[Stack],
    *,
    what: What,
    weakened: Sequence[str] = (),
    reason: str | None = None,
) -> None:
    """Durably, before anything is changed: a kill leaves this trace."""
    details = _details(weakened)
    audit.record_all(
        [
            Entry(what=what, stack=stack.name, outcome=BEGUN, reason=reason, details=details)
            for stack in stacks
        ]
    )


def _details(weakened: Sequence[str]) -> dict[str, str]:
    """That the change weakens the rules it is judged by."""
    return {"weakened": "; ".join(weakened)} if weakened else {}


def record_end(
    audit: Audit, tell: Listener, result: StackResult, *, what: What, override_reason: str | None
) -> None:
    """In the background; `flush` makes sure that it is written."""
    with _report_failure(tell, result.stack.name):
        audit.note(_entry(result, what=what, override_reason=override_reason))


def record_replan(audit: Audit, result: StackResult, *, what: What) -> None:
    """That a new plan takes the place of a saved one, with the digests of both."""
    audit.record(structs.replace(_entry(result, what=what), outcome=BEGUN))


async def flush(audit: Audit, tell: Listener) -> None:
    """At the end of a change. A failure is reported and changes no result."""
    with _report_failure(tell, None):
        await asyncio.to_thread(audit.flush)


def record_plans(
    audit: Audit, tell: Listener, results: Sequence[StackResult], weakened: Sequence[str] = ()
) -> None:
    if results:
        details = _details(weakened)
        with _report_failure(tell, None):
            audit.record_all(
                [structs.replace(_entry(result, what="plan"), details=details) for result in results]
            )


class AuditedOperation(Struct):
    outcome: str = "done"


@contextlib.contextmanager
def audited(
    identity: Identity,
    tell: Listener,
    stack: str,
    *,
    what: What,
    reason: str | None = None,
    run: str | None = None,
    digest: str | None = None,
    break_glass: bool = False,
    **details: str,
) -> Iterator[AuditedOperation]:
    """An operation on a stack other than a run: recorded before it starts, and again with its outcome."""
    operation = AuditedOperation()
    entry = Entry(
        what=what,
        stack=stack,
        run=run or identity.change,
        digest=digest,
        reason=reason,
        outcome=BEGUN,
        break_glass=break_glass,
        details=details,
    )
    identity.audit.record(entry)
    try:
        yield operation
    except HoldfastError as error:
        with _report_failure(tell, stack):
            identity.audit.record(structs.replace(entry, outcome="failed", error=error.problem.code))
        raise
    with _report_failure(tell, stack):
        identity.audit.record(structs.replace(entry, outcome=operation.outcome))


def record_holder_dead(audit: Audit, stack: str | None, run: str, reason: str) -> None:
    """Recorded before it has an effect."""
    audit.record(Entry(what="holder-dead", stack=stack, run=run, reason=reason, outcome="done"))


def record(identity: Identity, tell: Listener, stack: str, *, what: What, **details: str) -> None:
    """For a harmless operation: a failure to record it is only reported."""
    with _report_failure(tell, stack):
        identity.audit.record(
            Entry(what=what, stack=stack, run=identity.change, outcome="done", details=details)
        )


def with_break_glass(
    store: RunStore, tell: Listener, results: tuple[StackResult, ...]
) -> tuple[StackResult, ...]:
    """Results with notes on open break-glass acts: overrides, unlocks, holders declared dead."""
    try:
        store.read_ahead(Step.REPORT)
        acts = open_break_glass(store, [result.stack.name for result in results])
    except (HoldfastError, OSError) as error:
        tell(Note(stack="", text=f"cannot check for open break-glass actions: {error}"))
        return results
    if not acts:
        return results
    notes = {
        stack: tuple(dict.fromkeys(f"break-glass: {act.shown}" for act in given))
        for stack, given in acts.items()
    }
    return tuple(
        structs.replace(result, notes=(*result.notes, *notes.get(result.stack.name, ())))
        for result in results
    )


def _entry(result: StackResult, *, what: What, override_reason: str | None = None) -> Entry:
    return Entry(
        what=what,
        stack=result.stack.name,
        run=result.run,
        digest=result.digest,
        decision=NAMES[type(result.decision)] if result.plan is not None else None,
        rules=tuple(dict.fromkeys(reason.code for reason in result.decision.reasons)),
        outcome=result.status.value,
        error=result.error.code if result.error is not None else None,
        reason=override_reason,
        break_glass=override_reason is not None,
        details={"replaces": result.replaces} if result.replaces is not None else {},
    )


@contextlib.contextmanager
def _report_failure(tell: Listener, stack: str | None) -> Iterator[None]:
    try:
        yield
    except (HoldfastError, OSError) as error:
        tell(Note(stack=stack or "", text=f"could not write the audit log: {error}"))
