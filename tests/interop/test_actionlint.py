"""Our workflows and the examples through actionlint, where there is one: on PATH, or in HOLDFAST_TOOLS."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from program import Program
from scaffold_made import BUCKET, CODE, SERVER

_PLACES = [*([os.environ["HOLDFAST_TOOLS"]] if os.environ.get("HOLDFAST_TOOLS") else [])]


def found(name: str) -> str | None:
    places = [*_PLACES, *(f"{one}/bin" for one in _PLACES), os.environ["PATH"]]
    return shutil.which(name, path=os.pathsep.join(places))


ACTIONLINT = found("actionlint")
ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((*ROOT.glob("examples/workflows/*.yml"), *ROOT.glob(".github/workflows/*.yml")))
NEWER_THAN_ACTIONLINT = 'unexpected key "queue" for "concurrency" section'
pytestmark = pytest.mark.skipif(ACTIONLINT is None, reason="no actionlint on PATH or in HOLDFAST_TOOLS")


def test_the_workflows_are_valid() -> None:
    """Nothing is found but the one key that is younger than the linter."""
    lint(WORKFLOWS)


@pytest.mark.parametrize("config", [BUCKET, SERVER], ids=["bucket", "server"])
def test_generated_workflows_are_valid(holdfast: Program, config: str) -> None:
    """Also by zizmor, where there is one, which looks for ways to attack them."""
    holdfast.write("holdfast.yaml", config)
    holdfast.write("code/main.tf", CODE)
    holdfast.ok("scaffold", "workflows")
    lint(sorted((holdfast.folder / ".github/workflows").iterdir()))
    zizmor = found("zizmor")
    if zizmor is None:
        pytest.skip("no zizmor on PATH or in HOLDFAST_TOOLS; actionlint found nothing")
    words = [zizmor, "--offline", "--no-progress", "--format", "json", "."]
    ran = subprocess.run(words, cwd=holdfast.folder, capture_output=True, text=True, check=False)
    assert (ran.returncode, json.loads(ran.stdout)) == (0, []), ran.stdout


def lint(workflows: Sequence[Path]) -> None:
    ran = subprocess.run(
        [str(ACTIONLINT), "-format", "{{json .}}", *map(str, workflows)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = [one["message"] for one in json.loads(ran.stdout or "[]")]
    assert [one for one in found if not one.startswith(NEWER_THAN_ACTIONLINT)] == []
    assert ran.stderr == ""
