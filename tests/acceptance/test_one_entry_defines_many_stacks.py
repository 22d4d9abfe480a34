"""What stacks share is written once: a matrix, defaults, values, layers of variables, the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab_stacks import lab_module
from program import Program

CONFIG = """
    version: 1
    values: { domain: dev.example, network: { zone: a } }
    env: { TF_VAR_owner: platform }
    defaults:
      region: eu-west-1
      variables_files: [common.tfvars, { file: "sizes/{environment}.tfvars", optional: true }]
    environments:
      dev: {}
      stage: {}
      prod: { values: { domain: acme.example }, defaults: { region: eu-central-1 } }
    stacks:
      - name: "{environment}/{service}"
        matrix: { environment: { file: environments.yaml }, service: { folders: "services/*" } }
        module: services/{service}
        variables: { host: "{service}.{values.domain}", zone: "{region}{values.network.zone}" }
    """
CODE = """
    variable "host" { type = string }
    variable "zone" { type = string }
    variable "owner" { type = string }
    variable "size" { type = number }
    variable "token" {
      type      = string
      default   = "a-token-of-the-code"
      sensitive = true
    }
    resource "terraform_data" "it" {
      input = "${var.host} ${var.zone} ${var.owner} ${var.size}"
    }
    output "it" {
      value = terraform_data.it.output
    }
    """
ENVIRONMENT = """
data "lab_environment" "it" {
  names = ["LAB_DIRECTORY", "LAB_TOKEN", "LAB_UNSET", "LAB_OTHER"]
}

