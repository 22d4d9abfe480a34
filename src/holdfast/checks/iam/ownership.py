"""Whose account is whose: the accounts of the stacks, and those that the configuration calls one's own."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.arns import ACCOUNT, account_in
from holdfast.checks.model.subjects import CheckedStack, Checkout
from holdfast.stacks.stack import Stack

VARIABLES = ("account_id", "aws_account_id")
"""Variables whose value is the account's number, by what most people call them."""


def account_of(checkout: Checkout, stack: Stack) -> str | None:
    """The number of a stack's account: as it is called, as the configuration lists it, or by its role."""
    named = stack.account or ""
    listed = checkout.config.checks.accounts.get(named, named)
    if ACCOUNT.fullmatch(listed):
        return listed
    role = stack.credentials.get("aws", {}).get("role_arn")
    return account_in(role) if isinstance(role, str) else None


def account_of_checked(stack: CheckedStack) -> str | None:
    """The same, and what its own variables say."""
    found = account_of(stack.checkout, stack.stack)
    if found is not None:
        return found
    given = (stack.scope.variables.get(name) for name in VARIABLES)
    return next((one for one in given if isinstance(one, str) and ACCOUNT.fullmatch(one)), None)


def accounts_of_all(checkout: Checkout) -> tuple[tuple[str | None, str | None], ...]:
    """Environment and account of all stacks, each pair once and in the place of its last stack."""
    return checkout.code.once(("accounts of all",), lambda: _of_all(checkout))


def _of_all(checkout: Checkout) -> tuple[tuple[str | None, str | None], ...]:
    found: dict[tuple[str | None, str | None], None] = {}
    for stack in checkout.all_stacks:
        pair = (stack.environment, account_of(checkout, stack))
        found.pop(pair, None)
        found[pair] = None
    return tuple(found)


def own_accounts(checkout: Checkout) -> frozenset[str]:
    """Every account that is known to be one's own."""
    found: frozenset[str] = checkout.code.once(("own accounts",), lambda: frozenset(_own(checkout)))
    return found


def _own(checkout: Checkout) -> Iterator[str]:
    yield from checkout.config.checks.accounts.values()
    for stack in checkout.all_stacks:
        if (account := account_of(checkout, stack)) is not None:
            yield account
    for checked in checkout.stacks:
        if (account := account_of_checked(checked)) is not None:
            yield account
