"""A registry that cannot be reached costs one stack its attempts; the others fail at once, or go on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from lab_stacks import lab_module
from program import Program

CONFIG = """
    version: 1
    environments: { dev: {} }
    stacks: [{ folder: "live/{name}", environment: dev }]
    engine: { retries: { attempts: 1, wait: 0s } }
"""
MODULE = """
terraform {
  required_providers {
    x = { source = "%s/acme/x" }
  }
}
resource "x_y" "z" {}
"""


@pytest.fixture
def refusing() -> str:
    """A host that refuses every connection."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"localhost:{free.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """A host that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"localhost:{server.getsockname()[1]}"


def lay(program: Program, host: str, *names: str) -> None:
    program.write("holdfast.yaml", CONFIG)
    for name in names:
        program.write(f"live/{name}/main.tf", MODULE % host)
    program.write("live/good/main.tf", 'output "o" {\n  value = 1\n}\n')


def require_one_report(program: Program, host: str, *names: str) -> None:
    ran = program.ok("plan", "--json", code=1)
    results = {stack["name"]: stack for stack in json.loads(ran.out)["stacks"]}
    assert results["live/good"]["status"] == "planned"
    errors = [results[f"live/{name}"]["error"] for name in names]
    (first,) = (error for error in errors if error["code"] == "HF-TF-1")
    assert f"could not connect to {host}" in first["message"]
    others = [error for error in errors if error is not first]
    assert {error["code"] for error in others} == {"HF-ENG-23"}
    assert all(host in error["message"] and error["hint"] for error in others)
    assert ran.err.count("; retry 1 of") == 1
    listed = ", ".join(f"live/{name}" for name in names)
    line = f" ! {host} cannot be reached; {len(names)} stacks failed for this reason: {listed}"
    assert ran.err.count(line) == 1


def test_a_host_that_refuses(holdfast: Program, refusing: str) -> None:
    """The first stack tries it, with the usual retries; every other names the first one."""
    lay(holdfast, refusing, "a", "b", "c", "d")
    require_one_report(holdfast, refusing, "a", "b", "c", "d")


@pytest.mark.long
def test_a_host_that_never_answers(holdfast: Program, silent: str) -> None:
    """Terraform waits for each of its attempts; only one stack pays for them."""
    lay(holdfast, silent, "a", "b", "c")
    require_one_report(holdfast, silent, "a", "b", "c")


LAB = """
variable "objects" {}
provider "lab" {
  directory = var.objects
}
resource "lab_object" "x" {
  name = "x"
}
"""


def test_what_is_installed_from_elsewhere_goes_on(with_lab: Program, refusing: str) -> None:
    """With a mirror in the CLI configuration every stack tries once; without it, what is cached works."""
    lay(with_lab, refusing, "a", "b")
    with_lab.write("live/lab/main.tf", lab_module(LAB))
    results = with_lab.results("plan", code=1)
    assert results["live/lab"]["status"] == "planned"
    assert {results[f"live/{name}"]["error"]["code"] for name in ("a", "b")} == {"HF-TF-1"}
    del with_lab.environment["TF_CLI_CONFIG_FILE"]
    results = with_lab.results("plan", code=1)
    assert results["live/lab"]["status"] == "planned"
    assert {results[f"live/{name}"]["error"]["code"] for name in ("a", "b")} == {"HF-TF-1", "HF-ENG-23"}
