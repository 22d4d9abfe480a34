"""From a plan, a policy and a situation to one decision. Pure: the same values, the same decision.

Every rule looks at every plan; the gravest of what they find decides. A new rule is one function and one
line in `RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from holdfast.config.guard import ANY
from holdfast.guard import change_rules, deletion_rules, finding_rules
from holdfast.guard.decision import Decision, Reason, decided
from holdfast.guard.plan_context import Case, Situation, case_of
from holdfast.guard.policy import EVERYWHERE, Policy
from holdfast.terraform.plan.model import Plan

Rule = Callable[[Case], Iterator[Reason]]

RULES: tuple[Rule, ...] = (
    change_rules.understood,
    deletion_rules.protected_addresses,
    deletion_rules.protected_tags,
    deletion_rules.protected_types,
    deletion_rules.whole_stack,
    deletion_rules.deletions,
    deletion_rules.removed_outputs,
    finding_rules.policies,
    finding_rules.findings,
    change_rules.actions,
    change_rules.provisioners,
    change_rules.partial,
    change_rules.freezes,
    change_rules.size,
    change_rules.approvals,
    deletion_rules.moved_out,
    deletion_rules.found_gone,
)


def judge(plan: Plan, policy: Policy, situation: Situation) -> Decision:
    """What one stack's plan may do. The budget of the whole change is for `judge_change`."""
    case = case_of(plan, policy, situation)
    return decided((reason for rule in RULES for reason in rule(case)), approvals=policy.approvals)


class StackLosses(Struct, frozen=True, kw_only=True):
    """How much one stack of a change would lose, of how much."""

    stack: str
    policy: Policy
    lost: int
    prior: int


def losses_of(plan: Plan, policy: Policy, situation: Situation) -> StackLosses:
    case = case_of(plan, policy, situation)
    return StackLosses(stack=situation.stack, policy=policy, lost=len(case.losing), prior=case.prior)


def judge_change(stacks: Iterable[StackLosses]) -> Mapping[str, tuple[Reason, ...]]:
    """By stack, what speaks against it because of all stacks of the change together.

    Give every stack of the change that has a plan, those already applied included; add the answer to each
    decision with `with_reasons`. Stacks that lose nothing are not held up by those that do.
    """
    groups: dict[str, list[StackLosses]] = {}
    for one in stacks:
        groups.setdefault(one.policy.change_group, []).append(one)
    found: dict[str, tuple[Reason, ...]] = {}
    for group, members in groups.items():
        reason = _overdrawn(group, members)
        if reason is not None:
            found.update((one.stack, (reason,)) for one in members if one.lost)
    return found


def _overdrawn(group: str, members: list[StackLosses]) -> Reason | None:
    budget = next((one.policy.per_change for one in members), ANY)
    lost, prior = sum(one.lost for one in members), sum(one.prior for one in members)
    allowed = budget.allows(prior)
    if allowed is None or lost <= allowed:
        return None
    losing = sum(one.lost > 0 for one in members)
    of = f" of {group}" if group != EVERYWHERE else ""
    return Reason(
        code="HF-GUARD-5",
        message=f"{deletion_rules.objects(lost)} in {losing} {'stack' if losing == 1 else 'stacks'}{of} "
        "would be "
        "deleted, replaced or forgotten, and the budget of a change is "
        f"{deletion_rules.budget_says(budget, prior)}",
        rule="budget of a change",
    )
