"""The tests of policies: `test_…` rules, which hold or do not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from holdfast.checks.tools.interface import how_it_ended
from holdfast.checks.tools.rego import exact, forbidden_calls
from holdfast.checks.tools.rego.by_regopy import BROKE, Regopy, regopy_value
from holdfast.checks.tools.rego.evaluators import Evaluator, find
from holdfast.checks.tools.rego.interface import NoAnswer
from holdfast.checks.tools.rego.policies import Policy, tests_of
from holdfast.checks.tools.rego.programs import Conftest, Opa
from holdfast.system import processes
from holdfast.system.environment import Environment

_LATER = "todo_"


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    BROKEN = "broken"


class Test(Struct, frozen=True, kw_only=True):
    package: str
    name: str
    file: str | None
    outcome: Outcome
    message: str | None = None


class Tested(Struct, frozen=True, kw_only=True):
    by: str
    tests: tuple[Test, ...]


def run_tests(root: Path, environment: Environment, policies: Sequence[Policy]) -> Tested | None:
    """None: nobody here can. `NoAnswer` where the evaluator cannot be believed."""
    if (out := forbidden_calls.calls(policies)) is not None:
        raise NoAnswer(out)
    evaluator = find(root, environment)
    return Tested(by=evaluator.name, tests=_ended(evaluator, policies)) if evaluator is not None else None


def _ended(evaluator: Evaluator, policies: Sequence[Policy]) -> tuple[Test, ...]:
    match evaluator:
        case Opa():
            return opa_tests(evaluator.test(policies))
        case Conftest():
            return _with_conftest(evaluator, policies)
        case Regopy():
            return _with_regopy(evaluator, policies)


def opa_tests(finished: processes.Finished) -> tuple[Test, ...]:
    try:
        found = json.loads(finished.out)
        return tuple(_from_opa(one) for one in found)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise NoAnswer(f"opa gave no answer: {how_it_ended(finished)}") from None


def _from_opa(one: Mapping[str, object]) -> Test:
    outcome = Outcome.PASSED
    for key, is_ in (("skip", Outcome.SKIPPED), ("fail", Outcome.FAILED), ("error", Outcome.BROKEN)):
        if one.get(key):
            outcome = is_
    error = one.get("error")
    location = one.get("location")
    file = location.get("file") if isinstance(location, dict) else None
    return Test(
        package=str(one["package"]).removeprefix("data."),
        name=str(one["name"]),
        file=str(file) if file else None,
        outcome=outcome,
        message=str(error.get("message")) if isinstance(error, dict) else None,
    )


def _with_conftest(evaluator: Conftest, policies: Sequence[Policy]) -> tuple[Test, ...]:
    """Its own `verify` does not say of each test how it ended."""
    tests = tests_of(policies)
    names = [f"{package}.{name}" for package, name, _ in tests if not name.startswith(_LATER)]
    each = ", ".join(f"{json.dumps(name)}: [v | v := data.{name}]" for name in names)
    said = evaluator.ask(policies, f"answer := {{{each}}}" if each else "answer := {}")

    def ended(package: str, name: str) -> Outcome:
        if name.startswith(_LATER):
            return Outcome.SKIPPED
        return Outcome.PASSED if said.get(f"{package}.{name}") == [True] else Outcome.FAILED

    return tuple(
        Test(package=package, name=name, file=file, outcome=ended(package, name))
        for package, name, file in tests
    )


def _with_regopy(evaluator: Regopy, policies: Sequence[Policy]) -> tuple[Test, ...]:
    tests = tests_of(policies)
    modules = {policy.path: exact.for_tests(policy.text) for policy in policies}
    # Each test is a package of its own to the worker: one that breaks says nothing about the others.
    names = {f"{package}.{name}": () for package, name, _ in tests if not name.startswith(_LATER)}
    (answers,) = evaluator.ask(modules, names, ["{}"])
    said = dict(zip(names, answers, strict=True))
    return tuple(
        _from_regopy(package, name, file, said.get(f"{package}.{name}")) for package, name, file in tests
    )


def _from_regopy(package: str, name: str, file: str, said: object) -> Test:
    message = None
    if name.startswith(_LATER):
        outcome = Outcome.SKIPPED
    else:
        value = {} if isinstance(said, dict) else regopy_value(said)
        if isinstance(said, dict) or isinstance(value, NoAnswer):
            outcome, message = Outcome.BROKEN, BROKE
        else:
            outcome = Outcome.PASSED if value is True else Outcome.FAILED
    return Test(package=package, name=name, file=file, outcome=outcome, message=message)
