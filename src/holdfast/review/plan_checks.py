"""The checks of a change: its code once, the format of its files once, and each plan when it is made.

The guard gets the findings of plans and policies. The code is checked while Terraform works; the guard waits
for that only where its findings can affect the decision.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import structs

from holdfast.checks.boundary.contracts import in_outputs
from holdfast.checks.engine.catalogue import rules
from holdfast.checks.engine.inputs import build_checkout, code_files
from holdfast.checks.engine.levels import is_enabled
from holdfast.checks.engine.limits import RuleLimit
from holdfast.checks.engine.report_builder import merge_findings
from holdfast.checks.engine.running import NO_PLAN, Available, CheckInputs, crash_location, run_checks
from holdfast.checks.model.baseline import BaselineEntry
from holdfast.checks.model.globs import is_rule
from holdfast.checks.model.interface import CheckTarget, Finding, Rule, Severity
from holdfast.checks.model.report import BaselineUse, NotEvaluated, Report, sort_findings
from holdfast.checks.model.subjects import CheckedPlan, CheckedStack, Checkout, EngineOutput
from holdfast.config.checks import Level
from holdfast.config.guard import Effect
from holdfast.contract.comparison import DifferenceKind
from holdfast.guard.plan_context import StackFinding
from holdfast.kernel.errors import Failed, HoldfastError
from holdfast.kernel.work_limit import WorkLimitError
from holdfast.plans.context import Control, Engines, Project
from holdfast.plans.errors import Cancelled
from holdfast.plans.events import PhaseStarted
from holdfast.plans.fmt_validate import Format, check_format, paths_to_format
from holdfast.plans.plan_file import PlanFile
from holdfast.plans.policies import policies_of, policy_files
from holdfast.plans.result import Output
from holdfast.review.baseline import counting_baseline
from holdfast.review.findings_by_stack import (
    BROKEN,
    NO_TOOL_ANSWER,
    REGO,
    errors_for,
    guard_finding,
    with_base_findings,
)
from holdfast.review.tool_batcher import ToolBatcher, wanted_tools
from holdfast.stacks.stack import Stack
from holdfast.system import clock
from holdfast.terraform.engine.interface import EngineId

_CODE = frozenset({CheckTarget.SOURCE, CheckTarget.VARIABLES, CheckTarget.STACK, CheckTarget.REPOSITORY})
_PLAN = frozenset({CheckTarget.PLAN})
_ENGINE = frozenset({CheckTarget.ENGINE})
_FORMAT = "HF601"
_CONTRACT = {"HF401": DifferenceKind.MISSING, "HF402": DifferenceKind.WRONG}
_LARGE = 1_000_000
_NOT_PLANNED = "its plan was not checked"


class PlanFindings(NamedTuple):
    """The errors that concern one stack and its plan."""

    own: tuple[StackFinding, ...]
    base: tuple[StackFinding, ...] | None = None
    """With the settings, policies and waivers of the base; None if these are the same."""


class PlanChecks:
    def __init__(
        self,
        project: Project,
        engines: Engines,
        control: Control,
        stacks: Sequence[Stack],
        *,
        code: bool = True,
        form: bool = True,
        baseline: tuple[BaselineEntry, ...] | None = None,
    ) -> None:
        """`code`: check the code too (not for a destroy). `form`: its format too; the caller must then wait
        for the report. `baseline`: instead of that of the repository.
        """
        self._project = project
        self._engines = engines
        self._control = control
        self._stacks = tuple(stacks)
        self._with_code = code
        self._with_form = code and form
        self._code: asyncio.Future[Report] | None = None
        self._formats: dict[EngineId, asyncio.Future[Report]] = {}
        self._plans: dict[str, Report] = {}
        self._outputs: dict[str, Report] = {}
        known = baseline if baseline is not None else counting_baseline(project.code, project.base)
        # A finding without a place in the code is that of this plan: the baseline cannot have it.
        self._baseline = known and tuple(entry for entry in known if entry.file is not None)
        self._limit = RuleLimit(stopped=lambda: control.stop.level > 0, fail_closed=True)
        self._building: asyncio.Future[Checkout] | None = None
        self._base = self._by_base(form=form)
        self._tools = tuple(wanted_tools(project))
        self._tool_batcher = ToolBatcher(self._tools, lambda: self._bare(self._checkout.stacks))

    # For the run of a stack

    async def check_plan(self, stack: Stack, plan_file: PlanFile) -> PlanFindings:
        """The errors that the guard must know before it decides on this plan.

        Fails closed: if the checks crash, the plan is not applied.
        """
        self._control.tell(PhaseStarted(stack=stack.name, phase="checks"))
        try:
            own = await self._errors(stack, plan_file)
            base = await self._base._errors(stack, plan_file) if self._base is not None else None  # noqa: SLF001 - the same class
            self._control.tell(PhaseStarted(stack=stack.name, phase="guard"))
            return PlanFindings(own, base)
        except HoldfastError:
            raise
        except WorkLimitError:
            raise _stopped(stack) from None
        except Exception as error:
            raise Failed(
                "HF-CHECK-6",
                f"{stack.name}: the checks crashed on the plan: {crash_location(error)}",
                hint="The plan was not applied. Please report this bug.",
            ) from error

    def _by_base(self, *, form: bool) -> PlanChecks | None:
        """The same checks with the settings, policies and waivers of the base, if these differ."""
        base = self._project.base
        if base is None or not base.sealed.checks:
            return None
        judged = {stack.name: base.judged(stack) for stack in self._stacks}
        project = structs.replace(
            self._project,
            config=base.config,
            code=base.code,
            stacks={**self._project.stacks, **judged},
            base=None,
        )
        stacks = tuple(judged.values())
        return PlanChecks(
            project,
            self._engines,
            self._control,
            stacks,
            code=self._with_code,
            form=form,
            baseline=self._baseline or (),
        )

    async def _errors(self, stack: Stack, plan_file: PlanFile) -> tuple[StackFinding, ...]:
        await self._build()
        code = self._begin_code()
        self._begin_format(plan_file)
        report = self._plans[stack.name] = await self._planned(stack, plan_file)
        errors = [finding for finding in report.active if finding.severity is Severity.ERROR]
        policies = policies_of(self._project, self._checked[stack.name].stack)
        decisive = any(policy.findings in {Effect.APPROVE, Effect.DENY} for policy in policies)
        if code is not None and (decisive or any(tool.name == REGO for tool in self._tools)):
            errors += errors_for(await code, self._checked[stack.name])
        form = self._formats.get(plan_file.terraform.identity)
        if form is not None and decisive and self._format_can_be_error:
            errors += errors_for(await form, self._checked[stack.name])
        tool_failed = any(finding.rule.id == NO_TOOL_ANSWER for finding in errors)
        if self._limit.interrupted or (self._control.stop.level and tool_failed):
            # The rules and the tools were stopped with everything else; they did not fail.
            raise _stopped(stack)
        return tuple(dict.fromkeys(map(guard_finding, errors)))

    def check_outputs(self, stack: Stack, outputs: Mapping[str, Output]) -> None:
        """Check outputs against the contract that are known only after the apply.

        The apply is done: an error here must not hide its result.
        """
        if stack.contract is not None:
            self._outputs[stack.name] = self._or_crash_report(lambda: self._output_report(stack, outputs))

    def _output_report(self, stack: Stack, outputs: Mapping[str, Output]) -> Report:
        checked = self._checked[stack.name]
        values = {name: (output.value, output.sensitive) for name, output in outputs.items()}
        results = tuple(
            (_rule(id_), structs.replace(result, stack=checked.name))
            for id_, kind in _CONTRACT.items()
            for result in in_outputs(checked, values, kind)
        )
        return run_checks(self._bare((checked,)), (), CheckInputs(tool_results=results), targets=frozenset())

    async def report(self, *, so_far: bool = False) -> Report:
        """All findings, once. A crash of the checks is a finding: it must not hide what was applied.

        `so_far`: some stacks are not planned yet.
        """
        try:
            await self._build()
            code = self._begin_code()
            parts = [self._without_planned(await code)] if code is not None else []
            parts += await asyncio.gather(*self._formats.values())
            report = self._merged([*parts, *self._plans.values(), *self._outputs.values()])
            if self._base is not None:
                report = with_base_findings(report, await self._base.report(so_far=True))
            return (
                report if so_far else structs.replace(report, skipped=(*report.skipped, *self._unplanned()))
            )
        except Exception as error:  # noqa: BLE001 - see above
            return self._crash_report(error)

    def _unplanned(self) -> Iterator[NotEvaluated]:
        """The plan rules, for every stack without a plan."""
        valid = [
            rule for rule in rules() if self._with_code and rule.engine is not None and rule.id != _FORMAT
        ]
        asked = [
            rule.id
            for rule in (*_plan_rules(), *valid)
            if rule.id != BROKEN and is_enabled(self._checkout, rule)
        ]
        asked += [tool.name for tool in self._tools]
        form = is_enabled(self._checkout, _rule(_FORMAT)) and self._with_form
        for stack in self._checkout.stacks:
            if stack.name in self._plans:
                continue
            formatted = not form or self._engine_of(stack.stack) in self._formats
            for id_ in asked if formatted else (*asked, _FORMAT):
                yield NotEvaluated(rule=id_, reason=_NOT_PLANNED, stack=stack.name)

    # The code

    async def _build(self) -> None:
        """Once, and in a thread: with many stacks it takes seconds, in which Ctrl-C must work."""
        if self._building is None:
            self._building = asyncio.ensure_future(asyncio.to_thread(self._stoppable_checkout))
        await asyncio.shield(self._building)

    def _stoppable_checkout(self) -> Checkout:
        with self._limit.on(self, timed=False):
            return self._checkout

    def _begin_code(self) -> asyncio.Future[Report] | None:
        if self._code is None and self._with_code:
            self._code = asyncio.ensure_future(asyncio.to_thread(self._or_crash_report, self._code_report))
        return self._code

    def _code_report(self) -> Report:
        checkout = self._checkout
        results = tuple(
            (rule, result)
            for tool in self._tools
            for rule, result in tool.run(checkout, {})
            if getattr(result, "reason", None) != NO_PLAN
        )
        inputs = CheckInputs(tool_results=results, baseline=self._baseline, planned=True)
        return run_checks(checkout, _rules(), inputs, targets=_CODE, limit=self._limit)

    def _begin_format(self, plan_file: PlanFile) -> None:
        """Once per engine, for the files of all its stacks."""
        engine = plan_file.terraform.identity
        if self._with_form and engine not in self._formats:
            self._formats[engine] = asyncio.ensure_future(self._format_report(engine, plan_file))

    async def _format_report(self, engine: EngineId, plan_file: PlanFile) -> Report:
        stacks = [stack for stack in self._checkout.stacks if self._engine_of(stack.stack) == engine]
        stacks = stacks or list(self._checkout.stacks)
        try:
            form = await check_format(plan_file.terraform, paths_to_format(stacks, engine), fix=False)
        except (HoldfastError, OSError) as error:
            form = Format(why_not=str(error))
        except Exception as error:  # noqa: BLE001 - the format of files is no reason to lose a plan
            form = Format(why_not=f"it crashed: {crash_location(error)}")
        first = stacks[0]
        output = EngineOutput(
            stack=first, folder=first.stack.module, formatted=form.formatted, fmt_skipped=form.why_not
        )
        # `validate` had no errors: there would be no plan otherwise.
        asked = tuple(rule for rule in rules() if rule.engine is not None)
        bare = self._bare(self._checkout.stacks)
        inputs = CheckInputs(engine=Available(items=(output,)), baseline=self._baseline)
        return self._or_crash_report(lambda: run_checks(bare, asked, inputs, targets=_ENGINE))

    @functools.cached_property
    def _format_can_be_error(self) -> bool:
        """By default it is none; only if it is configured as one, the guard waits for it."""
        settings = self._project.config.checks
        groups = (settings.rules, *settings.environments.values(), *(path.rules for path in settings.paths))
        return any(
            setting.level is Level.ERROR and is_rule(setting.rule, _FORMAT)
            for levels in groups
            for setting in levels
        )

    def _engine_of(self, stack: Stack) -> EngineId | None:
        """None if no engine can run the stack: then the stack itself fails."""
        try:
            return self._engines.choose(stack).engine
        except HoldfastError:
            return None

    # A plan

    async def _planned(self, stack: Stack, plan_file: PlanFile) -> Report:
        checked = self._checked[stack.name]
        plan = CheckedPlan(stack=checked, plan=plan_file.plan, document=plan_file.json)
        inputs = CheckInputs(
            plans=Available(items=(plan,)),
            tool_results=await self._tool_batcher.check(plan),
            baseline=self._baseline,
        )
        check = functools.partial(
            run_checks, self._bare((checked,)), _plan_rules(), inputs, targets=_PLAN, limit=self._limit
        )
        return await asyncio.to_thread(check) if len(plan_file.json) > _LARGE else check()

    # Shared

    @functools.cached_property
    def _checkout(self) -> Checkout:
        config = self._project.config
        if self._project.run_store is not None:
            config = structs.replace(config, store=self._project.run_store)
        checkout = build_checkout(
            config,
            self._project.code,
            stacks=self._stacks,
            all_stacks=tuple(self._project.stacks.values()),
            files=(),
            tracked=None,
            today=clock.now().date(),
            whole=False,
        )
        checkout.files = tuple(sorted({*code_files(checkout), *policy_files(self._project.code).paths}))
        return checkout

    def _bare(self, stacks: tuple[CheckedStack, ...]) -> Checkout:
        """The checkout with these stacks and without their code."""
        return structs.replace(self._checkout, stacks=stacks, modules=(), variables_files=())

    @functools.cached_property
    def _checked(self) -> dict[str, CheckedStack]:
        return {stack.name: stack for stack in self._checkout.stacks}

    def _or_crash_report(self, check: Callable[[], Report]) -> Report:
        """A crash of the checks does not fail the change; it is a finding."""
        try:
            return check()
        except Exception as error:  # noqa: BLE001 - see above
            return self._crash_report(error)

    def _crash_report(self, error: Exception) -> Report:
        finding = Finding(message=f"the checks crashed: {crash_location(error)}")
        config, code = self._project.config, self._project.code
        empty = Checkout(config=config, code=code, today=clock.now().date(), whole=False)
        return run_checks(
            empty, (), CheckInputs(tool_results=((_rule(BROKEN), finding),)), targets=frozenset()
        )

    def _merged(self, parts: Sequence[Report]) -> Report:
        findings = dict.fromkeys(finding for part in parts for finding in part.findings)
        return Report(
            findings=sort_findings(merge_findings(findings)),
            skipped=tuple(dict.fromkeys(skipped for part in parts for skipped in part.skipped)),
            rules=_rules(),
            files=max((part.files for part in parts), default=0),
            stacks=len(self._checkout.stacks),
            modules=len(self._checkout.modules),
            baseline=BaselineUse() if self._baseline is not None else None,
        )

    def _without_planned(self, code: Report) -> Report:
        """What the code left open about a stack was checked on its plan."""
        on_plans = {rule.id for rule in rules() if rule.plan is not None}
        skipped = (
            entry for entry in code.skipped if entry.rule not in on_plans or entry.stack not in self._plans
        )
        return structs.replace(code, skipped=tuple(skipped))


def _stopped(stack: Stack) -> Cancelled:
    return Cancelled("HF-RUN-2", f"{stack.name}: stopped during the checks; this plan was not applied")


def _rule(id_: str) -> Rule:
    return next(rule for rule in rules() if rule.id == id_)


@functools.cache
def _rules() -> tuple[Rule, ...]:
    return tuple(rule for rule in rules() if not rule.of_git)


@functools.cache
def _plan_rules() -> tuple[Rule, ...]:
    """The rules for plans, and the one that reports crashed rules."""
    return tuple(rule for rule in _rules() if rule.plan is not None or rule.id == BROKEN)
