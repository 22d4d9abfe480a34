from __future__ import annotations

from collections.abc import Iterator

from holdfast.checks.iam.collect import findings_from_policies, for_policies, policy_rule
from holdfast.checks.iam.document import Issue, policy_size
from holdfast.checks.iam.grammar import grammar_issues
from holdfast.checks.iam.policies import IamPolicy, Policies
from holdfast.checks.model.interface import CheckResult, Rule, Severity, finding, known_at_run_time_only
from holdfast.checks.model.subjects import Checkout
from holdfast.kernel.errors import Place


def _check(policies: Policies, _: Checkout) -> Iterator[CheckResult]:
    yield from findings_from_policies(
        lambda policy: grammar_issues(policy.document, policy.kind, policy.text), Severity.WARNING, policies
    )
    for wrong in policies.malformed:
        place = Place(file=wrong.file, line=wrong.error.line or None, column=wrong.error.column or None)
        yield finding(place, f"this policy is not valid JSON: {wrong.error.message}", address=wrong.address)
    whole = frozenset(policies.unresolved)
    parts = [place for place in policies.partial if place not in whole]
    yield from known_at_run_time_only("the policy", policies.unresolved, "; no HF5 rule checks it")
    yield from known_at_run_time_only("part of the policy", parts, "; no HF5 rule checks the rest")


HF501 = Rule(
    id="HF501",
    title="Policy document that AWS would reject",
    fix="Follow the grammar of this kind of policy.",
    severity=Severity.ERROR,
    **for_policies(_check),
)


def _check_size(policy: IamPolicy) -> Iterator[Issue]:
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


HF502 = Rule(
    id="HF502",
    title="Policy document that is too large",
    fix="Split it, use wildcards or tags, or use managed policies.",
    **policy_rule(_check_size, Severity.ERROR),
)


def _check_version(policy: IamPolicy) -> Iterator[Issue]:
    fields = policy.document.fields
    version = fields.get("Version")
    lost = " (`${…}` is not expanded)" if "${aws:" in policy.text else ""
    if version is None:
        if fields.has("Statement") and not fields.more:
            message = f"a policy without `Version` uses version 2008-10-17{lost}"
            yield Issue(message, policy.document, is_note=not lost)
    elif version.content == "2008-10-17":
        yield Issue(f"the policy uses version 2008-10-17{lost}", version, is_note=not lost)


HF503 = Rule(
    id="HF503",
    title="Old policy language version",
    fix='Set `"Version": "2012-10-17"`.',
    **policy_rule(_check_version, Severity.WARNING),
)
