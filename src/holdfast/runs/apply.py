"""Apply one plan, once: it is marked as used before Terraform starts, and its result is never guessed."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from msgspec import structs

from holdfast.config.settings import Config
from holdfast.kernel.errors import Failed, HoldfastError, Refused, UnknownOutcome
from holdfast.plans import state_continuity
from holdfast.plans.context import ChangeContext
from holdfast.plans.errors import (
    Cancelled,
    TerraformFailed,
    apply_interrupted,
    status_of,
    terraform_error,
    unfinished_apply,
)
from holdfast.plans.kept_files import keep_files
from holdfast.plans.plan_file import PlanFile
from holdfast.plans.policies import applied_as, state_of
from holdfast.plans.result import Output, StackResult
from holdfast.plans.saved_plan import StateIdentity
from holdfast.plans.state_continuity import store_errored_state
from holdfast.plans.status import Status
from holdfast.plans.workdir import StackWorkdir, state_without_terraform
from holdfast.runs.apply_watch import ApplyWatch
from holdfast.runs.auto_replan import ApplyOutcome, creates_in_doubt
from holdfast.runs.claims import take_claim
from holdfast.runs.record import apply_claim, finish_run, store_run_secrets, write_backup
from holdfast.runs.run import Run, redact_run
from holdfast.runs.stored_plan import write_plan
from holdfast.stacks.stack import Stack
from holdfast.store.run_store import RunStore
from holdfast.store.steps import Step
from holdfast.system.access_rules import ForbiddenFiles
from holdfast.system.files import file_error
from holdfast.terraform.apply_log import is_forced_exit
from holdfast.terraform.argv import UNSAVED_FILE
from holdfast.terraform.engine.interface import CommandResult
from holdfast.terraform.engine.pool import NotStarted
from holdfast.terraform.statefile.model import read_state
from holdfast.terraform.statefile.sensitive import sensitive_in_state
from holdfast.terraform.stream import CommandOutput
from holdfast.terraform.tables.transient import RefusedCreate, shipped_refused
from holdfast.terraform.workdirs.created_files import FileStamps, list_files


async def apply_plan(
    context: ChangeContext,
    run: Run,
    planned: StackResult,
    plan_file: PlanFile,
    outcomes: dict[str, str] | None = None,
) -> StackResult:
    """Apply exactly this plan. Raises what went wrong; the caller makes it the stack's result.

    The stack is claimed, with what the run is about to do, before anything happens. The claim is released
    when the outcome is recorded; while the outcome is unknown it stays, and stops the next run.
    """
    stack, digest = planned.stack, planned.digest
    watch = ApplyWatch(context.control.tell, stack.name, plan_file.plan, outcomes)
    backups = context.project.config.backups
    if digest is None:
        raise Failed("HF-RUN-1", f"{stack.name}: there is no plan to apply")
    await take_claim(
        context.store,
        context.control,
        apply_claim(context.store, context.identity, run, stack.name, digest, plan_file),
    )
    try:
        # This waits for the disk; other stacks continue meanwhile.
        digests = tuple(used for used in (planned.replaces, digest) if used is not None)
        await asyncio.to_thread(_prepare_apply, context, run.id, stack, plan_file, digests)
    except BaseException:
        _withdraw(context, run.id, plan_file)
        raise
    try:
        done = await _apply_marked(context, planned, plan_file, run.id, watch)
    except NotStarted:
        _withdraw(context, run.id, plan_file)
        raise
    except UnknownOutcome:
        raise
    except HoldfastError as error:
        failed = structs.replace(planned, status=status_of(error), error=error.problem)
        record = redact_run(run.with_result(failed), context.redactor.clean)
        await asyncio.to_thread(finish_run, context.store, record, backups)
        raise
    except OSError as error:
        raise _unknown_after(error, stack.name, run.id) from error
    after = done.state_after.lineage if done.state_after is not None else ""
    remember = partial(_remember, context, stack, plan_file, plan_file.prior.lineage or after)
    record = redact_run(run.with_result(done), context.redactor.clean)
    await asyncio.to_thread(finish_run, context.store, record, backups, remember)
    return done


def _withdraw(context: ChangeContext, run: str, plan_file: PlanFile) -> None:
    """Terraform was not started: no hook is due, and the stack is free."""
    stack = plan_file.terraform.workdir.stack.name
    try:
        if plan_file.hooks_follow:
            context.store.due_hooks.clear(stack, run)
    finally:
        context.store.claims.release(stack, run)


def _remember(context: ChangeContext, stack: Stack, plan_file: PlanFile, lineage: str) -> None:
    """What the stack was applied as: less than that needs an override from now on."""
    store, declared = context.store, context.project.stacks.get(stack.name, stack)
    state = state_of(context.project, declared)
    if not lineage and (seen := store.last_seen(stack.name)) is not None:
        lineage = seen.lineage
    if plan_file.destroy and not plan_file.targeted:
        store.applied.forget(stack.name, state, lineage)
        store.due_hooks.clear(stack.name)
    else:
        store.applied.record(stack.name, state, lineage, applied_as(context.project.config, declared))


def _prepare_apply(
    context: ChangeContext, run: str, stack: Stack, plan_file: PlanFile, digests: tuple[str, ...]
) -> None:
    """The last checks and records before Terraform starts.

    Of `digests`, the last one is the plan's. A saved plan that was planned again is used up with the new one.
    The journal will hold Terraform's output: the secrets that later readers must hide are stored beside it.
    """
    store, who, name = context.store, context.identity.who, stack.name
    plan_file.require_intact(name, digests[-1])
    write_backup(store, who, run, plan_file)
    if secrets := context.redactor.registered():
        store_run_secrets(store, run, secrets)
    write_plan(store, run, plan_file.plan, context.redactor)
    for used in digests:
        if not store.mark_used(used, run=run, stack=name, who=who):
            raise already_applied(name, store.used(used) or {})
    if plan_file.hooks_follow:
        # Before Terraform starts: whatever happens then, they are not forgotten.
        store.due_hooks.mark(name, run)
    if not plan_file.destroy and (not plan_file.prior.lineage or plan_file.plan.prior_resources == 0):
        # The first apply may fail or be killed: what it creates is protected from the start.
        store.read_ahead(Step.PREPARE, name)
        _remember(context, stack, plan_file, plan_file.prior.lineage)


async def _apply_marked(
    context: ChangeContext, planned: StackResult, plan_file: PlanFile, run: str, watch: ApplyWatch
) -> StackResult:
    stack, terraform = planned.stack, plan_file.terraform
    output = CommandOutput(on_event=watch.event)
    variables_files = terraform.workdir.variables_files if plan_file.ephemeral else ()
    files_before = list_files(terraform.workdir.work)
    answer = await terraform.apply(variables_files, output, run)
    kept_notes = await asyncio.to_thread(_keep_files, context, terraform.workdir, files_before)
    left = terraform.workdir.work.module / UNSAVED_FILE
    if left.exists():
        raise _unsaved(context.store, stack, run, left, output, answer)
    if answer.killed:
        raise apply_interrupted(stack.name, run, answer)
    if answer.report.journal_failed is not None:
        raise _unjournalled(stack.name, run, answer.report.journal_failed, watch)
    if watch.has_provider_crash(output.diagnostics):
        crashed = "a provider crashed during the apply"
        raise unfinished_apply("HF-RUN-10", stack.name, run, crashed, watch.unfinished)
    after, notes = await _record_after(context, stack, plan_file, run)
    if answer.code != 0:
        raise _failure(context.project.config, plan_file, answer, output, watch, run)
    return structs.replace(
        planned,
        status=Status.APPLIED,
        outputs={
            name: Output(value=value.value, sensitive=value.sensitive)
            for name, value in output.outputs.items()
        },
        notes=(*planned.notes, *kept_notes, *notes),
        state_before=plan_file.prior,
        state_after=after,
    )


def _keep_files(context: ChangeContext, workdir: StackWorkdir, before: FileStamps) -> tuple[str, ...]:
    """Whatever the outcome: what was written is in the state, if that was saved."""
    return keep_files(
        context.store,
        context.project.root,
        workdir.work,
        workdir.stack.name,
        before=before,
        kept=workdir.kept,
        forbidden=ForbiddenFiles(context.project.environment),
    )


class ApplyFailed(TerraformFailed):
    """An apply that exited by itself and saved its state: its outcome decides whether to plan again."""

    def __init__(self, error: TerraformFailed, outcome: ApplyOutcome, hint: str | None) -> None:
        first, *others = error.problems
        if hint is not None:
            first = first._replace(hint=hint)
        super().__init__(first.code, first.message, problems=(first, *others))
        self.outcome = outcome


def _doubt_hint(doubtful: tuple[str, ...], provisioned: frozenset[str]) -> str | None:
    """What is known of creates that failed."""
    unclear = [address for address in doubtful if address not in provisioned]
    tainted = [address for address in doubtful if address in provisioned]
    hints = []
    if tainted:
        hints.append(f"Created, and replaced by the next apply: {', '.join(tainted)}.")
    if unclear:
        hints.append(
            f"These may have been created anyway: {', '.join(unclear)}. Look them up in the provider, "
            "import what exists and is not in the state, then plan again."
        )
    return " ".join(hints) or None


def refused_creates(config: Config) -> tuple[RefusedCreate, ...]:
    """Holdfast's own table and the rows of the configuration."""
    own = config.engine.retries.refused_creates
    return (*shipped_refused(), *(RefusedCreate(provider=row.provider, text=row.text) for row in own))


