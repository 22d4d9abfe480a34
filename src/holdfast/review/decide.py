"""Decide on a plan: the guard's input, recorded approvals, and the error of a plan that is not allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from holdfast.config.guard import Effect
from holdfast.guard.change_rules import approvals_text
from holdfast.guard.decision import NOT_UNDERSTOOD, OTHER_REPOSITORY, Decision, Deny, NeedApproval, Reason
from holdfast.guard.evaluate import (
    REJECTED,
    StackDeletions,
    decision_from_reasons,
    evaluate_change,
    evaluate_plan,
    missing_by_rule,
    stack_deletions,
    unite,
    with_approvals,
    with_reasons,
)
from holdfast.guard.plan_context import PlanContext, StackFinding
from holdfast.guard.policy import Policy
from holdfast.kernel.errors import Problem
from holdfast.kernel.patterns import pattern
from holdfast.plans.context import Project
from holdfast.plans.plan_file import PlanFile
from holdfast.plans.policies import applied_before, lowered_rules, policies_of, policy_of
from holdfast.review.plan_checks import PlanChecks
from holdfast.stacks.reads.outputs import named_outputs
from holdfast.stacks.stack import Stack
from holdfast.store.approvals import Approval
from holdfast.store.run_store import RunStore
from holdfast.system import clock

_READS = pattern(r"""\.outputs(?:\.(?P<name>[A-Za-z_][\w-]*)|\[\s*"(?P<key>[^"]+)"\s*\])?""")


def plan_context(
    project: Project,
    stack: Stack,
    plan_file: PlanFile,
    findings: tuple[StackFinding, ...] = (),
    lowered: tuple[str, ...] = (),
) -> PlanContext:
    removed = any(output.removed for output in plan_file.plan.outputs)
    return PlanContext(
        stack=stack.name,
        environment=stack.environment,
        production=stack.production,
        now=clock.now(),
        destroy=plan_file.destroy,
        gone=plan_file.gone,
        recreates=stack.recreates,
        targeted=plan_file.targeted,
        excludes=bool(plan_file.options.excludes),
        imports=bool(plan_file.options.imports),
        read_outputs=frozenset(_read_outputs(project, stack, plan_file)) if removed else frozenset(),
        findings=findings,
        lowered=lowered,
        product_change=plan_file.product_change,
        repository_change=plan_file.repository_change,
    )


def _read_outputs(project: Project, stack: Stack, plan_file: PlanFile) -> Iterator[str]:
    """Outputs that dependents read; an expression that takes all outputs together reads all of them."""
    names = [output.name for output in plan_file.plan.outputs]
    for other in project.stacks.values():
        outputs = named_outputs(project.code, other).get(stack.name, frozenset())
        yield from names if outputs is None else outputs
    modules = {other.module for other in project.stacks.values() if stack.name in other.depends_on}
    if project.base is not None:
        # In the base they depend on it: the change may have removed only `depends_on`.
        modules.update(module for base in project.base.of(stack.name) for module in base.readers)
    for module in sorted(modules):
        for file in project.code.module(module).files:
            text = (project.root / file.path).read_text(errors="replace")
            for match in _READS.finditer(text):
                read = match["name"] or match["key"]
                yield from (read,) if read else names


