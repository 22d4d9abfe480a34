"""Every rule: passes, finds, does not stumble over what is missing or not known, and can be waived.

The rows stand in `tests/support/ways_*.py`; a rule without one fails here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ways_1xx
import ways_2xx
import ways_3xx_4xx
import ways_5xx
import ways_6xx_9xx
from checks_made import UNUSED, check
from five_ways import Says, Way, Ways, all_ways
from msgspec.structs import replace

from holdfast.checks.engine import catalogue
from holdfast.checks.engine.running import NO_ENGINE, NO_HISTORY, NO_PLAN, NO_STACKS, NO_STATE
from holdfast.checks.model.interface import CheckResult, CheckTarget, Rule, Severity
from holdfast.checks.model.report import Report, ReportedFinding

WAYS: dict[str, Ways] = {
    **ways_1xx.WAYS,
    **ways_2xx.WAYS,
    **ways_3xx_4xx.WAYS,
    **ways_5xx.WAYS,
    **ways_6xx_9xx.WAYS,
}
SHOWN_ELSEWHERE = {
    "HF905": "tests/unit/checks/engine/test_running.py",
    "HF908": "tests/integration/checks/test_programs_of_others.py",
}
"""Rules that find a mistake of ours or of another program's: no repository can show that."""
ABOUT_WAIVERS = ("HF901", "HF902", "HF903", "HF907")
"""What is said of waivers and settings cannot be waived."""
RULES = {rule.id: rule for rule in catalogue.rules()}
NOT_AT_HAND = (NO_PLAN, NO_STATE, NO_ENGINE, NO_HISTORY, NO_STACKS)
ROOT = Path(__file__).parent.parent.parent.parent


def _cases() -> Iterator[Any]:
    for id_, ways in WAYS.items():
        for name, listed in all_ways(RULES[id_], ways).items():
            for number, way in enumerate(listed):
                yield pytest.param(RULES[id_], way, id=f"{id_}-{name}-{number}")


CASES = list(_cases())


def looked(rule: Rule, way: Way, more: str = "") -> Report:
    made = way.checkout(more)
    asked = (rule, UNUSED) if rule.id in ABOUT_WAIVERS else (rule,)
    return check(asked, made, inputs=way.hand(made) if way.hand is not None else None)


def of(report: Report, rule: Rule) -> list[ReportedFinding]:
    assert [one.message for one in report.findings if one.rule.id == "HF905"] == []
    return [one for one in report.findings if one.rule.id == rule.id]


def answer(rule: Rule, report: Report) -> Says:
    if of(report, rule):
        return Says.FOUND
    reasons = [one.reason for one in report.skipped if one.rule == rule.id]
    return Says.SKIPPED if any(one not in NOT_AT_HAND for one in reasons) else Says.QUIET


@pytest.mark.parametrize(("rule", "way"), CASES)
def test_a_rule_says_what_it_should(rule: Rule, way: Way) -> None:
    """Found, quiet, or skipped with a reason; what it finds has words, and a line of a file that is there."""
    report = looked(rule, way)
    assert answer(rule, report) is way.says
    for one in of(report, rule):
        assert one.message
        assert one.hint
        assert one.severity in Severity
        lines = len(str(way.files.get(one.file or "", "")).splitlines())
        assert one.line is None or one.file not in way.files or 1 <= one.line <= lines + 1


@pytest.mark.parametrize(
    ("rule", "way"),
    [case for case in CASES if case.values[1].says is Says.FOUND and case.values[0].id not in ABOUT_WAIVERS],
)
def test_what_a_rule_finds_can_be_waived(rule: Rule, way: Way) -> None:
    """By its id in the configuration, whatever it is about; and the waiver is not called needless."""
    words = "owner: me, reason: a test, until: 2027-01-01"
    report = looked(rule, way, f"  waivers:\n    - {{ rule: {rule.id}, {words} }}\n")
    found = of(report, rule)
    assert found
    assert all(one.waived for one in found)
    assert [one.message for one in report.findings if one.rule.id in ("HF901", "HF902", "HF903")] == []


@pytest.mark.parametrize("id_", ABOUT_WAIVERS)
def test_what_is_reported_about_waivers_is_not_waived(id_: str) -> None:
    """Else the end of a waiver could be waived away."""
    way = all_ways(RULES[id_], WAYS[id_])["fails"][0]
    words = "owner: me, reason: a test, until: 2027-01-01"
    report = looked(RULES[id_], way, f"  waivers:\n    - {{ rule: {id_}, {words} }}\n")
    assert [one.waived for one in of(report, RULES[id_])] == [False]


def test_every_rule_of_the_catalogue_is_shown() -> None:
    """A new rule needs its row: something missing, something not known, and one way for each outcome."""
    assert set(WAYS) | set(SHOWN_ELSEWHERE) == set(catalogue.ids())
    for id_, path in SHOWN_ELSEWHERE.items():
        assert id_ in (ROOT / path).read_text(encoding="utf-8")
    for id_, ways in WAYS.items():
        shown = all_ways(RULES[id_], ways)
        assert all(shown.values()), id_
        assert {way.says for way in shown["passes"]} == {Says.QUIET}, id_
        assert {way.says for way in shown["fails"]} == {Says.FOUND}, id_


@pytest.mark.parametrize(
    ("rule", "sight"),
    [pytest.param(RULES[id_], sight, id=f"{id_}-{sight}") for id_ in WAYS for sight in RULES[id_].targets],
)
def test_everything_a_rule_looks_at_is_shown(rule: Rule, sight: CheckTarget) -> None:
    """Each of its functions alone finds something, and alone lets something pass."""
    asked: list[object] = []
    look = getattr(rule, sight)

    def heard(subject: object) -> Iterable[CheckResult]:
        asked.append(subject)
        answers: Iterable[CheckResult] = look(subject)
        return answers

    only: dict[str, Any] = {one.value: heard if one is sight else None for one in CheckTarget}
    alone = replace(rule, **only)
    shown = all_ways(rule, WAYS[rule.id])
    assert any(of(looked(alone, way), alone) for way in shown["fails"])
    asked.clear()
    for way in shown["passes"]:
        assert of(looked(alone, way), alone) == []
    assert asked
