"""States named as Atmos names them are found again, with the same variables."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from program import ROOT, Program

STACKS = {
    "euw1-dev": {"stage": "dev", "environment": "euw1", "region": "eu-west-1", "namespace": "acme"},
    "euw1-prod": {"stage": "prod", "environment": "euw1", "region": "eu-west-1", "namespace": "acme"},
}


def _apply(
    holdfast: Program, terraform: Path, component: str, workspace: str, variables: Mapping[str, object]
) -> None:
    """What `atmos terraform apply` runs: a generated backend, a workspace and a variables file."""
    folder = holdfast.folder / "components/terraform" / component
    backend = {"terraform": {"backend": {"local": {"workspace_dir": "states"}}}}
    (folder / "backend.tf.json").write_text(json.dumps(backend))
    file = f"{workspace}.terraform.tfvars.json"
    (folder / file).write_text(json.dumps(variables))
    for command in (
        ["init", "-reconfigure", "-input=false"],
        ["workspace", "new", workspace],
        ["apply", "-auto-approve", "-input=false", f"-var-file={file}"],
    ):
        subprocess.run(
            [str(terraform), *command], cwd=folder, env=holdfast.environment, capture_output=True, check=True
        )


def test_the_plan_shows_no_changes(holdfast: Program, terraform_folder: Path) -> None:
    """Imports, inheritance, templates, outputs and workspaces mean what they meant before."""
    shutil.copytree(ROOT / "tests/corpus/atmos_stacks/repo", holdfast.folder, dirs_exist_ok=True)
    terraform = terraform_folder / "terraform"
    for stack, common in STACKS.items():
        stage = common["stage"]
        _apply(holdfast, terraform, "network", stack, {**common, "zones": ["a", "b"]})
        own = {"size": 1, "tags": {"team": "web", "stage": stage}, "label": f"{stage}-app/blue"}
        _apply(
            holdfast, terraform, "app", f"{stack}-app-blue", {**common, **own, "network_id": f"net-{stage}"}
        )
    states = {path: path.read_bytes() for path in holdfast.folder.glob("components/**/states/**/*.tfstate")}
    assert len(states) == 4
    started = holdfast.json("init", "--from", "atmos")
    assert started["held_back"] == []
    assert {stack["name"] for stack in started["translation"]["stacks"]} == set(started["stacks"])
    results = holdfast.results("plan")
    assert {name: one["status"] for name, one in results.items()} == dict.fromkeys(
        ("euw1-dev/app/blue", "euw1-dev/network", "euw1-prod/app/blue", "euw1-prod/network"), "unchanged"
    )
    assert {path: path.read_bytes() for path in states} == states
