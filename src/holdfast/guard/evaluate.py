"""Evaluates the guard rules on a plan. Pure: the same values give the same decision.

Every rule sees every plan; the most severe reason decides. To add a rule, write a function in one of the rule
modules, add a line to `RULES`, and describe it in docs/guard.md and docs/errors.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct, structs

from holdfast.config.guard import ANY, Effect, RequiredApprovals
from holdfast.guard import change_rules, deletion_rules, freeze_rules
from holdfast.guard.decision import (
    NOT_UNDERSTOOD,
    Allow,
    Decision,
    Deny,
    NeedApproval,
    Reason,
    required_approvals,
)
from holdfast.guard.plan_context import PlanContext, RuleInput
from holdfast.guard.policy import EVERYWHERE, Policy
from holdfast.kernel.text import plural
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.terraform.plan.model import Plan
from holdfast.terraform.tables.stateful_types import table_bytes

Rule = Callable[[RuleInput], Iterator[Reason]]

RULES: tuple[tuple[Rule, tuple[int, ...]], ...] = (
    (change_rules.unsupported, (0,)),
    (change_rules.other_repository, (23,)),
    (change_rules.lowered, (20,)),
    (deletion_rules.protected_addresses, (6,)),
    (deletion_rules.protected_tags, (7,)),
    (deletion_rules.protected_types, (3,)),
    (deletion_rules.all_missing, (21,)),
    (deletion_rules.whole_stack, (10,)),
    (deletion_rules.deletions, (1, 4, 5)),
    (deletion_rules.missing_resources, (15,)),
    (deletion_rules.removed_outputs, (2,)),
    (change_rules.policies, (18,)),
    (change_rules.findings, (19,)),
    (change_rules.other_product, (22,)),
    (change_rules.actions, (8,)),
    (change_rules.provisioners, (9,)),
    (change_rules.partial_plans, (11,)),
    (freeze_rules.freezes, (12,)),
    (change_rules.size, (13,)),
    (change_rules.approvals, (14,)),
    (deletion_rules.moved_out, (16,)),
)
"""Each rule with the numbers of its codes, the most severe first: reasons are listed in this order."""
RULES_VERSION = 8
"""Increase it with every change of what a rule decides: it is part of the digest of every plan."""

_CODES = (f"HF-GUARD-{number}" for _, numbers in RULES for number in numbers)
_RANKS = {code: rank for rank, code in enumerate(_CODES)}
_EFFECTS = (Effect.DENY, Effect.APPROVE, Effect.WARN, Effect.ALLOW)


def evaluate_plan(plan: Plan, policy: Policy, context: PlanContext) -> Decision:
    """The decision on the plan of one stack. The budget of the whole change is in `evaluate_change`."""
    rule_input = RuleInput.of(plan, policy, context)
    reasons = (reason for rule, _ in RULES for reason in rule(rule_input))
    return decision_from_reasons(
        reasons, approvals=policy.approvals, verified=policy.verified, approvers=policy.approvers
    )


def policy_version(policy: Policy) -> str:
    """Part of every plan digest: a plan evaluated with other rules is another plan."""
    content = (RULES_VERSION, hashlib.sha256(table_bytes()).hexdigest(), policy)
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def decision_from_reasons(
    reasons: Iterable[Reason],
    *,
    approvals: int = 0,
    verified: bool = False,
    approvers: tuple[RequiredApprovals, ...] = (),
) -> Decision:
    """The most severe reason decides; allowed ones are dropped."""
    kept = tuple(sorted((reason for reason in reasons if reason.effect is not Effect.ALLOW), key=_severity))
    effects = {reason.effect for reason in kept}
    needed = max(approvals, 1) if Effect.APPROVE in effects else 0
    if Effect.DENY in effects:
        return Deny(reasons=kept, approvals=needed, verified=verified, approvers=approvers)
    if needed:
        return NeedApproval(reasons=kept, approvals=needed, verified=verified, approvers=approvers)
    return Allow(reasons=kept, verified=verified, approvers=approvers)


def _severity(reason: Reason) -> tuple[int, int]:
    return _EFFECTS.index(reason.effect), _RANKS.get(reason.code, -1)


def unite(decisions: Sequence[Decision]) -> Decision:
    """The decision of several policies on one plan: every reason counts, and the stricter effect wins."""
    if len(decisions) == 1:
        return decisions[0]
    strictest: dict[tuple[object, ...], Reason] = {}
    for reason in sorted((reason for decision in decisions for reason in decision.reasons), key=_severity):
        strictest.setdefault((reason.code, reason.address, reason.finding, reason.message), reason)
    return decision_from_reasons(
        strictest.values(),
        approvals=max(map(_approvals, decisions)),
        verified=any(decision.verified for decision in decisions),
        approvers=tuple(dict.fromkeys(each for decision in decisions for each in decision.approvers)),
    )


def with_reasons(decision: Decision, more: Iterable[Reason]) -> Decision:
    """The decision with more reasons: as severe, or more severe."""
    return _decide_again(decision, (*decision.reasons, *more))


def with_override(decision: Decision, *, break_glass: bool = False) -> Decision:
    """What remains once a person overrode the denial of this plan: required approvals, and warnings.

    `break_glass`: no approvals either. An unsupported plan cannot be overridden: it is unknown what it does.
    """
    liftable = {Effect.DENY, Effect.APPROVE} if break_glass else {Effect.DENY}
    lifted = (
        structs.replace(reason, effect=Effect.WARN)
        if reason.effect in liftable and reason.code != NOT_UNDERSTOOD
        else reason
        for reason in decision.reasons
    )
    return _decide_again(decision, lifted)


def _decide_again(decision: Decision, reasons: Iterable[Reason]) -> Decision:
    return decision_from_reasons(
        reasons,
        approvals=_approvals(decision),
        verified=decision.verified,
        approvers=decision.approvers,
    )


def _approvals(decision: Decision) -> int:
    return 0 if isinstance(decision, Allow) else decision.approvals


# The deletion budget of a change


class StackDeletions(Struct, frozen=True, kw_only=True):
    """How many of its resources one stack of a change would lose."""

    stack: str
    policy: Policy
    deleted: int
    prior: int


def stack_deletions(plan: Plan, policy: Policy, context: PlanContext) -> StackDeletions:
    rule_input = RuleInput.of(plan, policy, context)
    deleted = len(rule_input.deletions)
    return StackDeletions(stack=context.stack, policy=policy, deleted=deleted, prior=rule_input.prior)


def evaluate_change(stacks: Iterable[StackDeletions]) -> Mapping[str, tuple[Reason, ...]]:
    """By stack, the reasons that result from all stacks of the change together.

    Pass every stack of the change that has a plan, including those already applied, and add the reasons to
    each decision with `with_reasons`. Stacks without deletions are not affected.
    """
    groups: dict[str, list[StackDeletions]] = {}
    for stack in stacks:
        groups.setdefault(stack.policy.change_group, []).append(stack)
    reasons: dict[str, tuple[Reason, ...]] = {}
    for group, members in groups.items():
        reason = _over_budget(group, members)
        if reason is not None:
            reasons.update((stack.stack, (reason,)) for stack in members if stack.deleted)
    return reasons


def _over_budget(group: str, members: list[StackDeletions]) -> Reason | None:
    budget = next((stack.policy.per_change for stack in members), ANY)
    deleted, prior = sum(stack.deleted for stack in members), sum(stack.prior for stack in members)
    allowed = budget.allows(prior)
    if allowed is None or deleted <= allowed:
        return None
    stacks = plural(sum(stack.deleted > 0 for stack in members), "stack")
    where = f"{stacks} of {group}" if group != EVERYWHERE else stacks
    return Reason(
        code="HF-GUARD-5",
        message=f"{plural(deleted, 'resource')} in {where} would be deleted, replaced or forgotten; "
        f"the budget of a change is {deletion_rules.budget_text(budget, prior)}",
        rule="deletion budget of a change",
    )


REJECTED = "HF-GUARD-17"


def with_approvals(decision: Decision, approvals: Iterable[Approval], *, now: str) -> Decision:
    given = tuple(approval for approval in approvals if approval.in_force(now))
    rejection = next((approval for approval in given if approval.kind is ApprovalKind.REJECTION), None)
    if rejection is not None:
        message = f"rejected by {rejection.shown}: {rejection.reason}"
        reason = Reason(code=REJECTED, message=message, rule="rejection", effect=Effect.DENY)
        return Deny(reasons=(reason, *decision.reasons))
    overrides = [approval for approval in given if approval.kind is ApprovalKind.OVERRIDE]
    if overrides:
        decision = with_override(decision, break_glass=any(each.break_glass for each in overrides))
    match decision:
        case NeedApproval() if not missing_approvals(decision, given, now=now):
            return _with_approvers(decision, given)
        case Allow() | NeedApproval() | Deny():
            return decision


def missing_approvals(decision: Decision, approvals: Iterable[Approval], *, now: str) -> int:
    """0 if none is needed, or if more than approvals is missing."""
    missing = missing_by_rule(decision, tuple(approvals), now=now)
    return max((number for number, _ in missing), default=0)


def missing_text(decision: Decision, approvals: Sequence[Approval], *, now: str) -> str | None:
    """What people must still decide before the plan is applied. None: nothing."""
    decided = with_approvals(decision, approvals, now=now)
    match decided:
        case Allow():
            return None
        case NeedApproval():
            return change_rules.approvals_text(missing_by_rule(decided, approvals, now=now), one="1")
        case Deny() if decided.reasons[0].code == REJECTED:
            return "a new plan: this one was rejected"
        case Deny():
            return "an override: the guard denies the plan"


def missing_by_rule(
    decision: Decision, approvals: Sequence[Approval], *, now: str
) -> tuple[tuple[int, RequiredApprovals], ...]:
    """How many approvals each rule still needs. One approval may count for several rules."""
    if not isinstance(decision, NeedApproval):
        return ()
    given = [each for each in approvals if each.kind is ApprovalKind.APPROVAL and each.in_force(now)]
    rules = required_approvals(decision)
    numbers = (rule.count - len({each.by for each in given if _counts(each, rule)}) for rule in rules)
    return tuple((number, rule) for number, rule in zip(numbers, rules, strict=True) if number > 0)


def _counts(approval: Approval, rule: RequiredApprovals) -> bool:
    return (
        (approval.verified or not (rule.verified or rule.limited))
        and rule.role in {None, approval.role}
        and (rule.group is None or rule.group in approval.groups)
    )


def _with_approvers(decision: NeedApproval, given: tuple[Approval, ...]) -> Decision:
    """A warning says who approved what it warns of."""
    approvers = (approval.shown for approval in given if approval.kind is ApprovalKind.APPROVAL)
    by = " and ".join(dict.fromkeys(approvers))
    return decision_from_reasons(
        structs.replace(reason, effect=Effect.WARN, message=f"{reason.message}; approved by {by}")
        if reason.effect is Effect.APPROVE
        else reason
        for reason in decision.reasons
    )
