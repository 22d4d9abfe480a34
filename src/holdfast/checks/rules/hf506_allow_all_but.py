"""HF506: a statement that allows everything but what it names."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.collect import files_beside
from holdfast.checks.iam.issue import Said
from holdfast.checks.iam.policies import Policy
from holdfast.checks.iam.to_findings import in_code, in_variables
from holdfast.checks.model.interface import Rule, Severity


def _judge(policy: Policy) -> Iterator[Said]:
    if policy.kind.bounds:
        return
    for statement in policy.statements:
        if not statement.allows:
            continue
        if statement.not_action is not None:
            yield Said("every action but those named is allowed (`NotAction`)", statement.not_action)
        if statement.not_resource is not None:
            yield Said("every resource but those named is meant (`NotResource`)", statement.not_resource)


RULE = Rule(
    id="HF506",
    title="A statement that allows everything but what it names",
    why="It allows actions and resources that nobody has thought of, and those that AWS will add next year.",
    fix="Name what is allowed in `Action` and `Resource`; keep `NotAction` and `NotResource` for `Deny`.",
    severity=Severity.WARNING,
    source=in_code(_judge, Severity.WARNING),
    variables=in_variables(_judge, Severity.WARNING),
    beside=files_beside,
    bad="""\
data "aws_iam_policy_document" "power" {
  statement {
    not_actions = ["iam:*"]
    resources   = ["*"]
  }
}
""",
    good="""\
data "aws_iam_policy_document" "power" {
  statement {
    effect      = "Deny"
    not_actions = ["iam:*"]
    resources   = ["*"]
  }
}
""",
)
