"""`audit.s3`: every line is shipped at the end of a command, and what cannot be shipped harms nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

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
    }
    program.write("holdfast.yaml", json.dumps(document))
    program.write("a/main.tf", 'resource "terraform_data" "it" {}\n')


def test_every_line_arrives(holdfast: Program, s3: FlakyS3, tmp_path: Path) -> None:
    """The lines in the bucket are those of the log, and none waits."""
    repository(holdfast, s3, "s3://records/here")
    holdfast.ok("apply", "--yes")
    blobs = open_blobs("s3://records/here", tmp_path, holdfast.environment)
    kept = [json.loads(line) for line in holdfast.ok("audit", "export").out.splitlines()]
    days = sorted({line["at"][:10] for line in kept})
    objects = [blobs.read(name) for day in days for name in blobs.names(day)]
    shipped = [json.loads(line) for one in objects if one is not None for line in one.data.splitlines()]
    assert sorted(line["seq"] for line in shipped) == sorted(line["seq"] for line in kept)
    assert {line["outcome"] for line in shipped} == {"begun", "applied"}
    assert "wait" not in holdfast.ok("audit", "verify").text


def test_a_bucket_that_is_not_there_harms_nothing(holdfast: Program, s3: FlakyS3) -> None:
    """The apply is done and its exit code is its own; a warning says what waits."""
    repository(holdfast, s3, "s3://nowhere/here")
    applied = holdfast.ok("apply", "--yes")
    assert "nowhere" in applied.err
    assert "2 entries not yet shipped" in holdfast.ok("audit", "verify").text
