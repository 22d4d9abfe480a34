from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.arns import account_in
from holdfast.checks.iam.collect import finding_from_issue, for_policies
from holdfast.checks.iam.document import Issue
from holdfast.checks.iam.ownership import own_accounts
from holdfast.checks.iam.policies import Policies
from holdfast.checks.iam.policy_types import PolicyKind
from holdfast.checks.iam.statements import Statement
from holdfast.checks.model.interface import CheckResult, Rule, Severity
from holdfast.checks.model.subjects import Checkout

_OWN = ("aws:principalorgid", "aws:principalorgpaths")


def _check(policies: Policies, checkout: Checkout) -> Iterator[CheckResult]:
    own = own_accounts(checkout)
    for policy in policies.policies:
        if policy.kind not in (PolicyKind.TRUST, PolicyKind.UNCLEAR):
            continue
        issues = [issue for statement in policy.statements for issue in _foreign_accounts(statement, own)]
        for issue in issues:
            yield finding_from_issue(policy, issue, Severity.WARNING)


def _foreign_accounts(statement: Statement, own: frozenset[str]) -> Iterator[Issue]:
    if not statement.allows or statement.matching_action("sts:AssumeRole") is None:
        return
    if statement.conditions.restricts("sts:externalid", *_OWN):
        return
    for principal in statement.principals:
        account = account_in(principal.name) if principal.type == "AWS" else None
        if account is not None and account not in own:
            yield Issue(f"the account {account} is not yours, and no external id is required", principal.at)


RULE = Rule(
    id="HF510",
    title="Third-party account trusted without an external id",
    fix="Add a condition: `StringEquals` on `sts:ExternalId`. If the account is yours, list it in "
    "`checks.accounts`.",
    severity=Severity.WARNING,
    needs="`checks.accounts`",
    configured=lambda checkout: bool(checkout.config.checks.accounts),
    **for_policies(_check),
)
