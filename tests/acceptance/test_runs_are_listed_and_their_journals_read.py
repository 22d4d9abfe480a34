from __future__ import annotations

import json
from typing import Any

import pytest
from documents import RUNS, require
from program import ME, Program, eventually
from small import stacks

SECRET = "correct-horse-9-battery"
CODE = """
    resource "terraform_data" "it" {{
      input = sensitive("{secret}")
      provisioner "local-exec" {{
        command = "{command}"
      }}
    }}
"""


def error(holdfast: Program, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = holdfast.json(*arguments, code=64)["errors"][0]
    return found


def test_runs_are_listed_newest_first_with_how_they_ended(holdfast: Program) -> None:
    """Of every stack or of one, as many as are wanted; that there are none is no mistake."""
    stacks(holdfast, "a", "b")
    assert holdfast.json("runs", "list") == {"version": 1, "runs": []}
    holdfast.ok("apply", "--yes")
    holdfast.write("vars/b.tfvars", 'x = "again"\n')
    holdfast.ok("apply", "b", "--yes")
    document = holdfast.json("runs", "list")
    require(document, RUNS)
    found = document["runs"]
    assert [one["id"] for one in found] == sorted((one["id"] for one in found), reverse=True)
    applies = [one for one in found if one["operation"] == "apply"]
    assert applies[0]["stack"] == "b"
    assert sorted(one["stack"] for one in applies) == ["a", "b", "b"]
    assert {one["status"] for one in applies} == {"applied"}
    assert all(one["started"] <= one["ended"] and one["who"].startswith(f"{ME}@") for one in applies)
    of_b = holdfast.json("runs", "list", "--stack", "b")["runs"]
    assert of_b == [one for one in found if one["stack"] == "b"]
    assert holdfast.json("runs", "list", "--limit", "1")["runs"] == found[:1]
    assert found[0]["id"] in holdfast.ok("runs", "list").out
    for limit in ("0", "many"):
        assert error(holdfast, "runs", "list", "--limit", limit)["code"] == "HF-USE-20"


def test_a_run_tells_what_it_did_and_its_journal_what_terraform_said(holdfast: Program) -> None:
    """A failure too; by the beginning of its id; and what is secret stands in none of it."""
    stacks(holdfast, "a")
    holdfast.write("module/main.tf", CODE.format(secret=SECRET, command=f"echo {SECRET} && exit 3"))
    holdfast.ok("apply", "--yes", code=1)
    run = next(one for one in holdfast.json("runs", "list")["runs"] if one["operation"] == "apply")
    assert run["status"] == "failed"
    shown = holdfast.json("runs", "show", run["id"].lower()[:-2])["run"]
    assert {name: shown[name] for name in run} == run
    assert (shown["changes"]["create"], shown["intent"]) == (1, None)
    assert shown["error"]["code"] == "HF-TF-4"
    journal = shown["journal"]
    assert journal["started"] <= journal["ended"]["at"]
    assert (journal["ended"]["code"], journal["ended"]["unsaved"], journal["complete"]) == (1, False, True)

    log = holdfast.json("runs", "log", run["id"])
    assert log["run"] == run["id"]
    assert len(log["lines"]) == journal["lines"]
    assert "apply_start" in [line["type"] for line in log["lines"]]
    text = holdfast.ok("runs", "log", run["id"]).out
    assert f"{log['lines'][0]['@timestamp']} {log['lines'][0]['@message']}" in text.splitlines()
    assert "terraform_data.it: Creating..." in text
    console = holdfast.ok("runs", "show", run["id"]).text
    assert f"{run['id']}  apply of a: failed" in console
    assert all(SECRET not in said for said in (json.dumps(shown), json.dumps(log), text, console))

    assert error(holdfast, "runs", "show", "7ZZ")["code"] == "HF-RUN-20"


@pytest.mark.long
def test_a_run_at_work_has_no_status_yet(holdfast: Program) -> None:
    """It is listed with what it means to do, and its journal can be read while it grows."""
    stacks(holdfast, "a")
    gate = holdfast.folder / "gate"
    wait = f"while [ ! -e {gate} ]; do sleep 0.1; done"
    holdfast.write("module/main.tf", CODE.format(secret=SECRET, command=wait))
    process = holdfast.start("apply", "--yes")
    try:
        begun = holdfast.folder / ".holdfast/runs"
        eventually(lambda: any(begun.glob("*/journal-*")), what="a journal", seconds=120)
        (run,) = [one for one in holdfast.json("runs", "list")["runs"] if one["operation"] == "apply"]
        assert (run["stack"], run["status"], run["ended"]) == ("a", None, None)
        assert "running" in holdfast.ok("runs", "list").out
        shown = holdfast.json("runs", "show", run["id"])["run"]
        assert shown["intent"]["changes"] == [{"address": "terraform_data.it", "actions": ["create"]}]
        assert shown["journal"]["ended"] is None
        assert SECRET not in holdfast.ok("runs", "log", run["id"]).text
    finally:
        gate.touch()
        process.communicate(timeout=120)
    assert process.returncode == 0
    assert holdfast.json("runs", "show", run["id"])["run"]["status"] == "applied"
