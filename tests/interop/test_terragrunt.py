"""Holdfast beside Terragrunt, where there is one: on PATH, or in HOLDFAST_TOOLS."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from program import ROOT, Program

from holdfast.hcl.eval.code import Code
from holdfast.onboarding.translators.terragrunt_files import lists
from holdfast.onboarding.translators.terragrunt_stacks import UnitPlace
from holdfast.onboarding.translators.terragrunt_unit import Unit

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


def test_functions_and_merges_give_the_values_of_terragrunt(holdfast: Program) -> None:
    """Folders, files, includes and deep merges, compared with what Terragrunt renders."""
    files = {
        "live/root.hcl": """
locals {
  env  = read_terragrunt_config(find_in_parent_folders("env.hcl"))
  none = read_terragrunt_config(find_in_parent_folders("n.hcl", "n.hcl"), { locals = { e = "default" } })
}
inputs = {
  to = path_relative_to_include(), from = path_relative_from_include(), e = local.env.locals.e
  above = basename(get_parent_terragrunt_dir()), own = basename(get_terragrunt_dir())
  other = local.none.locals.e, flag = true, text = "x", list = [1], none = { a = 1 }
  map = { a = 1, b = "q" }, file = trimspace(file("data.txt"))
}
""",
        "live/data.txt": "root\n",
        "live/dev/env.hcl": "locals {\n  e = basename(get_original_terragrunt_dir())\n}\n",
        "live/dev/app/terragrunt.hcl": """
include "root" {
  path           = find_in_parent_folders("root.hcl")
  merge_strategy = "deep"
  expose         = true
}
locals { vars = jsondecode(read_tfvars_file("x.tfvars")) }
inputs = {
  flag = false, text = "", list = [2], none = null, map = { b = "" }, path = get_path_from_repo_root()
  up = get_path_to_repo_root(), json = jsonencode({ b = "<&>", a = [1, true, null] }), x = local.vars.x
  yaml = yamldecode(file("x.yaml")), again = include.root.inputs.text, tried = try(local.vars.none, "tried")
  commands = length(get_terraform_commands_that_need_vars())
  split = split("/", path_relative_to_include("root"))
}
""",
        "live/dev/app/x.tfvars": 'x = { a = ["b"] }\n',
        "live/dev/app/x.yaml": "a: [1, two, 3.5, true, null]\n",
        "live/dev/app/main.tf": "",
    }
    for path, text in files.items():
        (holdfast.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (holdfast.folder / path).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=holdfast.folder, check=True)
    rendered = subprocess.run(
        [str(TERRAGRUNT), "render", "--format", "json"],
        cwd=holdfast.folder / "live/dev/app",
        env=holdfast.environment,
        capture_output=True,
        check=True,
    )
    folder = "live/dev/app"
    place = UnitPlace(path=f"{folder}/terragrunt.hcl", folder=folder, original=folder)
    values = Unit(Code(holdfast.folder), place).inputs()
    assert lists(values) == json.loads(rendered.stdout)["inputs"]


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
