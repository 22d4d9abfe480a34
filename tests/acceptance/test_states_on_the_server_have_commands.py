"""`holdfast state … --state NAME`: the same commands for a state on the server, with the same output."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from program import Program
from server_made import MadeServer, made_server
from state_backend_made import lock_info, state

from holdfast.database.database import Database
from holdfast.identity.roles import Role

NET = ("--state", "network/prod")
PASSWORD = "s3cr3t-Value-9431"


@pytest.fixture
def server(database: Database, holdfast: Program) -> Iterator[MadeServer]:
    with made_server(database) as server:
        holdfast.environment |= {"HOLDFAST_URL": server.url, "HOLDFAST_TOKEN": server.admin}
        yield server


def _file(folder: Path, serial: int, *, secret: bool = False, **values: object) -> str:
    document = json.loads(state(serial, values=values))
    if secret:
        document["resources"].append(
            {
                "mode": "managed",
                "type": "random_password",
                "name": "db",
                "provider": 'provider["registry.terraform.io/hashicorp/random"]',
                "instances": [{"schema_version": 0, "attributes": {"result": PASSWORD, "length": 17}}],
            }
        )
    file = folder / f"{serial}.tfstate"
    file.write_text(json.dumps(document))
    return str(file)


def test_versions_are_pushed_compared_restored_pinned_and_purged(
    holdfast: Program, server: MadeServer, tmp_path: Path
) -> None:
    """None of it shows a secret; what removes resources or content asks first."""
    first, second = _file(tmp_path, 1, a=1), _file(tmp_path, 2, secret=True, a=2, b=1)
    assert "pushed 1 resource as serial 1" in holdfast.ok("state", "push", *NET, first).out
    shown = [holdfast.ok("state", "push", *NET, second).out]
    assert "+ terraform_data.b" in shown[0]
    third = _file(tmp_path, 3, b=1)
    assert "HF-USE-5" in holdfast.ok("state", "push", *NET, third, code=64).err
    pushed = holdfast.json("state", "push", *NET, third, "--yes")
    assert (pushed["stack"], pushed["state"], pushed["serial"]) == (None, "network/prod", 3)
    assert pushed["removed"] == ["random_password.db", "terraform_data.a"]
    assert "HF-STATE-44" in holdfast.ok("state", "push", *NET, first, "--yes", code=3).err

    assert holdfast.ok("state", "pull", *NET, "2").out == Path(second).read_text()
    shown += [holdfast.ok("state", command, *NET, *rest).out for command, *rest in (
        ("show", "serial:2"), ("diff", "1", "2"), ("list",),
    )]  # fmt: skip
    assert "random_password.db" in shown[1]
    assert "- terraform_data.a" in holdfast.ok("state", "diff", *NET).out
    assert shown[3] == "terraform_data.b\n"
    assert "network/prod  version 3  serial 3" in holdfast.ok("state", "list").out

    assert "HF-USE-16" in holdfast.ok("state", "rollback", *NET, "1", "--yes", code=64).err
    restored = holdfast.json("state", "rollback", *NET, "1", "--yes", "--reason", "a mistake")
    assert (restored["to"], restored["serial"], restored["previous_serial"]) == ("1", 4, 3)
    holdfast.ok("state", "pin", *NET, "1", "--reason", "before the move")
    assert "HF-STATE-52" in holdfast.ok("state", "purge", *NET, "4", "--reason", "x", "--yes", code=3).err

    shown.append(holdfast.ok("state", "scan", *NET).out)
    assert "found no secrets in its state" in shown[-1]
    assert " 2  " in shown[-1]
    assert "1 attribute" in shown[-1]
    holdfast.ok("state", "purge", *NET, "2", "--reason", "a leak", "--yes")
    listed = holdfast.json("state", "versions", *NET)
    assert (listed["managed"], listed["current"]["serial"]) == (True, 4)
    versions: list[dict[str, Any]] = listed["versions"]
    assert [(row["name"], row["why"], row["pinned"], row["purged"]) for row in versions] == [
        ("4", "rollback to 1: a mistake", None, None),
        ("3", "push", None, None),
        ("2", "push", None, "root: a leak"),
        ("1", "push", "before the move", None),
    ]
    assert "HF-STATE-51" in holdfast.ok("state", "pull", *NET, "2", code=64).err
    assert PASSWORD not in "".join(shown)
    entries = server.send("GET", "/api/v1/audit").document["entries"]
    acts = [entry["what"] for entry in reversed(entries) if entry["what"] != "pull"]
    assert acts == ["push", "push", "push", "rollback", "pin", "purge"]


def test_locks_are_shown_and_released_and_permissions_count(
    holdfast: Program, server: MadeServer, tmp_path: Path
) -> None:
    file = _file(tmp_path, 1, a=1)
    assert "No state on" in holdfast.ok("state", "locks").out
    assert server.send("LOCK", "/state/network/prod", body=lock_info("one")).status == 200
    assert "locked by root (Terraform) since" in holdfast.ok("state", "locks").out
    busy = holdfast.ok("state", "push", *NET, file, code=4).err
    assert "network/prod is locked by someone@somewhere" in busy
    assert "holdfast state locks --state network/prod" in busy
    (lock,) = holdfast.json("state", "locks", *NET)["locks"]
    assert (lock["id"], lock["state"], len(lock["waiting"])) == ("one", "network/prod", 1)
    assert "HF-STATE-47" in holdfast.ok("state", "unlock", *NET, "two", "--reason", "x", code=3).err
    assert "unlocked (one" in holdfast.ok("state", "unlock", *NET, "--reason", "it was killed").out

    body = Path(file).read_bytes()
    unlocked = server.send("POST", "/state/other", body=body, headers=_md5(body))
    assert "holdfast state set other --unlocked-writes" in unlocked.problem["hint"]
    holdfast.ok("state", "set", "other", "--unlocked-writes")
    assert server.send("POST", "/state/other", body=body, headers=_md5(body)).status == 200

    viewer = {"HOLDFAST_TOKEN": server.token(Role.VIEWER)}
    assert "terraform" in holdfast.ok("state", "versions", "--state", "other", env=viewer).out
    for command in (("pull",), ("rollback", "1", "--reason", "x"), ("push", file)):
        holdfast.ok("state", *command, "--state", "other", env=viewer, code=3)
    limited = {"HOLDFAST_TOKEN": server.token(Role.VIEWER, states=("dev/*",))}
    assert "none that your token covers (dev/*)" in holdfast.ok("state", "list", env=limited).out
    entries = server.send("GET", "/api/v1/audit").document["entries"]
    assert [(entry["what"], entry["stack"], entry["break_glass"], entry["reason"]) for entry in entries] == [
        ("unlocked-writes", "other", False, None),
        ("unlock", "network/prod", True, "it was killed"),
    ]
    assert "HF-SRV-7" in holdfast.ok("state", "locks", env={"HOLDFAST_URL": None}, code=64).err


def _md5(body: bytes) -> dict[str, str]:
    return {"content-md5": base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()}
