"""Rules about how a change is made: unsupported actions, provisioners, size, approvals, findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from holdfast.config.guard import Effect, RequiredApprovals
from holdfast.guard.decision import NOT_UNDERSTOOD, OTHER_REPOSITORY, Reason
from holdfast.guard.plan_context import RuleInput, StackFinding
from holdfast.kernel.text import plural
from holdfast.terraform.addresses import without_keys
from holdfast.terraform.plan.actions import ChangeKind

_UNSUPPORTED = "unsupported plan"


def unsupported(given: RuleInput) -> Iterator[Reason]:
    """An action, a reason or a kind of output that this version does not know, or a failed plan."""
    plan = given.plan
    for change in (*plan.changes, *(deferred.change for deferred in plan.deferred), *plan.drift):
        if not change.understood:
            why = f" because {change.reason}" if change.reason else ""
            planned = "/".join(change.actions) or "do nothing"
            yield Reason(
                code=NOT_UNDERSTOOD,
                address=change.address,
                message=f"{change.address}: Terraform plans to {planned}{why}; "
                "this version of Holdfast does not support it",
                rule=_UNSUPPORTED,
            )
    for output in plan.outputs:
        if output.kind is ChangeKind.UNKNOWN:
            yield Reason(
                code=NOT_UNDERSTOOD,
                message=f"the output `{output.name}` changes in a way that this version of Holdfast does not "
                "support",
                rule=_UNSUPPORTED,
            )
    if plan.errored:
        message = "planning failed, so the plan does not show every change"
        yield Reason(code=NOT_UNDERSTOOD, message=message, rule=_UNSUPPORTED)


def lowered(given: RuleInput) -> Iterator[Reason]:
    """The stack was last applied as production, or with protections that it no longer has."""
    if given.has_changes:
        yield from weaker_than_applied(given.context.lowered)


def weaker_than_applied(lowered: tuple[str, ...]) -> Iterator[Reason]:
    if lowered:
        yield Reason(
            code="HF-GUARD-20",
            message="its rules are weaker than at its last apply: " + "; ".join(lowered),
            rule="weaker rules than at the last apply",
        )


def other_product(given: RuleInput) -> Iterator[Reason]:
    """What one product writes, such as an encrypted state, the other may not be able to read."""
    if given.has_changes and given.context.product_change is not None:
        yield Reason(
            code="HF-GUARD-22",
            message=given.context.product_change,
            rule="another product than at the last apply",
            effect=Effect.APPROVE if given.context.production else Effect.WARN,
        )


def other_repository(given: RuleInput) -> Iterator[Reason]:
    """The plan would turn the resources of another repository into those of this one."""
    if given.has_changes and given.context.repository_change is not None:
        yield Reason(
            code=OTHER_REPOSITORY,
            message=given.context.repository_change,
            rule="another repository than at the last apply",
        )


def actions(given: RuleInput) -> Iterator[Reason]:
    for action in given.plan.action_invocations:
        if action.deferred is not None:
            continue
        by = f" by {action.triggered_by}" if action.triggered_by else ""
        when = f" ({action.event})" if action.event else ""
        yield Reason(
            code="HF-GUARD-8",
            address=action.address,
            message=f"{action.address} would be invoked{by}{when}; the plan does not show what it does",
            rule="provider actions",
            effect=given.policy.actions,
        )


def provisioners(given: RuleInput) -> Iterator[Reason]:
    """A plan shows that a resource has provisioners, but not when they run or what they do."""
    if not given.plan.provisioners:
        return
    affected = Counter(
        without_keys(change.address)
        for change in given.plan.changes
        if "create" in change.actions or "delete" in change.actions
    )
    for address, number in affected.items():
        kinds = given.plan.provisioners.get(address)
        if kinds:
            yield Reason(
                code="HF-GUARD-9",
                address=address,
                message=f"{address}: provisioners ({', '.join(kinds)}) may run, because "
                f"{plural(number, 'resource')} would be created or deleted; "
                "the plan does not show what they do",
                rule="provisioners",
                effect=given.policy.provisioners,
            )


def partial_plans(given: RuleInput) -> Iterator[Reason]:
    if not given.has_changes or given.context.imports:
        return
    if given.context.targeted:
        option = "--exclude" if given.context.excludes else "--target"
        message = f"the plan was made with {option} and does not cover the whole stack"
    elif given.plan.complete is False:
        message = "the plan is incomplete: Terraform needs another plan after it"
    else:
        return
    yield Reason(code="HF-GUARD-11", message=message, rule="partial plan", effect=given.policy.target)


def size(given: RuleInput) -> Iterator[Reason]:
    most = given.policy.max_changes
    if most is None:
        return
    number = sum(change.has_effect and change.kind is not ChangeKind.READ for change in given.plan.changes)
    if number > most:
        yield Reason(
            code="HF-GUARD-13",
            message=f"{plural(number, 'resource')} would change; more than {most} need an approval",
            rule="size of a change",
            effect=Effect.APPROVE,
        )


def approvals(given: RuleInput) -> Iterator[Reason]:
    needed = given.policy.approvals
    if needed and given.has_changes:
        where = given.context.environment or given.context.where
        limited = [(each.count, each) for each in given.policy.approvers]
        general = RequiredApprovals(count=needed, verified=given.policy.verified)
        yield Reason(
            code="HF-GUARD-14",
            message=f"changes to {where} need {approvals_text(((needed, general), *limited))}",
            rule=f"approvals in {where}",
            effect=Effect.APPROVE,
        )


def approvals_text(needed: Sequence[tuple[int, RequiredApprovals]], one: str | None = None) -> str:
    """`2 approvals, and an approval of the group dba`. One that another covers is not named."""
    most = max((number for number, rule in needed if rule.limited), default=0)
    named = (rule.text(number, one) for number, rule in needed if rule.limited or number > most)
    return ", and ".join(named)


def policies(given: RuleInput) -> Iterator[Reason]:
    if given.has_changes:
        for finding in given.context.findings:
            if finding.policy:
                by = (
                    f"policy {finding.rule}" if finding.rule.startswith("rego.") else "policies not evaluated"
                )
                yield _reason("HF-GUARD-18", finding, by, given.policy.policies)


def findings(given: RuleInput) -> Iterator[Reason]:
    """Only a reason if it stops the plan; findings are shown in any case."""
    if given.has_changes and given.policy.findings not in {Effect.ALLOW, Effect.WARN}:
        for finding in given.context.findings:
            if not finding.policy:
                yield _reason("HF-GUARD-19", finding, f"check {finding.rule}", given.policy.findings)


def _reason(code: str, finding: StackFinding, rule: str, effect: Effect) -> Reason:
    return Reason(
        code=code,
        message=f"{finding.where}: {finding.message}" if finding.where else finding.message,
        address=finding.address,
        rule=rule,
        effect=effect,
        finding=finding.id,
    )
