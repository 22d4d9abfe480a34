"""Rules of a server about approvals: which stacks they cover."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.guard import RequiredApprovals
from holdfast.config.server import load_server_settings
from holdfast.store.approval_rules import ApprovalRule, ServerRules, rules_from_settings


@pytest.mark.parametrize(
    ("rule", "stack", "environments", "covered"),
    [
        (ApprovalRule(), "a", ["dev"], True),
        (ApprovalRule(environments=("prod",)), "a", ["prod"], True),
        (ApprovalRule(environments=("prod*",)), "a", ["production"], True),
        (ApprovalRule(environments=("prod",)), "a", ["dev"], False),
        # It was in production when it was last applied.
        (ApprovalRule(environments=("prod",)), "a", ["dev", "prod"], True),
        # It could be any.
        (ApprovalRule(environments=("prod",)), "a", [None], True),
        (ApprovalRule(stacks=("pay/*",)), "pay/db", ["dev"], True),
        (ApprovalRule(stacks=("pay/*",)), "net", [None], False),
        (ApprovalRule(stacks=("pay/*",), environments=("prod",)), "pay/db", ["dev"], False),
    ],
)
def test_a_rule_covers_what_a_stack_is_and_was(
    rule: ApprovalRule, stack: str, environments: list[str | None], covered: object
) -> None:
    assert rule.covers(stack, environments) is covered


def test_they_are_read_from_server_yaml(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(
        "version: 1\nruns: {approval_lifetime: 1h}\napprovals:\n"
        "  - {tenant: pay*, environments: prod, count: 2, group: dba}\n  - {role: approver}\n"
    )
    rules = rules_from_settings(load_server_settings(file))
    first = ApprovalRule(tenant="pay*", environments=("prod",), count=2, group="dba")
    assert rules == ServerRules(approvals=(first, ApprovalRule(role="approver")), approval_lifetime=3600.0)
    assert first.required == RequiredApprovals(count=2, verified=True, group="dba")
