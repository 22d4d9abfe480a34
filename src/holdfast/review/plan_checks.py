"""The checks of a change: its code once, the format of its files once, and each plan as soon as it is there.

What plans and policies show is known before the guard decides. What the code shows is worked out beside
Terraform's work, and is waited for only where the guard wants to know it too.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import structs

from holdfast.checks.boundary.contracts import in_outputs
from holdfast.checks.engine.catalogue import rules
from holdfast.checks.engine.inputs import build_checkout
from holdfast.checks.engine.levels import is_enabled
from holdfast.checks.engine.report_builder import merge_findings
from holdfast.checks.engine.running import NO_PLAN, Available, CheckInputs, crash_location, run_checks
from holdfast.checks.model.globs import is_rule
from holdfast.checks.model.interface import CheckTarget, Finding, Rule, Severity, Tool
from holdfast.checks.model.report import NotEvaluated, Report, sort_findings
from holdfast.checks.model.subjects import CheckedPlan, CheckedStack, Checkout, EngineOutput
from holdfast.checks.tools.catalogue import TOOLS, tool
from holdfast.config.checks import Level, Use
from holdfast.config.guard import Effect
from holdfast.contract.comparison import DifferenceKind
from holdfast.guard.plan_context import StackFinding
from holdfast.hcl.eval.code import Code, is_code
from holdfast.hcl.eval.worktree import PathKind
from holdfast.kernel.errors import Failed, HoldfastError
from holdfast.plans.context import Control, Engines, Project
from holdfast.plans.errors import Cancelled
from holdfast.plans.events import Entered
from holdfast.plans.fmt_validate import format_of, paths_to_format
from holdfast.plans.plan_file import PlanFile
from holdfast.plans.policies import policy_files, policy_of
from holdfast.plans.result import Output
from holdfast.review.findings_by_stack import BROKEN, NO_TOOL_ANSWER, REGO, errors_for, guard_finding
from holdfast.review.tool_batch import ToolBatcher
from holdfast.stacks.stack import Stack
from holdfast.system import clock
from holdfast.terraform.engine.interface import EngineId

_CODE = frozenset({CheckTarget.SOURCE, CheckTarget.VARIABLES, CheckTarget.STACK, CheckTarget.REPOSITORY})
_PLAN = frozenset({CheckTarget.PLAN})
_ENGINE = frozenset({CheckTarget.ENGINE})
_FORMAT = "HF601"
_CONTRACT = {"HF401": DifferenceKind.MISSING, "HF402": DifferenceKind.WRONG}
_HCL = ".hcl"
"""The lock file, and tests."""
_LARGE = 1_000_000
_NOT_PLANNED = "its plan was not checked"
_HOLD_UP = frozenset({Effect.APPROVE, Effect.DENY})


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
    ) -> None:
        """`code`: the code is looked at too; of what is destroyed only the plan is. `form`: its format as
        well; then whoever begins the checks waits for their report.
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
        self._tools = tuple(self._wanted_tools())
        self._questions = ToolBatcher(self._tools, lambda: self._bare(self._checkout.stacks))

    # What a stack's run asks

    async def of(self, stack: Stack, plan_file: PlanFile) -> tuple[StackFinding, ...]:
        """The errors that the guard must know of before it judges this plan.

        It fails closed: a plan that nobody could look at is not one without findings.
        """
        self._control.tell(Entered(stack=stack.name, phase="checks"))
        try:
            return await self._errors(stack, plan_file)
        except HoldfastError:
            raise
        except Exception as error:
            raise Failed(
                "HF-CHECK-6",
                f"{stack.name}: the checks crashed on the plan: {crash_location(error)}",
                hint="This plan was not applied. Please report it.",
            ) from error

    async def _errors(self, stack: Stack, plan_file: PlanFile) -> tuple[StackFinding, ...]:
        code = self._begin_code()
        self._begin_format(plan_file)
        report = self._plans[stack.name] = await self._planned(stack, plan_file)
        found = [one for one in report.unwaived if one.severity is Severity.ERROR]
        decides = policy_of(self._project.config, stack).findings in _HOLD_UP
        if code is not None and (decides or self._asks_policies):
            found += errors_for(await code, self._checked(stack))
        form = self._formats.get(plan_file.terraform.identity)
        if form is not None and decides and self._form_may_be_an_error:
            found += errors_for(await form, self._checked(stack))
        if self._control.stop.level and any(one.rule.id == NO_TOOL_ANSWER for one in found):
            # Whoever was asked was ended with everything else: that is no answer, and not its failure.
            what = f"{stack.name}: stopped during the checks; this plan was not applied"
            raise Cancelled("HF-RUN-2", what)
        return tuple(dict.fromkeys(map(guard_finding, found)))

    def applied(self, stack: Stack, outputs: Mapping[str, Output]) -> None:
        """Outputs that only an apply could tell are held against the contract too.

        The apply is done: nothing that goes wrong here may take its result away.
        """
        if stack.contract is not None:
            self._outputs[stack.name] = self._unharmed(lambda: self._look_at_outputs(stack, outputs))

    def _look_at_outputs(self, stack: Stack, outputs: Mapping[str, Output]) -> Report:
        checked = self._checked(stack)
        given = {name: (one.value, one.sensitive) for name, one in outputs.items()}
        answers = tuple(
            (_rule(id_), structs.replace(answer, stack=checked.name))
            for id_, kind in _CONTRACT.items()
            for answer in in_outputs(checked, given, kind)
        )
        return run_checks(self._bare((checked,)), (), CheckInputs(tool_results=answers), targets=frozenset())

    async def report(self, *, so_far: bool = False) -> Report:
        """Everything that was found, once. What was applied is told even where this breaks.

        `so_far`: the turn of some stacks is yet to come.
        """
        try:
            found = await self._everything()
            return found if so_far else structs.replace(found, skipped=(*found.skipped, *self._unplanned()))
        except Exception as error:  # noqa: BLE001 - see above
            return self._broken(error)

    async def _everything(self) -> Report:
        begun = self._begin_code()
        code = [self._without_answered(await begun)] if begun is not None else []
        formats = await asyncio.gather(*self._formats.values())
        return self._together([*code, *formats, *self._plans.values(), *self._outputs.values()])

    def _unplanned(self) -> Iterator[NotEvaluated]:
        """What would have been asked about the plans of stacks that have none."""
        settings = self._project.config.checks
        valid = [
            rule for rule in rules() if self._with_code and rule.engine is not None and rule.id != _FORMAT
        ]
        asked = [
            rule.id for rule in (*_plan_rules(), *valid) if rule.id != BROKEN and is_enabled(settings, rule)
        ]
        asked += [one.name for one in self._tools]
        form = is_enabled(settings, _rule(_FORMAT)) and self._with_form
        for stack in self._checkout.stacks:
            if stack.name in self._plans:
                continue
            formatted = not form or self._engine_of(stack.stack) in self._formats
            for id_ in asked if formatted else (*asked, _FORMAT):
                yield NotEvaluated(rule=id_, reason=_NOT_PLANNED, stack=stack.name)

    # The code

    def _begin_code(self) -> asyncio.Future[Report] | None:
        if self._code is None and self._with_code:
            # Made here: the thread would make another one beside it.
            _ = self._checkout
            self._code = asyncio.ensure_future(asyncio.to_thread(self._unharmed, self._look_at_code))
        return self._code

    def _look_at_code(self) -> Report:
        checkout = self._checkout
        said = tuple(
            one
            for asked in self._tools
            for one in asked.run(checkout, {})
            if getattr(one[1], "reason", None) != NO_PLAN
        )
        return run_checks(checkout, _rules(), CheckInputs(tool_results=said), targets=_CODE)

    def _begin_format(self, plan_file: PlanFile) -> None:
        """One stack of each engine asks for the files of all: `fmt` needs no stack, only an engine."""
        engine = plan_file.terraform.identity
        if self._with_form and engine not in self._formats:
            self._formats[engine] = asyncio.ensure_future(self._formatted(engine, plan_file))

    async def _formatted(self, engine: EngineId, plan_file: PlanFile) -> Report:
        every = self._checkout.stacks
        stacks = [one for one in every if self._engine_of(one.stack) == engine] or list(every)
        try:
            said = await format_of(plan_file.terraform, paths_to_format(stacks, engine), fix=False)
            unformatted, formatted = said.why_not, said.formatted
        except (HoldfastError, OSError) as error:
            unformatted, formatted = str(error), {}
        except Exception as error:  # noqa: BLE001 - the format of files is no reason to lose a plan
            unformatted, formatted = f"it broke: {crash_location(error)}", {}
        about = EngineOutput(
            stack=stacks[0], folder=stacks[0].stack.module, formatted=formatted, fmt_skipped=unformatted
        )
        # That `validate` had nothing to say is true: there would be no plan otherwise.
        asked = tuple(rule for rule in rules() if rule.engine is not None)
        bare = self._bare(self._checkout.stacks)
        return self._unharmed(
            lambda: run_checks(bare, asked, CheckInputs(engine=Available(items=(about,))), targets=_ENGINE)
        )

    @functools.cached_property
    def _form_may_be_an_error(self) -> bool:
        """It is waited for only then: by itself it is none."""
        settings = self._project.config.checks
        said = (settings.rules, *settings.environments.values(), *(one.rules for one in settings.paths))
        return any(
            one.level is Level.ERROR and is_rule(one.rule, _FORMAT) for levels in said for one in levels
        )

    def _engine_of(self, stack: Stack) -> EngineId | None:
        """None for one that nothing can run: that is its own failure, and nobody else's."""
        try:
            return self._engines.choose(stack).engine
        except HoldfastError:
            return None

    # A plan

    async def _planned(self, stack: Stack, plan_file: PlanFile) -> Report:
        checked = self._checked(stack)
        plan = CheckedPlan(stack=checked, plan=plan_file.plan, document=plan_file.json)
        said = await self._questions.check(plan)
        at_hand = CheckInputs(plans=Available(items=(plan,)), tool_results=said)
        look = functools.partial(run_checks, self._bare((checked,)), _plan_rules(), at_hand, targets=_PLAN)
        return await asyncio.to_thread(look) if len(plan_file.json) > _LARGE else look()

    # What they share

    @functools.cached_property
    def _checkout(self) -> Checkout:
        found = build_checkout(
            self._project.config,
            self._project.code,
            stacks=self._stacks,
            all_stacks=tuple(self._project.stacks.values()),
            files=(),
            tracked=None,
            today=clock.now().date(),
            whole=False,
        )
        found.files = tuple(sorted(_files(self._project.code, found)))
        return found

    def _bare(self, stacks: tuple[CheckedStack, ...]) -> Checkout:
        """The same, with these stacks and without their code."""
        return structs.replace(self._checkout, stacks=stacks, modules=(), variables_files=())

    def _checked(self, stack: Stack) -> CheckedStack:
        return self._by_name[stack.name]

    @functools.cached_property
    def _by_name(self) -> dict[str, CheckedStack]:
        return {one.name: one for one in self._checkout.stacks}

    @property
    def _asks_policies(self) -> bool:
        return any(one.name == REGO for one in self._tools)

    def _wanted_tools(self) -> Iterator[Tool]:
        """Policies wherever there are some; other tools, which are slow, where they are configured on."""
        uses = self._project.config.checks.tools
        for name in TOOLS:
            use = uses.get(name, Use.AUTO)
            if use is Use.ON or (
                name == REGO and use is not Use.OFF and policy_files(self._project.code).any
            ):
                yield tool(name)

    def _unharmed(self, look: Callable[[], Report]) -> Report:
        """Code that breaks the checks as a whole does not break the change; that it did is a finding."""
        try:
            return look()
        except Exception as error:  # noqa: BLE001 - see above
            return self._broken(error)

    def _broken(self, error: Exception) -> Report:
        answer = Finding(message=f"the checks crashed: {crash_location(error)}")
        nothing = Checkout(
            config=self._project.config,
            code=self._project.code,
            today=clock.now().date(),
            whole=False,
        )
        return run_checks(
            nothing, (), CheckInputs(tool_results=((_rule(BROKEN), answer),)), targets=frozenset()
        )

    def _together(self, parts: Sequence[Report]) -> Report:
        return Report(
            findings=sort_findings(
                merge_findings(dict.fromkeys(one for part in parts for one in part.findings))
            ),
            skipped=tuple(dict.fromkeys(one for part in parts for one in part.skipped)),
            rules=_rules(),
            files=max((part.files for part in parts), default=0),
            stacks=len(self._checkout.stacks),
            modules=len(self._checkout.modules),
        )

    def _without_answered(self, code: Report) -> Report:
        """What the code could not tell of a stack, its plan was asked."""
        later = {rule.id for rule in rules() if rule.plan is not None}
        skipped = (one for one in code.skipped if one.rule not in later or one.stack not in self._plans)
        return structs.replace(code, skipped=tuple(skipped))


def _rule(id_: str) -> Rule:
    return next(rule for rule in rules() if rule.id == id_)


@functools.cache
def _rules() -> tuple[Rule, ...]:
    return tuple(rule for rule in rules() if not rule.of_git)


@functools.cache
def _plan_rules() -> tuple[Rule, ...]:
    """Those that look at plans, and the one that says which of them broke."""
    return tuple(rule for rule in _rules() if rule.plan is not None or rule.id == BROKEN)


def _files(code: Code, checkout: Checkout) -> Iterator[str]:
    """Those of the stacks: code, what they are given, and the policies.

    What else lies there may be nobody's but the machine's: Git is not asked what it ignores.
    """
    tree = code.tree
    for module in checkout.modules:
        names = (name for name in tree.names(module.folder) if is_code(name) or name.endswith(_HCL))
        paths = (tree.join(module.folder, name) for name in names)
        yield from (path for path in paths if tree.kind(path) is PathKind.FILE)
    yield from {file.path for file in checkout.variables_files}
    yield from policy_files(code).paths
