"""Warm providers: the same results as without, and one provider process for each configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lab_stacks import lab_module, none_left
from program import Program

CODE = """
variable "directory" {
  type = string
}

variable "names" {
  type = set(string)
}

provider "lab" {
  directory = var.directory
}

resource "lab_object" "it" {
  for_each = var.names
  name     = each.key
}

data "lab_environment" "here" {
  names = ["SECRET"]
}

output "pid" {
  value = data.lab_environment.here.pid
}

output "secret" {
  value = data.lab_environment.here.values
}
"""


def stacks(program: Program, entries: list[dict[str, Any]], *, parallelism: int = 4, code: str = CODE) -> None:
    shared = {"module": "a", "environment": "dev", "warm_providers": True}
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "engine": {"use": "embedded", "parallelism": parallelism},
        "stacks": [{**shared, **entry} for entry in entries],
    }
    program.write("holdfast.yaml", json.dumps(document))
    program.write("a/main.tf", lab_module(code))


def directory(tmp_path: Path, name: str) -> Path:
    folder = tmp_path / "objects" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def names_in(folder: Path) -> set[str]:
    return {json.loads(file.read_text())["name"] for file in folder.glob("*.json")}


def outputs(program: Program, stack: str) -> dict[str, Any]:
    document: dict[str, Any] = program.json("output", stack)
    return document


def test_two_configurations_never_mix(with_lab: Program, tmp_path: Path) -> None:
    """Stacks of two accounts take turns over the same pool, one after the other and side by side."""
    entries = [
        {
            "name": f"{account}-{number}",
            "variables": {"directory": str(directory(tmp_path, account)), "names": [f"{account}-{number}"]},
        }
        for number in range(6)
        for account in ("one", "two")
    ]
    stacks(with_lab, entries)
    done = with_lab.results("apply", "--yes")
    assert {stack["status"] for stack in done.values()} == {"applied"}
    for account in ("one", "two"):
        assert names_in(directory(tmp_path, account)) == {f"{account}-{number}" for number in range(6)}
    print(json.dumps({name: outputs(with_lab, name) for name in done}))
    none_left(with_lab)
