"""Approve, reject and override: a person's decision about one plan, recorded for its digest and no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from msgspec import Struct

from holdfast.audit.actor import Actor
from holdfast.audit.entry import Entry
from holdfast.kernel.errors import Refused, UsageError
from holdfast.plans.context import ChangeContext
from holdfast.plans.policies import policy_of
from holdfast.plans.saved_plan import BundledChange, SavedPlan
from holdfast.plans.status import Status
from holdfast.runs.apply import already_applied
from holdfast.runs.history import choose_run
from holdfast.runs.record import register_run_secrets
from holdfast.runs.run import read_run
from holdfast.store.approvals import Approval, ApprovalKind, is_same_person
from holdfast.store.run_store import RunStore
from holdfast.system import clock

OVERRIDE_LIFETIME = timedelta(hours=24)
_MIN_PREFIX = 12
"""How many characters of a digest are enough to name it."""


class RecordedApproval(Struct, frozen=True, kw_only=True):
    kind: ApprovalKind
    stack: str
    run: str
    digest: str
    changes: Mapping[str, int]
    """How many resources the plan creates, updates, …"""
    notes: tuple[str, ...]


async def record_approval(
    context: ChangeContext, run: str, kind: ApprovalKind, reason: str
) -> tuple[RecordedApproval, ...]:
    """Approve or reject the saved plan of a run, or of every run of a change."""
    ids = context.store.runs.ids()
    runs = (
        ()
        if any(known.startswith(run.upper()) for known in ids)
        else _runs_of_change(context.store, ids, run)
    )
    chosen = dict.fromkeys(runs or (choose_run(ids, run),))
    return await record_approvals(context, chosen, kind, reason)


def _runs_of_change(store: RunStore, ids: Iterable[str], change: str) -> tuple[str, ...]:
    """The saved plans of a change that can still be applied. Its runs have later ids than the change."""
    runs = [read_run(store, run) for run in ids if run > change.upper()]
    ours = [run for run in runs if run is not None and (run.change or "").startswith(change.upper())]
    if len({run.change for run in ours}) > 1:
        raise UsageError(
            "HF-RUN-21", f"{change} matches several changes", hint="Give more characters of the id."
        )
    return tuple(
        run.id
        for run in reversed(ours)
        if run.digest is not None
        and run.status is not Status.UNCHANGED
        and store.approvals.is_recorded(run.digest, stack=str(run.stack), run=run.id)
        and store.used(run.digest) is None
    )


async def record_approvals(
    context: ChangeContext, runs: Mapping[str, str | None], kind: ApprovalKind, reason: str
) -> tuple[RecordedApproval, ...]:
    """All or none: each must be possible before one is recorded.

    By run: the digest of its plan in a bundle, which must be the recorded one. None: whichever is recorded.
    """
    await context.identity.prove()
    given = tuple(_approval(context, run, kind, expected) for run, expected in runs.items())
    for each in given:
        _record(context, kind, digest=each.digest, stack=each.stack, run=each.run, reason=reason)
    return given


def _approval(context: ChangeContext, run: str, kind: ApprovalKind, expected: str | None) -> RecordedApproval:
    """What an approval or rejection of this run's plan covers. Raises if it is not possible."""
    planned = read_run(context.store, run)
    if planned is None:
        raise UsageError("HF-RUN-20", f"there is no run {run}", hint="List the runs: holdfast runs list")
    digest, stack = planned.digest, str(planned.stack)
    if expected not in {None, digest}:
        raise Refused(
            "HF-BUND-20",
            f"{stack}: the run store has another plan of run {run} than the bundle",
            hint=f"Make a new plan: holdfast plan {stack} --out DIR",
        )
    if digest is not None and (mark := context.store.used(digest)) is not None:
        raise Refused(
            "HF-APPR-2",
            f"{stack}: the plan of run {run} was already applied by run {mark.get('run')}",
            hint="Only a plan that was not applied can be approved or rejected.",
        )
    approvals = context.store.approvals
    author = approvals.author(digest) if digest is not None else None
    if digest is None or author is None or not approvals.is_recorded(digest, stack=stack, run=run):
        what = "has no plan" if digest is None else "did not save its plan, so it cannot be applied later"
        raise Refused(
            "HF-APPR-2",
            f"{stack}: run {run} {what}",
            hint=f"Save one: holdfast plan {stack} --out DIR, then approve or reject that run.",
        )
    if any(given.kind is ApprovalKind.REJECTION for given in context.store.approvals.of(digest)):
        raise Refused(
            "HF-APPR-2",
            f"{stack}: the plan of run {run} was rejected",
            hint=f"A rejection cannot be withdrawn. Make a new plan: holdfast plan {stack} --out DIR",
        )
    notes: tuple[str, ...] = ()
    if kind is ApprovalKind.APPROVAL:
        me = context.identity.audit.who
        notes = (*require_not_own(me, stack, author), *_does_not_count(context, stack, me))
        if planned.status is Status.REFUSED:
            note = "the guard refuses the plan; an approval does not change that, only an override does"
            notes = (*notes, f"{note}: --override {digest}")
        elif planned.status is Status.PLANNED:
            notes = (*notes, "the guard allows the plan without an approval")
    return RecordedApproval(
        kind=kind, stack=stack, run=run, digest=digest, changes=planned.changes or {}, notes=notes
    )


