from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.collect import policy_rule
from holdfast.checks.iam.document import Issue
from holdfast.checks.iam.policies import IamPolicy
from holdfast.checks.model.interface import Rule, Severity


def _judge(policy: IamPolicy) -> Iterator[Issue]:
    fields = policy.document.fields
    version = fields.get("Version")
    lost = " (`${…}` is not expanded)" if "${aws:" in policy.text else ""
    if version is None:
        if fields.has("Statement") and not fields.more:
            yield Issue(f"a policy without `Version` uses version 2008-10-17{lost}", policy.document)
    elif version.content == "2008-10-17":
        yield Issue(f"the policy uses version 2008-10-17{lost}", version)


RULE = Rule(
    id="HF503",
    title="Old policy language version",
    why="Policy variables such as `${aws:username}` are not expanded in it but compared literally, so a "
    "statement allows or denies something else than it says.",
    fix='Set `"Version": "2012-10-17"`.',
    severity=Severity.WARNING,
    **policy_rule(_judge, Severity.WARNING),
)
