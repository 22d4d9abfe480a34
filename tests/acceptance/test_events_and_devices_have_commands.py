"""`holdfast events` and `holdfast devices`: what a client of the API does, at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from answering import Answer, Answering, Asked, told
from blueprints_made import make_blueprint
from fleet_commands import CODE, Commands
from fleet_made import SETTINGS, fleet_of
from program import Program

from holdfast import __version__


@pytest.mark.long
def test_events_and_devices_have_commands(holdfast: Program, tmp_path: Path) -> None:
    """Submitted, waited for, listed, approved, cancelled, repeated and rolled back, with their exit codes."""
    make_blueprint(tmp_path / "blueprints" / "site", settings=SETTINGS, code=CODE)
    with fleet_of(holdfast, tmp_path, tmp_path / "blueprints") as admin:
        mine = Commands(holdfast, admin.as_role("operator", "client"))
        approver = Commands(holdfast, admin.as_role("approver", "ada"))
        _create_change_and_roll_back(mine)
        _refuse_mistakes(mine)
        _decide(mine, approver)
        log = Commands(holdfast, admin).json("audit", "show")["entries"]
        decided = [entry for entry in log if entry["what"] in {"approve", "reject"}]
        assert {entry["who"]["name"] for entry in decided} == {"ada"}
        assert all(entry["details"]["event"] and entry["digest"] for entry in decided)
        _find_what_failed(mine)


def _create_change_and_roll_back(mine: Commands) -> None:
    payload = json.dumps({"site_name": "one"})
    command = ("events", "submit", "site", "create", "branch-1", "--payload", "-", "--set", "size=2")
    labelled = (*command, "--key", "first", "--label", "region=eu")
    created = mine.ok(*labelled, stdin=payload).out
    assert "create of site/branch-1: succeeded" in created
    assert 'site = {"name": "one", "size": 2}' in created
    assert " ms, apply " in created
    repeated = mine.ok(*labelled, stdin=payload).out
    assert repeated == created, "the same key is the same event"
    device = mine.ok("devices", "show", "site/branch-1").out
    for part in (
        "site/branch-1: present, site 1.0.0",
        "labels: region=eu",
        "drift: not checked",
        "state: fleet/default/site/branch-1",
        "holdfast events list --blueprint site --device branch-1",
    ):
        assert part in device
    updated = mine.submit("update", "branch-1", "--set", "site_name=two")
    assert updated["outputs"] == {"site": {"name": "two", "size": 1}}
    back = mine.json("events", "rollback", updated["id"])
    assert back["outputs"] == {"site": {"name": "one", "size": 2}}
    assert back["origin"] is not None
    assert (
        " 2 events shown, there may be more"
        in mine.ok("events", "list", "--device", "site/branch-1", "--limit", "2").out
    )
    assert " 1 device\n" in mine.ok("devices", "list").out


def _refuse_mistakes(mine: Commands) -> None:
    submit = ("events", "submit", "site")
    wrong = mine.ok(*submit, "create", "x", "--set", "size=big", "--set", "sice=1", code=64).err
    for part in ("HF-EVENT-4", "at /payload/site_name: ", "at /payload/size: ", "at /payload/sice: "):
        assert part in wrong
    assert "exists already" in mine.ok(*submit, "create", "branch-1", "--set", "site_name=a", code=3).err
    assert "offers: site" in mine.ok("events", "submit", "cite", "create", "x", code=64).err
    assert "HF-EVENT-1 " in mine.ok("events", "show", "01ZZ", code=64).err
    assert "HF-EVENT-11" in mine.ok("devices", "show", "site/x", code=64).err
    assert "HF-USE-48" in mine.ok("devices", "show", "branch-1", code=64).err
    assert "HF-USE-47" in mine.ok(*submit, "update", "x", "--payload", "-", code=64, stdin="[]").err


def _decide(mine: Commands, approver: Commands) -> None:
    waiting = mine.submit("update", "branch-1", "--set", "site_name=three", "--requires-approval", code=5)
    assert (waiting["status"], waiting["plan"]["changes"]["update"]) == ("waiting", 1)
    asked = approver.ok("events", "approve", waiting["id"], code=64)
    assert "three" in asked.out, "the plan is shown before the question"
    assert "HF-USE-5 " in asked.err
    assert mine.ok("events", "approve", waiting["id"], "--yes", code=3).err
    assert "Approved." in approver.ok("events", "approve", waiting["id"][:20], "--yes").out
    assert "update of site/branch-1: succeeded" in mine.ok("events", "wait", waiting["id"]).out
    assert "HF-EVENT-9 " in approver.ok("events", "approve", waiting["id"], "--yes", code=3).err
    other = mine.submit("update", "branch-1", "--set", "site_name=four", "--requires-approval", code=5)
    queued = mine.submit("update", "branch-1", "--wait", "0")
    assert (queued["status"], queued["requires_approval"]) == ("queued", True), (
        "it keeps what is not approved"
    )
    assert "Cancelled" in mine.ok("events", "cancel", queued["id"]).out
    newer = mine.submit("update", "branch-1", "--set", "site_name=five", "--wait", "0")
    newest = mine.submit("update", "branch-1", "--wait", "0")
    assert mine.json("events", "show", newer["id"])["superseded_by"] == newest["id"]
    assert "HF-USE-25" in approver.ok("events", "reject", other["id"], code=64).err
    approver.ok("events", "reject", other["id"], "--reason", "not today")
    assert mine.json("events", "wait", other["id"], code=1)["status"] == "cancelled"
    kept = mine.json("events", "wait", newest["id"])
    assert kept["outputs"] == {"site": {"name": "five", "size": 1}}, "that of the event whose place it took"


def _find_what_failed(mine: Commands) -> None:
    failed = mine.submit("create", "branch-9", "--set", "site_name=boom", code=1)
    letters = mine.json("events", "list", "--dead-letters")["events"]
    assert [letter["id"] for letter in letters] == [failed["id"]]
    shown = mine.ok("events", "show", failed["id"]).out
    assert "The vendor does not accept this site." in shown
    assert f"holdfast events retry {failed['id']}" in shown
    assert "The vendor does not accept this site." in mine.ok("events", "log", failed["id"]).out
    again = mine.json("events", "retry", failed["id"], code=1)
    assert (again["status"], again["origin"]) == ("failed", failed["id"])
    mine.submit("create", "branch-9", "--set", "site_name=nine")
    assert mine.json("events", "list", "--dead-letters")["events"] == []
    deleted = mine.submit("delete", "branch-9")
    assert (deleted["status"], deleted["outputs"]) == ("succeeded", None)
    absent = mine.json("devices", "list", "--status", "absent")["devices"]
    assert [device["resource_id"] for device in absent] == ["branch-9"]


def test_a_broken_connection_repeats_the_request_with_its_key(holdfast: Program) -> None:
    """The server has accepted it, but the answer is lost: the next request is the same one."""
    event: dict[str, object] = {
        **dict.fromkeys(
            ("outputs", "plan", "timings", "error", "next_try", "origin", "run", "superseded_by")
        ),
        "id": "01K0",
        "blueprint": "site",
        "blueprint_version": "1",
        "action": "create",
        "resource_id": "x",
        "status": "succeeded",
        "created": "2027-01-31T12:00:00Z",
        "who": "ada",
        "labels": {},
        "reason": "",
        "attempts": 1,
    }

    def answer(_: Asked) -> Answer:
        found = told(event)
        return Answer(
            body=found.body,
            headers={**found.headers, "Holdfast-Version": __version__},
            cut=10 if len(server.asked) == 1 else 0,
        )

    with Answering(answer) as server:
        env = {"HOLDFAST_URL": server.url, "HOLDFAST_TOKEN": "hfs_token-of-the-test"}
        ran = holdfast.ok("events", "submit", "site", "create", "x", env=env)
        assert "The server is away" in ran.err
        keys = [asked.headers["idempotency-key"] for asked in server.asked]
        assert len(keys) == 2
        assert keys[0] == keys[1]
        assert server.asked[0].body == server.asked[1].body
