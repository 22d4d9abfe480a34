"""What statements say: actions by patterns, conditions that hold or do not."""

from __future__ import annotations

import pytest

from holdfast.checks.iam.document import node_from_value
from holdfast.checks.iam.statements import Statement, covers, statements
from holdfast.hcl.reader import UNKNOWN


def one(**statement: object) -> Statement:
    (found,) = statements(node_from_value({"Statement": [{"Effect": "Allow", **statement}]}))
    return found


@pytest.mark.parametrize(
    ("pattern", "action", "expected"),
    [
        ("*", "iam:PassRole", True),
        ("iam:*", "iam:PassRole", True),
        ("IAM:pass*", "iam:PassRole", True),
        ("iam:P?ssRole", "iam:PassRole", True),
        ("iam:Pass", "iam:PassRole", False),
        ("ec2:*", "iam:PassRole", False),
    ],
)
def test_actions_are_patterns(pattern: str, action: str, *, expected: bool) -> None:
    """The case of letters does not matter."""
    assert covers(pattern, action) is expected


@pytest.mark.parametrize(
    ("condition", "narrowed"),
    [
        ({"StringEquals": {"aws:SourceAccount": "111122223333"}}, True),
        ({"StringEquals": {"AWS:SourceAccount": ["111122223333"]}}, True),
        ({"ArnLike": {"aws:SourceAccount": "arn:aws:s3:::a"}}, True),
        ({"ForAnyValue:StringEquals": {"aws:SourceAccount": "1"}}, True),
        ({"StringLike": {"aws:SourceAccount": "*"}}, False),
        ({"ArnLike": {"aws:SourceAccount": "arn:*:*:*"}}, False),
        ({"StringEqualsIfExists": {"aws:SourceAccount": "1"}}, False),
        ({"ForAllValues:StringEquals": {"aws:SourceAccount": "1"}}, False),
        ({"StringNotEquals": {"aws:SourceAccount": "1"}}, False),
        ({"Null": {"aws:SourceAccount": "false"}}, False),
        ({"StringEquals": {"aws:PrincipalTag/a": "1"}}, False),
        ({"StringEquals": UNKNOWN}, True),
        (UNKNOWN, True),
        ({"StringEquals": {"aws:SourceAccount": UNKNOWN}}, True),
    ],
)
def test_a_condition_narrows_only_if_it_must_hold(condition: object, *, narrowed: bool) -> None:
    """What is not known may narrow: nothing is said about it."""
    assert one(Condition=condition).conditions.restricts("aws:sourceaccount") is narrowed


def test_a_statement_without_conditions_is_not_narrowed() -> None:
    """Nothing there is nothing."""
    assert not one(Action="*").conditions.restricts("aws:sourceaccount")


def test_an_effect_that_is_not_known_allows_nothing() -> None:
    """It may be a denial."""
    assert not one(Effect=UNKNOWN).allows


def test_a_statement_that_is_a_hole_is_left_out() -> None:
    """The others are still read."""
    assert len(statements(node_from_value({"Statement": [UNKNOWN, {"Effect": "Deny"}]}))) == 1
