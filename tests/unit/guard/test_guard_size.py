from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest
from guard_made import resource, situation

from holdfast.guard.decision import Decision, Deny
from holdfast.guard.judge import judge
from holdfast.guard.policy import IN_PRODUCTION
from holdfast.terraform.plan_json import read_plan

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
    return judge(read_plan(data), POLICY, situation())


def best_of_three(work: Callable[[], object]) -> float:
    def once() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return min(once() for _ in range(3))


def test_judging_takes_at_most_twice_the_bare_parse(large_plan: bytes) -> None:
    """Reading and every rule together, protected tags included."""
    bare = best_of_three(lambda: msgspec.json.decode(large_plan))
    assert best_of_three(lambda: judged(large_plan)) <= 2 * bare


def test_judging_keeps_memory_near_the_size_of_the_file(large_plan: bytes) -> None:
    """Values are read one by one, and only those of objects that would be lost."""
    tracemalloc.start()
    try:
        assert isinstance(judged(large_plan), Deny)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak + len(large_plan) <= 2 * len(large_plan)
