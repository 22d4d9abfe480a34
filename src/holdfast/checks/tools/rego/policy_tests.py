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
    match evaluator:
        case Opa():
            return read_opa_tests(evaluator.test(policies))
        case Conftest():
            return _run_with_conftest(evaluator, policies)
        case Regopy():
            return _run_with_regopy(evaluator, policies)


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


def _run_with_conftest(evaluator: Conftest, policies: Sequence[PolicyFile]) -> tuple[PolicyTest, ...]:
    """`conftest verify` does not report the outcome of each test."""
    tests = tests_of(policies)
    names = [f"{package}.{name}" for package, name, _ in tests if not name.startswith(_SKIPPED)]
    each = ", ".join(f"{json.dumps(name)}: [v | v := data.{name}]" for name in names)
    values = evaluator.query(policies, f"answer := {{{each}}}" if each else "answer := {}")

    def outcome(package: str, name: str) -> Outcome:
        if name.startswith(_SKIPPED):
            return Outcome.SKIPPED
        return Outcome.PASSED if values.get(f"{package}.{name}") == [True] else Outcome.FAILED

    return tuple(
        PolicyTest(package=package, name=name, file=file, outcome=outcome(package, name))
        for package, name, file in tests
    )


def _run_with_regopy(evaluator: Regopy, policies: Sequence[PolicyFile]) -> tuple[PolicyTest, ...]:
    tests = tests_of(policies)
    modules = rewrite_all(policies, rewrite.rewrite_tests)
    # Each test is a separate query: one that fails does not affect the others.
    names = {f"{package}.{name}": () for package, name, _ in tests if not name.startswith(_SKIPPED)}
    (results,) = evaluator.query(modules, names, ["{}"])
    values = dict(zip(names, results, strict=True))
    return tuple(
        _from_regopy(package, name, file, values.get(f"{package}.{name}")) for package, name, file in tests
    )


def _from_regopy(package: str, name: str, file: str, text: object) -> PolicyTest:
    message = None
    if name.startswith(_SKIPPED):
        outcome = Outcome.SKIPPED
    else:
        value = {} if isinstance(text, dict) else parse_value(text)
        if isinstance(text, dict) or isinstance(value, EvaluationError):
            outcome, message = Outcome.BROKEN, RULE_FAILED
        else:
            outcome = Outcome.PASSED if value is True else Outcome.FAILED
    return PolicyTest(package=package, name=name, file=file, outcome=outcome, message=message)
