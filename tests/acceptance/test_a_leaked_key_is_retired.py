"""A key is replaced: everything has the new one, however often it was killed, and the old one is refused."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest
from plan_job import PlanJob
from program import Program
from small import stacks

OLD = base64.b64encode(b"o" * 32).decode()
NEW = base64.b64encode(b"n" * 32).decode()
MANY = 1500


def crowd(holdfast: Program, env: dict[str, str | None]) -> None:
    """So many plans that a rotation takes a while."""
    job = PlanJob(holdfast.folder / ".holdfast", holdfast.ok("keys", "plan", env=env).out)
    document = json.dumps({"version": 1, "operation": "plan", "status": "planned", "stack": "a"}).encode()
    for number in range(MANY):
        job.encrypted.write(f"runs/01A{number:023d}/outcome", document, durable=False)


@pytest.mark.long
def test_a_rotation_that_was_killed_is_finished_by_the_next(holdfast: Program, tmp_path: Path) -> None:
    """Until then every command is refused; afterwards states, runs and the audit log have the new key."""
    stacks(holdfast, "a")
    old: dict[str, str | None] = {"HOLDFAST_KEY": OLD, "HOLDFAST_NEW_KEY": None}
    both: dict[str, str | None] = {"HOLDFAST_KEY": OLD, "HOLDFAST_NEW_KEY": NEW}
    new: dict[str, str | None] = {"HOLDFAST_KEY": NEW, "HOLDFAST_NEW_KEY": None}
    holdfast.ok("apply", "--yes", env=old)
    holdfast.write("vars/a.tfvars", 'x = "2"\n')
    bundle = tmp_path / "bundle"
    holdfast.ok("plan", "--out", str(bundle), env=old)
    crowd(holdfast, old)
    assert "HF-KEY-15" in holdfast.ok("keys", "rotate", env=old, code=64).text
    before = holdfast.json("keys", "status", env=old)
    assert before["key"]["kind"] == "apply"
    assert before["blobs"]["other_key"] == 0

    process = holdfast.start("keys", "rotate", env=both)
    identity = holdfast.folder / ".holdfast/store.json"
    while "replacing" not in identity.read_text():
        assert process.poll() is None, process.communicate()
        time.sleep(0.001)
    process.kill()
    process.communicate()
    halfway = holdfast.json("keys", "status", env=old)
    assert halfway["store"]["next_key"] is not None
    for env in (old, new):
        assert "HF-KEY-13" in holdfast.ok("plan", env=env, code=4).text
    done = holdfast.json("keys", "rotate", env=both)
    assert (done["resumed"], done["unreadable"]) == (True, [])
    assert holdfast.json("keys", "status", env=new)["blobs"]["other_key"] == 0

    for arguments in (("plan",), ("apply", "--yes"), ("runs", "list")):
        assert "HF-KEY-14" in holdfast.ok(*arguments, env=old, code=64).text
    assert holdfast.json("keys", "rotate", env=both)["replaced"] == 0
    assert "HF-BUND-10" in holdfast.ok("apply", "--plan", str(bundle), env=new, code=3).text
    assert holdfast.results("apply", "--yes", env=new)["a"]["status"] == "applied"
    assert len(holdfast.json("state", "versions", "a", env=new)["versions"]) > 1
    holdfast.ok("audit", "verify", env=new)
    whats = [entry["what"] for entry in holdfast.json("audit", "show", env=new)["entries"]]
    assert whats.count("rotate") >= 2


def test_a_key_that_holdfast_created_is_replaced_in_its_home(holdfast: Program) -> None:
    """The old file stays beside the new one, for other repositories of this machine."""
    stacks(holdfast, "a")
    holdfast.ok("apply", "--yes")
    key = holdfast.home / "key"
    before = key.read_text()
    done = holdfast.json("keys", "rotate")
    assert key.read_text() != before
    assert key.stat().st_mode & 0o777 == 0o600
    kept = Path(done["old_file"])
    assert kept.read_text() == before
    assert holdfast.results("plan")["a"]["status"] == "unchanged"
    assert "HF-KEY-14" in holdfast.ok("plan", env={"HOLDFAST_KEY_FILE": str(kept)}, code=64).text
