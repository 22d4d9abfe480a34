"""HF506: allow with NotAction or NotResource."""

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
            yield Said("every action except those listed is allowed (`NotAction`)", statement.not_action)
        if statement.not_resource is not None:
            yield Said(
                "every resource except those listed is covered (`NotResource`)", statement.not_resource
            )


RULE = Rule(
    id="HF506",
    title="Allow with NotAction or NotResource",
    why="It allows actions and resources that no one has considered, including those that AWS will add.",
    fix="List what is allowed in `Action` and `Resource`; use `NotAction` and `NotResource` only with "
    "`Deny`.",
    severity=Severity.WARNING,
    source=in_code(_judge, Severity.WARNING),
    variables=in_variables(_judge, Severity.WARNING),
    extra_files=files_beside,
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
