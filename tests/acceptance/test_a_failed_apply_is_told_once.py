"""Notifications of commands without a server: one alert per issue, in an outbox that outlives the command."""

from __future__ import annotations

import base64
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from answering import Answer
from channel_servers import ROUTING_KEY, PagerDuty
from program import Program, eventually

KEY = base64.b64encode(bytes(range(32))).decode()
GOOD = 'resource "terraform_data" "it" {\n  input = 1\n}\n'
BAD = """
resource "terraform_data" "it" {
  input = 1
}

resource "terraform_data" "bad" {
  input = 1
  lifecycle {
    postcondition {
      condition     = self.output == 2
      error_message = "the database is gone"
    }
  }
}
"""
FIXED = BAD.replace("== 2", "== 1")
CI = {"CI": "true", "PAGER": ROUTING_KEY, "HOLDFAST_KEY": KEY}


@pytest.fixture
def pager() -> Iterator[PagerDuty]:
    with (service := PagerDuty()).http:
        yield service


@pytest.fixture
def program(holdfast: Program, pager: PagerDuty, tmp_path: Path) -> Program:
    channel = {"pagerduty": {"routing_key": {"secret": "env:PAGER"}, "url": pager.url}}
    document = {
        "version": 1,
        "environments": {"prod": {"match": ["prod"], "production": True}},
        "stacks": [{"name": "prod/db", "module": "db", "environment": "prod"}],
        "store": str(tmp_path / "store"),
        "notify": {
            "channels": {"pager": channel},
            "routes": [{"channel": "pager", "environments": ["prod"], "name": "night"}],
        },
    }
    holdfast.write("holdfast.yaml", json.dumps(document))
    holdfast.write("db/main.tf", GOOD)
    holdfast.environment.update(CI)
    return holdfast


def test_a_failure_opens_one_alert_and_the_next_success_closes_it(program: Program, pager: PagerDuty) -> None:
    """Also if it fails again; what to do is said, and the exit code is that of the apply."""
    program.write("db/main.tf", BAD)
    program.ok("apply", "--yes", code=1)
    (text,) = pager.texts
    evidence = ("the database is gone", "prod (production)", "holdfast runs log")
    for part in ("prod/db: the apply failed", *evidence):
        assert part in text
    program.ok("apply", "--yes", code=1)
    assert len(pager.items) == 1
    status = program.json("notify", "status")
    assert [(alert["kind"], alert["stack"], alert["channels"]) for alert in status["alerts"]] == [
        ("failed", "prod/db", ["pager"])
    ]
    program.write("db/main.tf", FIXED)
    program.ok("apply", "--yes")
    assert pager.open == []
    assert program.json("notify", "status")["alerts"] == []
    assert "0 open alerts" in program.ok("notify", "status").text


def test_what_cannot_be_sent_changes_no_exit_code_and_is_sent_by_the_next_command(
    program: Program, pager: PagerDuty
) -> None:
    program.write("db/main.tf", BAD)
    pager.next_ = [Answer(status=429, headers={"Retry-After": "1800"})]
    failed = program.ok("apply", "--yes", code=1)
    assert "did not reach the channel pager: the receiver answered 429" in failed.err
    assert "holdfast notify status" in failed.err
    document = program.json("notify", "status")
    (message,) = document["messages"]
    assert (message["channel"], message["error"]) == ("pager", "the receiver answered 429")
    assert pager.items == {}
    retried = program.json("notify", "retry", message["id"][:20])
    assert retried == {"version": 1, "message": message["id"], "delivered": True, "error": None}
    assert len(pager.open) == 1
    program.ok("notify", "retry", message["id"], code=64)


def test_a_command_that_is_killed_while_it_sends_loses_nothing(program: Program, pager: PagerDuty) -> None:
    """The next one sends it again, and the receiver sees one."""
    program.write("db/main.tf", BAD)
    pager.http.hold()
    process = program.start("apply", "--yes")
    eventually(lambda: bool(pager.http.asked), what="the first attempt")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    pager.http._free.set()
    eventually(lambda: len(pager.open) == 1, what="the first attempt arrives although its sender is dead")
    (message,) = program.json("notify", "status")["messages"]
    program.ok("notify", "retry", message["id"])
    assert len(pager.items) == 1
    assert program.json("notify", "status")["messages"] == []


def test_away_from_ci_nothing_is_sent_but_what_ends_is_recorded(program: Program, pager: PagerDuty) -> None:
    program.write("db/main.tf", BAD)
    away = {"CI": None}
    program.ok("apply", "--yes", code=1, env=away)
    assert pager.http.asked == []
    program.ok("apply", "--yes", code=1)
    assert len(pager.open) == 1
    program.write("db/main.tf", FIXED)
    program.ok("apply", "--yes", env=away)
    assert len(pager.open) == 1
    program.ok("plan")
    assert pager.open == [], "the next command in CI tells the end"


def test_a_break_glass_act_is_told_until_a_normal_apply_follows(
    program: Program, pager: PagerDuty, tmp_path: Path
) -> None:
    two = GOOD.replace("input = 1", "count = 2\n  input = 1")
    program.write("db/main.tf", two)
    program.ok("apply", "--yes")
    program.write("db/main.tf", two.replace("count = 2", "count = 1"))
    bundle = tmp_path / "bundle"
    program.ok("plan", "--out", str(bundle), code=3)
    digest = json.loads((bundle / "prod" / "db" / "summary.json").read_text())["digest"]
    program.ok("apply", "--plan", str(bundle), "--override", digest, "--reason", "not used any more")
    (open_,) = pager.open
    assert "break-glass, apply by" in pager.items[open_].texts[-1]
    assert "not used any more" in pager.items[open_].texts[-1]
    program.ok("apply", "--yes")
    assert pager.open == []


def test_a_plan_that_waits_is_told_until_it_is_decided(
    program: Program, pager: PagerDuty, tmp_path: Path
) -> None:
    document = json.loads((program.folder / "holdfast.yaml").read_text())
    document["guard"] = {"approvals": {"count": 1}}
    program.write("holdfast.yaml", json.dumps(document))
    program.ok("plan", "--out", str(tmp_path / "bundle"), code=5)
    (open_,) = pager.open
    (text,) = pager.items[open_].texts
    assert "prod/db: a plan waits for approval" in text
    run = text.partition("holdfast runs approve ")[2].split()[0]
    program.ok("runs", "reject", run, "--reason", "not now")
    assert pager.open == []


def test_a_test_of_a_route_says_what_the_receiver_answered(program: Program, pager: PagerDuty) -> None:
    """By name, channel or number; a refusal is exit 1, and the credential is nowhere."""
    for name in ("night", "pager", "1"):
        assert "success: Event processed" in program.ok("notify", "test", name).text
    assert pager.open == []
    pager.next_ = [Answer(status=400)]
    refused = program.ok("notify", "test", "night", code=1)
    assert "not delivered: the receiver answered 400" in refused.text
    document = program.json("notify", "test", "night")
    assert (document["delivered"], document["kind"], document["channel"]) == (True, "pagerduty", "pager")
    missing = program.ok("notify", "test", "night", code=64, env={"PAGER": None})
    assert "HF-SEC-2" in missing.text
    assert "HF-NOTIFY-3" in program.ok("notify", "test", "day", code=64).text
    assert ROUTING_KEY not in refused.text
