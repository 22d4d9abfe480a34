"""The code of one device looks for the payload, state and files of another one that runs beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
  input            = { psk = var.psk }
  triggers_replace = var.psk
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
guard: {{ deletions: {{ per_stack: 100 }} }}
env: {env}
"""


@pytest.mark.skipif(not confine.landlock_abi(), reason="this machine has no Landlock")
def test_devices_cannot_read_each_other(
    holdfast: Program, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Neither in processes, nor through the backend of its own state, nor in its environment; nor in files,
    once the other one has ended.
    """
    shared = tmp_path_factory.mktemp("shared")
    report, go = shared / "report.json", shared / "go"
    env = {
        "REPORT": str(report),
        "MARKER": json.dumps([SECRET[:9], SECRET[9:]]),
        "ROOTS": json.dumps([str(tmp_path), str(holdfast.home)]),
        "STATES": json.dumps(["fleet/default/site/victim", "fleet/other/site/victim"]),
    }
    make_blueprint(
        tmp_path / "blueprints" / "site",
        settings=SETTINGS.format(env=json.dumps(env)),
        code=CODE,
        files={"spy.py": (HERE / "spy.py").read_text()},
    )
    with fleet_of(holdfast, tmp_path, tmp_path / "blueprints", workers=2) as admin:
        client = admin.as_role("operator", "client")

        def spied(action: str, payload: dict[str, str]) -> Any:
            done = client.submit(action, "spy", payload, wait=200)
            assert done.body["status"] == "succeeded", done.body
            return json.loads(report.read_text())

        victim = client.submit("create", "victim", {"psk": SECRET, "hold": str(go)}, wait=0).body
        begun = Path(f"{go}.begun")
        eventually(lambda: begun.exists() or client.ended(victim["id"], 0)["error"], what="it runs")
        assert begun.exists(), json.dumps(client.ended(victim["id"]))
        beside = spied("create", {"psk": OWN})
        go.touch()
        assert client.ended(victim["id"])["status"] == "succeeded"
        afterwards = spied("update", {"psk": f"{OWN}!"})
    # Processes of one worker share what they may read: the files of a run in progress are not separated.
    work = f"{holdfast.home}/work/"
    assert all(name.startswith(work) and "%2Fvictim/" in name for name in beside["found"]), beside
    assert afterwards["found"] == [], afterwards
    for told in (beside, afterwards):
        assert told["looked"] > 50
        assert told["ours"] == []
        assert told["answers"], "its state backend was not asked"
        assert 0 not in told["answers"], told["answers"]
