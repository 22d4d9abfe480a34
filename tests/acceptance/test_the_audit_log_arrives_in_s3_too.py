"""`audit.s3`: every line is shipped at the end of a command, and what cannot be shipped harms nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flaky_s3 import FlakyS3
from program import Program

from holdfast.store.place import open_blobs


@pytest.fixture(scope="module")
def s3() -> Iterator[FlakyS3]:
    with FlakyS3() as running:
        running.make_bucket("records")
        yield running


def repository(program: Program, s3: FlakyS3, address: str) -> None:
    program.environment |= {name: value for name, value in s3.variables.items() if name.startswith("AWS_")}
    document = {
        "version": 1,
        "environments": {"dev": {"match": ["dev"]}},
        "stacks": [{"name": "a", "module": "a", "environment": "dev"}],
        "engine": {"use": "embedded"},
        "audit": {"s3": address},
        "store": ".holdfast",
    }
    program.write("holdfast.yaml", json.dumps(document))
    program.write("a/main.tf", 'resource "terraform_data" "it" {}\n')


def lines(program: Program, address: str, folder: Path) -> tuple[list[Any], list[Any]]:
    """Of the log, and of what was shipped."""
    blobs = open_blobs(address, folder, program.environment)
    kept = [json.loads(line) for line in program.ok("audit", "export").out.splitlines()]
    days = sorted({line["at"][:10] for line in kept})
    objects = [blobs.read(name) for day in days for name in blobs.names(day)]
    return kept, [json.loads(line) for one in objects if one is not None for line in one.data.splitlines()]


def test_every_line_arrives(holdfast: Program, s3: FlakyS3, tmp_path: Path) -> None:
    """The lines in the bucket are those of the log, and none waits."""
    repository(holdfast, s3, "s3://records/here")
    holdfast.ok("apply", "--yes")
    kept, shipped = lines(holdfast, "s3://records/here", tmp_path)
    assert sorted(line["seq"] for line in shipped) == sorted(line["seq"] for line in kept)
    assert [line["outcome"] for line in shipped if line["what"] == "apply"] == ["begun", "applied"]
    assert "wait" not in holdfast.ok("audit", "verify").text


def test_a_bucket_that_is_not_there_harms_nothing(holdfast: Program, s3: FlakyS3) -> None:
    """The apply is done and its exit code is its own; a warning says what waits."""
    repository(holdfast, s3, "s3://nowhere/here")
    applied = holdfast.ok("apply", "--yes")
    assert "nowhere" in applied.err
    assert "3 entries not yet shipped" in holdfast.ok("audit", "verify").text


def test_a_sink_named_in_a_pull_request_receives_nothing(
    holdfast: Program, s3: FlakyS3, tmp_path: Path
) -> None:
    """Neither from a plan nor from an apply there; an apply on the default branch accepts it, once."""
    address = "s3://records/new"
    repository(holdfast, s3, address)
    holdfast.environment["HOLDFAST_KEY"] = base64.b64encode(b"a key of the tests with 32 bytes").decode()
    event = holdfast.write("../event.json", '{"repository": {"default_branch": "main"}}')
    job = {"CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(event), "GITHUB_SHA": "c0ffee"}
    pull_request = {**job, "GITHUB_EVENT_NAME": "pull_request", "GITHUB_REF": "refs/pull/7/merge"}
    tricks: tuple[dict[str, dict[str, str]], ...] = (
        {"plan": pull_request},
        {"plan": {}},
        {"plan": {**job, "GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/main"}},
        {"apply": pull_request},
        {
            "apply": {
                **pull_request,
                "GITHUB_EVENT_NAME": "pull_request_target",
                "GITHUB_REF": "refs/heads/main",
            }
        },
        {"apply": {**job, "GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/feature"}},
        {"apply": {"CI": "true"}},
    )
    for trick in tricks:
        ((command, variables),) = trick.items()
        ran = holdfast.ok(command, *(["--yes"] if command == "apply" else []), env=variables)
        assert f"nothing was sent to {address}" in ran.err, trick
        assert ("does not accept" in ran.err) == (command == "apply"), trick
    kept, shipped = lines(holdfast, address, tmp_path)
    assert kept
    assert shipped == []
    assert "must accept it first" in holdfast.ok("audit", "verify").text
    push = {**job, "GITHUB_EVENT_NAME": "push", "GITHUB_REF": "refs/heads/main"}
    assert "nothing was sent" not in holdfast.ok("apply", "--yes", env=push).err
    assert "nothing was sent" not in holdfast.ok("plan", env=pull_request).err
    kept, shipped = lines(holdfast, address, tmp_path)
    assert sorted(line["seq"] for line in shipped) == [line["seq"] for line in kept]
    (accepted,) = [line for line in kept if line["what"] == "accept-sink"]
    assert accepted["details"] == {"sink": address}
