"""Findings of a change survive the way from a worker to a client."""

from __future__ import annotations

from datetime import date
from typing import Any

from results_made import result, stack

from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import BaselineUse, NotEvaluated, Novelty, Report, ReportedFinding, Waiver
from holdfast.guard.decision import Deny, Reason
from holdfast.kernel.errors import Place
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.runs.checks_document import (
    checks_document,
    checks_of_stack,
    repeated_by_guard,
    report_from_document,
    with_earlier_findings,
)

RULE = Rule(id="HF999", title="A rule", fix="", severity=Severity.ERROR)


def finding(message: str, *stacks: str, **more: Any) -> ReportedFinding:
    known = dict.fromkeys(("hint", "file", "line", "column", "end_line", "stack", "address"))
    given = {"rule": RULE, "severity": Severity.ERROR, "message": message, "stacks": stacks, **more}
    return ReportedFinding(**{**known, **given})


def report(*findings: ReportedFinding, skipped: tuple[NotEvaluated, ...] = ()) -> Report:
    rules = (Rule(id="", title="", fix="", severity=Severity.NOTE),) * 3
    return Report(findings=findings, skipped=skipped, rules=rules, files=2, stacks=2, modules=1)


def test_a_report_is_the_same_after_its_document() -> None:
    waiver = Waiver(rule="HF999", reason="known", until=date(2027, 1, 1), place=Place("a.tf", 3), owner="us")
    made = report(
        finding("one", "a", "b", file="a.tf", line=1, also=(Place("b.tf", 2),), novelty=Novelty.NEW),
        finding("two", waiver=waiver, severity=Severity.NOTE),
        skipped=(NotEvaluated(rule="HF1", reason="no plan", stack="a", expected=True),),
    )
    again = report_from_document(checks_document(made, ()))
    assert checks_document(again, ()) == checks_document(made, ())
    assert again.skipped == made.skipped
    assert again.findings[1].waiver == waiver
    known = Report(
        **{**{name: getattr(made, name) for name in made.__struct_fields__}, "baseline": BaselineUse()}
    )
    assert report_from_document(checks_document(known, ())).compared


def test_what_the_guard_repeats_is_marked() -> None:
    decision = Deny(reasons=(Reason(code="HF-GUARD-9", message="m", finding="digest"),))
    of_guard: StackResult = result(stack("a"), Status.REFUSED)
    made = report(finding("theirs", id="digest"), finding("ours", id="other"))
    document = checks_document(
        made, (type(of_guard)(stack=of_guard.stack, status=of_guard.status, decision=decision),)
    )
    assert [found["guard"] for found in document["findings"]] == [True, False]
    assert "digest" not in repr(document)
    assert {found.message for found in repeated_by_guard(report_from_document(document))} == {"theirs"}


def test_a_stack_has_its_own_findings_and_those_of_no_stack() -> None:
    """Who may see one stack learns nothing about another."""
    skipped = tuple(NotEvaluated(rule="HF1", reason="r", stack=name) for name in ("a", "b", None))
    made = report(
        finding("a", "a"), finding("b", "b"), finding("both", "a", "b"), finding("none"), skipped=skipped
    )
    shown = checks_of_stack(checks_document(made, ()), "a")
    assert [found["message"] for found in shown["findings"]] == ["a", "both", "none"]
    assert [skip["stack"] for skip in shown["skipped"]] == ["a", None]
    assert (shown["summary"]["error"], shown["summary"]["rules"]) == (3, 3)


def test_a_later_pass_replaces_what_it_checked_again() -> None:
    before = checks_document(report(finding("a", "a"), finding("b", "b"), finding("none")), ())
    now = checks_document(report(finding("new", "b")), ())
    merged = with_earlier_findings(now, before, frozenset({"b"}))
    assert [found["message"] for found in merged["findings"]] == ["a", "new"]
    assert with_earlier_findings(now, None, frozenset()) == now
