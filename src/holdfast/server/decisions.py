"""A verified person's decision about one plan: to approve, reject or override it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from holdfast.audit.actor import Actor
from holdfast.guard.evaluate import missing_text, with_approvals
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.kernel.errors import Refused, UsageError
from holdfast.runs.document import guard_document
from holdfast.runs.read_document import decision_from_document
from holdfast.server.exceptions import problem
from holdfast.server.guards import not_permitted
from holdfast.server.problems import Denial
from holdfast.store.approval_rules import ServerRules
from holdfast.store.approvals import Approval, ApprovalKind, is_author
from holdfast.store.run_store import RunStore
from holdfast.store.server_runs.contents import RunLog, result_name
from holdfast.store.server_runs.rows import Run
from holdfast.system import clock

_DONE: Final = {
    ApprovalKind.APPROVAL: "approved",
    ApprovalKind.REJECTION: "rejected",
    ApprovalKind.OVERRIDE: "overrode the denial",
}
BREAK_GLASS_DETAILS: Final = {"lifts": "denial and approvals"}
"""Of its entry in the audit log."""
OVERRIDE_LIFETIME: Final = timedelta(hours=24)


class DecidedPlan(NamedTuple):
    digest: str
    stack: str
    run: str
    """That saved it."""


def about_apply(plan: Run, applies: str | None) -> Refused:
    """A run that plans waits for no decision. `applies`: the run that applies its plan, if there is one."""
    return Refused(
        "HF-RUN-26",
        f"{plan.stack}: run {plan.id} is a plan: a decision is about the run that applies it",
        hint=f"That is run {applies}: holdfast runs show {applies}"
        if applies is not None
        else f"Apply it, and decide about that run: holdfast apply {plan.stack} --server",
    )


def require_break_glass(principal: Principal, kind: ApprovalKind) -> None:
    if kind is not ApprovalKind.OVERRIDE:
        raise UsageError("HF-STORE-25", "only an override can break the glass", hint="Leave break_glass out.")
    if not principal.may(Permission.ADMINISTER):
        raise problem(not_permitted(principal, Permission.ADMINISTER))


def require_decidable(
    store: RunStore,
    who: Actor,
    kind: ApprovalKind,
    plan: DecidedPlan,
    emergency: str,
    *,
    break_glass: bool,
) -> None:
    """Raises if the run did not save this plan, or if its own author approves it or overrides its denial.

    `break_glass`: by an admin, who may do the latter in an emergency, which is the command that does it.
    """
    digest, stack, run = plan
    author = store.approvals.author(digest)
    if author is None or not store.approvals.is_recorded(digest, stack=stack, run=run):
        raise Refused(
            "HF-APPR-2",
            f"{stack}: run {run} did not save this plan, so it cannot be approved",
            hint=f"Save one: holdfast plan {stack} --out DIR, then approve or reject that run.",
        )
    if kind is ApprovalKind.REJECTION or not is_author(author, who.document()):
        return
    if break_glass:
        return
    overrides = kind is ApprovalKind.OVERRIDE
    what = "override its denial" if overrides else "approve it"
    urgent = f" In an emergency, an admin can: holdfast {emergency} --break-glass --reason TEXT"
    raise problem(
        Denial(
            status=403,
            code="HF-APPR-3",
            message=f"{stack}: {who.name} made this plan and cannot {what}",
            hint=f"Ask another person to {what}.{urgent if overrides else ''}",
        )
    )


def expiry_of(kind: ApprovalKind, rules: ServerRules) -> str | None:
    """Of a decision that is made now. A rejection never expires."""
    match kind:
        case ApprovalKind.REJECTION:
            return None
        case ApprovalKind.OVERRIDE:
            return (clock.now() + OVERRIDE_LIFETIME).isoformat()
        case ApprovalKind.APPROVAL:
            return (clock.now() + timedelta(seconds=rules.approval_lifetime)).isoformat()


def add_decision(
    store: RunStore,
    principal: Principal,
    who: Actor,
    kind: ApprovalKind,
    plan: DecidedPlan,
    *,
    reason: str,
    until: str | None,
    break_glass: bool = False,
) -> None:
    """Durable when this returns."""
    store.approvals.add(
        Approval(
            kind=kind,
            **plan._asdict(),
            who=who.document(),
            reason=reason,
            at=clock.now().isoformat(),
            until=until,
            role=principal.role.value,
            groups=principal.groups,
            break_glass=break_glass,
        )
    )


class DecisionInfo(Struct, frozen=True, kw_only=True):
    """What a person decided about the plan of a run."""

    decision: ApprovalKind
    who: str
    at: str
    reason: str
    until: str | None
    """From then on it does not count."""


def decisions_about(store: RunStore, run: Run) -> tuple[Approval, ...]:
    """The oldest first."""
    given = store.approvals.of(run.digest) if run.digest is not None else ()
    return tuple(approval for approval in given if approval.stack == run.stack)


def decision_info(given: Approval) -> DecisionInfo:
    shown = {name: getattr(given, name) for name in ("at", "reason", "until")}
    return DecisionInfo(decision=given.kind, who=given.shown, **shown)


def missing_decision(result: Mapping[str, Any] | None, given: tuple[Approval, ...]) -> str | None:
    """What must still be decided about the plan that a worker stored. None: nothing, or it has none."""
    guard = (result or {}).get("guard")
    decision = decision_from_document(guard)
    return missing_text(decision, given, now=clock.now().isoformat()) if guard is not None else None


def log_decision(store: RunStore, run: Run, who: Actor, kind: ApprovalKind, reason: str) -> None:
    RunLog(store.encrypted, run.id).add(
        f"{run.stack}: {_DONE[kind]} by {who.name}{f': {reason}' if reason else ''}"
    )


def store_rejection(store: RunStore, run: Run) -> None:
    """In the result of the run: everyone who reads it learns who rejected the plan, and why."""
    blob = store.encrypted.read(result_name(run.id))
    result = msgspec.json.decode(blob.data, type=dict[str, Any]) if blob is not None else {}
    now, given = clock.now().isoformat(), decisions_about(store, run)
    decision = with_approvals(decision_from_document(result.get("guard")), given, now=now)
    first = decision.reasons[0]
    error = {
        "code": first.code,
        "message": f"{run.stack}: {first.message}",
        "hint": f"A rejection is final. Make a new plan: holdfast plan {run.stack} --server",
        **dict.fromkeys(("file", "line", "address")),
    }
    guard = {"guard": guard_document(decision)} if result.get("guard") else {}
    stored = {**result, **guard, "error": error, "errors": [error]}
    store.encrypted.write(result_name(run.id), msgspec.json.encode(stored))
