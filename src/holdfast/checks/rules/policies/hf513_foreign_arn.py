from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from holdfast.checks.iam.arns import ACCOUNT, PARTITIONS, parse_arn, partition_of
from holdfast.checks.iam.collect import (
    finding_from_issue,
    policies_of_module,
    policies_of_variables,
    policy_files,
)
from holdfast.checks.iam.document import Issue, Node, display_text
from holdfast.checks.iam.ownership import checked_stack_account, environment_accounts
from holdfast.checks.iam.policies import Policies
from holdfast.checks.iam.statements import Statement
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped
from holdfast.checks.model.subjects import CheckedStack, VariablesFile


class _StackIdentity(Struct, frozen=True):
    account: str | None
    partition: str | None
    others: dict[str, str]
    """Accounts of stacks in other environments, with the environment."""


def _in_stack(stack: CheckedStack) -> Iterator[CheckResult]:
    folders = dict.fromkeys(visited.folder for visited in stack.scopes if not visited.dormant)
    own = _identity_of(stack)
    unknown = False
    for folder in folders:
        for result in _check(policies_of_module(stack.checkout.module(folder)), own, stack):
            unknown = unknown or isinstance(result, Skipped)
            if not isinstance(result, Skipped):
                yield result
    if unknown:
        yield _account_unknown(stack)


def _in_variables(variables: VariablesFile) -> Iterator[CheckResult]:
    for stack in variables.stacks:
        yield from _check(policies_of_variables(variables), _identity_of(stack), stack)


def _account_unknown(stack: CheckedStack) -> Skipped:
    reason = "the stack's account id is not known: add it to `checks.accounts` in holdfast.yaml"
    return Skipped(reason=reason, stack=stack.name)


def _identity_of(stack: CheckedStack) -> _StackIdentity:
    every, own = environment_accounts(stack.checkout), stack.stack.environment
    others = {
        number: environment
        for environment, number in every
        if environment and environment != own and number is not None
    }
    same = {number for environment, number in every if environment == own}
    region = stack.stack.region
    return _StackIdentity(
        checked_stack_account(stack),
        partition_of(region) if region else None,
        {number: name for number, name in others.items() if number not in same},
    )


def _check(policies: Policies, own: _StackIdentity, stack: CheckedStack) -> Iterator[CheckResult]:
    for policy in policies.policies:
        for statement in policy.statements:
            for issue in _check_statement(statement, own):
                if issue is None:
                    yield _account_unknown(stack)
                else:
                    yield finding_from_issue(policy, issue, Severity.WARNING, stack.name)


def _check_statement(statement: Statement, own: _StackIdentity) -> Iterator[Issue | None]:
    """None: the document names an account, but the stack's own is not known."""
    crossing = any(word.lower().startswith("sts:") for word in statement.actions.words)
    for item in statement.resources.all:
        yield from _check_partition(item, own)
        account = _account(item)
        if account is None or crossing or account == own.account or _is_published(item, account, own):
            continue
        if own.account is None:
            yield None
        else:
            yield Issue(
                f"`{display_text(item.content)}` belongs to account {account}; the stack's is {own.account}",
                item,
            )
    for principal in statement.principals:
        yield from _check_partition(principal.at, own)
        account = _account(principal.at)
        if statement.allows and account in own.others and account != own.account:
            yield Issue(
                f"`{display_text(principal.at.content)}` belongs to the environment {own.others[account]}",
                principal.at,
            )
    for test in statement.conditions.tests:
        for item in test.values.all:
            yield from _check_partition(item, own)


def _check_partition(item: Node, own: _StackIdentity) -> Iterator[Issue]:
    arn = parse_arn(str(item.content))
    if arn is None or own.partition is None or arn.partition not in PARTITIONS:
        return
    if arn.partition != own.partition:
        message = (
            f"`{display_text(item.content)}` is in partition {arn.partition}; the stack's is {own.partition}"
        )
        yield Issue(message, item)


def _is_published(item: Node, account: str, own: _StackIdentity) -> bool:
    """Lambda layers and images that others publish belong to their account."""
    arn = parse_arn(str(item.content))
    layer = arn is not None and arn.service == "lambda" and arn.resource.startswith("layer:")
    image = arn is not None and arn.service == "ecr" and account in _IMAGES
    return (layer or image) and account not in own.others


_IMAGES = frozenset(("602401143452", "763104351884"))
"""Accounts of AWS: EKS add-ons and deep learning images."""


def _account(item: Node) -> str | None:
    text = str(item.content)
    arn = parse_arn(text)
    account = arn.account if arn is not None else text
    return account if ACCOUNT.fullmatch(account) else None


RULE = Rule(
    id="HF513",
    title="ARN of another account or partition",
    fix="Use the stack's own account and partition, preferably from `data.aws_caller_identity` and "
    "`data.aws_partition`.",
    severity=Severity.WARNING,
    needs="`checks.accounts`",
    configured=lambda checkout: bool(checkout.config.checks.accounts),
    stack=_in_stack,
    variables=_in_variables,
    extra_files=policy_files,
)
