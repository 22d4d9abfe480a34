"""Runs the rules on everything they check and builds the report."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Any, Generic, TypeVar

from msgspec import Struct

from holdfast.checks.engine import report_builder
from holdfast.checks.engine.coverage import Asked, Coverage
from holdfast.checks.engine.levels import is_enabled
from holdfast.checks.model.interface import CheckResult, CheckTarget, Finding, Rule, Skipped
from holdfast.checks.model.report import Report
from holdfast.checks.model.subjects import (
    CheckedPlan,
    CheckedStack,
    CheckedState,
    Checkout,
    EngineSaid,
    History,
)
from holdfast.kernel.errors import Problem

T = TypeVar("T")

NO_PLAN = "no plan is available: `holdfast plan` checks it"
NO_STATE = "no state is available"
NO_ENGINE = "Terraform was not run: use --engine"
NO_HISTORY = "the Git history was not searched: use --history"
NO_STACKS = "the stacks could not be discovered"


class Seen(Struct, Generic[T], frozen=True, kw_only=True):
    """The available items, and why some are missing."""

    items: tuple[T, ...] = ()
    unseen: str | None = None


class AtHand(Struct, frozen=True, kw_only=True):
    """What the rules can check besides the repository itself."""

    plans: Seen[CheckedPlan] = Seen(unseen=NO_PLAN)
    states: Seen[CheckedState] = Seen(unseen=NO_STATE)
    engine: Seen[EngineSaid] = Seen(unseen=NO_ENGINE)
    history: Seen[History] = Seen(unseen=NO_HISTORY)
    no_stacks: tuple[Problem, ...] = ()
    """Why the stacks could not be discovered: each is a finding."""
    outside: tuple[tuple[Rule, CheckResult], ...] = ()
    """Results of external tools."""


_NOTHING = AtHand()


def run_checks(
    checkout: Checkout,
    rules: Sequence[Rule],
    at_hand: AtHand = _NOTHING,
    *,
    targets: frozenset[CheckTarget] = frozenset(CheckTarget),
) -> Report:
    """All findings of these rules, and everything that they could not evaluate. Pure.

    Targets that are left out are checked elsewhere, so they do not count as skipped.
    """
    settings = checkout.config.checks
    ledger = Coverage()
    asked = tuple(rule for rule in rules if is_enabled(settings, rule))
    for rule in asked:
        for target in rule.targets:
            if target in targets:
                _run_rule(rule, target, checkout, at_hand, ledger)
            else:
                ledger.record_left_out(rule)
    by_id = {rule.id: rule for rule in rules}
    for problem in at_hand.no_stacks:
        if (not_found := by_id.get("HF906")) is not None:
            said = f"{problem.code} {problem.message}"
            ledger.add(Asked(rule=not_found), Finding(message=said, place=problem.place, hint=problem.hint))
    for rule, answer in at_hand.outside:
        ledger.add(Asked(rule=rule), answer)
    return report_builder.build_report(checkout, asked, by_id, ledger, waivers=CheckTarget.SOURCE in targets)


def _run_rule(rule: Rule, target: CheckTarget, checkout: Checkout, at_hand: AtHand, ledger: Coverage) -> None:
    check: Callable[[Any], Iterable[CheckResult]] = getattr(rule, target)
    for asked, subject in _subjects(rule, target, checkout, at_hand):
        if isinstance(subject, Skipped):
            ledger.add(asked, subject)
            continue
        ledger.record_evaluated(asked)
        try:
            for answer in check(subject):
                ledger.add(asked, answer)
            if rule.extra_files is not None:
                ledger.record_evaluated(asked, rule.extra_files(subject))
        except Exception as error:  # noqa: BLE001 - one rule that breaks must not silence the others
            ledger.record_crash(asked, crash_location(error))


def crash_location(error: Exception) -> str:
    """The type of the error and our own line: never its text, which may contain file contents."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {PurePath(last.filename).name}, line {last.lineno}"


def _subjects(  # noqa: C901 - one row per kind
    rule: Rule, target: CheckTarget, checkout: Checkout, at_hand: AtHand
) -> Iterator[tuple[Asked, object]]:
    """What a rule is evaluated on, each with its files and stacks."""
    match target:
        case CheckTarget.SOURCE:
            for module in checkout.modules:
                yield Asked(rule=rule, files=module.paths, stacks=module.stacks), module
        case CheckTarget.VARIABLES:
            for file in checkout.variables_files:
                yield Asked(rule=rule, files=(file.path,), stacks=file.stacks), file
        case CheckTarget.STACK:
            if at_hand.no_stacks:
                yield Asked(rule=rule), Skipped(reason=NO_STACKS)
            for stack in checkout.stacks:
                yield Asked(rule=rule, files=stack.paths, stacks=(stack,), one=True), stack
        case CheckTarget.REPOSITORY:
            yield Asked(rule=rule, files=checkout.files, whole=True), checkout
        case CheckTarget.HISTORY:
            yield from _seen(rule, at_hand.history, lambda _: None, past=True)
        case CheckTarget.ENGINE:
            yield from _seen(rule, at_hand.engine, lambda said: said.stack)
        case CheckTarget.PLAN:
            yield from _seen(rule, at_hand.plans, lambda plan: plan.stack)
        case CheckTarget.STATE:
            yield from _seen(rule, at_hand.states, lambda state: state.stack)


def _seen(
    rule: Rule, seen: Seen[T], stack_of: Callable[[T], CheckedStack | None], *, past: bool = False
) -> Iterator[tuple[Asked, object]]:
    if seen.unseen is not None:
        yield Asked(rule=rule, past=past), Skipped(reason=seen.unseen)
    for item in seen.items:
        stack = stack_of(item)
        stacks = (stack,) if stack is not None else ()
        yield Asked(rule=rule, stacks=stacks, one=bool(stacks), past=past), item
