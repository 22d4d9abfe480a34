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


SECRETS = """
    version: 1
    environments: { dev: { match: [dev] } }
    store: s3://nowhere/at-all
    stacks:
      - name: a
        module: live
        environment: dev
        env: { TF_TOKEN_x: { secret: "env:TOKEN" }, TF_VAR_word: { secret: "env:NOT_SET" } }
        variables: { number: { secret: "env:NOT_SET" } }
        credentials:
          aws: { role_arn: "arn:aws:iam::123456789012:role/a", external_id: { secret: "env:NO" } }
    checks: { tools: { checkov: off }, rules: { "HF*": off, HF601: note, HF602: error, HF908: error } }
    """


def test_no_secret_is_read_and_nothing_is_kept(holdfast: Program) -> None:
    """Neither values nor the run store nor its key are needed to say whether code is valid."""
    holdfast.write("holdfast.yaml", SECRETS)
    holdfast.write("live/main.tf", 'variable "number" {\n  type=number\n}\n')
    holdfast.write("alone/main.tf", "locals {\n  a=1\n}\n")
    found = holdfast.json("check", "--engine")
    assert [(one["rule"], one["file"]) for one in found["findings"]] == [
        ("HF601", "alone/main.tf"),
        ("HF601", "live/main.tf"),
    ]
    assert [(one["rule"], one["file"]) for one in found["skipped"]] == [("HF602", "alone")]
    assert not (holdfast.home / "key").exists()
    assert not (holdfast.folder / ".holdfast").exists()


def test_a_secret_is_read_where_init_needs_it(holdfast: Program) -> None:
    """It may open a private registry. Where it cannot be read nobody knows whether the code is valid."""
    holdfast.write("holdfast.yaml", SECRETS)
    nowhere = f"{holdfast.folder}/not-there"
    holdfast.write("live/main.tf", f'module "m" {{\n  source = "git::file://{nowhere}"\n}}\n')
    (silent,) = holdfast.json("check", "--engine", code=3)["findings"]
    assert silent["rule"] == "HF908"
    assert "the environment variable TOKEN is not set" in silent["message"]
    (failed,) = holdfast.json("check", "--engine", code=3, env={"TOKEN": "t0p-s3cret", "NO": "x"})["findings"]
    assert (failed["rule"], failed["file"], failed["line"]) == ("HF602", "live/main.tf", 1)


def test_an_engine_that_was_asked_for_and_is_not_there_is_an_error(repository: Program) -> None:
    """Else nobody would notice that Terraform never had a look."""
    repository.write("live/versions.tf", 'terraform {\n  required_version = ">= 99.0"\n}\n')
    found = repository.json("check", "--engine", code=3)["findings"]
    (silent,) = [one for one in found if one["rule"] == "HF908"]
    assert silent["severity"] == "error"
    assert "HF-ENG-1" in silent["message"]


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
    # The first check had no key yet to authenticate its record with.
    holdfast.json("check", "--engine")
    (record,) = (holdfast.home / "work").glob("*/a/*/init.json")
    (bare,) = (holdfast.home / "work").glob("*/a~/*/init.json")
    before = (record.read_bytes(), record.stat().st_mtime_ns, bare.stat().st_mtime_ns)
    holdfast.json("check", "--engine")
    assert (record.read_bytes(), record.stat().st_mtime_ns, bare.stat().st_mtime_ns) == before
    assert holdfast.results("plan")["a"]["status"] == "unchanged"
