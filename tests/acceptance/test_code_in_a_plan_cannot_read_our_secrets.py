"""A malicious author's code runs in a plan and an apply, as root and as an ordinary user.

The key is in the environment of Holdfast and of the shell that started it, or in a key file. The code tries
all that it can to read it. On machines without Landlock the plan says what is not protected.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ordinary_user import NOBODY, python_for_everyone
from program import HERE

from holdfast.system import confine

KEY = base64.b64encode(b"k" * 32).decode()
CONFIG = """
version: 1
environments: {dev: {match: [dev]}}
engine: {use: %s}
stacks:
  - {name: reads, module: reads, environment: dev}
  - {name: steals, module: steals, environment: dev, env: {REPORT: "%s"}}
"""
READS = """
locals {
  # Plain HCL finds the processes above by itself.
  self   = split(" ", regex("\\\\) (.*)", file("/proc/self/stat"))[0])[1]
  second = split(" ", regex("\\\\) (.*)", file("/proc/${local.self}/stat"))[0])[1]
  third  = try(split(" ", regex("\\\\) (.*)", file("/proc/${local.second}/stat"))[0])[1], "1")
  fourth = try(split(" ", regex("\\\\) (.*)", file("/proc/${local.third}/stat"))[0])[1], "1")
}
# A resource for each success: its number cannot be masked.
resource "terraform_data" "walked" {
  count = length([for pid in [local.self, local.second, local.third] : pid if tonumber(pid) > 0])
}
resource "terraform_data" "environment" {
  count = length(compact([
    for pid in [local.self, local.second, local.third, local.fourth, "1"] :
    try(filebase64("/proc/${pid}/environ"), "")
  ]))
}
resource "terraform_data" "file" {
  count = length(compact([for path in %s : try(filebase64(path), "")]))
}
"""
STEALS = """
resource "terraform_data" "thief" {
  provisioner "local-exec" {
    command = "%s"
  }
}
"""


@dataclass(frozen=True, kw_only=True)
class Shell:
    """Holdfast below a shell that has the key in its environment, as a user with a home of their own."""

    folder: Path
    user: int | None
    path: str

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def report(self) -> Path:
        return self.folder / "reports" / "report.json"

    def write(self, file: str, text: str) -> None:
        path = self.repo / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, *arguments: str, code: int = 0, launcher: tuple[str, ...] = (), **variables: str) -> Any:
        python, packages = (sys.executable, "") if self.user is None else python_for_everyone()
        environment = {
            "PATH": self.path,
            "HOME": str(self.folder / "user"),
            "HOLDFAST_HOME": str(self.folder / "home"),
            **({"PYTHONPATH": packages} if packages else {}),
            **variables,
        }
        words = [*launcher, python, "-m", "holdfast", *arguments, "--json"]
        if self.user is not None:
            for place in (self.folder, *self.folder.rglob("*")):
                os.chown(place, self.user, self.user, follow_symlinks=False)
        identity: dict[str, Any] = (
            {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}
        )
        done = subprocess.run(
            # The shell stays: the program is not its last command.
            ["/bin/sh", "-c", '"$@"; exit $?', "sh", *words],
            cwd=self.repo,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            **identity,
        )
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)


@pytest.fixture(params=["root", "user"])
def shell(request: pytest.FixtureRequest, terraform_folder: Path) -> Iterator[Shell]:
    """In a folder that every user may enter."""
    if os.geteuid() != 0 and request.param == "root":
        pytest.skip("needs root")
    with tempfile.TemporaryDirectory(prefix="hf-steal-", dir="/tmp") as name:
        folder = Path(name)
        program = shutil.which("terraform", path=str(terraform_folder)) or ""
        tools = folder / "tools"
        for part in ("repo", "home", "user", "reports", "tools"):
            (folder / part).mkdir()
        (tools / "terraform").symlink_to(os.path.realpath(program))
        user = NOBODY if os.geteuid() == 0 and request.param == "user" else None
        shutil.copy(HERE / "steal.py", folder / "steal.py")
        yield Shell(folder=folder, user=user, path=f"{tools}:/usr/bin:/bin")


needs_landlock = pytest.mark.skipif(not confine.landlock_abi(), reason="this machine has no Landlock")
engines = pytest.mark.parametrize("engine", ["embedded", pytest.param("binary", marks=pytest.mark.binary)])


def steal(shell: Shell, engine: str, *paths: Path) -> None:
    """A stack whose code steals, in plain HCL and in a program that it starts."""
    shell.write("holdfast.yaml", CONFIG % (engine, shell.report))
    shell.write("reads/main.tf", READS % json.dumps([str(path) for path in paths]))
    command = f"/usr/bin/python3 {shell.folder / 'steal.py'} {KEY[:8]} {' '.join(map(str, paths))}"
    shell.write("steals/main.tf", STEALS % command)


def require_nothing_read(plan: Any) -> None:
    """By plain HCL in the plan. An apply would refuse what changes meanwhile, as /proc does."""
    resources = next(stack for stack in plan["stacks"] if stack["name"] == "reads")["resources"]
    assert [resource["address"] for resource in resources] == [
        f"terraform_data.walked[{n}]" for n in range(3)
    ]


def require_nothing_stolen(shell: Shell) -> dict[str, bool]:
    """By the program. Returns the threads of the worker, and whether each is confined."""
    report = json.loads(shell.report.read_text())
    shell.report.unlink()
    assert report["tried"] > 20
    assert not report["environment"]
    assert report["uid"] == (shell.user if shell.user is not None else os.geteuid())
    assert report["succeeded"] == []
    return dict(report["worker"])


@needs_landlock
@engines
def test_the_key_cannot_be_stolen(shell: Shell, engine: str) -> None:
    """Neither from a process above, with the key in its environment, nor from the key file or the store."""
    own_key = shell.folder / "home/key"
    steal(shell, engine, own_key, shell.repo / ".holdfast")
    require_nothing_read(shell.run("plan"))
    assert own_key.is_file()
    document = shell.run("apply", "steals", "--yes")
    threads = require_nothing_stolen(shell)
    assert not any("confined" in note for stack in document["stacks"] for note in stack["notes"])
    assert (shell.repo / ".holdfast").is_dir()
    # The threads of the engine are confined; those that write the journal and the state are not.
    assert any(threads.values())
    assert not all(threads.values())

    # The same with a key file elsewhere, and with the key in the environment of the shell.
    key_file = shell.folder / "user/key.txt"
    key_file.write_text(KEY)
    key_file.chmod(0o600)
    shutil.rmtree(shell.repo / ".holdfast")
    steal(shell, engine, key_file, own_key)
    require_nothing_read(shell.run("plan", HOLDFAST_KEY_FILE=str(key_file)))
    steal(shell, engine, own_key)
    shell.run("apply", "steals", "--yes", HOLDFAST_KEY=KEY)
    require_nothing_stolen(shell)


WORKS = """
set -e
echo x > "$TMPDIR/new"
echo x > "$HOME/.aws/new"
grep -q mark "$HOME/.terraformrc"
/usr/bin/python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$SSH_AUTH_SOCK"
mkdir "$HOME/.aws/a" "$HOME/.aws/b" && echo x > "$HOME/.aws/a/x" && mv "$HOME/.aws/a/x" "$HOME/.aws/b/y"
ln -s x "$HOME/.aws/link" && rm -r "$HOME/.aws/a"
cat /dev/stdin < /dev/null > /dev/null
cat /proc/self/status /proc/meminfo > /dev/null
sleep 60 & kill $!
touch "$REPORT"
"""


@needs_landlock
def test_what_programs_need_works(shell: Shell) -> None:
    """A local state beside the code, where the store is too; files of the user, sockets, modules."""
    for folder in ("user/.aws", "module"):
        (shell.folder / folder).mkdir()
    (shell.folder / "user/.terraformrc").write_text("# mark\n")
    (shell.folder / "module/main.tf").write_text('output "there" {\n  value = "yes"\n}\n')
    (shell.folder / "works.sh").write_text(WORKS)
    shell.write(
        "holdfast.yaml",
        (CONFIG % ("embedded", shell.report)).replace(
            "name: steals, module: steals", "name: works, module: ."
        ),
    )
    shell.write(
        "main.tf",
        'terraform {\n  backend "local" {}\n}\n'
        + STEALS % f"sh {shell.folder / 'works.sh'}"
        + f'module "elsewhere" {{\n  source = "{shell.folder / "module"}"\n}}\n',
    )
    shell.write("reads/main.tf", "")
    agent = str(shell.folder / "user/agent.sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(agent)
        listening.listen()
        shell.run("apply", "works", "--yes", SSH_AUTH_SOCK=agent)
        assert shell.report.exists()
        assert (shell.repo / "terraform.tfstate").is_file()
        shell.write("main.tf", 'terraform {\n  backend "local" {}\n}\n')
        shell.run("apply", "works", "--yes", SSH_AUTH_SOCK=agent)
        assert (shell.repo / "terraform.tfstate.backup").is_file()


def machine_without(*parts: str) -> tuple[str, ...]:
    """Starts a program where the kernel has no Landlock, and none of `parts`."""
    return ("/usr/bin/python3", str(HERE / "no_kernel_help.py"), *parts, "--")


def notes(document: Any) -> list[str]:
    return [note for stack in document["stacks"] for note in stack["notes"] if "not confined" in note]


def test_without_landlock_other_measures_are_taken(shell: Shell) -> None:
    """With fewer capabilities or in a user namespace, processes are out of reach; a key file is not."""
    launcher = machine_without()
    steal(shell, "embedded", shell.folder / "nothing")
    plan = shell.run("plan", launcher=launcher, HOLDFAST_KEY=KEY)
    require_nothing_read(plan)
    assert notes(plan) == []
    shell.run("apply", "steals", "--yes", launcher=launcher, HOLDFAST_KEY=KEY)
    report = json.loads(shell.report.read_text())
    # Only Landlock stops these; they read nothing.
    assert [
        name
        for name in report["succeeded"]
        if not name.startswith(("signal to", "core_pattern", "read /dev"))
    ] == []

    shutil.rmtree(shell.repo / ".holdfast")
    (note,) = set(notes(shell.run("plan", launcher=launcher)))
    assert f"can read {shell.folder / 'home/key'}" in note


def test_what_cannot_be_confined_is_reported_or_refused(shell: Shell) -> None:
    """Never silently: doctor and the plan say so, and `engine.confine: required` runs nothing."""
    if shell.user is None:
        pytest.skip("root can always drop capabilities")
    launcher = machine_without("namespaces")
    steal(shell, "embedded", shell.folder / "home/key")
    (note,) = set(notes(shell.run("plan", launcher=launcher)))
    assert "the environment of process" in note
    seen = shell.run("doctor", launcher=launcher)["confinement"]
    assert (seen["effective"], seen["required"], seen["measures"]) == (False, False, [])
    assert str(shell.folder / "home/key") in seen["leaks"]

    shell.write(
        "holdfast.yaml",
        (CONFIG % ("embedded", shell.report)).replace("engine: {", "engine: {confine: required, "),
    )
    document = shell.run("apply", "--yes", launcher=launcher, code=3)
    assert {stack["error"]["code"] for stack in document["stacks"]} == {"HF-ENG-9"}
    assert not shell.report.exists()
    assert shell.run("doctor", launcher=launcher, code=64)["confinement"]["required"]
    if confine.landlock_abi():
        assert shell.run("doctor")["confinement"]["effective"]
        shell.run("plan")


@needs_landlock
def test_a_program_that_holdfast_starts_is_confined_too(shell: Shell) -> None:
    """A policy tool, and git with a hook that an earlier plan left in the repository's configuration."""
    thief = f"/usr/bin/python3 {shell.folder}/steal.py {KEY[:8]} {shell.folder}/home/key"
    script = f"#!/bin/sh\nPROGRAM=1 REPORT={shell.report} {thief}\n"
    for name in ("opa", "hook"):
        program = shell.folder / "tools" / name
        program.write_text(script)
        program.chmod(0o755)
    steal(shell, "embedded", shell.folder / "home/key")
    shell.write("policy/a.rego", 'package main\nimport rego.v1\ndeny contains "no" if false\n')
    shell.run("plan", "reads", code=3)
    require_nothing_stolen(shell)

    shutil.rmtree(shell.repo / "policy")
    git = [
        "git",
        "-C",
        str(shell.repo),
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.com",
        "-c",
        "safe.directory=*",
    ]
    for words in (
        ["init", "-q"],
        ["add", "-A"],
        ["commit", "-qm", "x"],
        ["config", "core.fsmonitor", str(shell.folder / "tools/hook")],
    ):
        subprocess.run([*git, *words], check=True)
    shell.run("stacks", "--since", "HEAD")
    require_nothing_stolen(shell)
