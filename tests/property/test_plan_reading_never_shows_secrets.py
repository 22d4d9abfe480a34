from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.errors import EngineError
from holdfast.terraform.plan.model import read_plan
from holdfast.terraform.plan.values import differences, sensitive_values

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
    assert MARK not in repr(differences(plan.changes[0], clean=str, at_most=1000))
    assert sensitive_values(plan) == secrets_of(before) | secrets_of(after)


@given(values, values)
def test_a_difference_is_shown_exactly_when_there_is_one(before: Any, after: Any) -> None:
    """Equal objects show nothing; different ones show something."""
    change = {"actions": ["update"], "before": before, "after": after}
    document = {"format_version": "1.2", "resource_changes": [{"address": "x.y", "change": change}]}
    found = differences(read_plan(json.dumps(document).encode()).changes[0], clean=str)
    if json.dumps(before, sort_keys=True) == json.dumps(after, sort_keys=True):
        assert found.shown == ()
    elif not (_hollow(before) or _hollow(after)):
        assert found.shown != ()


def _hollow(value: Any) -> bool:
    """Holds nulls or empties somewhere: those are equal to being absent."""
    if isinstance(value, dict):
        return not value or any(map(_hollow, value.values()))
    if isinstance(value, list):
        return not value or any(map(_hollow, value))
    return value is None or value is True or value == 1


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
