"""Holdfast beside Terragrunt, where there is one: on PATH, or in HOLDFAST_TOOLS."""

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


def _apply(folder: Path, holdfast: Program, terraform_folder: Path) -> None:
    subprocess.run(
        [str(TERRAGRUNT), "run", "--all", "--tf-path", f"{terraform_folder}/terraform", "--", "apply"],
        cwd=folder,
        env={**holdfast.environment, "TG_NON_INTERACTIVE": "true"},
        capture_output=True,
        check=True,
    )


def test_an_estate_of_terragrunt_has_no_changes_after_its_translation(
    holdfast: Program, terraform_folder: Path
) -> None:
    """Includes, inputs, outputs, generated files and variables files mean what they meant before."""
    shutil.copytree(ROOT / "tests/corpus/terragrunt_units/repo", holdfast.folder, dirs_exist_ok=True)
    subprocess.run(["git", "init", "-q"], cwd=holdfast.folder, check=True)
    _apply(holdfast.folder / "live", holdfast, terraform_folder)
    states = {path: path.read_bytes() for path in holdfast.folder.glob("states/**/*.tfstate")}
    assert len(states) == 4
    started = holdfast.json("init", "--from", "terragrunt")
    assert started["held_back"] == []
    results = holdfast.results("plan")
    assert {name: one["status"] for name, one in results.items()} == dict.fromkeys(
        ("dev/app", "dev/network", "prod/app", "prod/network"), "unchanged"
    )
    assert {path: path.read_bytes() for path in states} == states
    assert not list(holdfast.folder.glob(".holdfast/states/*")), "no state of Holdfast's own"


def test_units_of_explicit_stacks_have_no_changes_after_their_translation(
    holdfast: Program, terraform_folder: Path
) -> None:
    """Stack files generate units from templates; their states are where Terragrunt generated them."""
    shutil.copytree(ROOT / "examples/services", holdfast.folder, dirs_exist_ok=True)
    (holdfast.folder / "holdfast.yaml").unlink()
    subprocess.run(["git", "init", "-q"], cwd=holdfast.folder, check=True)
    _apply(holdfast.folder / "terragrunt/live", holdfast, terraform_folder)
    assert holdfast.json("init")["held_back"] == []
    results = holdfast.results("plan")
    assert len(results) == 12
    assert {one["status"] for one in results.values()} == {"unchanged"}


def test_both_make_the_same_of_the_services_example(
    holdfast: Program, terraform_folder: Path, tmp_path: Path
) -> None:
    """What the example compares is the same infrastructure: twelve states with equal outputs."""
    shutil.copytree(ROOT / "examples/services", holdfast.folder, dirs_exist_ok=True)
    ours = holdfast.results("apply", "--yes")
    units = tmp_path / "copy"
    shutil.copytree(ROOT / "examples/services", units)
    _apply(units / "terragrunt/live", holdfast, terraform_folder)
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
