"""Real Terraform with the state backend of the server."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_made import MadePostgres
from state_backend_client import STATE, new_client, use_state_backend
from state_backend_made import StateBackend, state, state_backend

from holdfast.database.database import Database


@pytest.fixture
def backend(postgres: MadePostgres) -> Iterator[StateBackend]:
    with (
        postgres.new_database() as address,
        Database.open(address, size=20) as database,
        state_backend(database) as made,
    ):
        yield made
        assert made.faults == []


def test_a_day_of_terraform(terraform_folder: Path, backend: StateBackend, tmp_path: Path) -> None:
    use_state_backend(new_client(terraform_folder / "terraform", tmp_path / "client", backend), backend)


def test_two_clients_on_one_state(terraform_folder: Path, backend: StateBackend, tmp_path: Path) -> None:
    """Both wait for each other, and none loses a write."""
    clients = [new_client(terraform_folder / "terraform", tmp_path / name, backend) for name in "ab"]
    for client in clients:
        client.run("init", "-input=false")
    running = [
        client.start("apply", "-auto-approve", "-lock-timeout=120s", f"-var=value={number}")
        for number, client in enumerate(clients)
    ]
    for process in running:
        text, _ = process.communicate(timeout=120)
        assert process.returncode == 0, text
    row, _ = backend.rows.look(STATE)
    assert row is not None
    assert row.lock is None
    assert row.current is not None
    assert (row.current.number, row.fence) == (2, 2)


@pytest.mark.long
def test_a_state_of_a_hundred_megabytes(
    terraform_folder: Path, backend: StateBackend, tmp_path: Path
) -> None:
    client = new_client(terraform_folder / "terraform", tmp_path / "client", backend)
    client.run("init", "-input=false")
    values = {f"r{number}": f"{number:x}" * 2500 for number in range(10_000)}
    values |= {"large": os.urandom(30 << 20).hex()}
    (client.folder / "large.tfstate").write_bytes(state(1, values=values))
    client.run("state", "push", "large.tfstate")
    stored = backend.rows.read(STATE)
    assert stored is not None
    assert len(stored.content) > 100_000_000
    assert json.loads(stored.content)["resources"] == json.loads(client.run("state", "pull"))["resources"]
