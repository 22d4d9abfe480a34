"""AWS accounts: those of the stacks, and those in the configuration."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.arns import ACCOUNT, account_in
from holdfast.checks.model.subjects import CheckedStack, Checkout
from holdfast.stacks.stack import Stack

VARIABLES = ("account_id", "aws_account_id")
"""The usual names of variables with the account id."""


def stack_account(checkout: Checkout, stack: Stack) -> str | None:
    """The account id of a stack: its name, the configuration's entry for it, or that of its role."""
    named = stack.account or ""
    listed = checkout.config.checks.accounts.get(named, named)
    if ACCOUNT.fullmatch(listed):
        return listed
    role = stack.credentials.get("aws", {}).get("role_arn")
    return account_in(role) if isinstance(role, str) else None


def checked_stack_account(stack: CheckedStack) -> str | None:
    """The same, or else the value of its variables."""
    account = stack_account(stack.checkout, stack.stack)
    if account is not None:
        return account
    values = (stack.scope.variables.get(name) for name in VARIABLES)
    return next((text for text in values if isinstance(text, str) and ACCOUNT.fullmatch(text)), None)


def environment_accounts(checkout: Checkout) -> tuple[tuple[str | None, str | None], ...]:
    """Environment and account of all stacks, each pair once, in the order of the last stack with it."""
    return checkout.code.once(("accounts of all",), lambda: _find_environment_accounts(checkout))


def _find_environment_accounts(checkout: Checkout) -> tuple[tuple[str | None, str | None], ...]:
    pairs: dict[tuple[str | None, str | None], None] = {}
    for stack in checkout.all_stacks:
        pair = (stack.environment, stack_account(checkout, stack))
        pairs.pop(pair, None)
        pairs[pair] = None
    return tuple(pairs)


def own_accounts(checkout: Checkout) -> frozenset[str]:
    """Every known account of the organization."""
    accounts: frozenset[str] = checkout.code.once(
        ("own accounts",), lambda: frozenset(_find_own_accounts(checkout))
    )
    return accounts


def _find_own_accounts(checkout: Checkout) -> Iterator[str]:
    yield from checkout.config.checks.accounts.values()
    for stack in checkout.all_stacks:
        if (account := stack_account(checkout, stack)) is not None:
            yield account
    for checked in checkout.stacks:
        if (account := checked_stack_account(checked)) is not None:
            yield account
