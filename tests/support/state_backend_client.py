"""A program in a folder of its own, with the state `net` on the state backend, and a day in its life."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from program import eventually
from state_backend_made import ME, StateBackend

from holdfast.store.server_states.changes import StateKey
from holdfast.store.server_states.versions import StateVersions

STATE = StateKey("default", "net")
_CODE = """
terraform {
  backend "http" {}
}
variable "value" { default = "first" }
resource "terraform_data" "a" { input = var.value }
output "value" { value = terraform_data.a.output }
"""


class Client(NamedTuple):
    """A program in a folder of its own, with the state `net`."""

    program: Path
    folder: Path
    environment: dict[str, str]

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.program), *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: str, fails: bool = False) -> str:
        process = self.start(*words)
        text, _ = process.communicate(timeout=300)
        assert (process.returncode != 0) == fails, text
        return text


def new_client(program: Path, folder: Path, backend: StateBackend) -> Client:
    folder.mkdir()
    (folder / "main.tf").write_text(_CODE)
    address = backend.address("net")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "CHECKPOINT_DISABLE": "1",
        "TF_IN_AUTOMATION": "1",
        "TF_CLI_ARGS": "-no-color",
        "TF_HTTP_ADDRESS": address,
        "TF_HTTP_LOCK_ADDRESS": address,
        "TF_HTTP_UNLOCK_ADDRESS": address,
        "TF_HTTP_USERNAME": "anyone",
        "TF_HTTP_PASSWORD": ME,
    }
    return Client(program, folder, environment)


def use_state_backend(client: Client, backend: StateBackend) -> None:
    """init, plan, apply, a lock conflict with and without waiting, mv, pull, push, force-unlock, destroy."""
    client.run("init", "-input=false")
    client.run("plan", "-input=false", "-out=plan")
    assert backend.send("GET", "net").status == 404
    client.run("apply", "-input=false", "plan")
    assert _value(client) == "first"

    # Another client holds the lock: refused at once, or after waiting for it.
    backend.lock("net", "another", token="other")
    assert "another" in client.run("apply", "-auto-approve", "-var=value=second", fails=True)
    waiting = client.start("apply", "-auto-approve", "-lock-timeout=60s", "-var=value=second")
    eventually(lambda: len(backend.rows.look(STATE)[1]) >= 2, what="a client that waits")
    backend.unlock("net", "another", token="other")
    assert waiting.communicate(timeout=60)[0].count("Apply complete") == 1
    assert _value(client) == "second"

    client.run("state", "mv", "terraform_data.a", "terraform_data.b")
    pulled = json.loads(client.run("state", "pull"))
    assert [resource["name"] for resource in pulled["resources"]] == ["b"]
    client.run("state", "mv", "terraform_data.b", "terraform_data.a")

    # Serials only increase, whatever -force says; a greater one is accepted.
    (client.folder / "old.tfstate").write_bytes(json.dumps(pulled).encode())
    client.run("state", "push", "-force", "old.tfstate", fails=True)
    pulled["serial"] += 5
    (client.folder / "new.tfstate").write_bytes(json.dumps(pulled).encode())
    client.run("state", "push", "new.tfstate")
    assert json.loads(client.run("state", "pull"))["serial"] >= pulled["serial"]

    # Terraform names no lock in its request, so the role decides; OpenTofu names it.
    backend.lock("net", "left-behind", token="other")
    admin = client._replace(environment=client.environment | {"TF_HTTP_PASSWORD": "admin"})
    admin.run("force-unlock", "-force", "left-behind")
    client.run("destroy", "-auto-approve", "-var=value=second")
    versions = StateVersions(backend.rows)
    state_id = versions.states("default")[0].id
    serials = [version.serial for version in versions.list("default", state_id)]
    assert serials == sorted(set(serials), reverse=True)
    assert {version.who for version in versions.list("default", state_id)} == {ME}


def _value(client: Client) -> Any:
    return json.loads(client.run("output", "-json"))["value"]["value"]
