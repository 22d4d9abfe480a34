"""The guard policy and the owner of a stack, and the Rego policies that its plan is checked with."""

from __future__ import annotations

import hashlib

from msgspec.structs import replace

from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import Report, ReportedFinding
from holdfast.checks.tools.rego.policies import PolicyFiles
from holdfast.checks.tools.rego.policies import policy_files as files_in
from holdfast.config.settings import Config, Owner, Target
from holdfast.guard.evaluate import policy_version
from holdfast.guard.policy import Policy, policy_for
from holdfast.guard.weakening import lowered_since
from holdfast.hcl.eval.code import Code
from holdfast.kernel.errors import Refused
from holdfast.plans.context import Project
from holdfast.stacks.backend import state_key
from holdfast.stacks.stack import Stack
from holdfast.store.applied import AppliedAs
from holdfast.store.run_store import RunStore


def policy_of(config: Config, stack: Stack) -> Policy:
    return policy_for(config.guard, environment=stack.environment, production=stack.production)


def policies_of(project: Project, stack: Stack) -> tuple[Policy, ...]:
    """The policy of the change, and those of its base that differ."""
    base = project.base.policies(stack.name) if project.base is not None else ()
    return (policy_of(project.config, stack), *(policy for _, policy in base))


def require_owner(project: Project, stack: Stack, *, reconciles: str | None = None) -> None:
    """A target that CI owns is planned anywhere, but applied only in CI. `reconciles` names a run."""
    if stack.target is not None and stack.target.owner is Owner.CI and not project.in_ci:
        hint = f"You can plan here: holdfast plan {stack.name}. Apply in CI."
        if reconciles is not None:
            hint = (
                f"You can read here what is known: holdfast runs show {reconciles}. "
                f"In CI: holdfast runs reconcile {reconciles} --yes"
            )
        raise Refused(
            "HF-OWN-1",
            f"{stack.name}: target `{stack.target.name}` may only be applied in CI",
            hint=hint,
        )
    if stack.target is not None and stack.target.proof is not None and (why := project.unproved) is not None:
        raise Refused(
            "HF-OWN-2",
            f"{stack.name}: target `{stack.target.name}` needs proof that this is CI: {why}",
            hint="Give the job `permissions: id-token: write` on GitHub, or use a server as run store.",
        )


def require_owner_of_target(project: Project, target: Target, what: str) -> None:
    """For what concerns a whole target and is no apply. `what` ends before "only in CI"."""
    if target.owner is Owner.CI and not project.in_ci:
        raise Refused("HF-OWN-1", f"target `{target.name}`: {what} only in CI", hint="Run this in CI.")
    if target.proof is not None and (why := project.unproved) is not None:
        raise Refused(
            "HF-OWN-2",
            f"target `{target.name}` needs proof that this is CI: {why}",
            hint="Give the job `permissions: id-token: write` on GitHub, or use a server as run store.",
        )


def require_owner_of_state(
    project: Project,
    store: RunStore,
    stack: Stack,
    *,
    before: str | None = None,
    reconciles: str | None = None,
) -> None:
    """For what writes a state without a plan: the owner at the last apply counts too.

    Otherwise an edited holdfast.yaml would be enough to change what CI owns. `before` is an earlier name.
    """
    require_owner(project, stack, reconciles=reconciles)
    if project.in_ci:
        return
    records = applied_before(project, store, stack)
    if before is not None:
        records += store.applied.of(before, None, "")
    if any(applied.owner == Owner.CI for applied in records):
        raise Refused(
            "HF-OWN-1",
            f"{before or stack.name}: CI owned its target when it was last applied",
            hint="Do this in CI.",
        )


def applied_before(
    project: Project, store: RunStore, stack: Stack, lineage: str = ""
) -> tuple[AppliedAs, ...]:
    """What the stack was last applied as, by its name and by its state."""
    return store.applied.of(stack.name, state_of(project, stack), lineage)


def lowered_rules(project: Project, store: RunStore, stack: Stack, lineage: str) -> tuple[str, ...]:
    """What was stricter at the last apply. Compared with the change itself, whatever its base says.

    `lineage` is that of the stack's state; empty if there is none.
    """
    declared = project.stacks.get(stack.name, stack)
    applied = applied_before(project, store, declared, lineage)
    return lowered_since(applied, applied_as(project.config, declared))


def policy_digest(project: Project, stack: Stack) -> str:
    """Covers the rules of the change and those of its base.

    Stacks of one environment share their policy and its digest.
    """
    key = f"policy digest of {stack.environment}, {stack.production}"
    own = project.code.once(
        key, lambda: _with_rego(project.code, policy_version(policy_of(project.config, stack)))
    )
    if project.base is None:
        return own
    return hashlib.sha256(own.encode() + project.base.seal(stack.name)).hexdigest()


def applied_as(config: Config, stack: Stack) -> AppliedAs:
    """What the store remembers once the stack is applied."""
    policy = policy_of(config, stack)
    return AppliedAs(
        environment=stack.environment,
        production=stack.production,
        owner=stack.target.owner.value if stack.target is not None else None,
        approvals=policy.approvals,
        verified=policy.verified,
        approvers=tuple(rule.text(rule.count) for rule in policy.approvers),
        addresses=policy.addresses,
        types=policy.types,
        except_types=policy.except_types,
        tags=policy.tags,
    )


def state_of(project: Project, stack: Stack) -> str | None:
    """Names its state in such a record; None: it has the stack's own name."""
    return state_key(stack, project.code_backend(stack))


def policy_files(code: Code) -> PolicyFiles:
    """The Rego policies, and files that should be policies and are not."""
    return code.once("policies in Rego", lambda: files_in(code))


def with_unchecked_policies(report: Report, unchecked: str | None) -> Report:
    """The report with `Selection.unchecked` as a warning: what was not checked must not look fine."""
    if unchecked is None:
        return report
    severity = Severity.WARNING
    title = "Changed policies that not every stack was held against"
    finding = ReportedFinding(
        rule=Rule(id="rego", title=title, why="", fix="", severity=severity),
        severity=severity,
        message=unchecked,
        hint=None,
        file=None,
        line=None,
        column=None,
        end_line=None,
        stack=None,
        address=None,
    )
    return replace(report, findings=(*report.findings, finding))


def _with_rego(code: Code, version: str) -> str:
    """A plan that was checked with other policies has another digest."""
    paths = policy_files(code).paths
    if not paths:
        return version
    digest = hashlib.sha256(version.encode())
    for path in paths:
        content = code.content(path) or b""
        digest.update(f"{path} {len(content)} ".encode(errors="surrogatepass"))
        digest.update(content)
    return digest.hexdigest()
