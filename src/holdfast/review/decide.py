"""The guard in a run: what it is told of a stack, and what people said about its plan."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.config.settings import Config
from holdfast.guard.decision import NOT_UNDERSTOOD, Allow, Decision, Deny, NeedApproval
from holdfast.guard.evaluate import (
    REJECTED,
    StackDeletions,
    evaluate_change,
    evaluate_plan,
    missing_approvals,
    stack_deletions,
    with_approvals,
    with_reasons,
)
from holdfast.guard.plan_context import PlanContext, StackFinding
from holdfast.plans.context import Project
from holdfast.plans.plan_file import PlanFile
from holdfast.plans.policies import policy_of
from holdfast.plans.result import ResultError
from holdfast.review.plan_checks import PlanChecks
from holdfast.stacks.stack import Stack
from holdfast.store.approvals import Approval
from holdfast.store.run_store import RunStore
from holdfast.system import clock

_READS = re.compile(r"""\.outputs(?:\.(?P<name>[A-Za-z_][\w-]*)|\[\s*"(?P<key>[^"]+)"\s*\])?""")


def plan_context(
    project: Project, stack: Stack, plan_file: PlanFile, findings: tuple[StackFinding, ...] = ()
) -> PlanContext:
    removed = any(output.removed for output in plan_file.plan.outputs)
    return PlanContext(
        stack=stack.name,
        environment=stack.environment,
        production=stack.production,
        now=clock.now(),
        destroy=plan_file.destroy,
        targeted=plan_file.targeted,
        read_outputs=frozenset(_read_outputs(project, stack, plan_file)) if removed else frozenset(),
        findings=findings,
    )


def _read_outputs(project: Project, stack: Stack, plan_file: PlanFile) -> Iterator[str]:
    """Outputs that stacks which depend on this one read. One that takes them all together reads them all."""
    names = [output.name for output in plan_file.plan.outputs]
    for other in project.stacks.values():
        if stack.name not in other.depends_on:
            continue
        for file in project.code.module(other.module).files:
            text = (project.root / file.path).read_text(errors="replace")
            for found in _READS.finditer(text):
                read = found["name"] or found["key"]
                yield from (read,) if read else names


async def decide(
    project: Project,
    store: RunStore,
    checks: PlanChecks,
    stack: Stack,
    plan_file: PlanFile,
    *,
    digest: str,
    saved: bool = False,
) -> Decision:
    """What the rules say of this plan, with what people said about this very digest.

    Only about a saved plan can anybody have spoken. A rejection counts also where nothing else speaks against
    the plan any more.
    """
    found = await checks.of(stack, plan_file)
    decision = evaluate_plan(
        plan_file.plan, policy_of(project.config, stack), plan_context(project, stack, plan_file, found)
    )
    return (
        with_recorded_approvals(store, decision, digest)
        if saved or not isinstance(decision, Allow)
        else decision
    )


def with_recorded_approvals(store: RunStore, decision: Decision, digest: str) -> Decision:
    return with_approvals(decision, approvals_for(store, digest), now=_now())


def approvals_for(store: RunStore, digest: str) -> tuple[Approval, ...]:
    """Those in force."""
    now = _now()
    return tuple(approval for approval in store.approvals.of(digest) if approval.in_force(now))


def _now() -> str:
    return clock.now().isoformat()


def deletions_in(project: Project, stack: Stack, plan_file: PlanFile) -> StackDeletions:
    return stack_deletions(
        plan_file.plan, policy_of(project.config, stack), plan_context(project, stack, plan_file)
    )


def with_change_budget(
    store: RunStore, decisions: dict[str, tuple[Decision, str]], losses: dict[str, StackDeletions]
) -> dict[str, Decision]:
    """The decisions once all stacks of the change are looked at together."""
    found = evaluate_change(losses.values())
    return {
        name: with_recorded_approvals(store, with_reasons(decision, found[name]), digest)
        if found.get(name)
        else decision
        for name, (decision, digest) in decisions.items()
    }


def has_change_budget(config: Config, stacks: tuple[Stack, ...]) -> bool:
    """Whether what one stack may do depends on the others."""
    return any(policy_of(config, stack).per_change.allows(0) is not None for stack in stacks)


# What a person is told


def refusal_error(
    stack: str,
    decision: Decision,
    approvals: tuple[Approval, ...],
    *,
    run: str,
    digest: str,
    saved: str | None,
    asked: str,
) -> ResultError | None:
    """The error of a plan that must not be applied as it is.

    `saved` is where its bundle lies, `asked` what to type behind `holdfast plan` to have it again.
    """
    match decision:
        case Allow():
            return None
        case NeedApproval():
            missing = missing_approvals(decision, approvals, now=_now())
            plural = "s are" if missing != 1 else " is"
            return ResultError(
                code="HF-APPR-1",
                message=f"{stack}: {decision.reasons[0].message}; {missing} approval{plural} missing",
                hint=_way_to_approval(asked, run, saved),
            )
        case Deny(reasons=reasons):
            hint = _way_to_override(asked, reasons[0].code, digest, saved)
            return ResultError(code=reasons[0].code, message=f"{stack}: {reasons[0].message}", hint=hint)


def _way_to_approval(asked: str, run: str, saved: str | None) -> str:
    if saved is None:
        return (
            f"Save the plan: holdfast plan {asked} --out bundle/; get it approved: holdfast runs approve "
            "RUN --reason TEXT; then: holdfast apply --plan bundle/"
        )
    return f"To approve: holdfast runs approve {run} --reason TEXT, and then: holdfast apply --plan {saved}"


def _way_to_override(asked: str, code: str, digest: str, saved: str | None) -> str:
    if code == NOT_UNDERSTOOD:
        return "This cannot be overridden: use a version of Holdfast that supports it."
    if code == REJECTED:
        return "Make another plan."
    if saved is None:
        return (
            f"If this is intentional: holdfast plan {asked} --out bundle/, and then: "
            'holdfast apply --plan bundle/ --override DIGEST --reason "why"'
        )
    return f'If this is intentional: holdfast apply --plan {saved} --override {digest} --reason "why"'
