"""Whatever texts hold: reports are whole documents, waivers never crash and never hide another rule."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from datetime import date

from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.checks.engine.waivers import LineWaiver, read_waivers
from holdfast.checks.formats.interface import FormatInput, format_of
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import NotEvaluated, Report, ReportedFinding, Waiver
from holdfast.kernel.errors import Place

ANY = st.text(st.characters(codec=None), max_size=60) | st.sampled_from(
    [
        "::error::x",
        "##[error]x",
        "\r\n::stop-commands::t",
        "a|b`c``d",
        "<!--",
        "]]>",
        "%0A::x",
        "\u202e\x1b[0m",
    ]
)
PATHS = st.one_of(st.none(), ANY)


@st.composite
def reports(draw: st.DrawFn) -> Report:
    rule = Rule(id="HF799", title=draw(ANY), why=draw(ANY), fix=draw(ANY), severity=Severity.ERROR)
    waiver = Waiver(
        rule="HF799", reason=draw(ANY), until=date(2027, 1, 1), place=Place(file="a"), owner=draw(ANY)
    )
    findings = tuple(
        ReportedFinding(
            rule=rule,
            severity=draw(st.sampled_from(Severity)),
            message=draw(ANY),
            hint=draw(PATHS),
            file=draw(PATHS),
            line=draw(st.none() | st.integers(1, 9)),
            column=draw(st.none() | st.integers(1, 9)),
            end_line=draw(st.none() | st.integers(1, 9)),
            stack=draw(PATHS),
            address=draw(PATHS),
            source=draw(PATHS),
            waiver=draw(st.none() | st.just(waiver)),
        )
        for _ in range(draw(st.integers(0, 3)))
    )
    skipped = (NotEvaluated(rule="HF799", reason=draw(ANY), file=draw(PATHS), stack=draw(PATHS)),)
    return Report(findings=findings, skipped=skipped, rules=(rule,), files=1, stacks=1, modules=1)


@given(reports(), st.booleans())
def test_every_format_is_whole_whatever_the_texts_hold(report: Report, verbose: bool) -> None:  # noqa: FBT001
    """JSON parses, XML parses, and no line but an annotation of ours is a command of GitHub's."""
    shown = FormatInput(report=report, version="1", verbose=verbose)
    assert len(json.loads(format_of("json")(shown))["findings"]) == len(report.findings)
    assert len(json.loads(format_of("sarif")(shown))["runs"][0]["results"]) == len(report.active)
    junit = format_of("junit")(shown)
    assert ET.fromstring(junit.encode()).tag == "testsuites"  # noqa: S314 - what we wrote ourselves
    for text in (junit, format_of("markdown")(shown), format_of("sarif")(shown), format_of("json")(shown)):
        assert not any(re.match(r"\s*::", line) or "##[" in line for line in re.split(r"[\r\n]", text))
    commands = [line for line in re.split(r"[\r\n]", format_of("github")(shown)) if line.startswith("::")]
    fold = ["::group::not fully evaluated", "::endgroup::"]
    assert [line for line in commands if not re.match(r"::(error|warning|notice) ", line)] == fold
    assert len(commands) == len(report.active) + len(fold)
    assert all("##[" not in line for line in commands)


WAIVERS = st.builds(
    lambda before, reason: f"{before}# holdfast:ignore HF101 until=2027-01-31 reason={reason}",
    st.sampled_from(["", "  ", "a = 1  "]),
    ANY | st.just("a test"),
)


@given(
    st.lists(ANY | WAIVERS | st.text(max_size=40).map(lambda text: f"# holdfast:ignore {text}"), max_size=8)
)
@example(["# holdfast:ignore HF101 until=2027-01-31 reason=a test", "a = 1"])
def test_waivers_are_read_or_reported_and_stand_in_the_file(lines: list[str]) -> None:
    """Each is about a line of the file, and names a rule that there is."""
    for found in read_waivers("a.tf", lines, frozenset({"HF101"})):
        if isinstance(found, LineWaiver):
            assert 1 <= found.line <= len(lines)
            assert found.waiver.reason
        else:
            assert found.message
