"""Bundles of a change: written after a plan, and checked when each saved plan is about to be applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import structs

from holdfast.changes.dependency_states import (
    DependencyState,
    changed_reads,
    dependency_state,
    read_dependency,
    reads_of,
)
from holdfast.changes.repository import Repository
from holdfast.config.settings import Owner
from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.errors import HoldfastError, Place, Problem, Refused
from holdfast.plans import saved_plan
from holdfast.plans.base_rules import BaseRules
from holdfast.plans.context import ChangeContext
from holdfast.plans.events import Note
from holdfast.plans.plan_file import to_saved_plan
from holdfast.plans.restore import require_only_new_files
from holdfast.plans.result import StackResult
from holdfast.plans.saved_plan import SavedPlan
from holdfast.plans.status import Status
from holdfast.runs.apply import already_applied
from holdfast.runs.document import summary_document
from holdfast.runs.executor import RunExecutor
from holdfast.secrets.keys import Key
from holdfast.secrets.redact import clean_document
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore

_BUNDLED = frozenset({Status.PLANNED, Status.UNCHANGED, Status.REFUSED, Status.WAITING})
"""Statuses with a plan that can still be applied later, perhaps after an override."""


async def record_reads(context: ChangeContext, runs: dict[str, RunExecutor]) -> dict[str, DependencyState]:
    """Add what each plan read of its dependencies to its digest. The states of all dependencies.

    A stack fails alone if the state of a dependency cannot be read.
    """
    states = {
        name: dependency_state(run.plan_file.prior, run.plan_file.outputs)
        for name, run in runs.items()
        if run.plan_file is not None
    }
    for run in runs.values():
        if run.result.status not in _BUNDLED or run.plan_file is None:
            continue
        try:
            for other in run.stack.depends_on:
                if other not in states:
                    states[other] = await read_dependency(context, context.project.stacks[other])
        except HoldfastError as error:
            run.refuse(error)
            continue
        run.record_reads(reads_of(run.plan_file, states, context.project.code))
    return states


async def write_bundles(
    context: ChangeContext,
    out: Path,
    runs: dict[str, RunExecutor],
    results: dict[str, StackResult],
    states: dict[str, DependencyState],
) -> None:
    """One for every stack with a plan. A stack fails alone if it cannot be saved."""
    written: dict[str, str] = {}
    plans = {
        name: run.plan_file.digest
        for name, run in runs.items()
        if run.plan_file is not None and results[name].status in _BUNDLED
    }
    for name, run in runs.items():
        if name not in plans or run.plan_file is None:
            continue
        try:
            require_only_new_files(context.project.root, run.stack, run.plan_file.parts.files)
        except HoldfastError as error:
            run.refuse(error)
            results[name] = run.result
            continue
        needed = run.stack.depends_on
        bundle = to_saved_plan(
            *(context.store, run.plan_file, run.result),
            change=context.identity.change,
            dependencies={other: states[other].identity for other in needed},
            plans={other: plans[other] for other in needed if other in plans},
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
    change = context.identity.change
    saved_plan.write_change(out, change, statuses=statuses, digests=written, key=context.store.key)


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


def results_without_plan(
    repository: Repository, statuses: Mapping[str, Status], change: str | None
) -> tuple[StackResult, ...]:
    """The stacks that had no plan when the bundle was made: its change is not complete without them.

    `change` is the id with which they can be continued.
    """
    results = []
    for name, status in statuses.items():
        stack = repository.by_name.get(name) or Stack(
            name=name, kind=RuleKind.NAMED, place=Place(file="holdfast.yaml"), module="."
        )
        problem = Problem(
            code="HF-BUND-13",
            message=f"{name}: the bundle has no plan for it: it was {status} when the bundle was made",
            hint="Fix it, then "
            + (f"continue: holdfast apply --continue {change}, or " if change is not None else "")
            + f"plan it again: holdfast plan {name} --out DIR",
        )
        results.append(StackResult(stack=stack, status=status, error=problem, problems=(problem,)))
    return tuple(results)


def unapplied_runs(store: RunStore, folder: Path, key: Key) -> dict[str, str | None]:
    """The runs of a bundle's saved plans that change something and were not applied yet, with the digests."""
    plans = saved_plan.load(folder, key)
    return {plan.run: plan.digest for plan in plans if plan.changes and store.used(plan.digest) is None}


async def restore_bundle(
    context: ChangeContext,
    run: RunExecutor,
    bundle: SavedPlan,
    warnings: dict[str, str],
    hint: str | None = None,
) -> StackResult:
    """Take a saved plan, if nothing that it depends on has changed. Warnings are by stack.

    `hint`: how to make a new plan, if that is not on this machine.
    """
    name = run.stack.name
    if (mark := context.store.used(bundle.digest)) is not None:
        return await run.take_used(bundle, mark)
    try:
        if warning := require_unused(context.store, run.stack, bundle):
            warnings[name] = warning
            context.control.tell(Note(stack=name, text=warning))
        changed = await changed_reads(context, run.stack, bundle)
    except HoldfastError as error:
        error.problems = _with_hint(error.problems, hint)
        run.refuse(error)
        return run.result
    result = await run.restore(bundle, changed)
    if run.plan_file is None and result.error is not None:
        problems = _with_hint(result.problems, hint)
        result = structs.replace(result, error=problems[0], problems=problems)
    run.end_with(result)
    return result


def _with_hint(problems: tuple[Problem, ...], hint: str | None) -> tuple[Problem, ...]:
    return problems if hint is None else tuple(problem._replace(hint=hint) for problem in problems)


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