output "given" {
  value = data.lab_environment.it.values
}
"""
SERVICES = ("api", "database", "network", "web")


def repository(program: Program) -> None:
    program.write("holdfast.yaml", CONFIG)
    program.write("environments.yaml", "- dev\n- stage\n- prod\n")
    program.write("common.tfvars", "size = 1\n")
    program.write("sizes/prod.tfvars", "size = 9\n")
    program.write(".gitignore", ".holdfast/\n")
    for service in SERVICES:
        program.write(f"services/{service}/main.tf", CODE)
    program.commit_all()


def outputs(results: dict[str, Any]) -> dict[str, str]:
    return {name: one["outputs"]["it"]["value"] for name, one in results.items()}


def affected(program: Program, *selection: str) -> tuple[dict[str, list[str]], dict[str, Any]]:
    """The stacks with their reasons, and the removed ones."""
    document = program.json("stacks", *selection)
    return (
        {one["name"]: one["reasons"] for one in document["stacks"]},
        {one["name"]: one for one in document["removed"]},
    )


def test_three_environments_of_four_services(holdfast: Program) -> None:
    """Twelve stacks from one entry, each with its own values; a second plan changes nothing."""
    repository(holdfast)
    applied = holdfast.results("apply", "--yes")
    assert set(applied) == {f"{env}/{service}" for env in ("dev", "stage", "prod") for service in SERVICES}
    values = outputs(applied)
    assert values["dev/api"] == "api.dev.example eu-west-1a platform 1"
    assert values["prod/web"] == "web.acme.example eu-central-1a platform 9"
    assert {one["status"] for one in holdfast.results("plan").values()} == {"unchanged"}

    # Files that feed the stacks select them, also one that did not exist.
    holdfast.write("sizes/dev.tfvars", "size = 2\n")
    stacks, _ = affected(holdfast, "--since", "main")
    assert set(stacks) == {f"dev/{service}" for service in SERVICES}
    holdfast.commit_all()

    # What leaves the matrix is reported with what it holds; what is new in it is selected.
    holdfast.write("environments.yaml", "- dev\n- prod\n- test\n")
    stacks, removed = affected(holdfast, "--since", "main")
    assert "test/api" in stacks
    assert set(removed) == {f"stage/{service}" for service in SERVICES}
    assert removed["stage/api"]["resources"] == ["terraform_data.it"]
    (holdfast.folder / "services/web/main.tf").unlink()
    (holdfast.folder / "services/web").rmdir()
    holdfast.write("environments.yaml", "- dev\n- stage\n- prod\n")
    _, removed = affected(holdfast, "--since", "main")
    assert set(removed) == {f"{env}/web" for env in ("dev", "stage", "prod")}
    config = holdfast.folder / "holdfast.yaml"
    listed = config.read_text().replace("{ file: environments.yaml }", "[dev, prod]")
    config.write_text(listed)
    _, removed = affected(holdfast, "--since", "main")
    assert {"stage/api", "dev/web"} < set(removed)


def test_config_show_names_the_source_of_each_value(holdfast: Program) -> None:
    """Entry, defaults, matrix, files and built-in values; nothing sensitive is shown."""
    repository(holdfast)
    document = holdfast.json("config", "show", "prod/api")
    settings = {one["key"]: one for one in document["settings"]}
    sources = {key: (one["value"], one["source"], one["line"]) for key, one in settings.items()}
    assert sources["region"] == ("eu-central-1", "defaults of environment prod", 10)
    assert sources["environment"] == ("prod", "matrix", 12)
    assert sources["env.TF_VAR_owner"] == ("platform", "env of the file", 3)
    assert sources["variables_files"][:2] == (["common.tfvars", "sizes/prod.tfvars"], "defaults of the file")
    assert sources["workspace"] == ("default", "built-in default", None)
    assert sources["lane"][0] == "env:prod"
    assert sources["backend.type"][0] == holdfast.json("stacks", "prod/api")["stacks"][0]["backend"]["type"]
    variables = {one["name"]: one for one in document["variables"]}
    assert (variables["size"]["value"], variables["size"]["file"]) == (9, "sizes/prod.tfvars")
    assert variables["host"]["value"] == "api.acme.example"
    assert variables["token"] == {
        "name": "token",
        "value": None,
        "sensitive": True,
        "source": "default in the code",
        "file": "services/api/main.tf",
        "line": 5,
    }
    shown = holdfast.ok("config", "show", "dev/api").text
    assert "defaults of the file" in shown
    assert "sizes/dev.tfvars: not there" in shown
    assert "a-token-of-the-code" not in shown
    (error,) = holdfast.json("config", "show", "prod/apj", code=64)["errors"]
    assert "prod/api" in error["hint"]


def test_the_callers_variables_are_passed_by_name(with_lab: Program, tmp_path: Path) -> None:
    """A provider that misses one gets a hint; a plan is applied only with the values it was made with."""
    with_lab.environment["LAB_DIRECTORY"] = str(tmp_path / "objects")
    config = """
        version: 1
        {}
        environments: {{ dev: {{}} }}
        stacks: [{{ name: a, module: a, environment: dev }}]
        """
    with_lab.write("holdfast.yaml", config.format(""))
    with_lab.write("a/main.tf", lab_module('resource "lab_object" "it" {\n  name = "it"\n}\n' + ENVIRONMENT))
    failed = with_lab.results("plan", code=1)["a"]
    assert "pass_env: [LAB_DIRECTORY]" in failed["error"]["hint"]
    with_lab.write("holdfast.yaml", config.format("pass_env: [LAB_DIRECTORY, LAB_TOKEN, LAB_UNSET]"))
    with_lab.environment |= {"LAB_TOKEN": "the-callers-own-token", "LAB_OTHER": "not passed"}
    assert "the-callers-own-token" not in with_lab.ok("plan", "--out", "bundle", "--json").text
    elsewhere = {"LAB_DIRECTORY": str(tmp_path / "elsewhere")}
    refused = with_lab.results("apply", "--plan", "bundle", code=3, env=elsewhere)["a"]
    assert "LAB_DIRECTORY" in refused["error"]["message"]
    # A credential may be another one by then, and is shown nowhere.
    ran = with_lab.ok("apply", "--plan", "bundle", "--json", env={"LAB_TOKEN": "a-newer-token-of-theirs"})
    assert "a-newer-token-of-theirs" not in ran.text
    (applied,) = json.loads(ran.out)["stacks"]
    assert set(applied["outputs"]["given"]["value"]) == {"LAB_DIRECTORY", "LAB_TOKEN"}
