"""What an operation removes from a state is a loss like any other.

The resources themselves still exist, but nothing manages them any more: owner, protection and the production
rules of the guard apply. A person can override a denial with the digest of exactly this change, and a reason.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator

from holdfast.audit.entry import What
from holdfast.config.guard import Effect
from holdfast.guard.change_rules import weaker_than_applied
from holdfast.guard.decision import NOT_UNDERSTOOD, Allow, Decision, Reason
from holdfast.guard.evaluate import evaluate_plan, with_reasons
from holdfast.guard.plan_context import PlanContext
from holdfast.kernel.errors import Refused
from holdfast.kernel.values import MaskedStruct
from holdfast.plans.context import ChangeContext, Project
from holdfast.plans.policies import lowered_rules, policy_of, require_owner
from holdfast.runs import audit_trail
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore
from holdfast.system import clock
from holdfast.terraform.plan.model import Change, Plan, ResourceChange
from holdfast.terraform.statefile.losses import lost_resources
from holdfast.terraform.statefile.model import State, StateResource, read_state

_SHORTEST_DIGEST = 12


class Override(MaskedStruct, frozen=True, kw_only=True):
    """A person accepts what one change of a state removes."""

    digest: str
    """At least its first twelve characters."""
    reason: str


class StateChange(MaskedStruct, frozen=True, kw_only=True):
    """From the state that a stack has to the one that it is given. Bytes are states, unencrypted."""

    operation: What
    before: bytes
    """Empty: there is none, and none is known."""
    after: bytes
    lost: tuple[StateResource, ...] | None
    """None: they cannot be compared, because one of them is encrypted or has no copy."""
    digest: str
    saves: bool = False
    """It saves the state that a run of this stack could not save."""
    weaker: tuple[str, ...] = ()
    """How resources that move to another stack are guarded less there."""

    @property
    def lost_addresses(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(resource.address for resource in self.lost or ()))

    @property
    def loses(self) -> bool:
        return self.lost is None or bool(self.lost)


def state_change(
    stack: str, operation: What, before: bytes, after: bytes, *, allowed: frozenset[str] | None = None
) -> StateChange:
    """`allowed` are addresses that a run may have removed, whose state is only now saved."""
    old = read_state(before)
    lost = lost_resources(old, read_state(after)) if before else ()
    if lost is not None:
        lost = tuple(resource for resource in lost if resource.address not in (allowed or ()))
    known = (old.lineage, old.serial) if isinstance(old, State) else None
    parts = [stack, operation, known, hashlib.sha256(after).hexdigest()]
    return StateChange(
        operation=operation,
        before=before,
        after=after,
        lost=lost,
        digest=hashlib.sha256(json.dumps(parts).encode()).hexdigest(),
        saves=allowed is not None,
    )


def decide(project: Project, store: RunStore, stack: Stack, change: StateChange) -> Decision:
    """As for a plan that forgets these resources. Without a loss, only the memory of the last apply counts.

    That is not asked about a state that is only saved: the apply itself was allowed.
    """
    if not change.loses and change.saves:
        return Allow()
    state = read_state(change.before)
    lineage = state.lineage if isinstance(state, State) else ""
    lowered = lowered_rules(project, store, stack, lineage)
    if not change.loses and not lowered and not change.weaker:
        return Allow()
    policy = policy_of(project.config, stack)
    forgets = tuple(
        ResourceChange(
            address=resource.address,
            change=Change(actions=("forget",), before=resource.attributes),
            mode=resource.mode,
            type=resource.type,
            name=resource.name,
            deposed=resource.deposed,
        )
        for resource in change.lost or ()
    )
    context = PlanContext(
        stack=stack.name,
        environment=stack.environment,
        production=stack.production,
        now=clock.now(),
        prior_resources=state.managed if isinstance(state, State) else None,
    )
    weaker = (*weaker_than_applied(lowered), *_guarded_less(change))
    decision = with_reasons(evaluate_plan(Plan(changes=forgets), policy, context), weaker)
    if change.lost is not None:
        return decision
    unknown = Reason(
        code="HF-GUARD-10",
        message="it is unknown which resources would be removed from the state",
        rule="unknown losses",
        effect=policy.destroy,
    )
    return with_reasons(decision, (unknown,))


def _guarded_less(change: StateChange) -> Iterator[Reason]:
    if change.weaker:
        yield Reason(
            code="HF-GUARD-20",
            message="the resources would be guarded less in the other stack: " + "; ".join(change.weaker),
            rule="move to weaker rules",
        )


def require_allowed(
    context: ChangeContext, stack: Stack, change: StateChange, override: Override | None, *, command: str
) -> bool:
    """Whether a person overrode a denial. `command` repeats the operation, for the hint."""
    if change.loses or not change.saves:
        # What CI owned at the last apply is part of the decision.
        require_owner(context.project, stack)
    decision = decide(context.project, context.store, stack, change)
    if override is not None:
        _require_digest(stack, change, override, command)
    if isinstance(decision, Allow):
        return False
    reason = next(reason for reason in decision.reasons if reason.effect is not Effect.WARN)
    if override is not None and reason.code != NOT_UNDERSTOOD:
        return True
    raise Refused(
        reason.code,
        f"{stack.name}: {reason.message}",
        hint=f'If this is intentional: {command} --override {change.digest} --reason "why"',
    )


@contextlib.contextmanager
def audited_change(
    context: ChangeContext,
    stack: Stack,
    change: StateChange,
    override: Override | None,
    *,
    seen: str | None,
    command: str,
    reason: str | None = None,
    **details: str,
) -> Iterator[None]:
    """Under the claim: the change must still be allowed, and be the one that the user saw."""
    if seen is not None and change.digest != seen:
        raise Refused(
            "HF-STATE-28",
            f"{stack.name}: its state changed in the meantime",
            hint=f"Look at the new state, then try again if you still want to: {command}",
        )
    overridden = require_allowed(context, stack, change, override, command=command)
    after = read_state(change.after)
    if isinstance(after, State):
        details["serial"] = str(after.serial)
    if change.lost_addresses:
        details["removed"] = ", ".join(change.lost_addresses)
    with audit_trail.audited(
        context.identity,
        context.control.tell,
        stack.name,
        what=change.operation,
        reason=override.reason if override is not None else reason,
        digest=change.digest,
        break_glass=overridden,
        **details,
    ):
        yield


def _require_digest(stack: Stack, change: StateChange, override: Override, command: str) -> None:
    if len(override.digest) < _SHORTEST_DIGEST or not change.digest.startswith(override.digest):
        raise Refused(
            "HF-STATE-12",
            f"{stack.name}: --override names another change of its state than this one",
            hint=f"See what this one removes, and its digest: {command}",
        )


def last_known_copy(store: RunStore, stack: str) -> bytes:
    """For a state that is lost or is not the one that was recorded; empty if there is no copy."""
    copy = store.states.current(stack) or store.backups.last(stack)
    return copy.state if copy is not None else b""