def _failure(
    config: Config,
    plan_file: PlanFile,
    answer: CommandResult,
    output: CommandOutput,
    watch: ApplyWatch,
    run: str,
) -> HoldfastError:
    name = plan_file.terraform.workdir.stack.name
    done = f"{watch.applied} completed and saved"
    forced = answer.force_cancelled or any(map(is_forced_exit, output.diagnostics))
    if answer.timed_out and forced and watch.unfinished:
        what = f"the apply exceeded its time limit and did not stop within the grace period; {done}"
        more = ". engine.time_limits.grace in holdfast.yaml sets the grace period."
        return unfinished_apply("HF-TIME-2", name, run, what, watch.unfinished, more)
    if forced and watch.unfinished:
        what = f"cancelled without waiting for resources in progress; {done}"
        return unfinished_apply("HF-RUN-7", name, run, what, watch.unfinished)
    outcome = watch.outcome(diagnostic for diagnostic in output.diagnostics if diagnostic.is_error)
    doubtful = creates_in_doubt(outcome, plan_file.plan, refused_creates(config))
    doubt = _doubt_hint(doubtful, outcome.provisioned)
    hint = doubt or f"Plan again to see what is left: holdfast plan {name}"
    if answer.timed_out:
        what = f"{name}: the apply took longer than its time limit and was stopped; {done}"
        return Failed("HF-TIME-1", what, hint=hint)
    if answer.interrupted:
        return Cancelled("HF-RUN-2", f"{name}: cancelled; {done}", hint=hint)
    error = terraform_error(plan_file.terraform.workdir, "apply", answer, output)
    if not isinstance(error, TerraformFailed):
        return error
    return ApplyFailed(error, outcome, doubt)


