"""Runs the tests of policies: their `test_…` rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from holdfast.checks.tools.interface import exit_message
from holdfast.checks.tools.rego import forbidden_calls, rewrite
from holdfast.checks.tools.rego.by_regopy import RULE_FAILED, Regopy, parse_value, rewrite_all
from holdfast.checks.tools.rego.interface import EvaluationError
from holdfast.checks.tools.rego.policies import PolicyFile, tests_of
from holdfast.checks.tools.rego.programs import Conftest, Evaluator, Opa, find_evaluator
from holdfast.system import processes
from holdfast.system.environment import Environment

_SKIPPED = "todo_"


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    BROKEN = "broken"


class PolicyTest(Struct, frozen=True, kw_only=True):
    package: str
    name: str
    file: str | None
    outcome: Outcome
    message: str | None = None


class PolicyTestReport(Struct, frozen=True, kw_only=True):
    by: str
    tests: tuple[PolicyTest, ...]


def run_tests(
    root: Path, environment: Environment, policies: Sequence[PolicyFile]
) -> PolicyTestReport | None:
    """None if no evaluator is installed. Raises `EvaluationError`."""
    if (error := forbidden_calls.find_forbidden_calls(policies)) is not None:
        raise EvaluationError(error, hint=forbidden_calls.HINT)
    evaluator = find_evaluator(root, environment)
    if evaluator is None:
        return None
    return PolicyTestReport(by=evaluator.name, tests=_run(evaluator, policies))


def _run(evaluator: Evaluator, policies: Sequence[PolicyFile]) -> tuple[PolicyTest, ...]:
    if isinstance(evaluator, Opa):
        return read_opa_tests(evaluator.test(policies))
    tests = tests_of(policies)
    names = [f"{package}.{name}" for package, name, _ in tests if not name.startswith(_SKIPPED)]
    outcomes = (
        _run_with_conftest(evaluator, policies, names)
        if isinstance(evaluator, Conftest)
        else _run_with_regopy(evaluator, policies, names)
    )
    results = ((*test, outcomes.get(f"{test[0]}.{test[1]}", Outcome.SKIPPED)) for test in tests)
    return tuple(
        PolicyTest(
            package=package,
            name=name,
            file=file,
            outcome=outcome,
            message=RULE_FAILED if outcome is Outcome.BROKEN else None,
        )
        for package, name, file, outcome in results
    )


def _run_with_conftest(
    evaluator: Conftest, policies: Sequence[PolicyFile], names: Sequence[str]
) -> dict[str, Outcome]:
    """`conftest verify` does not report the outcome of each test."""
    each = ", ".join(f"{json.dumps(name)}: [v | v := data.{name}]" for name in names)
    values = evaluator.query(policies, f"answer := {{{each}}}" if each else "answer := {}")
    return {name: Outcome.PASSED if values.get(name) == [True] else Outcome.FAILED for name in names}


def _run_with_regopy(
    evaluator: Regopy, policies: Sequence[PolicyFile], names: Sequence[str]
) -> dict[str, Outcome]:
    """Each test is a separate query: one that fails does not affect the others."""
    modules = rewrite_all(policies, rewrite.rewrite_tests)
    (values,) = evaluator.query(modules, dict.fromkeys(names, ()), ["{}"])
    return {name: _outcome(value) for name, value in zip(names, values, strict=True)}


def _outcome(text: object) -> Outcome:
    value = EvaluationError(RULE_FAILED) if isinstance(text, dict) else parse_value(text)
    if isinstance(value, EvaluationError):
        return Outcome.BROKEN
    return Outcome.PASSED if value is True else Outcome.FAILED


def read_opa_tests(finished: processes.Finished) -> tuple[PolicyTest, ...]:
    try:
        return tuple(_from_opa(test) for test in json.loads(finished.out))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise EvaluationError(f"opa failed: {exit_message(finished)}") from None


def _from_opa(test: Mapping[str, object]) -> PolicyTest:
    outcome = Outcome.PASSED
    for key, value in (("skip", Outcome.SKIPPED), ("fail", Outcome.FAILED), ("error", Outcome.BROKEN)):
        if test.get(key):
            outcome = value
    error = test.get("error")
    location = test.get("location")
    file = location.get("file") if isinstance(location, dict) else None
    return PolicyTest(
        package=str(test["package"]).removeprefix("data."),
        name=str(test["name"]),
        file=str(file) if file else None,
        outcome=outcome,
        message=str(error.get("message")) if isinstance(error, dict) else None,
    )
