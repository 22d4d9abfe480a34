"""Who changed a resource is asked for with the credentials of the stack, and never a reason to fail."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from answering import Answer, Answering, Asked, told
from context_made import change_context

from holdfast.config.drift import AuditTrail, DriftSettings
from holdfast.config.settings import Config
from holdfast.drift.check import _with_authors
from holdfast.drift.observation import Observation
from holdfast.drift.result import Comparison

NOW = datetime(2026, 3, 3, 14, tzinfo=UTC)
SIGNED = re.compile(r"AWS4-HMAC-SHA256 Credential=AKIAOFTHESTACK/\d{8}/eu-west-1/cloudtrail/aws4_request")


def event(name: str, at: int, who: str = "alice", *, reads: bool = False) -> dict[str, Any]:
    time = NOW.timestamp() - at
    return {"EventName": name, "EventTime": time, "Username": who, "ReadOnly": str(reads).lower()}


class CloudTrail:
    """LookupEvents by the name of a resource: JSON 1.1, signed."""

    def __init__(self, events: dict[str, list[dict[str, Any]]], denied: str | None = None) -> None:
        self._events, self._denied = events, denied
        self.asked: list[dict[str, Any]] = []

    def answer(self, asked: Asked) -> Answer:
        assert asked.headers["x-amz-target"].endswith("CloudTrail_20131101.LookupEvents")
        assert SIGNED.match(asked.headers["authorization"])
        wanted = json.loads(asked.body)
        self.asked.append(wanted)
        if self._denied is not None:
            return told({"__type": self._denied, "message": "no secret-in-an-answer"}, 400)
        (attribute,) = wanted["LookupAttributes"]
        assert attribute["AttributeKey"] == "ResourceName"
        return told({"Events": self._events.get(attribute["AttributeValue"], [])})


def observation(address: str, resource: str | None) -> Observation:
    type_ = address.partition(".")[0]
    return Observation(
        address=address,
        type=type_,
        attribute="x",
        before=1,
        after=2,
        fingerprint="f",
        resource=resource,
    )


def look(trail: CloudTrail, tmp_path: Path, *observed: Observation, on: bool = True) -> Comparison:
    settings = DriftSettings(audit_trail=AuditTrail.CLOUDTRAIL if on else None)
    config = Config(file=tmp_path / "holdfast.yaml", root=tmp_path, drift=settings)
    with Answering(trail.answer) as server:
        environment = {
            "AWS_ACCESS_KEY_ID": "AKIAOFTHESTACK",
            "AWS_SECRET_ACCESS_KEY": "s",
            "AWS_REGION": "eu-west-1",
            "AWS_ENDPOINT_URL": server.url,
            "AWS_MAX_ATTEMPTS": "1",
            "HOME": str(tmp_path),
            "PATH": "/usr/bin:/bin",
        }
        workdir: Any = SimpleNamespace(environment=environment)
        context = change_context(tmp_path, config=config)
        return _with_authors(context, workdir, Comparison(observed=observed), None, NOW)


def test_the_last_change_of_each_resource_is_named(tmp_path: Path) -> None:
    """Not what only read it, and nothing of resources of other clouds."""
    events = [event("DescribeX", 1, "bot", reads=True), event("AuthorizeX", 60), event("CreateX", 900, "ci")]
    trail = CloudTrail({"sg-1": events})
    found = look(
        trail,
        tmp_path,
        *(observation("aws_security_group.a", "sg-1"), observation("aws_instance.b", "i-2")),
        *(observation("azurerm_x.c", "id"), observation("aws_x.without_id", None)),
    )
    author = found.authors["aws_security_group.a"]
    assert (author.who, author.event, author.source) == ("alice", "AuthorizeX", "CloudTrail")
    assert author.at.timestamp() == NOW.timestamp() - 60
    assert set(found.authors) == {"aws_security_group.a"}
    assert len(trail.asked) == 2
    assert found.notes == ()


def test_an_audit_trail_that_cannot_be_read_is_a_note(tmp_path: Path) -> None:
    found = look(CloudTrail({}, denied="AccessDeniedException"), tmp_path, observation("aws_x.a", "x"))
    assert found.authors == {}
    assert found.notes == (
        "who changed it is not known: CloudTrail answers AccessDeniedException to LookupEvents",
    )
    assert found.observed is not None


@pytest.mark.parametrize("on", [False, True])
def test_many_resources_are_not_all_looked_up(tmp_path: Path, *, on: bool) -> None:
    """CloudTrail allows two requests in a second. Without the setting, nobody is asked."""
    trail = CloudTrail({})
    found = look(trail, tmp_path, *(observation(f"aws_x.r{i}", f"r{i}") for i in range(13)), on=on)
    assert len(trail.asked) == (10 if on else 0)
    assert found.notes == (("3 more changed resources were not looked up in CloudTrail",) if on else ())
