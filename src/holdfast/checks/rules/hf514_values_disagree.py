"""HF514: a stack whose values say another account or region than its own."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.arns import ACCOUNT
from holdfast.checks.iam.ownership import VARIABLES, account_of
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.subjects import CheckedStack
from holdfast.kernel.errors import Place


def _look(stack: CheckedStack) -> Iterator[Finding]:
    number = account_of(stack.checkout, stack.stack)
    expected = {
        "account": stack.stack.account,
        "aws_account": stack.stack.account,
        "region": stack.stack.region,
        "aws_region": stack.stack.region,
        **dict.fromkeys(VARIABLES, number),
    }
    for name, own in expected.items():
        given = stack.scope.variables.get(name)
        if own is None or not isinstance(given, str) or given == own or not given:
            continue
        if ACCOUNT.fullmatch(given) and not ACCOUNT.fullmatch(own):
            own = number  # noqa: PLW2901 - a number is compared with the number of the same account
            if own is None or given == own:
                continue
        yield finding(
            _place(stack, name), f"`{name}` is `{given}`; the stack's own is `{own}`", address=f"var.{name}"
        )


def _place(stack: CheckedStack, name: str) -> Place:
    """Where the value stands: the last file that sets it."""
    for path in reversed(stack.stack.variables_files):
        file = stack.checkout.code.file(path)
        attribute = file.body.attribute(name) if file is not None else None
        if attribute is not None:
            return attribute.place
    variable = stack.module.code.variables.get(name)
    return variable.place if variable is not None else stack.place


RULE = Rule(
    id="HF514",
    title="A stack whose values say another account or region",
    why="A file that was copied from another account's folder and only half changed plans into the one "
    "account with the names of the other.",
    fix="Say the same in both places, or take the value from the stack's name alone.",
    severity=Severity.WARNING,
    stack=_look,
    more="Compared: the variables `account`, `aws_account`, `account_id`, `aws_account_id`, `region` and "
    "`aws_region` with the `account` and `region` that the stack has in `holdfast.yaml` (from its path, "
    "most often).\n",
)
