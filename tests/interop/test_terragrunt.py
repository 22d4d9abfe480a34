"""The services example with Terragrunt, where there is one: on PATH, or in HOLDFAST_TOOLS."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from program import ROOT, Program

_NAMED = os.environ.get("HOLDFAST_TOOLS")
_PLACES = [*((_NAMED, f"{_NAMED}/bin") if _NAMED else ()), os.environ["PATH"]]
TERRAGRUNT = shutil.which("terragrunt", path=os.pathsep.join(_PLACES))
pytestmark = pytest.mark.skipif(TERRAGRUNT is None, reason="no terragrunt on PATH or in HOLDFAST_TOOLS")


def test_both_make_the_same_of_the_services_example(
    holdfast: Program, terraform_folder: Path, tmp_path: Path
) -> None:
    """What the example compares is the same infrastructure: twelve states with equal outputs."""
    shutil.copytree(ROOT / "examples/services", holdfast.folder, dirs_exist_ok=True)
    ours = holdfast.results("apply", "--yes")
    units = tmp_path / "copy"
    shutil.copytree(ROOT / "examples/services", units)
    subprocess.run(
        [str(TERRAGRUNT), "run", "--all", "--tf-path", f"{terraform_folder}/terraform", "--", "apply"],
        cwd=units / "terragrunt/live",
        env={**holdfast.environment, "TG_NON_INTERACTIVE": "true"},
        capture_output=True,
        check=True,
    )
    theirs = {}
    for state in (units / "terragrunt/states").rglob("terraform.tfstate"):
        parts = state.relative_to(units / "terragrunt/states/live").parts
        theirs[f"{parts[0]}/{parts[-2]}"] = json.loads(state.read_bytes())["outputs"]
    assert len(theirs) == 12
    values = {
        name: {key: output["value"] for key, output in outputs.items()} for name, outputs in theirs.items()
    }
    assert values == {
        name: {key: output["value"] for key, output in one["outputs"].items()} for name, one in ours.items()
    }
