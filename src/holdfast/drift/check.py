"""Compare one stack with reality and with its code, or many, each for itself.

One plan answers both as long as nothing has drifted: what it would change is then a change in the code. After
drift, a second plan compares the code with the state as it is, because the first one also undoes the drift.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import Final

import msgspec
from msgspec import structs

from holdfast.config.drift import NotRead
from holdfast.drift.authors import Authors, find_authors, unexplained
from holdfast.drift.cloudtrail import CloudTrailUnreadable, open_cloudtrail
from holdfast.drift.observation import NotUnderstood, observations
from holdfast.drift.result import Comparison, DriftResult, NotLookedAt, details_of
from holdfast.drift.rules import judge, rules_for
from holdfast.drift.stack_drift import checked, failed
from holdfast.kernel.errors import EngineError, Failed, HoldfastError, Problem, internal_error
from holdfast.kernel.text import plural
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext
from holdfast.plans.errors import Cancelled, TerraformFailed
from holdfast.plans.inputs import read_inputs
from holdfast.plans.plan_file import PlanFile, plan_only, plan_with, prior_state
from holdfast.plans.terraform import Terraform
from holdfast.plans.workdir import StackWorkdir, open_workdir
from holdfast.runs.outcome import require_previous_finished
from holdfast.secrets.redact import clean_document
from holdfast.stacks.stack import Stack
from holdfast.store.drift import StackDrift
from holdfast.store.steps import Step
from holdfast.system import clock
from holdfast.system.files import file_error
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.plan.model import Counts, Plan
from holdfast.terraform.plan.value_text import read_json
from holdfast.terraform.statefile.model import State
from holdfast.terraform.tables.not_read_back import is_set, may_be_unread, not_read_back

_DIFFERENCES: Final = frozenset({"resource_drift", "planned_change", "planned_action_invocation"})
"""Lines of a plan; without them and with exit code 0, nothing differs."""
_SEVERAL: Final = 2


async def check_stacks(
    context: ChangeContext,
    stacks: Iterable[Stack],
    *,
    done: Callable[[DriftResult], None] = lambda _: None,
    now: Callable[[], datetime] = clock.now,
) -> tuple[DriftResult, ...]:
    """Each stack has a result. A failure of one is its own."""
    wanted = tuple(stacks)
    context.engines.expect(len(wanted))

    async def check(stack: Stack) -> DriftResult:
        result = await check_stack(context, stack, now)
        done(result)
        return result

    return tuple(await asyncio.gather(*(check(stack) for stack in wanted)))


async def check_stack(
    context: ChangeContext, stack: Stack, now: Callable[[], datetime] = clock.now
) -> DriftResult:
    began = clock.monotonic()
    found, before, known = Comparison(), None, None
    try:
        stored = await asyncio.to_thread(context.store.drift.read, stack.name)
        before = stored.drift
        salt = before.salt if before is not None else clock.random_token()
        found = await _compare_safely(context, stack, salt, before, now)
        seen = now()
        details = clean_document(context.redactor, details_of(found))
        known = await asyncio.to_thread(
            context.store.drift.update,
            stack.name,
            lambda old: structs.replace(_next(old, stack, salt, found, seen), details=details),
            stored,
        )
    except (HoldfastError, OSError) as fault:
        # The run store: what was known stays, and nothing is reported as fine.
        error = fault.problem if isinstance(fault, HoldfastError) else file_error(fault).problem
        found = structs.replace(found, error=error, observed=None)
        known = failed(before, stack.name, stack.environment or "", "", now())
    return DriftResult(
        stack=stack, known=known, found=found, before=before, duration=clock.monotonic() - began
    )


def _next(old: StackDrift | None, stack: Stack, salt: str, found: Comparison, now: datetime) -> StackDrift:
    environment = stack.environment or ""
    if found.observed is None:
        return failed(old, stack.name, environment, salt, now)
    return checked(
        old,
        stack.name,
        environment,
        salt,
        now,
        observed=found.observed,
        unapplied=found.unapplied,
        new_id=clock.new_id,
        authors=found.authors,
    )


async def _compare_safely(
    context: ChangeContext,
    stack: Stack,
    salt: str,
    before: StackDrift | None,
    now: Callable[[], datetime],
) -> Comparison:
    """Every error is a reason why it could not look."""
    fault: HoldfastError
    try:
        inputs = await read_inputs(context, stack, mocks=False)
        async with context.engines.slots:
            if context.control.stop.level:
                message = f"{stack.name}: not looked at, because you stopped the check"
                return Comparison(error=Cancelled("HF-RUN-2", message).problem)
            await context.store.ask_ahead(Step.PLAN, stack.name)
            await require_previous_finished(context.store, context.control, stack)
            async with open_workdir(context, stack, read=inputs) as workdir:
                found = await _compare(context, stack, workdir, salt, now().date())
                return await asyncio.to_thread(_with_authors, context, workdir, found, before, now())
    except HoldfastError as error:
        fault = error
    except OSError as error:
        fault = file_error(error)
    except NotUnderstood as error:
        fault = _not_understood(stack, error)
    except Exception as error:  # noqa: BLE001 - a mistake in Holdfast must not hide other stacks
        fault = internal_error(error, f"checking {stack.name}")
    return Comparison(error=fault.problem)


def _with_authors(
    context: ChangeContext,
    workdir: StackWorkdir,
    found: Comparison,
    before: StackDrift | None,
    now: datetime,
) -> Comparison:
    """With the credentials of the stack. If the audit trail cannot be read, a note says so."""
    wanted = unexplained(found.observed or (), before)
    if context.project.config.drift.audit_trail is None or not wanted:
        return found
    try:
        with open_cloudtrail(workdir.environment) as look_up:
            authors = find_authors(wanted, before.checked if before is not None else None, now, look_up)
    except CloudTrailUnreadable as error:
        authors = Authors(notes=(f"who changed it is not known: {error}",))
    return structs.replace(found, authors=authors.known, notes=(*found.notes, *authors.notes))


async def _compare(
    context: ChangeContext, stack: Stack, workdir: StackWorkdir, salt: str, today: date
) -> Comparison:
    last_seen = context.store.last_seen(stack.name)
    terraform = Terraform(context, workdir, context.retrying(stack.name))
    await terraform.init()
    # Before validate, which looks for the files that the code names.
    await terraform.hooks.run("before_plan")
    await terraform.validate()
    try:
        code = await plan_only(context, stack, terraform, PlanOptions(), last_seen, show=False)
    except TerraformFailed as failure:
        # Code that cannot be planned says nothing about reality: look at that alone.
        plan_file = await _plan_again(context, stack, terraform, PlanOptions(refresh_only=True))
        error = _code_not_compared(stack, failure)
        return await _differences(context, stack, plan_file, salt, today, error)
    if code == 0 and last_seen is not None and not terraform.reported & _DIFFERENCES:
        prior = await prior_state(terraform)
        if isinstance(prior, State) and prior.resources is not None:
            # Nothing differs, so there is nothing to show.
            state_continuity.require_same_state(stack, workdir.home, last_seen, prior)
            state_continuity.record(context.store, stack.name, workdir.home, prior, known=last_seen)
            rows = _not_looked_at(_of_state(prior), context.project.config.drift.not_read)
            return Comparison(
                observed=(), unapplied=False, not_looked_at=tuple(rows), notes=tuple(terraform.retrying.notes)
            )
    plan_file = await plan_with(context, stack, terraform, PlanOptions(), last_seen, planned=code)
    return await _differences(context, stack, plan_file, salt, today, None)


async def _differences(
    context: ChangeContext,
    stack: Stack,
    plan_file: PlanFile,
    salt: str,
    today: date,
    error: Problem | None,
) -> Comparison:
    """`error`: why the code was not compared."""
    if not plan_file.plan.understood:
        raise NotUnderstood("the plan has an action that is not known")
    found = observations(plan_file.plan, salt=salt, redactor=context.redactor)
    unapplied: bool | None = plan_file.changes
    changes = plan_file.plan.counts
    if error is not None:
        unapplied = None
    elif found:
        # Also drift that is ignored: an apply would undo it, which is no change of the code.
        code_only = await _plan_again(context, stack, plan_file.terraform, PlanOptions(refresh=False))
        unapplied, changes = code_only.changes, code_only.plan.counts
    settings = context.project.config.drift
    judged = judge(found, rules_for(settings.ignore, stack), today)
    return Comparison(
        observed=judged.counted,
        ignored=judged.ignored,
        expired=judged.expired,
        not_looked_at=tuple(_not_looked_at(_of_plan(plan_file.plan), settings.not_read)),
        unapplied=unapplied,
        changes=changes if unapplied else Counts(),
        notes=(*_nothing_found(plan_file), *plan_file.terraform.retrying.notes),
        error=error,
    )


async def _plan_again(
    context: ChangeContext, stack: Stack, terraform: Terraform, options: PlanOptions
) -> PlanFile:
    return await plan_with(context, stack, terraform, options, context.store.last_seen(stack.name))


def _code_not_compared(stack: Stack, failure: HoldfastError) -> Problem:
    first = failure.problem
    return Failed(
        "HF-DRIFT-3",
        f"{stack.name}: the code could not be compared with the state: {first.message}",
        hint=first.hint or f"holdfast plan {stack.name}",
    ).problem


def _not_understood(stack: Stack, error: NotUnderstood) -> HoldfastError:
    return EngineError(
        "HF-DRIFT-2",
        f"{stack.name}: this version of Holdfast does not know what this says about reality: {error}",
        hint="Upgrade Holdfast or use another engine version.",
    )


def _nothing_found(plan_file: PlanFile) -> tuple[str, ...]:
    """Wrong credentials look like this."""
    plan = plan_file.plan
    present = any(resource.mode == "managed" for resource in plan.prior_state.resources())
    if len(plan.missing) < _SEVERAL or present:
        return ()
    count = plural(len(plan.missing), "resource")
    return (f"none of its {count} was found: is this the right account, region and endpoint?",)


def _of_plan(plan: Plan) -> Iterator[tuple[str, str, msgspec.Raw]]:
    for resource in plan.prior_state.resources():
        if resource.mode == "managed":
            yield resource.address, resource.type, resource.values


def _of_state(state: State) -> Iterator[tuple[str, str, msgspec.Raw]]:
    for resource in state.resources or ():
        if resource.mode == "managed" and resource.deposed is None:
            yield resource.address, resource.type, resource.attributes


def _not_looked_at(
    resources: Iterable[tuple[str, str, msgspec.Raw]], more: Sequence[NotRead]
) -> Iterator[NotLookedAt]:
    """Of the resources that exist, in the order of the state."""
    for address, type_, content in resources:
        rules = [rule for rule in more if fnmatchcase(type_, rule.type)]
        if not rules and not may_be_unread(type_, content):
            continue
        values = read_json(content)
        values = values if isinstance(values, dict) else {}
        for row in not_read_back(type_, values):
            yield NotLookedAt(address=address, attributes=row.attributes, reason=row.reason)
        for rule in rules:
            present = tuple(path for path in rule.attributes if is_set(values, path.split(".")))
            if present or not rule.attributes:
                reason = rule.why or "the provider keeps it from the state"
                yield NotLookedAt(address=address, attributes=present, reason=reason)
