from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.arns import ACCOUNT
from holdfast.checks.iam.ownership import VARIABLES, stack_account
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import CheckedStack
from holdfast.kernel.errors import Place


def _check(stack: CheckedStack) -> Iterator[Finding]:
    number = stack_account(stack.checkout, stack.stack)
    expected = {
        "account": stack.stack.account,
        "aws_account": stack.stack.account,
        "region": stack.stack.region,
        "aws_region": stack.stack.region,
        **dict.fromkeys(VARIABLES, number),
    }
    for name, own in expected.items():
        value = stack.scope.variables.get(name)
        if own is None or not isinstance(value, str) or value == own or not value:
            continue
        if ACCOUNT.fullmatch(value) and not ACCOUNT.fullmatch(own):
            own = number  # noqa: PLW2901 - an account id is compared with the account id
            if own is None or value == own:
                continue
        yield finding(
            _place(stack, name), f"`{name}` is `{value}`, but the stack has `{own}`", address=f"var.{name}"
        )


def _place(stack: CheckedStack, name: str) -> Place:
    """Where the value is set: the last file that sets it."""
    for path in reversed(stack.stack.variables_files):
        file = stack.checkout.code.file(path)
        attribute = file.body.attribute(name) if file is not None else None
        if attribute is not None:
            return attribute.place
    variable = stack.module.code.variables.get(name)
    return variable.place if variable is not None else stack.place


RULE = Rule(
    id="HF514",
    title="Variables contradict the stack's account or region",
    fix="Use the same value in both places, or derive it from the stack only.",
    severity=Severity.WARNING,
    stack=_check,
)
