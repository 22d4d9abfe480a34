"""A repository whose targets publish facts to a Git host on loopback."""

from __future__ import annotations

import subprocess
from pathlib import Path

from program import Program

USER = "robot:token-of-the-robot-0123456789"

CONFIGURATION = """
version: 1
environments: {{ dev: {{ match: [dev] }}, prod: {{ match: [prod], production: true }} }}
targets:
  aws:
    owner: {owner}
    facts:
      repository: "{url}/facts.git"
      path: "{{target}}/{{environment}}.yaml"
      map:
        gateway.address: cluster_gateway_public_address
        gateway.port: port
        zones: zones
      credentials: {{ secret: "env:FACTS_TOKEN" }}
stacks:
  - variables: vars/{{environment}}.tfvars
    module: module
    name: "{{environment}}/cluster"
    environment: "{{environment}}"
    target: aws
"""
CODE = """
variable "address" {}
output "cluster_gateway_public_address" {
  value = var.address
}
output "port" {
  value = 443
}
output "zones" {
  value = ["a", "b"]
}
output "password" {
  value     = "hunter2-of-the-output"
  sensitive = true
}
"""
ENVIRONMENT = {"FACTS_TOKEN": USER}


def git(*arguments: str, folder: Path) -> str:
    ran = subprocess.run(
        ["git", "-c", "user.name=Ada", "-c", "user.email=ada@acme.example", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def bare(folder: Path) -> Path:
    """An empty repository of the host, with the branch main."""
    folder.mkdir(parents=True)
    git("init", "--quiet", "--bare", "--initial-branch=main", folder=folder)
    return folder


def content(repository: Path, path: str, branch: str = "main") -> str:
    return git("show", f"{branch}:{path}", folder=repository) + "\n"


def commits(repository: Path, branch: str = "main") -> int:
    return int(git("rev-list", "--count", branch, folder=repository))


def edit(repository: Path, path: str, old: str, new: str, *, folder: Path) -> None:
    """A commit of Ada's that replaces text in a file."""
    if not folder.exists():
        git("clone", "--quiet", str(repository), str(folder), folder=folder.parent)
    git("pull", "--quiet", folder=folder)
    file = folder / path
    if new:
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))
    else:
        file.unlink()
    git("commit", "--quiet", "--all", "--message=Fix the gateway", folder=folder)
    git("push", "--quiet", folder=folder)


def platform(program: Program, url: str, *, owner: str = "developers", applied: bool = True) -> None:
    """Two environments of one target, applied."""
    program.write("holdfast.yaml", CONFIGURATION.format(url=url, owner=owner))
    program.write("module/main.tf", CODE)
    for name, address in (("dev", "192.0.2.1"), ("prod", "gateway.acme.example")):
        program.write(f"vars/{name}.tfvars", f'address = "{address}"\n')
    if applied:
        program.ok("apply", "--yes", env={"CI": ""})
