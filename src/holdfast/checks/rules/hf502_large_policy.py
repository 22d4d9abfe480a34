from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.collect import policy_rule
from holdfast.checks.iam.document import Issue, policy_size
from holdfast.checks.iam.policies import IamPolicy
from holdfast.checks.model.interface import Rule, Severity


def _judge(policy: IamPolicy) -> Iterator[Issue]:
    limit, hard = policy.use.limit, policy.use.hard
    counted = policy_size(policy.text)
    if limit is None or counted <= limit:
        return
    if hard is not None and counted <= hard:
        yield Issue(
            f"{policy.kind} of {counted} characters: above {limit} a quota increase is needed (max. {hard})",
            policy.document,
            severe=False,
        )
    else:
        yield Issue(f"{policy.kind} of {counted} characters: the maximum is {hard or limit}", policy.document)


RULE = Rule(
    id="HF502",
    title="Policy document that is too large",
    why="AWS rejects it in the middle of an apply. White space does not count.",
    fix="Split it, use wildcards or tags, or use managed policies.",
    severity=Severity.ERROR,
    **policy_rule(_judge, Severity.ERROR),
)
