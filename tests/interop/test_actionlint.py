"""Our workflows and the examples through actionlint, where there is one: on PATH, or in HOLDFAST_TOOLS."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

_PLACES = [*([os.environ["HOLDFAST_TOOLS"]] if os.environ.get("HOLDFAST_TOOLS") else [])]
ACTIONLINT = shutil.which(
    "actionlint", path=os.pathsep.join([*_PLACES, *(f"{one}/bin" for one in _PLACES), os.environ["PATH"]])
)
ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((*ROOT.glob("examples/workflows/*.yml"), *ROOT.glob(".github/workflows/*.yml")))
NEWER_THAN_ACTIONLINT = 'unexpected key "queue" for "concurrency" section'
pytestmark = pytest.mark.skipif(ACTIONLINT is None, reason="no actionlint on PATH or in HOLDFAST_TOOLS")


def test_the_workflows_are_valid() -> None:
    """Nothing is found but the one key that is younger than the linter."""
    ran = subprocess.run(
        [str(ACTIONLINT), "-format", "{{json .}}", *map(str, WORKFLOWS)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = [one["message"] for one in json.loads(ran.stdout or "[]")]
    assert [one for one in found if not one.startswith(NEWER_THAN_ACTIONLINT)] == []
    assert ran.stderr == ""
