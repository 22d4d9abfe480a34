"""The code of one device looks for the payload, state and files of another one that runs beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from blueprints_made import make_blueprint
from fleet_made import fleet_of
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
resource "terraform_data" "site" {
  input = { psk = var.psk }
  provisioner "local-exec" {
    command     = "/usr/bin/env python3 ${path.module}/spy.py"
    environment = { HOLD = var.hold }
  }
}
"""
SETTINGS = """
name: site
version: 1.0.0
deletion: allow
environment: dev
env: {env}
"""


@pytest.mark.skipif(not confine.landlock_abi(), reason="this machine has no Landlock")
def test_devices_cannot_read_each_other(
    holdfast: Program, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither in files and processes, nor through the backend of its own state, nor in its environment."""
    shared = tmp_path_factory.mktemp("shared")
    report, go = shared / "report.json", shared / "go"
    env = {
        "REPORT": str(report),
        "MARKER": json.dumps([SECRET[:9], SECRET[9:]]),
        "ROOTS": json.dumps([str(tmp_path), str(holdfast.home)]),
        "STATES": json.dumps(["fleet/default/site/victim", "fleet/other/site/victim"]),
        "SERVER": "http://127.0.0.1:9",
    }
    make_blueprint(
        tmp_path / "blueprints" / "site",
        settings=SETTINGS.format(env=json.dumps(env)),
        code=CODE,
        files={"spy.py": (HERE / "spy.py").read_text()},
    )
    with fleet_of(holdfast, tmp_path, tmp_path / "blueprints", workers=2) as admin:
        client = admin.as_role("operator", "client")
        victim = client.submit("create", "victim", {"psk": SECRET, "hold": str(go)}, wait=0).body
        begun = Path(f"{go}.begun")
        eventually(lambda: begun.exists() or client.ended(victim["id"], 0)["error"], what="it runs")
        assert begun.exists(), json.dumps(client.ended(victim["id"]))
        done = client.submit("create", "spy", {"psk": OWN}, wait=200)
        go.touch()
        assert done.body["status"] == "succeeded", done.body
        assert client.ended(victim["id"])["status"] == "succeeded"
    told = json.loads(report.read_text())
    assert told["looked"] > 50
    assert told["found"] == [], json.dumps(told)
    assert told["ours"] == []
