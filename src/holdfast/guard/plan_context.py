"""The input of the guard rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from holdfast.guard.policy import Policy
from holdfast.terraform.plan.model import Plan, ResourceChange


class StackFinding(Struct, frozen=True, kw_only=True):
    """An error that the checks found in a stack or its plan, without a waiver."""

    rule: str
    """`HF207`, `rego.main.deny`."""
    message: str
    where: str | None = None
    """`main.tf:4`; None: in the plan."""
    address: str | None = None
    policy: bool = False
    """A Rego policy reported it, or could not be evaluated."""
    id: str = ""
    """The id of the finding in the check report."""


class PlanContext(Struct, frozen=True, kw_only=True):
    """What the guard has to know about a plan beside its content."""

    stack: str
    environment: str | None
    production: bool
    now: datetime
    """With its time zone."""
    destroy: bool = False
    """The plan was made with `--destroy`."""
    gone: bool = False
    """None of the resources to destroy was found. The plan then lists nothing, but empties the state."""
    recreates: bool = False
    """What was not found is to be created again."""
    targeted: bool = False
    """The plan was made with `--target` or `--exclude`."""
    excludes: bool = False
    """It was made with `--exclude`."""
    imports: bool = False
    """The plan was made to import resources, and is limited to them on purpose."""
    read_outputs: frozenset[str] = frozenset()
    """Outputs of this stack that other stacks read."""
    findings: tuple[StackFinding, ...] = ()
    """Errors only. Those in the code may be missing where they do not affect the decision."""
    lowered: tuple[str, ...] = ()
    """What was stricter when the stack was last applied."""
    product_change: str | None = None
    """That the last apply ran the other product, Terraform or OpenTofu, if so."""
    repository_change: str | None = None
    """That the state was last applied from another repository, if so."""
    prior_resources: int | None = None
    """How many resources the stack has; None: as many as the plan says."""

    @property
    def where(self) -> str:
        """`production`, or the name of the environment."""
        return "production" if self.production else self.environment or "this environment"


class RuleInput(Struct, frozen=True, kw_only=True):
    """What a rule can read."""

    plan: Plan
    policy: Policy
    context: PlanContext
    deletions: Sequence[ResourceChange]
    """Changes that delete, replace or forget a resource, the most severe first."""
    prior: int
    """The number of resources before the change, without those that it imports."""
    has_changes: bool

    @classmethod
    def of(cls, plan: Plan, policy: Policy, context: PlanContext) -> RuleInput:
        prior = context.prior_resources
        if prior is None:
            importing = sum(change.importing is not None for change in plan.changes)
            prior = max(0, plan.prior_resources - importing)
        return cls(
            plan=plan,
            policy=policy,
            context=context,
            deletions=sorted((change for change in plan.changes if change.loses), key=_severity),
            prior=prior,
            has_changes=plan.has_changes or context.gone,
        )


def _severity(change: ResourceChange) -> int:
    """Deleted, then replaced, then forgotten."""
    if "delete" not in change.actions:
        return 2
    return 1 if "create" in change.actions else 0
