"""Results as the report that people are told."""

from __future__ import annotations

from datetime import date
from typing import Any

from plan_documents import change, plan
from results_made import stack

from holdfast.changes.report import change_report, failure_report
from holdfast.checks.model.interface import Rule as Rule_
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import NotEvaluated, Report, ReportedFinding, Waiver
from holdfast.guard.decision import Deny, Reason
from holdfast.kernel.errors import Place, Problem
from holdfast.notify.markdown import markdown
from holdfast.notify.report import Risk, Rule, StackReport, Trouble
from holdfast.plans.result import StackResult
from holdfast.plans.status import Status
from holdfast.secrets.redact import Redactor
from holdfast.terraform.plan.model import Plan


def told(*results: StackResult, redactor: Redactor | None = None) -> tuple[StackReport, ...]:
    clean = (redactor or Redactor()).clean
    return change_report(results, operation="plan", headline="1 stack", clean=clean).stacks


def planned(found: Plan, status: Status = Status.PLANNED) -> StackResult:
    return StackResult(stack=stack("a"), status=status, plan=found, digest="d" * 64)


def replaced(address: str) -> dict[str, object]:
    found = change(address, "delete", "create", after={"name": "new", "size": 1})
    found["action_reason"] = "replace_because_cannot_update"
    found["change"] |= {"before": {"name": "old", "size": 1}, "replace_paths": [["name"]]}
    return found


def test_what_is_lost_comes_with_its_reason() -> None:
    """Deletes first, then replacements with the attribute that forces them; creates are no risk."""
    (found,) = told(
        planned(
            plan(
                [
                    change("x.new", "create", after={"name": "n"}),
                    replaced("x.again"),
                    change("x.gone", "delete", action_reason="delete_because_no_resource_config"),
                    change("x.left", "forget"),
                    change("x.odd", "dance"),
                ]
            )
        )
    )
    assert found.risks[0] == Risk(
        address="x.gone", what="deleted because it is no longer in the configuration"
    )
    assert [risk.address for risk in found.risks] == ["x.gone", "x.left", "x.odd", "x.again"]
    assert found.risks[-1].what == 'replaced because `name` changes (name: "old" → "new")'
    assert found.counts["delete"] == 1


def test_a_plan_is_a_diff() -> None:
    """What destroys first; before and after of each attribute, with a sign at the start of each line."""
    (found,) = told(planned(plan([change("x.new", "create", after={"name": "n"}), replaced("x.again")])))
    assert found.diff == (
        "! x.again  replaced because `name` changes",
        '-     name: "old"',
        '+     name: "new"   (forces replacement)',
        "+ x.new  created",
        '+     name: "n"',
    )


def test_what_the_guard_said_is_said_once() -> None:
    """The error that repeats a reason is left out; another one stays."""
    reason = Reason(code="HF-GUARD-1", message="x.y goes", address="x.y", rule="deletions in production")
    same = Problem(code="HF-GUARD-1", message="x.y goes")
    other = Problem(code="HF-TF-1", message="bad", place=Place(file="a.tf", line=2))
    (found,) = told(
        StackResult(
            stack=stack("a"),
            status=Status.REFUSED,
            decision=Deny(reasons=(reason,)),
            error=same,
            problems=(same, other),
        )
    )
    assert found.decision == "deny"
    assert found.rules == (
        Rule(code="HF-GUARD-1", message="x.y goes", address="x.y", rule="deletions in production"),
    )
    assert found.troubles == (Trouble(code="HF-TF-1", message="bad", file="a.tf", line=2),)


def test_errors_that_the_checks_found_are_told_once() -> None:
    """What the guard made a reason of stands with its stack; what is waived is counted.

    Of warnings, those that only a plan showed come first: nobody finds them again in the code.
    """
    waiver = Waiver(rule="HF1", reason="so", until=date(2027, 1, 1), place=Place(file="a.tf"))
    found = (
        reported(message="denied", stack="a", id="1"),
        reported(message="denied", stack="b", id="2"),
        reported(message="a secret", file="a.tf", line=2),
        reported(message="in the plan", stack="a"),
        reported(message="waived", waiver=waiver),
        reported(message="mind", severity=Severity.WARNING, stack="a", address="x.y"),
        reported(message="old", severity=Severity.WARNING, file="a.tf"),
    )
    reason = Reason(code="HF-GUARD-19", message="denied", rule="check HF1", finding="1")
    result = StackResult(stack=stack("a"), status=Status.REFUSED, decision=Deny(reasons=(reason,)))
    skipped = (NotEvaluated(rule="HF1", reason="no plan", stack="b"),)
    report = Report(findings=found, skipped=skipped, rules=(), files=1, stacks=1, modules=1)
    told_ = change_report((result,), operation="plan", headline="", clean=Redactor().clean, checked=report)
    assert told_.findings == (
        Trouble(code="HF1", message="denied (b)"),
        Trouble(code="HF1", message="a secret", file="a.tf", line=2),
        Trouble(code="HF1", message="in the plan (a)"),
    )
    assert told_.warnings == (
        Trouble(code="HF1", message="mind (a, x.y)"),
        Trouble(code="HF1", message="old", file="a.tf"),
    )
    assert told_.checks_summary == "4 errors, 2 warnings · 1 waived · 1 rule was only partly evaluated"


def reported(**given: Any) -> ReportedFinding:
    whole: dict[str, Any] = {
        "rule": Rule_(id="HF1", title="t", why="w", fix="f", severity=Severity.ERROR),
        "severity": Severity.ERROR,
        **dict.fromkeys(("hint", "file", "line", "column", "end_line", "stack", "address")),
    }
    return ReportedFinding(**(whole | given))


def test_no_secret_is_told() -> None:
    """Not in a value, a name, an address, a message or a note; not one that a control character hides."""
    redactor = Redactor(["hunter2hunter2"])
    secret = planned(plan([change("x.y", "create", after={"name": "is hunter2hunter2"})]))
    error = Problem(code="HF-TF-1", message="hunter2hunter2", hint="not hunter2hunter2")
    noted = StackResult(
        stack=stack("hunter2hunter2"),
        status=Status.FAILED,
        error=error,
        problems=(error,),
        notes=("hunter2hunter2",),
        removed_resources=("x.hunter2hunter2",),
    )
    report = change_report((secret, noted), operation="plan", headline="hunter2hunter2", clean=redactor.clean)
    assert "hunter2" not in repr(report) + repr([one.diff for one in report.stacks]) + markdown(report)


def test_a_huge_plan_is_cut_and_says_so() -> None:
    """A report holds no more than can be shown anywhere."""
    changes = [change(f"x.y{number}", "create", after={"name": "n" * 150}) for number in range(3000)]
    (found,) = told(planned(plan(changes)))
    assert found.diff_cut
    assert sum(map(len, found.diff)) <= 300_000


def test_what_is_applied_is_no_longer_a_risk() -> None:
    """Its plan is done."""
    (found,) = told(planned(plan([change("x.y", "delete")]), Status.APPLIED))
    assert (found.risks, found.diff, found.counts["delete"]) == ((), (), 1)


def test_a_mistake_before_anything_ran_is_a_report_too() -> None:
    """An older report must not go on saying that it may be merged."""
    problem = Problem(
        code="HF-CONF-4", message="unknown key", hint="Mend.", place=Place(file="holdfast.yaml", line=4)
    )
    text = markdown(failure_report((problem,), operation="plan", clean=str))
    assert text.startswith("## ⛔ Do not merge: nothing could be planned\n")
    assert "- **HF-CONF-4** `holdfast.yaml:4` unknown key<br>Mend." in text
