"""Approve, reject and override: a person's word about one plan, kept for its digest and for no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from msgspec import Struct

from holdfast.audit.actor import Actor
from holdfast.audit.entry import Entry
from holdfast.kernel.errors import Refused, UsageError
from holdfast.plans.context import ChangeContext
from holdfast.plans.saved_plan import SavedPlan
from holdfast.plans.status import Status
from holdfast.runs.apply import used
from holdfast.runs.history import choose_run
from holdfast.runs.record import register_run_secrets
from holdfast.runs.run import read_run
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.system import clock

OVERRIDE_LIFETIME = timedelta(hours=24)
_SHORTEST = 12
"""As many characters of a digest name it; the whole of it always does."""


class RecordedApproval(Struct, frozen=True, kw_only=True):
    kind: ApprovalKind
    stack: str
    run: str
    digest: str
    notes: tuple[str, ...]


async def record_approval(
    context: ChangeContext, run: str, kind: ApprovalKind, reason: str
) -> RecordedApproval:
    """Approve or reject the plan of a run."""
    run = choose_run(context.store.runs.ids(), run)
    planned = read_run(context.store, run)
    if planned is None:
        raise UsageError("HF-RUN-20", f"There is no run {run}.", hint="List the runs: holdfast runs list")
    digest, stack = planned.digest, str(planned.stack)
    if digest is None:
        raise Refused(
            "HF-APPR-2",
            f"{stack}: run {run} has no plan to approve or reject",
            hint="Plan it with --out first.",
        )
    if (mark := context.store.used(digest)) is not None:
        raise Refused(
            "HF-APPR-2",
            f"{stack}: the plan of run {run} was already applied by run {mark.get('run')}",
            hint="Only a plan that was not applied can be approved or rejected.",
        )
    maker = context.store.approvals.author(digest)
    if maker is None:
        raise Refused(
            "HF-APPR-2",
            f"{stack}: the plan of run {run} was not saved, so it cannot be applied",
            hint=f"Save it: holdfast plan {stack} --out DIR, then approve or reject that run.",
        )
    if any(one.kind is ApprovalKind.REJECTION for one in context.store.approvals.of(digest)):
        raise Refused(
            "HF-APPR-2",
            f"{stack}: the plan of run {run} was rejected",
            hint="A rejection cannot be withdrawn. Make a new plan.",
        )
    await context.identity.prove()
    notes = require_not_own(context.identity.audit.who, stack, maker) if kind is ApprovalKind.APPROVAL else ()
    if kind is ApprovalKind.APPROVAL and planned.status is Status.REFUSED:
        notes = (*notes, f"the plan is refused; an approval does not lift that, only: --override {digest}")
    _record(context, kind, digest=digest, stack=stack, run=run, reason=reason)
    return RecordedApproval(kind=kind, stack=stack, run=run, digest=digest, notes=notes)


def require_not_own(me: Actor, stack: str, made: Mapping[str, object]) -> tuple[str, ...]:
    """Refuse self-approval. If an identity is not verified it cannot be checked, and a note says so."""
    if not me.proved or not made.get("proved"):
        who = "your" if not me.proved else "the planner's"
        return (f"cannot check for self-approval: {who} identity is not verified",)
    if (made.get("kind"), made.get("name")) == (me.kind, me.name):
        raise Refused(
            "HF-APPR-3",
            f"{stack}: {me.name} made this plan and cannot approve it",
            hint="Ask another person to approve it.",
        )
    return ()


async def override_denials(
    context: ChangeContext, bundles: Iterable[SavedPlan], digests: Iterable[str], reason: str
) -> None:
    """Before anything is applied: each digest must be the one of a plan that is about to be."""
    known = {bundle.digest: bundle for bundle in bundles}
    chosen = [known[_meant(given, tuple(known))] for given in digests]
    for bundle in chosen:
        if (mark := context.store.used(bundle.digest)) is not None:
            raise used(bundle.stack, mark)
    await context.identity.prove()
    for bundle in chosen:
        _record(
            context,
            ApprovalKind.OVERRIDE,
            digest=bundle.digest,
            stack=bundle.stack,
            run=bundle.run,
            reason=reason,
            until=(clock.now() + OVERRIDE_LIFETIME).isoformat(),
        )


def _meant(given: str, known: tuple[str, ...]) -> str:
    found = [one for one in known if one == given or (len(given) >= _SHORTEST and one.startswith(given))]
    if len(found) != 1:
        raise Refused(
            "HF-APPR-4",
            f"--override {given}: no plan of this bundle has that digest",
            hint=f"Give at least the first {_SHORTEST} characters of one of its digests: {', '.join(known)}",
        )
    return found[0]


def _record(
    context: ChangeContext,
    kind: ApprovalKind,
    *,
    digest: str,
    stack: str,
    run: str,
    reason: str,
    until: str | None = None,
) -> None:
    """Written to the audit log first: an approval that cannot be logged is not given."""
    register_run_secrets(context, run, stack)
    entry = Entry(what=kind.value, stack=stack, run=run, digest=digest, reason=reason, until=until)
    context.identity.audit.record(entry)
    context.store.approvals.add(
        Approval(
            kind=kind,
            digest=digest,
            stack=stack,
            run=run,
            who=context.identity.audit.who.document(),
            reason=context.redactor.clean(reason),
            at=clock.now().isoformat(),
            until=until,
        )
    )
