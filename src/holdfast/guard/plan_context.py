"""What the guard must be told beside the plan and the policy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from holdfast.guard.policy import Policy
from holdfast.terraform.plan.model import Plan, ResourceChange


class Found(Struct, frozen=True, kw_only=True):
    """An error that the checks found in a stack or in its plan, and that nobody waived."""

    rule: str
    """`HF207`, `rego.main.deny`."""
    message: str
    where: str | None = None
    """`main.tf:4`; None: in the plan."""
    address: str | None = None
    policy: bool = False
    """A policy in Rego says so, or could not be asked."""
    id: str = ""
    """Of the finding in the report of the checks."""


class Situation(Struct, frozen=True, kw_only=True):
    stack: str
    environment: str | None
    production: bool
    now: datetime
    """With its time zone."""
    destroy: bool = False
    """The plan was asked to destroy the whole stack."""
    targeted: bool = False
    """The plan was asked with `--target`."""
    read_outputs: frozenset[str] = frozenset()
    """Names of this stack's outputs that other stacks read."""
    findings: tuple[Found, ...] = ()
    """What the checks found: errors only. Those in the code may be missing where they decide nothing."""
    prior_resources: int | None = None
    """How many objects the stack has; None: as many as the plan says."""

    @property
    def where(self) -> str:
        """`production`, or the environment's own name."""
        if self.production:
            return "production"
        return self.environment or "this environment"


class Case(Struct, frozen=True, kw_only=True):
    """All that a rule may look at."""

    plan: Plan
    policy: Policy
    situation: Situation
    losing: Sequence[ResourceChange]
    """Changes that delete, replace or forget an object, the gravest first."""
    prior: int
    """How many objects there are before; imported ones are not yet there."""
    has_changes: bool


def case_of(plan: Plan, policy: Policy, situation: Situation) -> Case:
    losing = [change for change in plan.changes if change.loses]
    losing.sort(key=_gravity)
    prior = situation.prior_resources
    if prior is None:
        importing = sum(change.importing is not None for change in plan.changes)
        prior = max(0, plan.prior_resources - importing)
    return Case(
        plan=plan,
        policy=policy,
        situation=situation,
        losing=losing,
        prior=prior,
        has_changes=plan.has_changes,
    )


def _gravity(change: ResourceChange) -> int:
    """Gone, then made anew, then only forgotten."""
    if "delete" not in change.actions:
        return 2
    return 1 if "create" in change.actions else 0
