"""Which stacks an error counts against, whatever file it stands in."""

from __future__ import annotations

from collections.abc import Mapping

from checkouts import check, checkout

from holdfast.checks.engine.catalogue import rules
from holdfast.checks.engine.running import CheckInputs
from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped
from holdfast.checks.model.report import redact_report
from holdfast.checks.model.subjects import Checkout
from holdfast.guard.decision import Deny, Reason
from holdfast.kernel.errors import Place
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.review.findings_by_stack import errors_for, guard_finding, not_yet_reported

STACKS = """\
    version: 1
    environments: { dev: {} }
    targets:
      aws: { owner: developers, contract: { schema: contract.yaml } }
      lab: { owner: developers }
    stacks:
      - { name: a, module: code, environment: dev, target: aws, variables_files: [a.tfvars] }
      - { name: b, module: code, environment: dev, target: aws, variables_files: [b.tfvars] }
      - { name: c, module: other, environment: dev, target: lab }
    """
FILES = {
    "code/main.tf": 'variable "trust_policy" {}\n',
    "other/main.tf": "",
    "a.tfvars": 'trust_policy = "policies/trust-policy.json"\n',
    "b.tfvars": 'trust_policy = "policies/trust-policy.json"\n',
    "policies/trust-policy.json": '{"Version": "2012-10-17",}\n',
    "contract.yaml": "version: 1\nname: lab\noutputs: {}\n",
}
TOOL = Rule(id="tool.x", title="t", why="w", fix="f", severity=Severity.ERROR)


def told(files: Mapping[str, str], *ids: str, inputs: CheckInputs | None = None) -> dict[str, set[str]]:
    """By stack, the rules whose errors count against it."""
    made = checkout({**FILES, **files}, config=STACKS)
    asked = [rule for rule in rules() if rule.id in ids]
    report = check(asked, made, inputs=inputs)
    return {stack.name: {one.rule.id for one in errors_for(report, stack)} for stack in made.stacks}


def test_a_file_that_several_stacks_name_counts_against_each_of_them() -> None:
    """It lies in no folder of theirs, and is said once of all of them."""
    assert told({}, "HF501") == {"a": {"HF501"}, "b": {"HF501"}, "c": set()}


def test_a_broken_contract_counts_against_the_stacks_of_its_target() -> None:
    """Nothing of theirs was compared with it: that is not the same as nothing found."""
    broken = {"contract.yaml": "version: 1\nname: lab\noutputs: { port: { type: nonsense } }\n"}
    assert told(broken, "HF403") == {"a": {"HF403"}, "b": {"HF403"}, "c": set()}
    missing = STACKS.replace("contract.yaml }", "nowhere.yaml, stacks: [none] }")
    made = checkout(FILES, config=missing)
    report = check([rule for rule in rules() if rule.id == "HF403"], made)
    assert [len(list(errors_for(report, stack))) for stack in made.stacks] == [2, 2, 0]


def test_what_a_tool_says_of_a_file_counts_where_the_file_is_used() -> None:
    """And that it could not look, wherever: nobody knows whom it would have been about."""

    def of(place: Place | None, rule: Rule) -> dict[str, set[str]]:
        said = CheckInputs(tool_results=((rule, Finding(message="m", place=place)),))
        return told({}, inputs=said)

    assert of(Place(file="code/main.tf"), TOOL) == {"a": {"tool.x"}, "b": {"tool.x"}, "c": set()}
    assert of(Place(file="b.tfvars"), TOOL) == {"a": set(), "b": {"tool.x"}, "c": set()}
    assert of(Place(file="holdfast.yaml"), TOOL) == {"a": set(), "b": set(), "c": set()}
    unanswered = next(rule for rule in rules() if rule.id == "HF908")
    assert of(None, unanswered) == {"a": {"HF908"}, "b": {"HF908"}, "c": {"HF908"}}


def test_one_line_of_the_configuration_counts_against_each_stack_that_it_makes() -> None:
    """What is said of the same line because of several stacks is told once, and means them all."""

    def look(_: Checkout) -> list[Finding | Skipped]:
        place = Place(file="holdfast.yaml", line=8)
        return [Finding(message="the same", place=place, stack=name) for name in ("a", "c")]

    made = checkout(FILES, config=STACKS)
    rule = Rule(id="HF1", title="t", why="w", fix="f", severity=Severity.ERROR, repository=look)
    report = check(rule, made)
    (found,) = [one for one in report.findings if one.rule.id == "HF1"]
    assert (found.stack, found.stacks) == (None, ("a", "c"))
    assert [bool(list(errors_for(report, stack))) for stack in made.stacks] == [True, False, True]


def test_what_the_guard_repeats_is_recognised_after_redaction() -> None:
    """By the finding's id: a redacted message still belongs to the reason that repeats it."""
    made = checkout(FILES, config=STACKS)
    report = check([rule for rule in rules() if rule.id == "HF501"], made)
    (finding,) = report.active
    assert [one.id for one in errors_for(report, made.stacks[1])] == [finding.id]
    reason = Reason(code="HF-GUARD-19", message=finding.message, finding=guard_finding(finding).id)
    result = StackResult(stack=made.stacks[0].stack, status=Status.REFUSED, decision=Deny(reasons=(reason,)))
    redacted = redact_report(report, lambda _: "***")
    assert redacted.active[0].message == "***"
    assert not_yet_reported(redacted, (result,)) == ()
    assert not_yet_reported(redacted, ()) == redacted.active
