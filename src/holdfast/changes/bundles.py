"""Bundles of a change: written after a plan, and checked when each saved plan is about to be applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from holdfast.changes.repository import Repository
from holdfast.config.settings import Owner
from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import HoldfastError, Place, Problem, Refused
from holdfast.plans import saved_plan, state_continuity
from holdfast.plans.base_rules import BaseRules
from holdfast.plans.context import ChangeContext
from holdfast.plans.plan_file import to_saved_plan
from holdfast.plans.restored_plan import require_only_new_files
from holdfast.plans.result import StackResult
from holdfast.plans.saved_plan import SavedPlan, StateIdentity
from holdfast.plans.status import Status
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import open_workdir, state_without_terraform
from holdfast.runs.apply import already_applied
from holdfast.runs.document import summary_document
from holdfast.runs.executor import RunExecutor
from holdfast.secrets.redact import clean_document
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore
from holdfast.terraform.statefile.model import read_state

_BUNDLED = frozenset({Status.PLANNED, Status.UNCHANGED, Status.REFUSED, Status.WAITING})
"""Statuses with a plan that can still be applied later, perhaps after an override."""


async def write_bundles(
    context: ChangeContext, out: Path, runs: dict[str, RunExecutor], results: dict[str, StackResult]
) -> None:
    """One for every stack with a plan. A stack fails alone if it cannot be saved."""
    seen = {name: run.plan_file.prior if run.plan_file else None for name, run in runs.items()}
    written: dict[str, str] = {}
    for name, run in runs.items():
        if results[name].status not in _BUNDLED or run.plan_file is None:
            continue
        try:
            require_only_new_files(context.project.root, run.stack, run.plan_file.parts.files)
            for other in run.stack.depends_on:
                seen[other] = seen.get(other) or await _state_of(context, context.project.stacks[other])
        except HoldfastError as error:
            run.refuse(error)
            results[name] = run.result
            continue
        dependencies = {other: state for other in run.stack.depends_on if (state := seen[other])}
        bundle = to_saved_plan(
            *(context.store, run.plan_file, run.result),
            dependencies=dependencies,
            selection=tuple(runs),
            base=context.project.base,
        )
        # A saved plan can be approved or rejected, but not approved by the person who planned it.
        await context.identity.prove()
        author = context.identity.audit.who.document()
        context.store.approvals.record_author(bundle.digest, author, stack=name, run=bundle.run)
        summary = clean_document(context.redactor, summary_document(results[name]))
        saved_plan.write(out, bundle, summary, context.store.key)
        written[name] = bundle.digest
    statuses = {name: result.status.value for name, result in results.items()}
    saved_plan.write_change(out, statuses=statuses, digests=written, key=context.store.key)


async def _state_of(context: ChangeContext, stack: Stack) -> StateIdentity:
    """The identity of a state that this change does not plan."""
    async with context.engines.slots, open_workdir(context, stack) as workdir:
        content = state_without_terraform(context.store, workdir)
        if content is None:
            terraform = Terraform(context, workdir)
            await terraform.init()
            content = await terraform.state_pull()
        return state_continuity.identity(read_state(content))


def stacks_of_bundles(
    repository: Repository, bundles: Iterable[SavedPlan], base: BaseRules | None
) -> tuple[tuple[Stack, SavedPlan], ...]:
    """Each saved plan with its stack, all of which must be in this repository."""
    pairs = []
    for bundle in bundles:
        stack = repository.by_name.get(bundle.stack)
        if stack is None:
            raise Refused(
                "HF-BUND-9",
                f"the bundle has a plan for {bundle.stack}, which is not a stack of this repository",
                hint="Apply it in the repository it was planned in.",
            )
        pairs.append((stack if base is None else base.stricter(stack), bundle))
    return tuple(pairs)


def results_without_plan(repository: Repository, statuses: Mapping[str, Status]) -> tuple[StackResult, ...]:
    """The stacks that had no plan when the bundle was made: its change is not complete without them."""
    results = []
    for name, status in statuses.items():
        stack = repository.by_name.get(name) or Stack(
            name=name, kind=RuleKind.NAMED, place=Place(file="holdfast.yaml"), module="."
        )
        problem = Problem(
            code="HF-BUND-13",
            message=f"{name}: the bundle has no plan for it: it was {status} when the bundle was made",
            hint=f"Fix it, then plan it again: holdfast plan {name} --out DIR",
        )
        results.append(StackResult(stack=stack, status=status, error=problem, problems=(problem,)))
    return tuple(results)


def require_unused(store: RunStore, stack: Stack, bundle: SavedPlan) -> str | None:
    """A warning if the plan was made with another run store: only that one records whether it was used."""
    mark = store.used(bundle.digest)
    if mark is not None:
        raise already_applied(stack.name, mark)
    if bundle.store == store.id():
        _require_recorded(store, stack, bundle)
        return None
    owned_by_ci = stack.target is not None and stack.target.owner is Owner.CI
    if stack.production or bundle.production or owned_by_ci:
        raise Refused(
            "HF-BUND-7",
            f"{stack.name}: the plan was made with another run store ({bundle.store}), "
            "so it is unknown whether it was already applied",
            hint="Plan and apply with the same run store. To plan with this one: "
            f"holdfast plan {stack.name} --out DIR",
        )
    return "the plan was made with another run store; only Terraform checks whether it was already applied"


def _require_recorded(store: RunStore, stack: Stack, bundle: SavedPlan) -> None:
    """A bundle counts only if a plan run recorded it, and approvals only if they were given for that run."""
    what = None
    if not store.approvals.is_recorded(bundle.digest, stack=stack.name, run=bundle.run):
        what = f"the run store has no record that run {bundle.run} made this plan"
    for given in store.approvals.of(bundle.digest):
        if (given.stack, given.run) != (bundle.stack, bundle.run):
            what = f"its {given.kind.name.lower()} was given for run {given.run} of {given.stack}"
    if what is not None:
        raise Refused(
            "HF-BUND-20",
            f"{stack.name}: {what}",
            hint=f"Make a new plan: holdfast plan {stack.name} --out DIR",
        )


async def require_same_dependencies(context: ChangeContext, stack: Stack, bundle: SavedPlan) -> None:
    for name, then in bundle.dependencies.items():
        other = context.project.stacks.get(name)
        now = await _state_of(context, other) if other is not None else None
        if now is None:
            what = f"{name}, which it depended on when the plan was made, no longer exists"
        elif now != then:
            what = (
                f"{name}, which it depends on, changed since the plan was made "
                f"(serial {then.serial} then, {now.serial} now)"
            )
        else:
            continue
        raise Refused(
            "HF-BUND-8", f"{stack.name}: {what}", hint=f"Plan again: holdfast plan {stack.name} --out DIR"
        )
