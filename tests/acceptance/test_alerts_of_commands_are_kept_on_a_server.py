"""`store: https://…`: another machine sends what a command could not; tokens of some stacks read nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from answering import Answer
from channel_servers import ROUTING_KEY, PagerDuty
from program import Program
from server_made import MadeServer, made_server

from holdfast.database.database import Database
from holdfast.identity.roles import Role

BAD = """
resource "terraform_data" "it" {
  input = 1
  lifecycle {
    postcondition {
      condition     = self.output == 2
      error_message = "the database is gone"
    }
  }
}
"""


@pytest.fixture
def server(database: Database) -> Iterator[MadeServer]:
    with made_server(database) as made:
        yield made


@pytest.fixture
def pager() -> Iterator[PagerDuty]:
    with (service := PagerDuty()).http:
        yield service


def test_another_machine_sends_what_is_left(holdfast: Program, server: MadeServer, pager: PagerDuty) -> None:
    channel = {"pagerduty": {"routing_key": {"secret": "env:PAGER"}, "url": pager.url}}
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "stacks": [{"name": "a", "module": "a", "environment": "dev"}],
        "store": server.url,
        "notify": {"channels": {"pager": channel}, "routes": [{"channel": "pager"}]},
    }
    holdfast.write("holdfast.yaml", json.dumps(document))
    holdfast.write("a/main.tf", BAD)
    token = server.token(Role.OPERATOR, name="ci")
    holdfast.environment |= {
        "CI": "true", "PAGER": ROUTING_KEY, "HOLDFAST_URL": server.url, "HOLDFAST_TOKEN": token,
    }  # fmt: skip
    pager.next_ = [Answer(status=429, headers={"Retry-After": "1800"})]
    failed = holdfast.ok("apply", "--yes", code=1)
    assert "the receiver answered 429" in failed.err
    assert pager.open == []

    other = {"HOLDFAST_TOKEN": server.token(Role.OPERATOR, name="other")}
    (message,) = holdfast.json("notify", "status", env=other)["messages"]
    limited = {"HOLDFAST_TOKEN": server.token(Role.OPERATOR, name="some", stacks=("b*",), states=("b*",))}
    refused = holdfast.ok("notify", "status", code=3, env=limited)
    assert "the database is gone" not in refused.text
    assert "a: the apply failed" not in refused.text
    holdfast.ok("notify", "retry", message["id"], env=other)
    (open_,) = pager.open
    assert "the database is gone" in pager.items[open_].texts[0]
    assert ROUTING_KEY not in failed.text
    assert token not in failed.text + pager.raw
