"""Runs the rules on everything they check and builds the report."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, Generic, TypeVar

from msgspec import Struct

from holdfast.checks.code.building_blocks import is_building_block, is_called_with_a_backend
from holdfast.checks.engine.coverage import Coverage, Evaluation
from holdfast.checks.engine.levels import is_enabled
from holdfast.checks.engine.limits import RuleLimit
from holdfast.checks.engine.novelty import compare_with_baseline
from holdfast.checks.engine.report_builder import build_report
from holdfast.checks.model.baseline import BaselineEntry
from holdfast.checks.model.contents import History
from holdfast.checks.model.interface import CheckResult, CheckTarget, Finding, Rule, Skipped
from holdfast.checks.model.report import Report
from holdfast.checks.model.subjects import (
    CheckedPlan,
    CheckedStack,
    CheckedState,
    Checkout,
    EngineOutput,
    Module,
    VariablesFile,
)
from holdfast.kernel.errors import Problem
from holdfast.kernel.work_limit import WorkLimitError, check_work_limit

T = TypeVar("T")

NO_PLAN = "no plan is available: `holdfast plan` checks it"
NO_STATE = "no state is available"
NO_ENGINE = "Terraform was not run: use --engine"
NO_HISTORY = "the Git history was not searched: use --history"
NO_STACKS = "the stacks could not be discovered"


class Available(Struct, Generic[T], frozen=True, kw_only=True):
    """The available items, and why some are missing."""

    items: tuple[T, ...] = ()
    missing: str | None = None


class CheckInputs(Struct, frozen=True, kw_only=True):
    """What the rules can check besides the repository itself."""

    plans: Available[CheckedPlan] = Available(missing=NO_PLAN)
    states: Available[CheckedState] = Available(missing=NO_STATE)
    engine: Available[EngineOutput] = Available(missing=NO_ENGINE)
    history: Available[History] = Available(missing=NO_HISTORY)
    stack_problems: tuple[Problem, ...] = ()
    """Why the stacks could not be discovered: each is a finding."""
    tool_results: tuple[tuple[Rule, CheckResult], ...] = ()
    """Results of external tools."""
    baseline: tuple[BaselineEntry, ...] | None = None
    """Known findings; None: there is no baseline."""
    planned: bool = False
    """The stacks are planned, so that none of them lacks values."""


_NOTHING = CheckInputs()


def run_checks(
    checkout: Checkout,
    rules: Sequence[Rule],
    inputs: CheckInputs = _NOTHING,
    *,
    targets: frozenset[CheckTarget] = frozenset(CheckTarget),
    limit: RuleLimit | None = None,
) -> Report:
    """All findings of these rules, and everything that they could not evaluate. Pure, but for the time limit.

    Targets that are left out are checked elsewhere, so they do not count as skipped.
    """
    coverage, limit = Coverage(planned=inputs.planned), limit or RuleLimit()
    enabled = tuple(rule for rule in rules if is_enabled(checkout, rule))
    for rule in enabled:
        for target in rule.targets:
            if target in targets:
                _run_rule(rule, target, checkout, inputs, coverage, limit)
            else:
                coverage.record_left_out(rule)
    by_id = {rule.id: rule for rule in rules}
    if (not_discovered := by_id.get("HF906")) is not None:
        for problem in inputs.stack_problems:
            message = f"{problem.code} {problem.message}"
            finding = Finding(message=message, place=problem.place, hint=problem.hint)
            coverage.add(Evaluation(rule=not_discovered), finding)
    for rule, result in inputs.tool_results:
        coverage.add(Evaluation(rule=rule), result)
    report = build_report(checkout, enabled, by_id, coverage, waivers=CheckTarget.SOURCE in targets)
    if inputs.baseline is None:
        return report
    return compare_with_baseline(report, inputs.baseline, checkout, coverage)


def _run_rule(
    rule: Rule,
    target: CheckTarget,
    checkout: Checkout,
    inputs: CheckInputs,
    coverage: Coverage,
    limit: RuleLimit,
) -> None:
    check: Callable[[Any], Iterable[CheckResult]] = getattr(rule, target)
    for evaluation, subject in _subjects(rule, target, checkout, inputs):
        if isinstance(subject, Skipped):
            coverage.add(evaluation, subject)
            continue
        coverage.record_evaluated(evaluation)
        try:
            with limit.on(subject):
                for result in check(subject):
                    coverage.add(evaluation, result)
                    check_work_limit()
                if rule.extra_files is not None:
                    coverage.record_evaluated(evaluation, rule.extra_files(subject))
        except WorkLimitError as error:
            failed = limit.fail_closed and not limit.interrupted
            coverage.record_unfinished(evaluation, f"{_name_of(subject)}: {error}", failed=failed)
        except Exception as error:  # noqa: BLE001 - one rule that crashes must not silence the others
            coverage.record_crash(evaluation, crash_location(error))


def _name_of(subject: object) -> str:
    """What a rule was evaluated on."""
    match subject:
        case Module():
            return subject.folder
        case VariablesFile():
            return subject.path
        case CheckedStack():
            return subject.name
        case CheckedPlan() | CheckedState() | EngineOutput():
            return subject.stack.name
        case _:
            return "the repository"


def crash_location(error: Exception) -> str:
    """The type of the error and our own line: never its text, which may contain file contents."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {PurePath(last.filename).name}, line {last.lineno}"


def _subjects(  # noqa: C901, PLR0912 - one row per target
    rule: Rule, target: CheckTarget, checkout: Checkout, inputs: CheckInputs
) -> Iterator[tuple[Evaluation, object]]:
    """What a rule is evaluated on, each with its files and stacks."""
    match target:
        case CheckTarget.SOURCE:
            for module in checkout.modules:
                unused = is_building_block(module) and not (inputs.planned and module.stacks)
                unused = unused and not (rule.everywhere and is_called_with_a_backend(module))
                yield (
                    Evaluation(rule=rule, files=module.paths, stacks=module.stacks, unused=unused),
                    module,
                )
        case CheckTarget.VARIABLES:
            for file in checkout.variables_files:
                yield (
                    Evaluation(rule=rule, files=(file.path,), stacks=file.stacks, unused=not file.stacks),
                    file,
                )
        case CheckTarget.STACK:
            if inputs.stack_problems:
                yield Evaluation(rule=rule), Skipped(reason=NO_STACKS)
            for stack in checkout.stacks:
                yield Evaluation(rule=rule, files=stack.paths, stacks=(stack,), single_stack=True), stack
        case CheckTarget.REPOSITORY:
            yield Evaluation(rule=rule, files=checkout.files, whole_repository=True), checkout
        case CheckTarget.HISTORY:
            if inputs.history.missing is not None:
                yield (
                    Evaluation(rule=rule, is_history=True),
                    Skipped(reason=inputs.history.missing, expected=True),
                )
            for history in inputs.history.items:
                yield Evaluation(rule=rule, is_history=True), history
        case CheckTarget.ENGINE:
            yield from _of_stacks(rule, inputs.engine)
        case CheckTarget.PLAN:
            yield from _of_stacks(rule, inputs.plans)
        case CheckTarget.STATE:
            yield from _of_stacks(rule, inputs.states)


def _of_stacks(
    rule: Rule, available: Available[EngineOutput] | Available[CheckedPlan] | Available[CheckedState]
) -> Iterator[tuple[Evaluation, object]]:
    if available.missing is not None:
        yield Evaluation(rule=rule), Skipped(reason=available.missing, expected=True)
    for item in available.items:
        yield Evaluation(rule=rule, stacks=(item.stack,), single_stack=True), item
