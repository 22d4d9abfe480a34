"""Whatever was found, waived or not seen: the document is SARIF 2.1.0, and within what GitHub takes."""

from __future__ import annotations

import string
from datetime import date

import sarif_read
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.checks.formats import sarif
from holdfast.checks.formats.interface import FormatInput
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import NotEvaluated, Report, ReportedFinding, Waiver
from holdfast.kernel.errors import Place

TEXTS = st.text(st.characters(codec=None), max_size=40) | st.sampled_from(
    ["", "{0}", "[a](1)", "x" * 3_000, "\ud800", "\x00", "##[error]x", '"\\"', "%2F", "é\u202e"]
)
MAYBE = st.none() | TEXTS
NUMBERS = st.none() | st.integers(1, 2**31)
IDS = st.sampled_from(["HF101", "HF201", "CKV_AWS_20", "rego.main.deny", "checkov"])
NAMES = st.text(string.ascii_letters + "._/- é", min_size=1, max_size=20)


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    return Rule(
        id=draw(IDS),
        title=draw(TEXTS),
        why=draw(TEXTS),
        fix=draw(TEXTS),
        severity=draw(st.sampled_from(Severity)),
        source=draw(st.none() | st.just(lambda _: ())),
        secret=draw(st.booleans()),
    )


WAIVERS = st.builds(
    Waiver,
    rule=IDS,
    reason=TEXTS,
    until=st.dates(min_value=date(2026, 1, 1)),
    place=st.builds(Place, file=NAMES, line=NUMBERS),
    owner=MAYBE,
)
FINDINGS = st.builds(
    ReportedFinding,
    rule=rules(),
    severity=st.sampled_from(Severity),
    message=TEXTS,
    hint=MAYBE,
    file=st.none() | NAMES | TEXTS.filter(bool),
    line=NUMBERS,
    column=NUMBERS,
    end_line=NUMBERS,
    stack=MAYBE,
    address=MAYBE,
    source=MAYBE,
    waiver=st.none() | WAIVERS,
)
REPORTS = st.builds(
    Report,
    findings=st.lists(FINDINGS, max_size=4).map(tuple),
    skipped=st.lists(
        st.builds(NotEvaluated, rule=IDS, reason=TEXTS, file=MAYBE, stack=MAYBE), max_size=2
    ).map(tuple),
    rules=st.lists(rules(), max_size=3, unique_by=lambda one: one.id).map(tuple),
    files=st.just(1),
    stacks=st.just(1),
    modules=st.just(1),
)


@settings(deadline=None)  # the first one loads the schema
@given(REPORTS, st.sampled_from(["", "infra/", "a b/"]))
def test_every_report_is_valid(report: Report, prefix: str) -> None:
    """Findings are results, waived ones and what was not seen are notifications; none is lost."""
    run = sarif_read.read(sarif.render(FormatInput(report=report, prefix=prefix, version="1.2.3")))
    assert len(run["results"]) == len(report.active)
    (invocation,) = run["invocations"]
    assert len(invocation["toolConfigurationNotifications"]) == report.waived
    assert len(invocation["toolExecutionNotifications"]) == len(report.skipped)
    prints = [one["partialFingerprints"]["primaryLocationLineHash"] for one in run["results"]]
    assert len(set(prints)) == len(prints)
