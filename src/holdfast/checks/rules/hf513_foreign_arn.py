from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from holdfast.checks.iam.arns import ACCOUNT, PARTITIONS, arn_of, partition_of
from holdfast.checks.iam.collect import files_beside, of_module, of_variables
from holdfast.checks.iam.document import Node, shown
from holdfast.checks.iam.issue import Said
from holdfast.checks.iam.ownership import account_of_checked, accounts_of_all
from holdfast.checks.iam.policies import Policies
from holdfast.checks.iam.statements import Statement
from holdfast.checks.iam.to_findings import found
from holdfast.checks.model.interface import CheckResult, Rule, Severity, Skipped
from holdfast.checks.model.subjects import CheckedStack, VariablesFile


class _Home(Struct, frozen=True):
    account: str | None
    partition: str | None
    others: dict[str, str]
    """Accounts of stacks in other environments, with the environment."""


def _in_stack(stack: CheckedStack) -> Iterator[CheckResult]:
    folders = dict.fromkeys(visited.folder for visited in stack.scopes if not visited.dormant)
    home = _home(stack)
    unseen = False
    for folder in folders:
        for answer in _check(of_module(stack.checkout.module(folder)), home, stack):
            unseen = unseen or isinstance(answer, Skipped)
            if not isinstance(answer, Skipped):
                yield answer
    if unseen:
        yield _unseen(stack)


def _in_variables(variables: VariablesFile) -> Iterator[CheckResult]:
    for stack in variables.stacks:
        yield from _check(of_variables(variables), _home(stack), stack)


def _unseen(stack: CheckedStack) -> Skipped:
    reason = "the stack's account id is not known: add it to `checks.accounts` in holdfast.yaml"
    return Skipped(reason=reason, stack=stack.name)


def _home(stack: CheckedStack) -> _Home:
    every, own = accounts_of_all(stack.checkout), stack.stack.environment
    others = {
        number: environment
        for environment, number in every
        if environment and environment != own and number is not None
    }
    same = {number for environment, number in every if environment == own}
    region = stack.stack.region
    return _Home(
        account_of_checked(stack),
        partition_of(region) if region else None,
        {number: name for number, name in others.items() if number not in same},
    )


def _check(policies: Policies, home: _Home, stack: CheckedStack) -> Iterator[CheckResult]:
    for policy in policies.found:
        for statement in policy.statements:
            for answer in _statement(statement, home):
                if answer is None:
                    yield _unseen(stack)
                else:
                    yield found(policy, answer, Severity.WARNING, stack.name)


def _statement(statement: Statement, home: _Home) -> Iterator[Said | None]:
    """None: the document names an account, but the stack's own is not known."""
    crossing = any(word.lower().startswith("sts:") for word in statement.actions.words)
    for item in statement.resources.all:
        yield from _partition(item, home)
        account = _account(item)
        if account is None or crossing or account == home.account or _is_published(item, account, home):
            continue
        if home.account is None:
            yield None
        else:
            yield Said(
                f"`{shown(item.content)}` belongs to account {account}; the stack's is {home.account}", item
            )
    for who in statement.principals:
        yield from _partition(who.at, home)
        account = _account(who.at)
        if statement.allows and account in home.others and account != home.account:
            yield Said(f"`{shown(who.at.content)}` belongs to the environment {home.others[account]}", who.at)
    for test in statement.conditions.tests:
        for item in test.values.all:
            yield from _partition(item, home)


def _partition(item: Node, home: _Home) -> Iterator[Said]:
    arn = arn_of(str(item.content))
    if arn is None or home.partition is None or arn.partition not in PARTITIONS:
        return
    if arn.partition != home.partition:
        message = f"`{shown(item.content)}` is in partition {arn.partition}; the stack's is {home.partition}"
        yield Said(message, item)


def _is_published(item: Node, account: str, home: _Home) -> bool:
    """Lambda layers and images that others publish belong to their account."""
    arn = arn_of(str(item.content))
    layer = arn is not None and arn.service == "lambda" and arn.resource.startswith("layer:")
    image = arn is not None and arn.service == "ecr" and account in _IMAGES
    return (layer or image) and account not in home.others


_IMAGES = frozenset(("602401143452", "763104351884"))
"""Accounts of AWS: EKS add-ons and deep learning images."""


def _account(item: Node) -> str | None:
    text = str(item.content)
    arn = arn_of(text)
    account = arn.account if arn is not None else text
    return account if ACCOUNT.fullmatch(account) else None


RULE = Rule(
    id="HF513",
    title="ARN of another account or partition",
    why="It was most likely copied from another environment: the policy has no effect here, or gives "
    "one environment access to the other.",
    fix="Use the stack's own account and partition, preferably from `data.aws_caller_identity` and "
    "`data.aws_partition`.",
    severity=Severity.WARNING,
    stack=_in_stack,
    variables=_in_variables,
    extra_files=files_beside,
    more="""\
The stack's account is its `account` if that is a number, otherwise its entry in `checks.accounts`, the
account of the role in `credentials`, or a variable `account_id`. The partition is that of its region.

Resources of other accounts in `sts:` statements are expected, and so are Lambda layers of accounts outside
the repository. A principal is only reported if its account belongs to another environment of the
repository.""",
)
