"""`holdfast state import` and `export`: from a stack to a server, to a folder, to another server."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path

import pytest
from program import Program
from served import serving
from state_backend_made import state as state_of

KEY = base64.b64encode(bytes(range(32))).decode()
CANARY = "canary-9431-in-a-state"
CONFIG = """
    version: 1
    stacks:
      - name: dev/net
        module: net
      - name: dev/old
        module: old
    """
CODE = f"""
    variable "size" {{ default = 1 }}
    resource "terraform_data" "a" {{ input = {{ note = "{CANARY}", size = var.size }} }}
    """


@pytest.mark.long
def test_an_export_brings_states_to_another_server(holdfast: Program, tmp_path: Path) -> None:
    """Every version arrives with its serial and digest; nothing is overwritten; no plain text by default."""
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write("net/main.tf", CODE)
    holdfast.write("old/main.tf", 'terraform {\n  backend "local" { path = "old.state" }\n}\n')
    (holdfast.folder / "old/old.state").write_bytes(state_of(7))
    holdfast.ok("apply", "dev/net", "--yes", env={"HOLDFAST_KEY": KEY})
    holdfast.ok("apply", "dev/net", "--yes", "-var", "size=2", env={"HOLDFAST_KEY": KEY})
    state, out, data = ("--state", "net/dev"), str(tmp_path / "out"), tmp_path / "data"
    with serving(holdfast, data) as server:
        env = {**server, "HOLDFAST_KEY": KEY}
        imported = holdfast.ok("state", "import", "--stack", "dev/net", *state, env=env).out
        assert "net/dev: imported and verified" in imported
        assert "has it already" in holdfast.ok("state", "import", "--stack", "dev/net", *state, env=env).out
        versions = holdfast.json("state", "versions", *state, env=env)["versions"]
        assert len(versions) >= 2
        assert {row["why"] for row in versions} == {"import"}
        old = holdfast.ok("state", "import", "--stack", "dev/old", "--state", "old", env=env).out
        assert "old: imported and verified 1 version; now serial 7" in old
        content = holdfast.ok("state", "pull", *state, env=env).out
        assert CANARY in content
        foreign = tmp_path / "foreign.tfstate"
        foreign.write_text(json.dumps(json.loads(content) | {"lineage": "another", "serial": 99}))
        assert "HF-STATE-44" in holdfast.ok("state", "import", str(foreign), *state, env=env, code=3).err

        assert "encrypted with key" in holdfast.ok("state", "export", out, env=env).out
        assert "HF-STATE-61" in holdfast.ok("state", "export", out, env=env, code=64).err
        plain = ("state", "export", str(tmp_path / "plain"), "--plaintext")
        assert "HF-USE-5" in holdfast.ok(*plain, env=env, code=64).err
        holdfast.ok(*plain, "--yes", "--current", *state, env=env)
    shutil.rmtree(data)  # The server is lost.

    written = [path for path in tmp_path.joinpath("out").rglob("*") if path.is_file()]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in written)
    assert not any(CANARY.encode() in path.read_bytes() for path in written)
    (readable,) = tmp_path.joinpath("plain").rglob("*.tfstate")
    assert (readable.read_text(), readable.stat().st_mode & 0o777) == (content, 0o600)
    pulled = holdfast.ok("state", "pull", "--from", out, *state, env={"HOLDFAST_KEY": KEY})
    assert pulled.out == content

    with serving(holdfast, tmp_path / "data-2") as server:
        env = {**server, "HOLDFAST_KEY": KEY}
        holdfast.ok("state", "import", out, env=env)
        again = holdfast.json("state", "versions", *state, env=env)["versions"]
        kept = ("serial", "lineage", "digest", "resources", "current")
        assert [[row[name] for name in kept] for row in again] == [
            [row[name] for name in kept] for row in versions
        ]
        damaged = next(path for path in written if path.suffix == ".encrypted")
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
        assert "HF-STATE-62" in holdfast.ok("state", "import", out, env=env, code=64).err
