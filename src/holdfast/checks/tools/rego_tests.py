"""The tests of policies: `test_…` rules, which hold or do not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from holdfast.checks.tools import rego_exact
from holdfast.checks.tools.interface import child_variables, how_it_ended, program_of
from holdfast.checks.tools.rego_engines import BROKE, NoAnswer, Regopy, has_regopy, regopy_value
from holdfast.checks.tools.rego_policies import FOLDER, Policy, tests_of
from holdfast.doors import processes
from holdfast.doors.environment import Environment
from holdfast.kernel.values import dataclass

_SECONDS = 300.0
_LATER = "todo_"


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    package: str
    name: str
    file: str | None
    outcome: Outcome
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    by: str
    tests: tuple[Test, ...]


def run_tests(root: Path, environment: Environment, policies: Sequence[Policy]) -> Tested | None:
    """None: nobody here can. `NoAnswer` where the evaluator cannot be believed.

    Conftest runs tests too, but does not say of each how it ended: only `opa` and regopy are asked.
    """
    variables = child_variables(environment)
    if (opa := program_of(environment, "opa")) is not None:
        return Tested(by="opa", tests=_with_opa(opa, root, variables))
    if not has_regopy():
        return None
    return Tested(by="regopy", tests=_with_regopy(Regopy(root, variables), policies))


def _with_opa(program: str, root: Path, variables: Mapping[str, str]) -> tuple[Test, ...]:
    finished = processes.run(
        [program, "test", "--v1-compatible", "--format=json", FOLDER],
        folder=root,
        environment=variables,
        seconds=_SECONDS,
    )
    return opa_tests(finished)


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


def _with_regopy(evaluator: Regopy, policies: Sequence[Policy]) -> tuple[Test, ...]:
    tests = tests_of(policies)
    modules = {policy.path: rego_exact.for_tests(policy.text) for policy in policies}
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
