"""HF505: an action that leads to more rights, allowed on every resource."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.danger import ESCALATING, REVEALING, first_danger
from holdfast.checks.iam.document import Node
from holdfast.checks.iam.found import Policy, files_beside
from holdfast.checks.iam.judging import in_code, in_variables
from holdfast.checks.iam.kinds import Kind
from holdfast.checks.iam.said import Said
from holdfast.checks.iam.statements import Statement
from holdfast.checks.interface import Rule, Severity

_NO_BOUND = ("aws:securetransport", "aws:requestedregion")


def _judge(policy: Policy) -> Iterator[Said]:
    if policy.kind not in (Kind.IDENTITY, Kind.UNCLEAR):
        return
    for statement in policy.statements:
        concerns = statement.allows and statement.on_everything is not None and not _bounded(statement)
        if concerns:
            for action in statement.actions.known:
                yield from _action(action)


def _bounded(statement: Statement) -> bool:
    """A condition may bound what is allowed, and a principal makes it some resource's own policy."""
    conditions = statement.conditions
    bound = any(test.key not in _NO_BOUND for test in conditions.tests)
    named = bool(statement.principals) or statement.not_principal is not None
    return bound or conditions.unsure or named or statement.node.fields.has("Principal")


def _action(action: Node) -> Iterator[Said]:
    pattern = str(action.content)
    if pattern in ("*", "*:*"):
        return
    grave = first_danger(pattern, ESCALATING)
    found = grave or first_danger(pattern, REVEALING)
    if found is not None:
        shown = f"`{pattern}`" if pattern.lower() == found[0].lower() else f"`{pattern}` ({found[0]})"
        yield Said(f"{shown} is allowed on every resource: {found[1]}", action, grave=grave is not None)


RULE = Rule(
    id="HF505",
    title="A dangerous action on every resource",
    why="With some actions an identity can give itself all the others: with `iam:PassRole` on everything, "
    "by starting a machine that has the administrator's role.",
    fix="Name the roles, keys or secrets it is needed for in `Resource`, or bound it by a condition.",
    severity=Severity.ERROR,
    source=in_code(_judge, Severity.ERROR),
    variables=in_variables(_judge, Severity.ERROR),
    beside=files_beside,
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
            "Errors, with wildcards that cover them:",
            "",
            *(f"- `{action}`: {why}" for action, why in ESCALATING.items()),
            "",
            "Warnings:",
            "",
            *(f"- `{action}`: {why}" for action, why in REVEALING.items()),
            "",
            "A statement with a condition (but on `aws:SecureTransport` or the region alone) is not found.",
            "",
        )
    ),
)
