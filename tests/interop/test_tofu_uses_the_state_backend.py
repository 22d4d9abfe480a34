"""Real OpenTofu with the state backend of the server."""

from __future__ import annotations

from pathlib import Path

from other_tools import real
from state_backend_client import new_client, use_state_backend
from state_backend_made import state_backend

from holdfast.database.database import Database


def test_a_day_of_opentofu(database: Database, tmp_path: Path) -> None:
    with state_backend(database) as backend:
        use_state_backend(new_client(real("tofu"), tmp_path / "client", backend), backend)
        assert backend.faults == []
