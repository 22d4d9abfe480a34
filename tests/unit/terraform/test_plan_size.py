from __future__ import annotations

import json
import tracemalloc

import pytest

from holdfast.terraform.plan.model import read_plan
from holdfast.terraform.plan.values import sensitive_values


@pytest.fixture(scope="module")
def large_plan() -> bytes:
    """About 6 MB, with the proportions of a real one: mostly values, most of them unchanged."""
    statement = {
        "Effect": "Allow",
        "Action": ["s3:GetObject", "s3:PutObject"],
        "Resource": "arn:aws:s3:::b/*",
    }
    value = {"id": "i-0123456789", "policy": [statement] * 5, "password": "hunter2", "tags": {"a": "b"}}
    mask = {"password": True, "policy": [{}] * 5, "tags": {}}
    change = {
        "actions": ["no-op"],
        "before": value,
        "after": value,
        "before_sensitive": mask,
        "after_sensitive": mask,
    }
    changes = [
        {"address": f"module.m[{number}].x.y", "mode": "managed", "type": "x", "name": "y", "change": change}
        for number in range(4000)
    ]
    return json.dumps({"format_version": "1.2", "resource_changes": changes}).encode()


def test_reading_keeps_memory_near_the_size_of_the_file(large_plan: bytes) -> None:
    """Values are not copied: with the file itself, reading stays far below five times its size."""
    tracemalloc.start()
    try:
        plan = read_plan(large_plan)
        assert sensitive_values(plan) == {"hunter2"}
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak + len(large_plan) <= 3 * len(large_plan)
