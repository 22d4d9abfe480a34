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


BACKENDS = {
    "s3": 'backend "s3" {\n    bucket = "b"\n    key    = "k"\n    region = "eu-west-1"\n  }',
    "cloud": 'cloud {\n    organization = "o"\n    workspaces {\n      name = "w"\n    }\n  }',
}


@pytest.mark.parametrize("kind", BACKENDS)
def test_code_is_looked_at_though_nobody_may_reach_its_state(holdfast: Program, kind: str) -> None:
    """No credentials, no network, a secret that is not there: format and validity need none of them."""
    backend = "backend: { settings: { profile: { secret: 'env:NOT_SET' } } }, " if kind == "s3" else ""
    workspace = "workspace: west, " if kind == "s3" else ""
    stack = f"{{ name: a, module: live, environment: dev, {backend}{workspace}}}"
    holdfast.write(
        "holdfast.yaml",
        f"version: 1\nenvironments: {{ dev: {{ match: [dev] }} }}\nstacks: [{stack}]\n"
        'checks: { tools: { checkov: off }, rules: { "HF*": off, HF601: note, HF602: error } }\n',
    )
    code = 'output "y" {\n  value=var.nothing\n}\n'
    holdfast.write("live/main.tf", f"{code}terraform {{\n  {BACKENDS[kind]}\n}}\n")
    found = holdfast.json("check", "--engine", code=3)
    assert [(one["rule"], one["file"], one["line"]) for one in found["findings"]] == [
        ("HF601", "live/main.tf", 2),
        ("HF602", "live/main.tf", 2),
    ]
    assert found["skipped"] == []


def test_an_init_without_the_backend_is_not_taken_for_a_whole_one(holdfast: Program) -> None:
    """After a check a plan finds its backend and its state, and after that a check finds nothing to do."""
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        stacks:
          - name: a
            module: live
            environment: dev
            backend: { type: local, settings: { path: ../states/a.tfstate } }
        checks: { tools: { checkov: off } }
        """,
    )
    holdfast.write("live/main.tf", 'resource "terraform_data" "a" {}\n')
    holdfast.json("check", "--engine")
    assert holdfast.results("apply", "--yes")["a"]["status"] == "applied"
    assert (holdfast.folder / "states/a.tfstate").exists()
    (record,) = (holdfast.home / "work").glob("*/a/*/init.json")
    (bare,) = (holdfast.home / "work").glob("*/a~/*/init.json")
    before = (record.read_bytes(), record.stat().st_mtime_ns, bare.stat().st_mtime_ns)
    holdfast.json("check", "--engine")
    assert (record.read_bytes(), record.stat().st_mtime_ns, bare.stat().st_mtime_ns) == before
    assert holdfast.results("plan")["a"]["status"] == "unchanged"
