"""`holdfast drift --notify` to a real channel: one message when drift opens, one when it is over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from answering import Answer
from channel_servers import WHSEC, SignedWebhook
from drift_made import change_object, drift_repository
from program import Program

OPENED = ("alert.opened", "drift", "a: 1 resource changed outside Terraform")
RESOLVED = ("alert.resolved", *OPENED[1:])


@pytest.fixture
def hook() -> Iterator[SignedWebhook]:
    with (service := SignedWebhook()).http:
        yield service


@pytest.fixture
def program(with_lab: Program, hook: SignedWebhook, tmp_path: Path) -> Program:
    """One applied stack, in CI, with a route to a signed webhook."""
    drift_repository(with_lab)
    document = json.loads((with_lab.folder / "holdfast.yaml").read_text())
    document["store"] = str(tmp_path / "store")
    document["notify"] = {
        "channels": {"hook": {"webhook": {"url": f"{hook.url}/hook", "key": {"secret": "env:WHSEC"}}}},
        "routes": [{"channel": "hook"}],
    }
    with_lab.write("holdfast.yaml", json.dumps(document))
    with_lab.environment.update({"CI": "true", "WHSEC": WHSEC, "HOLDFAST_KEY": f"{'A' * 43}="})
    with_lab.ok("apply", "--yes")
    return with_lab


def sent(hook: SignedWebhook) -> list[tuple[str, str, str]]:
    """Every request, also those that the receiver refused."""
    documents = [json.loads(asked.body) for asked in hook.http.asked]
    return [(one["type"], one["data"]["kind"], one["data"]["title"]) for one in documents]


def test_drift_is_told_when_it_opens_and_when_it_is_over(program: Program, hook: SignedWebhook) -> None:
    """Once each, however often it is looked at. A channel that is broken is said, changes no exit code, and
    its message is kept and sent later.
    """
    change_object(program, "a-one", body="bye")
    hook.next_ = [Answer(status=429, headers={"Retry-After": "1800"})]
    refused = program.ok("drift", "--notify", code=2)
    assert "did not reach the channel hook: the receiver answered 429" in refused.err
    assert (sent(hook), hook.open) == ([OPENED], [])
    (message,) = program.json("notify", "status")["messages"]
    assert program.json("notify", "retry", message["id"])["delivered"]
    assert sent(hook) == [OPENED, OPENED]
    assert len(hook.open) == 1, "it was signed, and the receiver took it"
    for part in ("lab_object.one body", "hello", "bye", "holdfast drift a"):
        assert part in hook.texts[0]

    program.ok("drift", "--notify", code=2)
    assert sent(hook)[2:] == [], "nothing changed, so nothing is told"
    change_object(program, "a-one", body="hello")
    program.ok("drift", "--notify")
    assert sent(hook)[2:] == [RESOLVED]
    assert hook.open == []
