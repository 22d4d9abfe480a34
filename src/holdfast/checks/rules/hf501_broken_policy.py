"""HF501: a policy document that AWS would refuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.checks.iam.collect import files_beside, of_module, of_variables
from holdfast.checks.iam.grammar import grammar
from holdfast.checks.iam.issue import Said
from holdfast.checks.iam.policies import Policies, Policy
from holdfast.checks.iam.to_findings import judged
from holdfast.checks.model.interface import Answer, Rule, Severity, finding, only_terraform_knows
from holdfast.checks.model.subjects import Module, VariablesFile
from holdfast.kernel.errors import Place


def _judge(policy: Policy) -> Iterable[Said]:
    return grammar(policy.document, policy.kind, policy.text)


def _all(policies: Policies) -> Iterator[Answer]:
    yield from judged(policies, _judge, Severity.ERROR)
    for wrong in policies.broken:
        place = Place(
            file=wrong.file, line=wrong.malformed.line or None, column=wrong.malformed.column or None
        )
        yield finding(
            place, f"this policy is not valid JSON: {wrong.malformed.message}", address=wrong.address
        )
    whole = frozenset(policies.untold)
    parts = [one for one in policies.partly if one not in whole]
    yield from only_terraform_knows("the policy", policies.untold, "; no HF5 rule sees it")
    yield from only_terraform_knows("all of the policy", parts, "; no HF5 rule sees the rest")


def _in_code(module: Module) -> Iterator[Answer]:
    yield from _all(of_module(module))


def _in_variables(variables: VariablesFile) -> Iterator[Answer]:
    yield from _all(of_variables(variables))


RULE = Rule(
    id="HF501",
    title="A policy document that AWS would refuse",
    why="AWS says so only in the middle of an apply, when half of the change is made. A key that stands "
    "twice is worse: the first one is lost without a word.",
    fix="Write it as the grammar of its kind of policy has it.",
    severity=Severity.ERROR,
    source=_in_code,
    variables=_in_variables,
    beside=files_beside,
    bad="""\
resource "aws_iam_role" "deploy" {
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}
""",
    good="""\
resource "aws_iam_role" "deploy" {
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}
""",
    more="""\
Looked at: `jsonencode(…)`, heredocs and quoted JSON in the arguments of AWS's resources that hold a policy,
in locals and arguments of modules; `file(…)` and `templatefile(…)`; the data source
`aws_iam_policy_document`; JSON files in a module's folder, beside a variables file, or named by one. Policies
of other clouds, such as Alibaba's, have a grammar of their own and are left alone.

Each is held against its own kind: an identity policy names no principal, a trust policy no resource, a
bucket policy is about `s3:`. The kind is that of the argument; of a file, what its name says
(`trust-policy.json`, `key-policy.json`, `bucket-policy.json`), else what it looks like. A managed policy is
a permissions boundary if it is called so or a `permissions_boundary` names it, and nothing in sight attaches
it.

Both sides of a condition are looked at, and what a `for` or a `dynamic` block makes. Where a part is only
known when Terraform runs, nothing is said about that part. If it may be anything (a variable that lists
actions, principals or whole statements), the rule says that it could not see all; the ARN of a resource is
not such a part.

Whether an action exists is not looked up: AWS adds new ones every week.
""",
)
