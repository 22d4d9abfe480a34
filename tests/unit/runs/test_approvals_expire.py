"""How long an approval or override of a plan is in force."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.runs.approval import OVERRIDE_LIFETIME
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.system import clock


@pytest.mark.parametrize(
    ("after", "valid"),
    [
        (timedelta(0), True),
        (OVERRIDE_LIFETIME - timedelta(seconds=5), True),
        (OVERRIDE_LIFETIME + timedelta(seconds=5), False),
    ],
)
def test_an_override_ends_after_24_hours(after: timedelta, *, valid: bool) -> None:
    """What was meant yesterday is asked for again today."""
    assert timedelta(hours=24) == OVERRIDE_LIFETIME
    given = clock.now()
    one = Approval(
        kind=ApprovalKind.OVERRIDE,
        digest="d",
        stack="a",
        run="r",
        who={"kind": "person", "name": "ada", "verified": False},
        reason="why",
        at=given.isoformat(),
        until=(given + OVERRIDE_LIFETIME).isoformat(),
    )
    assert one.in_force((given + after).isoformat()) is valid


def test_an_approval_holds_as_long_as_its_plan() -> None:
    """It ends with the plan, which is applied once, or goes stale."""
    one = Approval(
        kind=ApprovalKind.APPROVAL,
        digest="d",
        stack="a",
        run="r",
        who={"name": "ada"},
        reason="why",
        at="then",
    )
    assert one.in_force("9999")
    assert one.shown == "ada, unverified"
