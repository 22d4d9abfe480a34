from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.errors import EngineError
from holdfast.terraform.plan.diff import EVERYTHING, differences
from holdfast.terraform.plan.model import read_plan
from holdfast.terraform.plan.values import sensitive_values

MARK = "hunter"
leaves = st.sampled_from(["plain", 1, None, True]) | st.integers(0, 9).map(lambda number: f"{MARK}{number}")
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def mask_of(value: Any) -> Any:
    """As Terraform masks: true at each secret leaf, following the shape of the value."""
    if isinstance(value, dict):
        return {key: mask for key, part in value.items() if (mask := mask_of(part)) not in (False, {}, [])}
    if isinstance(value, list):
        return [mask_of(part) for part in value]
    return isinstance(value, str) and value.startswith(MARK)


def secrets_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set().union(*map(secrets_of, value.values()))
    if isinstance(value, list):
        return set().union(*map(secrets_of, value))
    return {value} if isinstance(value, str) and value.startswith(MARK) else set()


@given(values, values, st.lists(st.sampled_from(["create", "delete", "update", "frob"]), max_size=2))
def test_no_masked_value_is_ever_shown_and_all_are_known(before: Any, after: Any, actions: list[str]) -> None:
    """Whatever the shapes on the two sides, a masked part appears in no text and is known to the redactor."""
    change = {
        "actions": actions,
        "before": before,
        "after": after,
        "before_sensitive": mask_of(before),
        "after_sensitive": mask_of(after),
    }
    document = {"format_version": "1.2", "resource_changes": [{"address": "x.y", "change": change}]}
    plan = read_plan(json.dumps(document).encode())
    shown = differences(plan.changes[0], clean=lambda _, text: text, limits=EVERYTHING)
    assert MARK not in repr(shown)
    assert sensitive_values(plan) == secrets_of(before) | secrets_of(after)


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists).map(
        lambda value: json.dumps(value).encode()
    )
)
def test_nonsense_is_an_engine_error(data: bytes) -> None:
    """No bytes make the reader crash, and none but a plan make a plan."""
    try:
        read_plan(data)
    except EngineError as error:
        assert error.problem.code in {"HF-PLAN-1", "HF-PLAN-2"}  # noqa: PT017 - the only outcome
    else:
        raise AssertionError(data)
