"""A rule that does not end is stopped, and never counts as passed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from checkouts import UNUSED, check, checkout, messages

from holdfast.checks.engine.catalogue import rule, rules
from holdfast.checks.engine.limits import RuleLimit
from holdfast.checks.engine.running import run_checks
from holdfast.checks.model.interface import CheckResult, Rule, Severity, finding
from holdfast.checks.model.report import Report
from holdfast.checks.model.subjects import Module
from holdfast.kernel.work_limit import check_work_limit, limit_work
from holdfast.review.findings_by_stack import errors_for

FILES = {"main.tf": 'variable "a" {}\n'}


def _endless(module: Module) -> Iterator[CheckResult]:
    yield finding(module.files[0], "the first finding")
    for _ in itertools.count():
        check_work_limit()


def endless(severity: Severity = Severity.ERROR, id_: str = "HF998") -> Rule:
    return Rule(id=id_, title="Without an end", fix="None.", severity=severity, source=_endless)


def run(limit: RuleLimit, *more: Rule, config: str | None = None) -> Report:
    own = tuple(one for one in rules() if one.id.startswith("HF9"))
    return run_checks(checkout(FILES, config=config), (*more, UNUSED, *own), limit=limit)


def unfinished(report: Report) -> list[tuple[str, str]]:
    return [(skip.rule, skip.reason) for skip in report.skipped if skip.rule.startswith("HF99")]


def test_an_endless_rule_is_not_evaluated_and_the_others_are() -> None:
    """What it found before counts; its waivers cannot be called useless."""
    report = run(RuleLimit(0.01), endless())
    assert unfinished(report) == [("HF998", ".: it was not finished within 0.01 s")]
    assert messages(report) == ["the first finding", "nothing reads the variable `a`"]


def test_in_a_review_it_is_an_error_of_the_stack() -> None:
    """The guard would otherwise take an unfinished rule for one without findings."""
    limit = RuleLimit(0.01, fail_closed=True)
    made = checkout(FILES)
    own = tuple(one for one in rules() if one.id == "HF905")
    report = run_checks(made, (endless(Severity.WARNING), *own), limit=limit)
    errors = list(errors_for(report, made.stacks[0]))
    assert [error.message for error in errors] == [
        "HF998 was not evaluated: .: it was not finished within 0.01 s"
    ]
    assert errors[0].rule.id == "HF905"


def test_a_rule_that_is_rated_lower_is_no_error() -> None:
    config = (
        "version: 1\nstacks: [{ name: root, module: ., environment: prod }]\n"
        "checks: { rules: { HF998: warning } }\n"
    )
    report = run(RuleLimit(0.01, fail_closed=True), endless(), config=config)
    assert "HF905" not in {one.rule.id for one in report.findings}
    assert unfinished(report)


def test_after_the_first_one_the_others_get_less_time() -> None:
    """Rules of a kind share their work: each would wait for the same."""
    report = run(RuleLimit(0.1), endless(), endless(id_="HF999"))
    assert unfinished(report) == [
        ("HF998", ".: it was not finished within 0.1 s"),
        ("HF999", ".: it was not finished within 0.01 s"),
    ]


def test_a_stop_ends_all_rules() -> None:
    """No rule that was not finished is an error then: the command is cancelled."""
    asked = itertools.count()
    limit = RuleLimit(600, stopped=lambda: next(asked) > 1, fail_closed=True)
    report = run(limit, endless())
    assert limit.interrupted
    assert unfinished(report) == [("HF998", ".: stopped")]
    assert messages(report) == ["the first finding"]


def test_a_limit_ends_with_its_block() -> None:
    calls: list[int] = []
    with limit_work(lambda: calls.append(1)):
        check_work_limit()
    check_work_limit()
    assert calls == [1]
    the = rule("HF210")
    assert the is not None
    assert messages(check(the, {"main.tf": 'output "a" {\n  value = 1\n}\n'})) == []
