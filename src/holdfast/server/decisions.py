"""A verified person's decision about one plan: to approve, reject or override it."""

from __future__ import annotations

from holdfast.audit.actor import Actor
from holdfast.kernel.errors import Refused
from holdfast.server.exceptions import problem
from holdfast.server.problems import Denial
from holdfast.store.approvals import Approval, ApprovalKind, is_author
from holdfast.store.run_store import RunStore
from holdfast.system import clock


def require_decidable(
    store: RunStore, who: Actor, kind: ApprovalKind, *, digest: str, stack: str, run: str
) -> None:
    """Raises if the run did not save this plan. A plan is not approved by the person who made it."""
    author = store.approvals.author(digest)
    if author is None or not store.approvals.is_recorded(digest, stack=stack, run=run):
        raise Refused(
            "HF-APPR-2",
            f"{stack}: run {run} did not save this plan, so it cannot be approved",
            hint=f"Save one: holdfast plan {stack} --out DIR, then approve or reject that run.",
        )
    if kind is ApprovalKind.APPROVAL and is_author(author, who.document()):
        raise problem(
            Denial(
                status=403,
                code="HF-APPR-3",
                message=f"{stack}: {who.name} made this plan and cannot approve it",
                hint="Ask another person to approve it.",
            )
        )


def add_decision(
    store: RunStore,
    who: Actor,
    kind: ApprovalKind,
    *,
    digest: str,
    stack: str,
    run: str,
    reason: str,
    until: str | None,
) -> None:
    """Durable when this returns."""
    store.approvals.add(
        Approval(
            kind=kind,
            digest=digest,
            stack=stack,
            run=run,
            who=who.document(),
            reason=reason,
            at=clock.now().isoformat(),
            until=until,
        )
    )
