"""What Terraform reports, as a problem with a hint."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from holdfast.plans.errors import CommandTarget, problem_from_diagnostic
from holdfast.system.confine import Confinement
from holdfast.terraform.diagnostics import Diagnostic


@pytest.mark.parametrize(
    ("measures", "detail", "hinted"),
    [
        (("landlock",), "touch: cannot touch '/home/ada/x': Permission denied", True),
        ((), "touch: cannot touch '/home/ada/x': Permission denied", False),
        (("landlock",), "no such file", False),
    ],
)
def test_a_denied_permission_may_come_from_confinement(
    measures: tuple[str, ...], detail: str, *, hinted: bool
) -> None:
    """A program that worked before must not leave its user guessing."""
    target = SimpleNamespace(
        engine=SimpleNamespace(confinement=Confinement(measures=measures)),
        stack=SimpleNamespace(module="app"),
    )
    diagnostic = Diagnostic(severity="error", summary="local-exec provisioner error", detail=detail)
    problem = problem_from_diagnostic(cast("CommandTarget", target), "HF-TF-4", diagnostic)
    assert ("holdfast doctor" in (problem.hint or "")) is hinted
