"""`holdfast keys rotate --data DIR`: everything that a server stores gets the new key."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Program, eventually
from served import serving
from server_runs_made import server_runs
from state_backend_made import state


@pytest.mark.long
def test_the_key_of_a_server_is_replaced(holdfast: Program, tmp_path: Path) -> None:
    """States are readable before, meanwhile and after; the old key can then be removed.

    A worker that was started before goes on with the new key.
    """
    data, file = tmp_path / "data", tmp_path / "net.tfstate"
    server, net = ("--data", str(data)), ("--state", "net")
    file.write_bytes(state(1))
    holdfast.write("holdfast.yaml", "version: 1\nstacks:\n  - {name: app, module: app}\n")
    holdfast.write("app/main.tf", 'resource "terraform_data" "x" {}\n')
    with serving(holdfast, data) as env:
        process = holdfast.start("worker", "--data", str(data))
        assert process.stdout is not None
        assert "is ready" in process.stdout.readline()
        holdfast.ok("state", "push", *net, str(file), env=env)
        holdfast.ok("token", "create", "--role", "viewer", env=env)  # Recorded in the audit log.
        before = holdfast.json("keys", "status", *server)
        assert before["states"] == {"total": 1, "other_key": 0}
        assert before["blobs"]["total"] > 0

        # Beside the running server, which goes on with the key that it has.
        rotated = holdfast.json("keys", "rotate", *server)
        assert (rotated["old"], rotated["states_left"]) == (before["key"]["id"], 1)
        assert rotated["blobs_left"] == before["blobs"]["total"]
        assert holdfast.json("keys", "rotate", *server)["new"] == rotated["new"]
        assert holdfast.ok("state", "pull", *net, env=env).out == file.read_text()
        holdfast.ok("token", "create", "--role", "viewer", env=env)
    with serving(holdfast, data) as env:
        assert holdfast.ok("state", "pull", *net, env=env).out == file.read_text()

        def renewed() -> bool:
            status = holdfast.json("keys", "status", *server)
            return bool(status["states"]["other_key"] == status["blobs"]["other_key"] == 0)

        eventually(renewed, what="everything has the new key")
        with server_runs(holdfast, data) as runs:
            change = runs.wait(runs.submit("plan", "app"))
            assert [run.status for run in change.runs] == ["planned"], change.error
        process.kill()
        process.communicate()
        after = holdfast.ok("keys", "status", *server).out
    assert f"apply key {rotated['new']}" in after
    assert "Nothing needs the older keys any more" in after
    Path(rotated["old_file"]).unlink()
    with serving(holdfast, data) as env:
        assert holdfast.ok("state", "pull", *net, env=env).out == file.read_text()