async def decide(
    project: Project,
    store: RunStore,
    checks: PlanChecks,
    stack: Stack,
    plan_file: PlanFile,
    *,
    approvals: tuple[Approval, ...] = (),
    more: tuple[Reason, ...] = (),
) -> Decision:
    """The guard's decision, with `more` reasons, and with approvals, rejections and overrides of the plan.

    A rejection counts even if the guard allows the plan.
    """
    findings = await checks.check_plan(stack, plan_file)
    own = policy_of(project.config, stack)
    lowered: tuple[str, ...] = ()
    if plan_file.changes:
        lowered = await asyncio.to_thread(lowered_rules, project, store, stack, plan_file.prior.lineage)
    context = plan_context(project, stack, plan_file, findings.own, lowered)
    decisions = [evaluate_plan(plan_file.plan, own, context)]
    for judged, policy in _by_base(project, stack, checks=findings.base is not None):
        base_context = plan_context(project, judged, plan_file, findings.base or findings.own)
        decisions.append(evaluate_plan(plan_file.plan, policy, base_context))
    if store.approval_rules and (plan_file.plan.has_changes or plan_file.gone):
        decisions.extend(await asyncio.to_thread(_by_server, project, store, stack, plan_file))
    decision = with_reasons(unite(decisions), more) if more else unite(decisions)
    return with_approvals(decision, approvals, now=clock.now().isoformat())


def _by_server(project: Project, store: RunStore, stack: Stack, plan_file: PlanFile) -> tuple[Decision, ...]:
    """What the server requires, also of a stack that was in another environment before."""
    applied = applied_before(project, store, stack, plan_file.prior.lineage)
    environments = {stack.environment, *(before.environment for before in applied)}
    environments.update(judged.environment for judged, _ in _by_base(project, stack, checks=False))
    rules = [rule.required for rule in store.approval_rules if rule.covers(stack.name, environments)]
    return tuple(
        decision_from_reasons(
            (
                Reason(
                    code="HF-GUARD-14",
                    message=f"the server requires {rule.text(rule.count)} for {stack.name}",
                    rule="approvals required by the server",
                    effect=Effect.APPROVE,
                ),
            ),
            approvals=rule.count,
            verified=True,
            approvers=(rule,) if rule.limited else (),
        )
        for rule in rules
    )


def _by_base(project: Project, stack: Stack, *, checks: bool) -> Iterator[tuple[Stack, Policy]]:
    """The stack as the base sees it, with the base's policy for it."""
    if project.base is None:
        return
    known = project.base.policies(stack.name)
    for base, policy in known:
        yield base.judged(stack), policy
    if checks and not known:
        # Only the checks differ.
        yield stack, policy_of(project.base.config, stack)


def approvals_for(store: RunStore, digest: str, stack: str) -> tuple[Approval, ...]:
    """Those in force, of a plan of this stack."""
    now, given = clock.now().isoformat(), store.approvals.of(digest)
    return tuple(approval for approval in given if approval.stack == stack and approval.in_force(now))


def deletions_in(project: Project, stack: Stack, plan_file: PlanFile) -> tuple[StackDeletions, ...]:
    """By the policy of the change, and by each policy of its base."""
    context = plan_context(project, stack, plan_file)
    return tuple(stack_deletions(plan_file.plan, policy, context) for policy in policies_of(project, stack))


def with_change_budget(
    decisions: dict[str, tuple[Decision, tuple[Approval, ...]]],
    deletions: Mapping[str, tuple[StackDeletions, ...]],
) -> dict[str, Decision]:
    """The decisions, with the reasons that result from all stacks of the change together."""
    reasons: dict[str, dict[Reason, None]] = {}
    for number in range(max(map(len, deletions.values()), default=0)):
        # A stack that the base treats alike counts there as it does here.
        counted = (by_policy[min(number, len(by_policy) - 1)] for by_policy in deletions.values())
        for name, more in evaluate_change(counted).items():
            reasons.setdefault(name, {}).update(dict.fromkeys(more))
    return {
        name: with_approvals(with_reasons(decision, reasons[name]), approvals, now=clock.now().isoformat())
        if reasons.get(name)
        else decision
        for name, (decision, approvals) in decisions.items()
    }


def has_change_budget(project: Project, stacks: tuple[Stack, ...]) -> bool:
    """Whether the decision on a stack depends on the others."""
    return any(
        policy.per_change.allows(0) is not None for stack in stacks for policy in policies_of(project, stack)
    )


