"""`holdfast check --engine`: format and validity by Terraform, and `--fix`."""

from __future__ import annotations

import stat

import pytest
from program import Program

CONFIG = """
    version: 1
    environments: { dev: { match: [dev] } }
    stacks:
      - { name: a, module: live, environment: dev, variables_files: [a.tfvars] }
      - { name: b, module: live, environment: dev }
    checks: { tools: { checkov: off } }
    """
MAIN = 'module "m" {\n  source = "../.modules/m"\n  x=var.word\n}\nvariable "word" {\n  default = ""\n}\n'
MODULE = 'variable "x" {}\n\nresource "terraform_data" "a" {\n    input=var.x\n}\n'


@pytest.fixture
def repository(holdfast: Program) -> Program:
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write("live/main.tf", MAIN)
    holdfast.write(".modules/m/main.tf", MODULE)
    holdfast.write("a.tfvars", 'word="hidden"\n')
    return holdfast


def places(repository: Program, rule: str, *arguments: str, code: int = 0) -> list[tuple[str, int]]:
    found = repository.json("check", "--engine", *arguments, code=code)["findings"]
    return [(one["file"], one["line"]) for one in found if one["rule"] == rule]


def test_the_format_is_found_and_written_back(repository: Program) -> None:
    """In root modules, the modules they call and variables files; a file keeps its mode and all else."""
    file = repository.folder / "live/main.tf"
    file.chmod(0o640)
    unformatted = [(".modules/m/main.tf", 4), ("a.tfvars", 1), ("live/main.tf", 3)]
    assert places(repository, "HF601") == unformatted
    assert file.read_text() == MAIN

    assert places(repository, "HF601", "--fix") == []
    assert file.read_text() == MAIN.replace("  x=var.word", "  x      = var.word")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert (repository.folder / "a.tfvars").read_text() == 'word = "hidden"\n'
    assert places(repository, "HF601") == []


def test_what_is_invalid_is_found_where_it_stands(repository: Program) -> None:
    """Once, though two stacks use the module; a file that cannot be read hides no other."""
    repository.write("live/more.tf", 'output "y" {\n  value = var.nothing\n}\n')
    assert places(repository, "HF602", code=3) == [("live/more.tf", 2)]
    repository.write("live/more.tf", "locals {\n  a =\n}\n")
    found = repository.json("check", "--engine", code=3)
    rules = {(one["rule"], one["file"]) for one in found["findings"]}
    assert {("HF602", "live/more.tf"), ("HF601", "live/main.tf")} <= rules
    assert "HF601" in {one["rule"] for one in found["skipped"]}
