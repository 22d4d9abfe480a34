"""Every rule passes, reports, handles what is missing or not known, and can be waived.

The rows are in `tests/support/rule_cases_*.py`; a rule without one fails here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rule_cases_1xx
import rule_cases_2xx
import rule_cases_3xx_4xx
import rule_cases_5xx
import rule_cases_6xx_9xx
from checkouts import UNUSED, check
from msgspec.structs import replace
from rule_cases import Case, Cases, Expected, all_cases

from holdfast.checks.engine import catalogue
from holdfast.checks.engine.running import NO_ENGINE, NO_HISTORY, NO_PLAN, NO_STACKS, NO_STATE
from holdfast.checks.model.interface import CheckResult, CheckTarget, Rule, Severity
from holdfast.checks.model.report import Report, ReportedFinding

CASES_BY_RULE: dict[str, Cases] = {
    **rule_cases_1xx.CASES_BY_RULE,
    **rule_cases_2xx.CASES_BY_RULE,
    **rule_cases_3xx_4xx.CASES_BY_RULE,
    **rule_cases_5xx.CASES_BY_RULE,
    **rule_cases_6xx_9xx.CASES_BY_RULE,
}
TESTED_ELSEWHERE = {
    "HF905": "tests/unit/checks/engine/test_running.py",
    "HF908": "tests/integration/checks/test_external_tools.py",
}
"""Rules that find a mistake of ours or of another program's: no repository can show that."""
ABOUT_WAIVERS = ("HF901", "HF902", "HF903", "HF907")
"""What is said of waivers and settings cannot be waived."""
RULES = {rule.id: rule for rule in catalogue.rules()}
NOT_AVAILABLE = (NO_PLAN, NO_STATE, NO_ENGINE, NO_HISTORY, NO_STACKS)
ROOT = Path(__file__).parent.parent.parent.parent


def _cases() -> Iterator[Any]:
    for id_, ways in CASES_BY_RULE.items():
        for name, listed in all_cases(RULES[id_], ways).items():
            for number, case in enumerate(listed):
                yield pytest.param(RULES[id_], case, id=f"{id_}-{name}-{number}")


CASES = list(_cases())


def run(rule: Rule, case: Case, more: str = "") -> Report:
    made = case.checkout(more)
    asked = (rule, UNUSED) if rule.id in ABOUT_WAIVERS else (rule,)
    return check(asked, made, inputs=case.make_inputs(made) if case.make_inputs is not None else None)


def of(report: Report, rule: Rule) -> list[ReportedFinding]:
    assert [one.message for one in report.findings if one.rule.id == "HF905"] == []
    return [one for one in report.findings if one.rule.id == rule.id]


def outcome(rule: Rule, report: Report) -> Expected:
    if of(report, rule):
        return Expected.REPORTED
    reasons = [one.reason for one in report.skipped if one.rule == rule.id]
    return Expected.SKIPPED if any(one not in NOT_AVAILABLE for one in reasons) else Expected.PASSED


@pytest.mark.parametrize(("rule", "case"), CASES)
def test_a_rule_reports_what_it_should(rule: Rule, case: Case) -> None:
    """Found, quiet, or skipped with a reason; what it finds has words, and a line of a file that is there."""
    report = run(rule, case)
    assert outcome(rule, report) is case.expected
    for one in of(report, rule):
        assert one.message
        assert one.hint
        assert one.severity in Severity
        lines = len(str(case.files.get(one.file or "", "")).splitlines())
        assert one.line is None or one.file not in case.files or 1 <= one.line <= lines + 1


@pytest.mark.parametrize(
    ("rule", "case"),
    [
        case
        for case in CASES
        if case.values[1].expected is Expected.REPORTED and case.values[0].id not in ABOUT_WAIVERS
    ],
)
def test_what_a_rule_finds_can_be_waived(rule: Rule, case: Case) -> None:
    """By its id in the configuration, whatever it is about; and the waiver is not called needless."""
    words = "owner: me, reason: a test, until: 2027-01-01"
    report = run(rule, case, f"  waivers:\n    - {{ rule: {rule.id}, {words} }}\n")
    found = of(report, rule)
    assert found
    assert all(one.waived for one in found)
    assert [one.message for one in report.findings if one.rule.id in ("HF901", "HF902", "HF903")] == []


@pytest.mark.parametrize("id_", ABOUT_WAIVERS)
def test_what_is_reported_about_waivers_is_not_waived(id_: str) -> None:
    """Else the end of a waiver could be waived away."""
    case = all_cases(RULES[id_], CASES_BY_RULE[id_])["fails"][0]
    words = "owner: me, reason: a test, until: 2027-01-01"
    report = run(RULES[id_], case, f"  waivers:\n    - {{ rule: {id_}, {words} }}\n")
    assert [one.waived for one in of(report, RULES[id_])] == [False]


def test_every_rule_of_the_catalogue_has_cases() -> None:
    """A new rule needs its row: something missing, something not known, and one case for each outcome."""
    assert set(CASES_BY_RULE) | set(TESTED_ELSEWHERE) == set(catalogue.ids())
    for id_, path in TESTED_ELSEWHERE.items():
        assert id_ in (ROOT / path).read_text(encoding="utf-8")
    for id_, ways in CASES_BY_RULE.items():
        shown = all_cases(RULES[id_], ways)
        assert all(shown.values()), id_
        assert {case.expected for case in shown["passes"]} == {Expected.PASSED}, id_
        assert {case.expected for case in shown["fails"]} == {Expected.REPORTED}, id_


@pytest.mark.parametrize(
    ("rule", "target"),
    [
        pytest.param(RULES[id_], target, id=f"{id_}-{target}")
        for id_ in CASES_BY_RULE
        for target in RULES[id_].targets
    ],
)
def test_every_target_of_a_rule_has_cases(rule: Rule, target: CheckTarget) -> None:
    """Each of its functions alone finds something, and alone lets something pass."""
    asked: list[object] = []
    look = getattr(rule, target)

    def recorded(subject: object) -> Iterable[CheckResult]:
        asked.append(subject)
        answers: Iterable[CheckResult] = look(subject)
        return answers

    only: dict[str, Any] = {one.value: recorded if one is target else None for one in CheckTarget}
    alone = replace(rule, **only)
    shown = all_cases(rule, CASES_BY_RULE[rule.id])
    assert any(of(run(alone, case), alone) for case in shown["fails"])
    asked.clear()
    for case in shown["passes"]:
        assert of(run(alone, case), alone) == []
    assert asked