def _unsaved(
    store: RunStore, stack: Stack, run: str, left: Path, output: CommandOutput, answer: CommandResult
) -> UnknownOutcome:
    """Terraform could not write the state: this is the only copy.

    Only a reconcile also releases the lock that Terraform could not release in the same outage.
    """
    details = (
        *answer.report.refusals,
        *(" ".join(diagnostic.detail.split()) for diagnostic in output.diagnostics if diagnostic.detail),
    )
    why = f" ({details[0]})" if details else ""
    try:
        store_errored_state(store, stack, left)
        where = "Holdfast stored it encrypted"
    except (HoldfastError, OSError) as error:
        # Usually for the same reason, which is said once.
        why, reason = "", error.problem.message if isinstance(error, HoldfastError) else str(error)
        where = f"it is in {left}, because Holdfast could not store it elsewhere: {reason}"
    return UnknownOutcome(
        "HF-STATE-5",
        f"{stack.name}: Terraform could not save the state{why}; {where}",
        hint=f"Save it when the backend is available again: holdfast runs reconcile {run}",
    )


def _unjournalled(stack: str, run: str, why: str, watch: ApplyWatch) -> UnknownOutcome:
    """Holdfast stopped Terraform because its output could no longer be written to the journal."""
    return UnknownOutcome(
        "HF-RUN-9",
        f"{stack}: {why}; Holdfast stopped Terraform after {watch.applied}",
        hint=f"Free disk space, then see what is known: holdfast runs reconcile {run}",
    )


async def _record_after(
    context: ChangeContext, stack: Stack, plan_file: PlanFile, run: str
) -> tuple[StateIdentity | None, tuple[str, ...]]:
    """Record the current state, and return its identity with notes.

    A state that cannot be read must not hide the outcome of the apply.
    """
    terraform = plan_file.terraform
    try:
        home = terraform.workdir.home
        await context.store.ask_ahead(Step.RECORD, stack.name)
        content = state_without_terraform(context.store, terraform.workdir)
        if content is None:
            content = await terraform.state_pull(cancel_level=2)
    except (OSError, HoldfastError) as error:
        return None, (f"the state could not be read after the apply: {error}",)
    state = read_state(content)
    context.redactor.register_all(sensitive_in_state(state))
    await asyncio.to_thread(
        state_continuity.record,
        *(context.store, stack.name, home, state),
        origin=plan_file.origin,
        run=run,
        product=terraform.identity.product.value,
    )
    return state_continuity.identity(state), ()


def _unknown_after(error: OSError, stack: str, run: str) -> UnknownOutcome:
    """A disk or memory error while Terraform ran, or before its exit was recorded."""
    return UnknownOutcome(
        "HF-RUN-6",
        f"{stack}: the outcome of the apply is unknown: {file_error(error).problem.message}",
        hint=f"See what is known and resolve it: holdfast runs reconcile {run}",
    )


def already_applied(stack: str, mark: dict[str, object], status: Status | None = None) -> Refused:
    """`status` is that of the run, if it is known and not `applied`."""
    by = f" by run {mark.get('run')} ({mark.get('who')}) at {str(mark.get('at'))[:19]}Z" if mark else ""
    what = f"used{by}, which {'failed' if status is Status.FAILED else f'was {status}'}"
    if status is None:
        what = f"applied{by}"
    return Refused(
        "HF-BUND-4",
        f"{stack}: this plan was already {what}",
        hint=f"A plan is applied at most once. Plan again: holdfast plan {stack}",
    )
