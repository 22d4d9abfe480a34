"""`holdfast deploy`: apply, publish facts, bootstrap GitOps, verify."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

from msgspec.structs import replace

from holdfast.cli.command import Invocation, Option
from holdfast.cli.commands.verify import OneTarget
from holdfast.cli.parameters import Wait, Yes, wait_from
from holdfast.kernel.errors import Exit, HoldfastError

if TYPE_CHECKING:
    from holdfast.config.settings import Target
    from holdfast.plans.context import ChangeContext
    from holdfast.runs.run import Run
    from holdfast.runs.stages import Stage
    from holdfast.store.run_store import RunStore

T = TypeVar("T")


def deploy(
    invocation: Invocation,
    target_name: OneTarget,
    yes: Yes = False,
    continue_: Annotated[
        bool, Option("--continue", help="Continue the last deploy of the target at the stage that failed.")
    ] = False,
    wait: Wait = None,
) -> Exit:
    """Apply a target, publish facts, bootstrap GitOps, check gates."""
    from holdfast.cli.changes.change import require_answer
    from holdfast.cli.context import CommandContext
    from holdfast.facts.outputs import target_named

    seconds = wait_from(wait, ci=invocation.environment.ci)
    target = target_named(CommandContext(invocation).repository.config, target_name)
    require_answer(yes=yes)
    return _Deploy(invocation, target, yes=yes, wait=seconds).run(resume=continue_)


class _Deploy:
    def __init__(self, invocation: Invocation, target: Target, *, yes: bool, wait: float) -> None:
        self._invocation = invocation
        self._console = invocation.console
        self._target = target
        self._yes = yes
        self._wait = wait

    def run(self, *, resume: bool) -> Exit:
        from holdfast.cli.views.deploy import show_deploy
        from holdfast.deploy import deploy as stages

        target = self._target
        run = self._in_context(lambda context: stages.begin(context, target, resume=resume))
        exit_ = Exit.DONE
        for stage in run.stages or ():
            if stage.status.is_over:
                continue
            exit_, run = self._stage(run, stage.name)
            if exit_ is not Exit.DONE:
                break
        document = {
            "version": 1,
            "target": target.name,
            "run": run.id,
            "stages": [stage.document() for stage in run.stages or ()],
            "gates": [gate.document() for gate in run.gates] if run.gates is not None else None,
        }
        return self._invocation.answer(document, lambda: show_deploy(self._console, run), exit_code=exit_)

    def _stage(self, run: Run, name: str) -> tuple[Exit, Run]:
        from holdfast.deploy import deploy as stages
        from holdfast.runs.stages import StageStatus

        store = self._store()
        self._console.say("")
        self._console.say((f" {name}", "bold"))
        run = stages.stage_begins(store, run, name)
        try:
            if name == "apply":
                exit_, stage = self._apply()
            elif name == "gates":
                exit_, stage, run = self._gates(run)
            else:
                work = {"facts": stages.facts_stage, "cluster": stages.cluster_stage}.get(
                    name, stages.bootstrap_stage
                )
                stage, exit_ = self._in_context(lambda context: work(context, self._target)), Exit.DONE
        except HoldfastError as error:
            stage, exit_ = stages.failed_stage(name, error, self._console.redactor.clean), error.exit
            self._console.problems(error.problems, error.exit)
        else:
            if stage.status is not StageStatus.FAILED:
                self._console.say(f"  {stage.summary}")
        return exit_, stages.stage_ends(self._store(), run, stage)

    def _apply(self) -> tuple[Exit, Stage]:
        from holdfast.cli.changes.change import Change
        from holdfast.deploy.deploy import done
        from holdfast.runs.stages import Stage, StageStatus
        from holdfast.terraform.argv import PlanOptions

        # The document of a deploy is one; what the apply shows goes to standard error then.
        change = Change(
            replace(self._invocation, as_json=False), [f"target:{self._target.name}"], wait=self._wait
        )
        exit_ = change.apply(PlanOptions(), yes=self._yes, allow_blocked=False)
        stacks = f"{len(change.names)} stacks" if len(change.names) != 1 else "1 stack"
        if exit_ is Exit.DONE:
            return exit_, done("apply", f"{stacks} applied or without changes")
        hint = f"holdfast apply target:{self._target.name}"
        failed = Stage(
            name="apply",
            status=StageStatus.FAILED,
            summary=f"exit {int(exit_)}: not everything was applied",
            details=(f"See above, or: {hint}",),
        )
        return exit_, failed

    def _gates(self, run: Run) -> tuple[Exit, Stage, Run]:
        from holdfast.cli.commands.verify import run_gates
        from holdfast.deploy.deploy import done, skipped
        from holdfast.runs.stages import Stage, StageStatus

        if not self._target.gates:
            return Exit.DONE, skipped("gates", "the target has no gates: nothing was verified"), run
        verification = run_gates(self._invocation, self._target, part_of=run.id)
        run = replace(run, gates=verification.results)
        if verification.passed:
            return Exit.DONE, done("gates", f"{len(verification.results)} passed"), run
        bad = [f"{one.title}: {one.reason}" for one in verification.results if one.verdict != "passed"]
        stage = Stage(
            name="gates",
            status=StageStatus.FAILED,
            summary=f"{len(bad)} of {len(verification.results)} did not pass",
            details=tuple(bad),
        )
        return Exit.FAILED, stage, run

    def _store(self) -> RunStore:
        from holdfast.cli.context import CommandContext

        return CommandContext(self._invocation).repository.store

    def _in_context(self, work: Callable[[ChangeContext], Awaitable[T]]) -> T:
        from holdfast.cli.context import CommandContext

        return CommandContext(self._invocation, wait=self._wait).run(work)