def _does_not_count(context: ChangeContext, stack: str, me: Actor) -> tuple[str, ...]:
    known = context.project.stacks.get(stack)
    if me.verified or known is None or not policy_of(context.project.config, known).verified:
        return ()
    return (f"this approval does not count: {stack} needs verified approvals, and you are {me.because}",)


def require_not_own(me: Actor, stack: str, author: Mapping[str, object]) -> tuple[str, ...]:
    """Refuse self-approval. If an identity is not verified it cannot be checked, and a note says so."""
    if not me.verified or not author.get("verified"):
        who = "your" if not me.verified else "the planner's"
        return (f"cannot check for self-approval: {who} identity is not verified",)
    if is_same_person(author, me.document()):
        raise Refused(
            "HF-APPR-3",
            f"{stack}: {me.name} made this plan and cannot approve it",
            hint="Ask another person to approve it.",
        )
    return ()


async def override_denials(
    context: ChangeContext,
    bundles: Iterable[SavedPlan],
    change: BundledChange,
    digests: Iterable[str],
    reason: str,
    *,
    break_glass: bool = False,
) -> tuple[SavedPlan, ...]:
    """Before anything is applied: those that were overridden. Each digest must belong to a saved plan.

    The id of the change stands for all its plans that were refused and are not used yet. `break_glass`: by an
    admin, whom only a server knows.
    """
    if break_glass and not context.store.on_server:
        raise UsageError(
            "HF-USE-18",
            "--break-glass needs a server as run store: only a server knows who is an admin",
            hint="Leave it out: here, --override is not limited to other people's plans.",
        )
    known = {bundle.digest: bundle for bundle in bundles}
    refused = [name for name, status in change.statuses.items() if status is Status.REFUSED]
    denied = [change.digests[name] for name in refused if name in change.digests]
    all_denied = tuple(digest for digest in denied if context.store.used(digest) is None)
    chosen = tuple(
        known[digest]
        for text in digests
        for digest in (all_denied if text.upper() == change.id else (_choose_digest(text, tuple(known)),))
    )
    if not chosen:
        raise Refused("HF-APPR-5", f"no plan of change {change.id} was refused", hint="Leave --override out.")
    for bundle in chosen:
        if (mark := context.store.used(bundle.digest)) is not None:
            raise already_applied(bundle.stack, mark)
    await context.identity.prove()
    until = (clock.now() + OVERRIDE_LIFETIME).isoformat()
    for bundle in chosen:
        _record(
            *(context, ApprovalKind.OVERRIDE),
            digest=bundle.digest,
            stack=bundle.stack,
            run=bundle.run,
            reason=reason,
            until=until,
            break_glass=break_glass,
        )
    return chosen


def _choose_digest(text: str, known: tuple[str, ...]) -> str:
    matching = [
        digest for digest in known if digest == text or (len(text) >= _MIN_PREFIX and digest.startswith(text))
    ]
    if len(matching) != 1:
        what = "several plans" if matching else "no plan"
        raise Refused(
            "HF-APPR-4",
            f"--override {text} matches {what} of this bundle",
            hint=f"Give the first {_MIN_PREFIX} or more characters of one of its digests: {', '.join(known)}",
        )
    return matching[0]


def _record(
    context: ChangeContext,
    kind: ApprovalKind,
    *,
    digest: str,
    stack: str,
    run: str,
    reason: str,
    until: str | None = None,
    break_glass: bool = False,
) -> None:
    """The audit log comes first: an approval that cannot be logged does not count."""
    register_run_secrets(context, run, stack)
    if not context.store.approvals.are_logged:
        entry = Entry(
            what=kind.value, stack=stack, run=run, digest=digest, reason=reason or None, until=until
        )
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
            break_glass=break_glass,
        )
    )
