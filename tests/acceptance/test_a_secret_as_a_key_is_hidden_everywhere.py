"""Secrets as keys of `for_each` and of maps are in no document, and addresses stay distinct."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from program import Program, Ran

from holdfast.terraform.addresses import key_text

FIRST = 'first"of\\the${keys}'
SECOND = "second-of-the-keys"
MAP_KEY = "third_of_the_keys"
SECRETS = (FIRST, SECOND, MAP_KEY)
CODE = """
variable "first" {}
variable "second" {}
variable "third" {}
variable "only" { default = "" }
locals { keys = [var.first, "eu-${var.second}", "plain"] }
resource "terraform_data" "it" {
  for_each = toset([for key in local.keys : key if contains(["", "fail", key], var.only)])
  input    = { (var.third) = "x", "${var.third}2" = "y", length = length(each.key) }
  lifecycle {
    precondition {
      condition     = var.only != "fail"
      error_message = "${each.key} is not allowed."
    }
  }
}
output "map" { value = { (var.third) = { (var.second) = 1 }, (var.second) = 2 } }
"""
ADDRESS = re.compile(r'terraform_data\.it\[\\*"[^"]*\\*"\]')


@pytest.fixture
def repository(holdfast: Program) -> Program:
    holdfast.environment |= {"FIRST": FIRST, "SECOND": SECOND, "THIRD": MAP_KEY}
    configure(holdfast)
    holdfast.write("keys/main.tf", CODE)
    return holdfast


def configure(program: Program, *, environment: str = "dev", only: str = "") -> None:
    program.write(
        "holdfast.yaml",
        f"""
        version: 1
        environments: {{ dev: {{ match: [dev] }}, prod: {{ match: [prod], production: true }} }}
        stacks:
          - name: keys
            module: keys
            environment: {environment}
            variables:
              first: {{ secret: "env:FIRST" }}
              second: {{ secret: "env:SECOND" }}
              third: {{ secret: "env:THIRD" }}
              only: "{only}"
        engine: {{ use: embedded }}
        """,
    )


def hidden(*texts: str) -> None:
    for text in texts:
        for secret in SECRETS:
            for written in (secret, json.dumps(secret)[1:-1], key_text(secret)[2:-2]):
                assert written not in text, text
                assert json.dumps(written)[1:-1] not in text, text


def hidden_in(ran: Ran) -> Ran:
    hidden(ran.out, ran.err)
    return ran


def distinct(addresses: Iterable[str]) -> None:
    """All three, one of them plain."""
    shown = set(addresses)
    assert len(shown) == 3, shown
    assert len([address for address in shown if "***(" in address]) == 2


def test_no_document_shows_a_secret_key(repository: Program, tmp_path: Path) -> None:
    """Plan, bundle, comment, apply, runs, states, outputs, Terraform's output, errors, the audit log."""
    out = tmp_path / "bundle"
    planned = json.loads(hidden_in(repository.ok("plan", "--out", str(out), "--json")).out)
    distinct(resource["address"] for resource in planned["stacks"][0]["resources"])
    summary = (out / "keys/summary.json").read_text()
    hidden(summary, (out / "change.json").read_text())
    distinct(resource["address"] for resource in json.loads(summary)["resources"])
    for arguments in (["--verbose"], ["--format", "markdown"]):
        distinct(ADDRESS.findall(hidden_in(repository.ok("plan", *arguments)).out))
    report = tmp_path / "summary.md"
    job = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(report), "GITHUB_WORKFLOW": "w"}
    hidden_in(repository.ok("plan", "--github", env=job))
    hidden(report.read_text())
    distinct(ADDRESS.findall(hidden_in(repository.ok("apply", "--plan", str(out))).text))

    run = repository.json("runs", "list")["runs"][0]["id"]
    for command in (("runs", "list"), ("runs", "show", run), ("audit", "show"), ("audit", "export")):
        hidden_in(repository.ok(*command))
        hidden_in(repository.ok(*command, "--json"))
    for arguments in ([], ["--json"]):
        distinct(ADDRESS.findall(hidden_in(repository.ok("runs", "log", run, *arguments)).out))
        for command in (("state", "list", "keys"), ("state", "show", "keys")):
            distinct(ADDRESS.findall(hidden_in(repository.ok(*command, *arguments)).out))
    value = json.loads(hidden_in(repository.ok("output", "keys", "--json")).out)["outputs"]["map"]["value"]
    assert sorted(map(type, value.values()), key=str) == [dict, int]
    hidden_in(repository.ok("output", "keys"))
    for arguments in (["state", "list"], ["show", "-json"], ["output", "-json"]):
        hidden_in(repository.ok("terraform", "keys", "--", *arguments))

    configure(repository, only="fail")
    for arguments in ([], ["--json"]):
        hidden_in(repository.run("plan", *arguments))
    configure(repository, environment="prod", only="plain")
    refused = hidden_in(repository.ok("plan", "--json", code=3))
    reasons = json.loads(refused.out)["stacks"][0]["guard"]["reasons"]
    assert len({reason["address"] for reason in reasons if reason["address"]}) == 2
    comment = hidden_in(repository.ok("plan", "--format", "markdown", code=3)).out
    assert len(set(ADDRESS.findall(comment))) == 2
    configure(repository, only="plain")
    hidden_in(repository.ok("apply", "--yes"))
    for arguments in ([], ["--json"]):
        hidden_in(repository.ok("state", "diff", "keys", *arguments))
