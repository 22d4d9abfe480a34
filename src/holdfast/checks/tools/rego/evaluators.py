"""Chooses the evaluator: `opa` or `conftest` if installed, otherwise regopy in a process of its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from holdfast.checks.tools.interface import child_variables, program_of
from holdfast.checks.tools.rego.by_regopy import Regopy
from holdfast.checks.tools.rego.programs import Conftest, Opa
from holdfast.system.environment import Environment

Evaluator = Opa | Conftest | Regopy
"""`evaluate` returns the results for each document, in order, or raises `EvaluationError`."""


def find_evaluator(root: Path, environment: Environment) -> Evaluator | None:
    variables = child_variables(environment)
    if (opa := program_of(environment, "opa")) is not None:
        return Opa(opa, root, variables)
    if (conftest := program_of(environment, "conftest")) is not None:
        return Conftest(conftest, root, variables)
    # It needs no variables, and a policy can read every variable it has.
    return Regopy(root, {}) if importlib.util.find_spec("regopy") is not None else None
