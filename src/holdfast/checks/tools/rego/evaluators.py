"""Who evaluates Rego: `opa` or `conftest` where one is installed, else regopy in a process of its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from holdfast.checks.tools.interface import child_variables, program_of
from holdfast.checks.tools.rego.by_regopy import Regopy
from holdfast.checks.tools.rego.programs import Conftest, Opa
from holdfast.system.environment import Environment

Evaluator = Opa | Conftest | Regopy
"""`evaluate` says what policies say of each document, in order; `NoAnswer` where nobody can tell."""


def find(root: Path, environment: Environment) -> Evaluator | None:
    """The real thing first."""
    variables = child_variables(environment)
    if (opa := program_of(environment, "opa")) is not None:
        return Opa(opa, root, variables)
    if (conftest := program_of(environment, "conftest")) is not None:
        return Conftest(conftest, root, variables)
    # It needs nothing, and a policy can ask it for everything that it is given.
    return Regopy(root, {}) if importlib.util.find_spec("regopy") is not None else None
