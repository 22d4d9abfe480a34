"""The code of one device looks for the payload, state and files of another one that runs beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from blueprints_made import make_blueprint
from fleet_made import EventClient, fleet_of
from program import HERE, Program, eventually

from holdfast.system import confine

SECRET = "victims-psk-" + "0815" * 4
OWN = "spys-own-psk-" + "4711" * 4
CODE = """
variable "psk" {
  type      = string
  sensitive = true
}
variable "hold" {
  type    = string
  default = ""
}
variable "stay" {
  type    = string
  default = ""
}
variable "peek" {
  type    = list(string)
  default = []
}
resource "terraform_data" "site" {
  input            = { psk = var.psk }
  triggers_replace = var.psk
  provisioner "local-exec" {
    command     = "/usr/bin/env python3 ${path.module}/spy.py"
    environment = { HOLD = var.hold, STAY = var.stay }
  }
}
output "seen" {
  value = length(compact([for path in var.peek : try(filebase64(path), "")]))
}
"""
WITH_PROVIDER = """
terraform {
  required_providers {
    lab = { source = "holdfast.dev/labs/lab", version = "1.0.0" }
  }
}
# Its provider runs as long as the program does.
resource "lab_object" "first" {
  name   = "first"
  secret = var.psk
}
resource "lab_object" "last" {
  name = "last"
  body = terraform_data.site.id
}
"""
SETTINGS = """
name: {name}
version: 1.0.0
outputs: [seen]
deletion: allow
environment: dev
guard: {{ deletions: {{ per_stack: 100 }} }}
warm_providers: {warm}
env: {env}
"""


@pytest.mark.skipif(not confine.landlock_abi(), reason="this machine has no Landlock")
@pytest.mark.parametrize(
    ("warm", "spies"),
    [
        ("false", "spy"),
        pytest.param("false", "site", marks=pytest.mark.long),
        pytest.param("true", "site", marks=pytest.mark.long),
    ],
)
def test_devices_cannot_read_each_other(
    holdfast: Program,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    lab: Path,
    warm: str,
    spies: str,
) -> None:
    """Neither while both run nor afterwards, of the same tenant or another one: no file, plan, state,
    credential or output, no process, no socket of a provider, and nothing through its own state backend.
    """
    shared = tmp_path_factory.mktemp("shared")
    report, go = shared / "report.json", shared / "go"
    env = {
        "REPORT": str(report),
        "MARKER": json.dumps([SECRET[:9], SECRET[9:]]),
        "ROOTS": json.dumps([str(tmp_path), str(holdfast.home), "/dev/shm"]),
        "STATES": json.dumps(["fleet/default/site/victim", "fleet/other/site/victim"]),
        "LAB_DIRECTORY": str(objects := shared / "objects"),
    }
    objects.mkdir()
    holdfast.environment["TF_CLI_CONFIG_FILE"] = str(lab)
    for name, code in (("site", CODE + WITH_PROVIDER), ("spy", CODE)):
        make_blueprint(
            tmp_path / "blueprints" / name,
            settings=SETTINGS.format(name=name, env=json.dumps(env), warm=warm),
            code=code,
            files={"spy.py": (HERE / "spy.py").read_text()},
        )
    with fleet_of(holdfast, tmp_path, tmp_path / "blueprints", workers=1) as admin:
        client, other = (admin.as_role("operator", name, name) for name in ("default", "other"))

        def spied(who: EventClient, device: str, action: str, **payload: object) -> Any:
            report.unlink(missing_ok=True)
            done = who.submit(action, device, payload, blueprint=spies, wait=200)
            assert done.body["status"] == "succeeded", done.body
            assert done.body["outputs"]["seen"] == 0, payload
            return json.loads(report.read_text())

        # What a device leaves running does not see the next one.
        stays = shared / "stays"
        ghost = client.submit("create", "ghost", {"psk": OWN, "stay": str(stays)}, blueprint=spies, wait=200)
        assert ghost.body["status"] == "succeeded", ghost.body
        assert not _is_alive(int(stays.read_text()))

        victim = client.submit("create", "victim", {"psk": SECRET, "hold": str(go)}, wait=0).body
        begun = Path(f"{go}.begun")
        eventually(lambda: begun.exists() or client.ended(victim["id"], 0)["error"], what="it runs")
        assert begun.exists(), json.dumps(client.ended(victim["id"]))
        held = _files_with(SECRET, holdfast.home, *Path("/tmp").glob("hf-*"), Path("/dev/shm"))
        assert held, "its payload is in no file"
        beside = [spied(who, "near", "create", psk=OWN, peek=held) for who in (client, other)]
        go.touch()
        assert client.ended(victim["id"])["status"] == "succeeded"
        afterwards = [spied(who, "near", "update", psk=f"{OWN}!", peek=held) for who in (client, other)]
    for told in (*beside, *afterwards):
        assert told["looked"] > 50
        assert (told["found"], told["providers"], told["memory"], told["ours"]) == ([], [], [], [])
        assert told["answers"], "its state backend was not asked"
        assert 0 not in told["answers"], told["answers"]


def _files_with(text: str, *roots: Path) -> list[str]:
    """As the user of the server sees them."""
    found = []
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes():
                    found.append(str(path))
    return found


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
