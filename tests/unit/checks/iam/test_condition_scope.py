"""Conditions that keep somebody out, and those that only look as if they did."""

from __future__ import annotations

import pytest

from holdfast.checks.iam.conditions import is_narrow

NARROW = (
    ("aws:principalorgid", "StringEquals", "o-a1b2c3d4e5"),
    ("aws:principalorgpaths", "StringLike", "o-a1b2c3d4e5/r-ab12/*"),
    ("aws:principalaccount", "StringEquals", "${aws:ResourceAccount}"),
    ("aws:sourcearn", "ArnLike", "arn:aws:sns:*:111122223333:*"),
    ("aws:sourcearn", "ArnLike", "arn:aws:s3:*:*:acme-logs"),
    ("aws:sourcearn", "ArnEquals", "arn:aws:s3:::acme-logs"),
    ("aws:sourcearn", "StringLike", "*:111122223333:*"),
    ("aws:sourceip", "IpAddress", "203.0.113.0/24"),
    ("aws:sourceip", "IpAddress", "fc00::/7"),
    ("aws:sourceip", "IpAddress", "2001:db8::/32"),
    ("elasticfilesystem:accessedviamounttarget", "Bool", "true"),
)
WIDE = (
    ("aws:principalorgid", "StringLike", "o-*"),
    ("aws:principalorgid", "StringLike", "*"),
    ("aws:principalaccount", "StringEquals", "${aws:PrincipalAccount}"),
    ("aws:principalarn", "ArnLike", "arn:aws:iam::*:role/*"),
    ("aws:principalarn", "StringLike", "*:role/admin"),
    ("aws:sourcearn", "ArnLike", "arn:aws:sns:*:*:*"),
    ("aws:sourcearn", "ArnLike", "arn:aws:s3:*:*:*"),
    ("aws:sourcearn", "ArnLike", "arn:aws:s3:::*"),
    ("aws:sourceip", "IpAddress", "0.0.0.0/0"),
    ("aws:sourceip", "IpAddress", "128.0.0.0/1"),
    ("aws:sourceip", "IpAddress", "1.2.3.4/0"),
    ("aws:sourceip", "IpAddress", "2000::/3"),
    ("elasticfilesystem:accessedviamounttarget", "Bool", "false"),
)


@pytest.mark.parametrize(("key", "operator", "word"), NARROW)
def test_a_value_that_names_a_caller_is_narrow(key: str, operator: str, word: str) -> None:
    """An account, an organization, a bucket, a network."""
    assert is_narrow(key, operator, [word])


@pytest.mark.parametrize(("key", "operator", "word"), WIDE)
def test_a_value_that_everybody_has_is_not_narrow(key: str, operator: str, word: str) -> None:
    """Nor is a list with one such value in it."""
    assert not is_narrow(key, operator, ["111122223333", word])


def test_an_unknown_condition_counts_as_narrow() -> None:
    """No value is known: nothing is said."""
    assert is_narrow("aws:sourcearn", "ArnLike", [])
