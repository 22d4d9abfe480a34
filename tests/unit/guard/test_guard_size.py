from __future__ import annotations

import json
import tracemalloc

import msgspec
import pytest
from guard_made import resource, situation

from holdfast.guard.decision import Decision, Deny
from holdfast.guard.evaluate import evaluate_plan
from holdfast.guard.policy import IN_PRODUCTION
from holdfast.terraform.plan.model import read_plan

POLICY = msgspec.structs.replace(IN_PRODUCTION, addresses=("module.db",), tags=(("keep", ("*",)),))


@pytest.fixture(scope="module")
def large_plan() -> bytes:
    """About 6 MB, mostly values; one object of a hundred is deleted."""
    statement = {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": "arn:aws:s3:::b/*"}
    value = {"id": "i-0123456789", "policy": [statement] * 16, "tags": {"a": "b"}}
    changes = [
        resource(f"module.m[{number}].x.y", "no-op" if number % 100 else "delete", before=value)
        for number in range(4000)
    ]
    return json.dumps({"format_version": "1.2", "resource_changes": changes}).encode()


def judged(data: bytes) -> Decision:
    return evaluate_plan(read_plan(data), POLICY, situation())


def test_judging_keeps_memory_near_the_size_of_the_file(large_plan: bytes) -> None:
    """Values are read one by one, and only those of objects that would be lost."""
    tracemalloc.start()
    try:
        assert isinstance(judged(large_plan), Deny)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak + len(large_plan) <= 2 * len(large_plan)