ON_SERVER = "a server"
"""In place of a bundle's folder: the plan is saved on a server, which applies it after a decision."""
PLANNED_ON_SERVER = "a plan on a server"
"""The same for a plan that no apply waits for yet: an apply of it waits for the decision."""


def refusal_error(
    stack: str,
    decision: NeedApproval | Deny,
    approvals: tuple[Approval, ...],
    *,
    run: str,
    digest: str,
    saved: str | None,
    asked: str,
    out: str = "bundle/",
    mocks: bool = False,
) -> Problem:
    """`saved` is the bundle's folder, `out` one for a new plan. `mocks`: it cannot be approved yet.

    `asked` are the arguments of `holdfast plan` that repeat the plan.
    """
    code, message = decision.reasons[0].code, f"{stack}: {decision.reasons[0].message}"
    if isinstance(decision, Deny):
        return Problem(code=code, message=message, hint=_override_hint(asked, run, code, digest, saved, out))
    missing = missing_by_rule(decision, approvals, now=clock.now().isoformat())
    text = approvals_text(missing, one="1")
    message += f"; {text} {'is' if text.startswith('1 ') and ', and' not in text else 'are'} missing"
    hint = _approval_hint(asked, run, saved, out)
    if mocks:
        hint = (
            "The plan has mocks, so an approval does not count yet. Apply the stacks that it reads from, "
            f"then save and approve a new plan: holdfast plan {asked} --out new-bundle/"
        )
    return Problem(code="HF-APPR-1", message=message, hint=hint)


def _approval_hint(asked: str, run: str, saved: str | None, out: str) -> str:
    if saved == ON_SERVER:
        return f"To approve and apply it: holdfast runs approve {run} --reason TEXT"
    if saved == PLANNED_ON_SERVER:
        return f"Apply it, then it waits for an approval: {_apply_on_server(asked, yes=False)}"
    if saved is None:
        return (
            f"Save the plan: holdfast plan {asked} --out {out}; get it approved: holdfast runs approve "
            f"--bundle {out} --reason TEXT; then: holdfast apply --plan {out}"
        )
    return f"To approve: holdfast runs approve {run} --reason TEXT, and then: holdfast apply --plan {saved}"


def _apply_on_server(asked: str, *, yes: bool) -> str:
    """`yes`: without a question, which is not asked about a plan that is refused."""
    stack, *options = asked.split(" ")
    if "--destroy" in options:
        return f"holdfast destroy {stack} --server{f' --yes-destroy {stack}' if yes else ''}"
    return f"holdfast apply {asked} --server{' --yes' if yes else ''}"


def _override_hint(asked: str, run: str, code: str, digest: str, saved: str | None, out: str) -> str:
    if code == NOT_UNDERSTOOD:
        return "This cannot be overridden: use a version of Holdfast that supports it."
    if code == REJECTED:
        place = "--server" if saved in {ON_SERVER, PLANNED_ON_SERVER} else f"--out {out}"
        return f"A rejection is final. Make a new plan: holdfast plan {asked} {place}"
    elsewhere, intentional = "", "this is intentional"
    if code == OTHER_REPOSITORY:
        elsewhere = "Use one tenant of the server, or one run store, per repository, or another stack name. "
        intentional = "it is the same repository under a new address"
    if saved == ON_SERVER:
        return f"{elsewhere}If {intentional}: holdfast runs override {run} --reason TEXT"
    if saved == PLANNED_ON_SERVER:
        return (
            f"{elsewhere}If {intentional}: {_apply_on_server(asked, yes=True)}, which waits for: "
            "holdfast runs override RUN --reason TEXT"
        )
    if saved is None:
        return (
            f"{elsewhere}If {intentional}: holdfast plan {asked} --out {out}, and then: "
            f'holdfast apply --plan {out} --override DIGEST --reason "why"'
        )
    return f'{elsewhere}If {intentional}: holdfast apply --plan {saved} --override {digest} --reason "why"'
