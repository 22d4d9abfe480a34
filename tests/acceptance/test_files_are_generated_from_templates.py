"""`generate`: files from templates, in the work directory only, that Holdfast reads as it reads the code."""

from __future__ import annotations

import pytest
from program import Program

CONFIG = """
    version: 1
    values: {{ team: core, quoted: 'a"b ${{{{var.x}}}}' }}
    environments:
      dev: {{ match: [dev] }}
      prod: {{ match: [prod], production: true }}
    stacks:
      - folder: live/{{environment}}/{{region}}/{{component}}
        generate: {generate}
"""
TEMPLATE = """
    variable "given" {
      type    = list(string)
      default = []
    }
    locals {
      where = "@{environment}/@{region}/@{component} @{values.team} @@{literal} @{values.quoted}"
    }
    output "where" {
      value = local.where
    }
    output "given" {
      value = var.given
    }
"""
MAIN = 'resource "terraform_data" "a" {\n  input = local.where\n}\n'


def repository(holdfast: Program, generate: str = "{ where.tf: { template: templates/where.tf } }") -> None:
    holdfast.write("holdfast.yaml", CONFIG.format(generate=generate))
    holdfast.write("templates/where.tf", TEMPLATE)
    for folder in ("live/dev/eu-west-1/app", "live/prod/eu-central-1/app"):
        holdfast.write(f"{folder}/main.tf", MAIN)


def test_each_stack_has_its_own(holdfast: Program) -> None:
    """Placeholders are filled in, safe inside strings; a bundle needs the same text."""
    repository(holdfast)
    name = "live/dev/eu-west-1/app"
    planned = holdfast.results("plan", "--out", "bundle", name, "-var", 'given=["x"]')[name]
    assert planned["status"] == "planned"
    applied = holdfast.results("apply", "--plan", "bundle")[name]
    assert {key: output["value"] for key, output in applied["outputs"].items()} == {
        "where": 'dev/eu-west-1/app core @{literal} a"b ${var.x}',
        "given": ["x"],
    }
    shown = holdfast.ok("config", "show", name).out
    assert "generate.where.tf.template" in shown
    assert sorted(path.name for path in (holdfast.folder / name).iterdir()) == ["main.tf"]
    # The template is a file that both stacks read.
    selected = holdfast.json("stacks", "--changed", "templates/where.tf")["stacks"]
    assert [stack["reasons"][0] for stack in selected] == ["reads templates/where.tf"] * 2
    holdfast.ok("plan", "--out", "again", name, "--destroy")
    holdfast.write("templates/where.tf", TEMPLATE.replace("core", "other").replace("@@{literal}", "x"))
    assert "HF-BUND-6" in holdfast.ok("apply", "--plan", "again", code=3).out


def test_what_it_requires_is_seen(holdfast: Program) -> None:
    """The version of the engine, and findings of checks, as if the file were in the module."""
    repository(holdfast)
    holdfast.write(
        "templates/where.tf", TEMPLATE + 'terraform {\n  required_version = ">= 99.@{values.minor}"\n}\n'
    )
    config = (holdfast.folder / "holdfast.yaml").read_text()
    holdfast.write("holdfast.yaml", config.replace("team: core", 'team: core, minor: "1"'))
    [error] = holdfast.json("plan", "live/dev/*", code=64)["errors"]
    assert "required_version >= 99.1" in error["message"]
    password = 'variable "password" {\n  default = "hunter2-@{region}"\n}\n'
    holdfast.write("templates/where.tf", TEMPLATE + password)
    findings = holdfast.json("check")["findings"]
    files = {finding["file"] for finding in findings if finding["rule"] == "HF209"}
    assert files == {"live/dev/eu-west-1/app/where.tf", "live/prod/eu-central-1/app/where.tf"}


@pytest.mark.parametrize(
    ("generate", "template", "message"),
    [
        ("{ main.tf: { template: templates/where.tf } }", None, "the module has a file of this name"),
        ("{ x.tf: { template: templates/none.tf } }", None, "the template templates/none.tf does not exist"),
        (None, 'terraform {\n  backend "s3" {}\n}\n', "it contains a backend"),
        (None, "locals {\n  a = @{environment\n}\n", "is not a placeholder"),
        (None, 'locals {\n  a = "@{nothing}"\n}\n', "{nothing} has no value"),
        (None, "locals {\n  a = @{values.quoted}\n}\n", "generate where.tf"),
        ("{ x.auto.tfvars: { content: 'a = 1' } }", None, "Terraform would load it as variables"),
        ("{ terraform.tfstate: { content: '{}' } }", None, "it has the name of a state"),
        ("{ x.tf: {} }", None, "needs one of `template` and `content`"),
        ("{ ../x.tf: { content: '' } }", None, "../x.tf"),
    ],
)
def test_a_mistake_is_reported_before_anything_runs(
    holdfast: Program, generate: str | None, template: str | None, message: str
) -> None:
    repository(holdfast, *([generate] if generate is not None else []))
    if template is not None:
        holdfast.write("templates/where.tf", template)
    errors = holdfast.json("plan", code=64)["errors"]
    assert any(message in error["message"] for error in errors), errors
