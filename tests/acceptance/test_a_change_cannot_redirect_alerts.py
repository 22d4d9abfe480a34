"""`notify` of a change under review counts when it is merged: its job sends nothing to other servers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from channel_servers import ROUTING_KEY, PagerDuty
from program import Program

GOOD = 'resource "terraform_data" "it" {\n  input = 1\n}\n'


@pytest.fixture
def pagers() -> Iterator[tuple[PagerDuty, PagerDuty]]:
    """That of the team, and that of the author of the change."""
    with (ours := PagerDuty()).http, (theirs := PagerDuty()).http:
        yield ours, theirs


def document(pager: PagerDuty, store: Path, key: str = "env:PAGER", **more: Any) -> str:
    channel = {"pagerduty": {"routing_key": {"secret": key}, "url": pager.url}}
    return json.dumps(
        {
            "version": 1,
            "environments": {"prod": {"match": ["prod"], "production": True}},
            "stacks": [{"name": "prod/db", "module": "db", "environment": "prod"}],
            "guard": {"approvals": {"count": 1}},
            "store": str(store),
            "notify": {"channels": {"pager": channel}, "routes": [{"channel": "pager"}], **more},
        }
    )


@pytest.fixture
def jobs(holdfast: Program, tmp_path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Variables of a job of the default branch, and of one of a pull request."""
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"repository": {"default_branch": "main"}}))
    key = base64.b64encode(bytes(range(32))).decode()
    holdfast.environment |= {"CI": "true", "PAGER": ROUTING_KEY, "HOLDFAST_KEY": key}
    both = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(event), "AWS_SECRET_ACCESS_KEY": ROUTING_KEY}
    push = {**both, "GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/main"}
    return push, {**both, "GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/7/merge"}


def test_a_pull_request_sends_nothing_to_a_server_of_its_author(
    holdfast: Program,
    pagers: tuple[PagerDuty, PagerDuty],
    jobs: tuple[dict[str, str], dict[str, str]],
    tmp_path: Path,
) -> None:
    """With the key of the run store too: neither alerts nor a variable of the job; and nothing is lost."""
    (ours, theirs), (main, review) = pagers, jobs
    store = tmp_path / "store"
    holdfast.write("db/main.tf", GOOD)
    holdfast.write("holdfast.yaml", document(ours, store))
    holdfast.ok("plan", "--out", str(tmp_path / "first"), code=5, env=main)
    assert len(ours.open) == 1, "the default branch tells"
    before = len(ours.http.asked)

    holdfast.write("db/main.tf", GOOD.replace("1", "2"))
    for number, key in enumerate(("env:PAGER", "env:AWS_SECRET_ACCESS_KEY")):
        holdfast.write("holdfast.yaml", document(theirs, store, key))
        shown = holdfast.ok("plan", "--out", str(tmp_path / f"theirs{number}"), code=5, env=review)
        assert "nothing is sent" in shown.err
    holdfast.write("holdfast.yaml", document(ours, store).replace("env:PAGER", "file:hook.txt"))
    holdfast.write("hook.txt", ROUTING_KEY)
    holdfast.ok("plan", "--out", str(tmp_path / "file"), code=5, env=review)
    assert theirs.http.asked == []
    assert len(ours.http.asked) == before

    holdfast.write("holdfast.yaml", document(ours, store))
    holdfast.ok("plan", "--out", str(tmp_path / "second"), code=5, env=review)
    assert len(ours.http.asked) > before, "unchanged, it counts in a pull request too"
    run = ours.items[ours.open[0]].texts[-1].partition("holdfast runs approve ")[2].split()[0]
    holdfast.ok("runs", "approve", run, "--reason", "reviewed", env=main)
    assert len(ours.open) == 1, "it is still to be applied"
    holdfast.ok("apply", "--plan", str(tmp_path / "second"), env=main)
    assert ours.open == []
