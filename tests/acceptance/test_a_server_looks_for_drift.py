"""A server looks at the stacks of a registered repository, shows findings, and undoes what a rule covers."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from drift_made import CANARY, change_object, drift_repository, object_file
from program import Program, eventually
from registered_repository import RegisteredRepository, registered_repository

from holdfast.store.server_drift.rows import DriftRows, DriftStack

HEAL = {"environments": ["dev"], "types": ["lab_object"], "attributes": ["body"], "budget": 5}


def shown(repository: RegisteredRepository, stack: str = "a") -> dict[str, Any]:
    stacks = repository.send("GET", f"drift?stack={stack}")["stacks"]
    return dict(stacks[0]) if stacks else {}


def row(repository: RegisteredRepository, stack: str) -> DriftStack | None:
    """Asked for in the database: every request is a line in the log of the server."""
    return DriftRows(repository.runs.database).of("default", stack)


def look(repository: RegisteredRepository, stack: str = "a") -> dict[str, Any]:
    """Ask for a look, and wait for it and all that follows from it."""
    before = row(repository, stack)
    repository.send("POST", "drift/look", {"stack": stack})

    def over() -> bool:
        now = row(repository, stack)
        if before is None or now is None or now.tried is None or now.change is not None:
            return False
        return now.tried != before.tried and (now.due is None or now.due > now.tried + timedelta(days=1))

    eventually(over, what=f"a look at {stack}", seconds=60)
    return shown(repository, stack)


@pytest.mark.long
def test_drift_is_found_acknowledged_and_healed_on_a_server(with_lab: Program, tmp_path: Path) -> None:
    """By workers, with the code of the repository; values are masked, roles decide who sees and acknowledges,
    and healing is an apply with its own run.
    """
    drift_repository(with_lab, ("a", "b"), schedule="0 3 1 1 *", heal=[HEAL])
    with registered_repository(with_lab, tmp_path) as repository:
        eventually(lambda: row(repository, "b") is not None, what="the stacks are known", seconds=60)
        for name in ("a", "b"):
            assert repository.end(repository.run("apply", name))["status"] == "applied"
        assert "-01-01T03:" in shown(repository)["due"]
        assert look(repository)["status"] == "in_sync"

        change_object(with_lab, "a-one", kind="console", secret=f"{CANARY}-changed")
        found = look(repository)
        assert (found["status"], found["unapplied"]) == ("drifted", False)
        states = {finding["attribute"]: finding["state"] for finding in found["findings"]}
        assert states == {"kind": "opened", "secret": "opened"}
        assert CANARY not in json.dumps(found)
        [finding] = [one for one in found["findings"] if one["attribute"] == "kind"]
        given = {"stack": "a", "finding": finding["id"], "reason": "a test"}
        answer = repository.send("POST", "drift/acknowledge", given)
        assert answer["finding"]["state"] == "acknowledged"
        assert [one["name"] for one in repository.send("GET", "drift?status=drifted")["stacks"]] == ["a"]
        assert repository.send("GET", "drift?limit=1")["next"] == "a"

        change_object(with_lab, "b-one", body="bye")
        healed = look(repository, "b")
        assert healed["status"] == "in_sync"
        assert [one["state"] for one in healed["findings"]] == ["healed"]
        assert json.loads(object_file(with_lab, "b-one").read_text())["body"] == "hello"
        runs = repository.send("GET", "runs?stack=b")["runs"]
        assert any("healing drift" in (run["reason"] or "") and run["operation"] == "apply" for run in runs)
