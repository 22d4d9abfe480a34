"""Real Terraform and real OpenTofu with the state backend of the server."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from other_tools import real
from postgres_made import MadePostgres
from state_backend_made import ME, StateBackend, state, state_backend

from holdfast.database.database import Database
from holdfast.store.state_rows import StateKey
from holdfast.store.state_versions import StateVersions

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


@pytest.fixture
def backend(postgres: MadePostgres) -> Iterator[StateBackend]:
    with (
        postgres.new_database() as address,
        Database.open(address, size=20) as database,
        state_backend(database) as made,
    ):
        yield made
        assert made.faults == []


@pytest.fixture(params=["terraform", "tofu"])
def client(
    request: pytest.FixtureRequest, backend: StateBackend, terraform_folder: Path, tmp_path: Path
) -> Client:
    program = terraform_folder / "terraform" if request.param == "terraform" else real("tofu")
    return _client(program, tmp_path / "client", backend)


def test_init_plan_apply_conflict_force_unlock_push_pull_and_mv(
    client: Client, backend: StateBackend
) -> None:
    client.run("init", "-input=false")
    client.run("plan", "-input=false", "-out=plan")
    assert backend.send("GET", "net").status == 404
    client.run("apply", "-input=false", "plan")
    assert _value(client) == "first"

    # Another client holds the lock: refused at once, or after waiting for it.
    backend.lock("net", "another", token="other")
    assert "another" in client.run("apply", "-auto-approve", "-var=value=second", fails=True)
    waiting = client.start("apply", "-auto-approve", "-lock-timeout=60s", "-var=value=second")
    _wait_until(lambda: len(backend.rows.look(_KEY)[1]) >= 2)
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


def test_two_clients_on_one_state(terraform_folder: Path, backend: StateBackend, tmp_path: Path) -> None:
    """Both wait for each other, and none loses a write."""
    clients = [_client(terraform_folder / "terraform", tmp_path / name, backend) for name in "ab"]
    for client in clients:
        client.run("init", "-input=false")
    running = [
        client.start("apply", "-auto-approve", "-lock-timeout=120s", f"-var=value={number}")
        for number, client in enumerate(clients)
    ]
    for process in running:
        text, _ = process.communicate(timeout=120)
        assert process.returncode == 0, text
    row, _ = backend.rows.look(_KEY)
    assert row is not None
    assert row.lock is None
    assert row.current is not None
    assert (row.current.number, row.fence) == (2, 2)


@pytest.mark.long
def test_a_state_of_a_hundred_megabytes(
    terraform_folder: Path, backend: StateBackend, tmp_path: Path
) -> None:
    client = _client(terraform_folder / "terraform", tmp_path / "client", backend)
    client.run("init", "-input=false")
    values = {f"r{number}": f"{number:x}" * 2500 for number in range(10_000)}
    values |= {"large": os.urandom(30 << 20).hex()}
    (client.folder / "large.tfstate").write_bytes(state(1, values=values))
    client.run("state", "push", "large.tfstate")
    stored = backend.rows.read(_KEY)
    assert stored is not None
    assert len(stored.content) > 100_000_000
    assert json.loads(stored.content)["resources"] == json.loads(client.run("state", "pull"))["resources"]


_KEY = StateKey("default", "net")


def _client(program: Path, folder: Path, backend: StateBackend) -> Client:
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


def _value(client: Client) -> Any:
    return json.loads(client.run("output", "-json"))["value"]["value"]


def _wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
