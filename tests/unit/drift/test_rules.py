"""Rules that ignore drift: only what they say, and only until they end."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from drift_made import observed

from holdfast.config.drift import IgnoreRule
from holdfast.drift.rules import judge

UNTIL = date(2027, 1, 1)
GROUP = "aws_autoscaling_group.web"
CAPACITY = {"address": "aws_autoscaling_group.*", "attribute": "desired_capacity"}


def rule(**keys: Any) -> IgnoreRule:
    return IgnoreRule(**{"owner": "platform", "until": UNTIL, **keys})


@pytest.mark.parametrize(
    ("keys", "address", "attribute", "number", "counted"),
    [
        (CAPACITY, GROUP, "desired_capacity", 1, 0),
        (CAPACITY, GROUP, "max_size", 1, 1),
        (CAPACITY, "aws_instance.web", "desired_capacity", 1, 1),
        ({"address": "aws_autoscaling_group.*"}, 'aws_autoscaling_group.web["a"]', None, None, 0),
        ({"address": "aws_instance.web"}, "aws_instance.web[0]", "ami", None, 0),
        ({"address": "aws_instance.web[0]"}, "aws_instance.web[0]", "ami", None, 0),
        ({"address": "aws_instance.web[0]"}, "aws_instance.web[1]", "ami", None, 1),
        ({"attribute": "tags"}, "aws_instance.web", "tags.owner", None, 0),
        ({"attribute": "tags"}, "aws_instance.web", 'tags["aws:x"]', None, 0),
        ({"attribute": "tag"}, "aws_instance.web", "tags.owner", None, 1),
        ({"attribute": "ami"}, "aws_instance.web", None, None, 1),
        ({"tags": ("aws:*",)}, "aws_instance.web", 'tags_all["aws:x"]', None, 0),
        ({"tags": ("aws:*",)}, "aws_instance.web", "tags.owner", None, 1),
        ({"tags": ("owner",)}, "aws_instance.web", "owner", None, 1),
        ({"attribute": "size", "tolerance": 2}, "aws_instance.web", "size", 2, 0),
        ({"attribute": "size", "tolerance": 2}, "aws_instance.web", "size", 2.5, 1),
        ({"attribute": "size", "tolerance": 2}, "aws_instance.web", "size", None, 1),
    ],
)  # fmt: skip
def test_a_rule_ignores_what_matches_all_its_keys(
    keys: dict[str, Any], address: str, attribute: str | None, number: float | None, counted: int
) -> None:
    """And nothing else: no deletion for a rule about an attribute, no text for one about numbers."""
    found = observed(address, attribute, number=number)
    judged = judge([found], [rule(**keys)], UNTIL)
    assert (len(judged.counted), len(judged.ignored)) == (counted, 1 - counted)


def test_a_rule_that_ended_ignores_nothing_and_is_named() -> None:
    """With its owner; the last day still counts."""
    [given] = [rule(attribute="body")]
    assert judge([observed()], [given], UNTIL).counted == ()
    judged = judge([observed()], [given], date(2027, 1, 2))
    assert judged.counted == (observed(),)
    assert judged.expired == ("the rule that ignored * body ended on 2027-01-01 (owner: platform)",)
    assert (
        judge([observed()], [given, rule(attribute="body", until=date(2028, 1, 1))], date(2027, 1, 2)).expired
        == ()
    )
