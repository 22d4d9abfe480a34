from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.checks.iam.condition_scope import narrow
from holdfast.checks.iam.danger import ESCALATING, REVEALING, first_danger
from holdfast.checks.iam.document import Node, shown
from holdfast.checks.iam.issue import Said
from holdfast.checks.iam.policies import Policy
from holdfast.checks.iam.policy_types import Kind
from holdfast.checks.iam.statements import Comparison, Statement
from holdfast.checks.iam.to_findings import for_policies
from holdfast.checks.model.interface import Rule, Severity

_NO_BOUND: Final = ("aws:securetransport", "aws:requestedregion")
_ALWAYS_THERE: Final = ("iam:passedtoservice",)


def _judge(policy: Policy) -> Iterator[Said]:
    if policy.kind not in (Kind.IDENTITY, Kind.UNCLEAR):
        return
    for statement in policy.statements:
        if statement.allows and not _bounded(statement):
            for action in statement.actions.known:
                yield from _action(action, statement)


def _bounded(statement: Statement) -> bool:
    """A condition may restrict the statement, and a principal makes it a resource policy."""
    conditions = statement.conditions
    named = bool(statement.principals) or statement.not_principal is not None
    return (
        conditions.unsure
        or named
        or statement.node.fields.has("Principal")
        or any(map(_bounds, conditions.tests))
    )


def _bounds(test: Comparison) -> bool:
    if test.key in _NO_BOUND or (test.holds_without and test.key not in _ALWAYS_THERE):
        return False
    return test.negative or test.bare == "Null" or narrow(test.key, test.bare, test.values.words)


def _action(action: Node, statement: Statement) -> Iterator[Said]:
    pattern = str(action.content)
    if pattern in ("*", "*:*"):
        return
    for table in (ESCALATING, REVEALING):
        for item in statement.resources.all:
            found = first_danger(pattern, table, str(item.content))
            if found is not None:
                yield _issue(action, item, found, grave=table is ESCALATING)
                return


def _issue(action: Node, resource: Node, found: tuple[str, str], *, grave: bool) -> Said:
    pattern, (name, why) = str(action.content), found
    what = f"`{pattern}`" if pattern.lower() == name.lower() else f"`{pattern}` ({name})"
    whole = not str(resource.content).strip("*")
    where = "every resource" if whole else f"`{shown(resource.content)}`"
    return Said(f"{what} is allowed on {where}: {why}", action, grave=grave)


RULE = Rule(
    id="HF505",
    title="Dangerous action on every resource",
    why="Some actions let an identity give itself all others: `iam:PassRole` on everything, for "
    "example, by starting an instance with an administrator role.",
    fix="Restrict `Resource` to the roles, keys or secrets that are needed, or add a condition.",
    severity=Severity.ERROR,
    **for_policies(_judge, Severity.ERROR),
    bad="""\
resource "aws_iam_role_policy" "deploy" {
  role = "deploy"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["ec2:RunInstances", "iam:PassRole"]
      Resource = "*"
    }]
  })
}
""",
    good="""\
resource "aws_iam_role_policy" "deploy" {
  role = "deploy"
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = "ec2:RunInstances", Resource = "*" },
      { Effect = "Allow", Action = "iam:PassRole", Resource = "arn:aws:iam::111122223333:role/web" },
    ]
  })
}
""",
    more="\n".join(
        (
            "Errors (also through wildcards):",
            "",
            *(f"- `{action}`: {why}" for action, why in ESCALATING.items()),
            "",
            "Warnings:",
            "",
            *(f"- `{action}`: {why}" for action, why in REVEALING.items()),
            "",
            "Every resource means `*`, or all resources of the action's type: `arn:aws:iam::*:role/*`.",
            "",
            "A statement with a condition is not reported unless the condition restricts nothing: only",
            "`aws:SecureTransport` or the region, a value that matches everything, or an operator that is",
            "true when the key is missing (`…IfExists`, `ForAllValues:`).",
            "",
        )
    ),
)
