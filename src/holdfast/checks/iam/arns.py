"""ARNs, and the accounts and partitions in them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.checks.iam.document import HOLE
from holdfast.kernel.patterns import pattern

PARTITIONS: Final = frozenset(
    ("aws", "aws-cn", "aws-us-gov", "aws-iso", "aws-iso-b", "aws-iso-e", "aws-iso-f", "aws-eusc")
)
ACCOUNT: Final = pattern(r"[0-9]{12}")
_PARTS = 6
_REGIONS: Final = (
    ("cn-", "aws-cn"),
    ("us-gov-", "aws-us-gov"),
    ("us-iso-", "aws-iso"),
    ("us-isob-", "aws-iso-b"),
    ("eu-isoe-", "aws-iso-e"),
    ("us-isof-", "aws-iso-f"),
    ("eusc-", "aws-eusc"),
)


class Arn(Struct, frozen=True):
    """`arn:partition:service:region:account:resource`; any part may contain wildcards or unknown parts."""

    partition: str
    service: str
    region: str
    account: str
    resource: str


def parse_arn(text: str) -> Arn | None:
    """None if the known part of the text is not an ARN."""
    parts = text.split(":", _PARTS - 1)
    if len(parts) != _PARTS or parts[0] != "arn":
        return None
    return Arn(*parts[1:])


def has_wildcard(text: str) -> bool:
    return "*" in text or "?" in text


def is_literal(part: str) -> bool:
    """Whether it has no wildcard, no unknown part and no policy variable."""
    return not has_wildcard(part) and HOLE not in part and "${" not in part


def account_in(text: str) -> str | None:
    """The account of a principal or an ARN, if it is exactly one."""
    if ACCOUNT.fullmatch(text):
        return text
    arn = parse_arn(text)
    return arn.account if arn is not None and ACCOUNT.fullmatch(arn.account) else None


def partition_of(region: str) -> str:
    return next((partition for start, partition in _REGIONS if region.startswith(start)), "aws")
