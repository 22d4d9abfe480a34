"""Each format, read by a reader that is not ours: a JSON Schema, an XML parser, the rules of GitHub."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import xml.etree.ElementTree as ET
from datetime import date
from typing import Any

import pytest
import sarif_read

from holdfast.checks.formats.interface import FORMATS, FormatInput, format_of
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import (
    NotEvaluated,
    Report,
    ReportedFinding,
    Waiver,
    redact_report,
    sort_findings,
)
from holdfast.kernel.errors import Place

RULE = Rule(id="HF700", title="A thing", why="Why.", fix="Mend it.", severity=Severity.WARNING)
SECRET = Rule(id="HF201", title="A secret", why="Why.", fix="Hide it.", severity=Severity.ERROR, secret=True)
QUIET = Rule(id="HF702", title="Nothing", why="Why.", fix="Mend.", severity=Severity.NOTE)
WAIVER = Waiver(
    rule="HF700", reason="for now", until=date(2027, 1, 31), place=Place(file="a.tf", line=1), owner="team"
)


def one(**given: Any) -> ReportedFinding:
    whole: dict[str, Any] = {
        "rule": RULE,
        "severity": Severity.WARNING,
        "message": "wrong",
        "hint": "Mend it.",
        "file": "a.tf",
        "line": 3,
        "column": 2,
        "end_line": 3,
        "stack": None,
        "address": None,
    }
    return ReportedFinding(**{**whole, **given})


def report(*findings: ReportedFinding, skipped: tuple[NotEvaluated, ...] = ()) -> Report:
    return Report(
        findings=sort_findings(findings),
        skipped=skipped,
        rules=(SECRET, RULE, QUIET),
        files=2,
        stacks=1,
        modules=1,
    )


SKIPPED = NotEvaluated(rule="HF702", reason="no plan is at hand", stack="prod/x")
WHOLE = report(
    one(source='name = "a"', address="aws_x.y", end_line=5),
    one(line=1, end_line=1, waiver=WAIVER, message="waived"),
    one(rule=SECRET, severity=Severity.ERROR, file="b c.tf", source='password = "…"', message="a secret"),
    one(file=None, line=None, column=None, end_line=None, stack="prod/x", message="in a plan", hint=None),
    skipped=(SKIPPED,),
)
NASTY = "a::b\n::error::x\r\n##[error]y\x1b[31m\u202e<&\"'>%0A,|`]]>\ud800\x00"


def shown(what: Report = WHOLE, **more: Any) -> FormatInput:
    return FormatInput(report=what, version="1.2.3", **more)


def show(name: str, what: Report = WHOLE, **more: Any) -> str:
    return format_of(name)(shown(what, **more))


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_found_is_reported_in_every_format(name: str) -> None:
    """An empty report is a whole document with a line end."""
    assert show(name, report()).endswith("\n")


def test_text_is_grouped_by_rule_and_the_most_severe_comes_first() -> None:
    """One line per finding, then what to do; the last line counts."""
    assert show("text", seconds=0.84) == (
        " ✗ HF201  A secret\n"
        "     b c.tf:3  A secret\n"
        "       Mend it.\n"
        "\n"
        " ! HF700  A thing  (2)\n"
        "     a.tf:3  Wrong  (aws_x.y)\n"
        "       Mend it.\n"
        "     prod/x  In a plan\n"
        "\n"
        " 2 files · 1 error, 2 warnings · 1 waived"
        " · 1 rule was only partly evaluated (details: --verbose) · 0.8 s\n"
    )
    assert '     a.tf:3  Wrong  (aws_x.y)\n         name = "a"\n         Mend it.\n' in show(
        "text", full=True
    )


def test_a_name_keeps_its_letters() -> None:
    """A path that begins a sentence is still that path."""
    said = show("text", report(one(message="live/a.tf is missing")))
    assert "a.tf:3  live/a.tf is missing\n" in said


def test_verbose_text_has_more_detail() -> None:
    """What is waived, by whom and until when, and what was not seen."""
    said = show("text", verbose=True)
    assert " ~ HF700  A thing\n     a.tf:1  Waived\n         waived until 2027-01-31, team: for now\n" in said
    assert " not fully evaluated\n        - HF702  no plan is at hand  (prod/x)\n" in said


def test_what_to_do_is_shown_once_for_all_that_a_rule_finds() -> None:
    """Twelve times the same sentence hides the thirteenth."""
    found = (one(line=1), one(line=2), one(line=3, hint="Mend it otherwise."), one(file="z.tf"))
    said = show("text", report(*found)).splitlines()
    assert [line.strip() for line in said if "Mend it" in line] == [
        "Mend it.",
        "Mend it otherwise.",
    ]


def test_what_to_do_is_shown_though_the_first_of_its_kind_is_waived() -> None:
    """Of a waived finding only the waiver is shown: the next one still needs the hint."""
    said = show("text", report(one(line=1, waiver=WAIVER), one(line=2)), verbose=True)
    assert said.count("Mend it.") == 1


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_lets_a_secret_out(name: str) -> None:
    """Wherever it stands: the key of an instance is part of its address."""
    waiver = Waiver(
        rule="HF700", reason="t0k3n", until=date(2027, 1, 31), place=Place(file="a.tf"), owner="t0k3n"
    )
    texts = {
        "message": "t0k3n",
        "hint": "t0k3n",
        "file": "t0k3n.tf",
        "address": 'a.b["t0k3n"]',
        "source": "t0k3n",
    }
    found = report(
        one(**texts),
        one(**texts, waiver=waiver),
        skipped=(NotEvaluated(rule="r", reason="t0k3n", file="t0k3n"),),
    )
    said = show(name, redact_report(found, lambda text: text.replace("t0k3n", "•••")), verbose=True)
    assert "t0k3n" not in said


def test_json_is_the_document_of_the_design() -> None:
    """Every promised field is there, absent ones as null; waived findings do not count."""
    document = json.loads(show("json"))
    assert set(document) == {"version", "findings", "skipped", "summary"}
    first = document["findings"][0]
    promised = {"rule", "severity", "title", "message", "hint", "file", "line", "end_line", "stack"}
    assert {*promised, "address", "waived"} - set(first) == set()
    assert (first["waived"], first["waiver"]["until"], first["waiver"]["owner"]) == (
        True,
        "2027-01-31",
        "team",
    )
    assert document["findings"][1]["waived"] is False
    assert document["findings"][-1]["file"] is None
    assert document["skipped"] == [
        {"rule": "HF702", "reason": "no plan is at hand", "file": None, "stack": "prod/x", "expected": False}
    ]
    assert document["summary"] == {
        "error": 1,
        "warning": 2,
        "note": 0,
        "waived": 1,
        "skipped": 1,
        "rules": 3,
        "files": 2,
        "modules": 1,
        "stacks": 1,
        "existing": 0,
        "baseline": None,
    }


def sarif(what: Report = WHOLE, **more: Any) -> Any:
    return sarif_read.read(show("sarif", what, **more))


def test_sarif_keeps_to_its_schema() -> None:
    """Places, levels, rules by index; what is waived, and what was not seen, are notifications."""
    run = sarif(prefix="infra/")
    results = run["results"]
    assert [(one["ruleId"], one["level"]) for one in results] == [
        ("HF201", "error"),
        ("HF700", "warning"),
        ("HF700", "warning"),
    ]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in results)
    places = [one["locations"][0]["physicalLocation"] for one in results]
    assert [one["artifactLocation"]["uri"] for one in places] == [
        "infra/b%20c.tf",
        "infra/a.tf",
        "infra/holdfast.yaml",
    ]
    assert places[1]["region"] == {"startLine": 3, "startColumn": 2, "endLine": 5}
    assert run["properties"] == {"waived": 1, "leftOut": 0, "rulesThatCouldNotLook": 1}
    (invocation,) = run["invocations"]
    (unseen,) = invocation["toolExecutionNotifications"]
    assert unseen["message"]["text"] == "HF702 was not fully evaluated: no plan is at hand (prod/x)"
    (waived,) = invocation["toolConfigurationNotifications"]
    assert waived["message"]["text"] == "waived: waived until 2027-01-31, team: for now"
    assert waived["associatedRule"] == {"id": "HF700"}
    assert waived["locations"][0]["physicalLocation"]["region"]["startLine"] == 1


def test_the_schema_refuses_what_is_not_sarif() -> None:
    """It is the real one: closed, and strict about lines and levels."""
    for wrong in ({"more": 1}, {"level": "bad"}, {"ruleIndex": -2}):
        document = json.loads(show("sarif"))
        document["runs"][0]["results"][0] |= wrong
        assert not sarif_read.official().is_valid(document)


def test_sarif_stays_within_what_github_takes() -> None:
    """Of too many findings the gravest 5,000 stay; texts are cut, and however mixed they are they fit."""
    mixed = [hashlib.shake_256(bytes([number % 256])).hexdigest(600) for number in range(256)]
    notes = [
        one(severity=Severity.NOTE, line=number + 1, end_line=number + 1, message=mixed[number % 256])
        for number in range(5_100)
    ]
    long = one(rule=SECRET, severity=Severity.ERROR, file="z.tf", message="x" * 9_000)
    text = show("sarif", report(*notes, long))
    assert len(gzip.compress(text.encode(), 1)) < sarif_read.MOST["bytes"]
    run = json.loads(text)["runs"][0]
    assert len(run["results"]) == 5_000
    assert run["results"][0]["ruleId"] == "HF201"
    assert len(run["results"][0]["message"]["text"]) == 1_000
    assert run["properties"]["leftOut"] == 101


def test_sarif_names_files_by_the_bytes_of_their_name() -> None:
    """A name need not be UTF-8."""
    run = sarif_read.read(show("sarif", report(one(file="a b/\udcff.tf"), one(file="\ud800.tf"))))
    places = [one_["locations"][0]["physicalLocation"] for one_ in run["results"]]
    assert [place["artifactLocation"]["uri"] for place in places] == ["a%20b/%FF.tf", "%3F.tf"]


def test_a_fingerprint_moves_with_its_line() -> None:
    """The same line elsewhere is the same finding; two equal lines are two."""

    def prints(*findings: ReportedFinding) -> list[str]:
        return [
            one["partialFingerprints"]["primaryLocationLineHash"]
            for one in sarif(report(*findings))["results"]
        ]

    (before,) = prints(one(source="a = 1"))
    (after,) = prints(one(source="a = 1", line=90, end_line=90))
    assert before == after
    first, second = prints(one(source="a = 1"), one(source="a = 1", line=9, end_line=9))
    assert first != second
    assert prints(one(source="b = 1")) != [before]


COMMAND = re.compile(
    r"::(error|warning|notice)( [A-Za-z]+=[^\r\n:,]*(?:,[A-Za-z]+=[^\r\n:,]*)*)?::([^\r\n]*)"
)


def test_annotations_are_escaped_and_no_text_is_a_command() -> None:
    """Each line is one command with whole properties, whatever the texts hold; the last is a verdict."""
    nasty = report(one(message=NASTY, hint=NASTY, file=f"{NASTY}.tf", address=NASTY))
    *commands, last = show("github", nasty).removesuffix("\n").split("\n")
    assert len(commands) == 1
    found = COMMAND.fullmatch(commands[0])
    assert found is not None
    assert "##[" not in commands[0]
    assert "%0A" in found[3]
    assert last == "1 warning"


def test_annotations_have_places_from_the_root_of_git() -> None:
    """File, first and last line, rule and title; a finding in no file has none."""
    lines = show("github", prefix="infra/").splitlines()
    assert lines[0] == (
        "::error file=infra/b c.tf,line=3,endLine=3,title=HF201 A secret::a secret%0AMend it."
    )
    assert lines[1].startswith(
        "::warning file=infra/a.tf,line=3,endLine=5,title=HF700 A thing::wrong (aws_x.y)"
    )
    assert lines[2] == "::warning title=HF700 A thing::in a plan (prod/x)"
    assert lines[3:] == [
        "::group::not fully evaluated",
        "HF702  no plan is at hand  (prod/x)",
        "::endgroup::",
        "1 error, 2 warnings · 1 waived · 1 rule was only partly evaluated",
    ]


def test_github_shows_ten_of_a_level() -> None:
    """More are counted in the tenth."""
    many_ = report(*(one(line=number, end_line=number) for number in range(1, 31)))
    commands = [line for line in show("github", many_).splitlines() if line.startswith("::")]
    assert len(commands) == 10
    assert commands[-1].endswith("::21 more: run `holdfast check` to see all of them")


def test_markdown_starts_with_counts_and_the_most_severe_findings() -> None:
    """Then rows, then what is waived and what was not seen, folded."""
    said = show("markdown").splitlines()
    assert said[0] == "### ❌ Checks: 1 error, 2 warnings"
    rows = [line for line in said if line.startswith("| ") and "HF" in line]
    assert rows[0] == "| ❌ | HF201 | `b c.tf:3` | `a secret`<br>`Mend it.` |"
    assert rows[2] == "| ⚠️ | HF700 | `prod/x` | `in a plan` |"
    assert "- HF700 at `a.tf:1` until 2027-01-31: `for now`" in said
    assert "- HF702: `no plan is at hand` (`prod/x`)" in said


def test_markdown_keeps_texts_in_code() -> None:
    """No mention, tag, row or command comes out of a text."""
    text = show("markdown", report(one(message=f"@team <img> | x\n{NASTY}", hint=None)))
    (row,) = [line for line in text.splitlines() if "HF700" in line]
    assert len(re.findall(r"(?<!\\)\|", row)) == 5
    assert not any(line.startswith("::") or "##[" in line for line in text.splitlines())


def test_markdown_fits_into_a_comment() -> None:
    """Of thousands of findings of as many rules, some are shown, and where the others are."""

    def theirs(number: int) -> Rule:
        return Rule(id=f"CKV_{number}", title="T", why="", fix="", severity=Severity.WARNING)

    long = {"message": "x" * 300, "hint": "y" * 300, "file": "f" * 300}
    wide = Waiver(rule="HF700", reason="r" * 300, until=date(2027, 1, 31), place=Place(file="a.tf", line=1))
    many_ = report(
        *(one(rule=theirs(number), **long) for number in range(3_000)),
        *(one(line=number + 1, waiver=wide, **long) for number in range(3_000)),
        skipped=tuple(NotEvaluated(rule="HF702", reason=f"{number}{'z' * 300}") for number in range(3_000)),
    )
    text = show("markdown", many_)
    assert len(text) < 65_536
    assert sum(line.startswith("| ⚠️") for line in text.splitlines()) > 50
    assert "### ⚠️ Checks: 3000 warnings" in text
    assert "Not every finding is shown. All of them: `holdfast check --full`" in text
    assert len(re.findall(r"^- … and 29\d\d more$", text, re.MULTILINE)) == 2


def test_an_id_of_another_tool_is_text_from_outside() -> None:
    """It makes no mention, no tag and no row of its own."""
    theirs = Rule(id="rego.a|<img>\n@team", title="T", why="", fix="", severity=Severity.ERROR)
    found = report(one(rule=theirs), skipped=(NotEvaluated(rule=theirs.id, reason="broken"),))
    said = show("markdown", found).splitlines()
    assert "| ⚠️ | `rego.a│<img> @team` | `a.tf:3` | `wrong`<br>`Mend it.` |" in said
    assert "- `rego.a│<img> @team`: `broken`" in said
    assert " ! rego.a|<img> @team  T" in show("text", found).splitlines()


def cases(text: str) -> dict[str, ET.Element]:
    root = ET.fromstring(text)  # noqa: S314 - what we wrote ourselves
    return {case.attrib["classname"]: case for case in root.iter("testcase")}


def test_junit_has_a_case_for_each_rule() -> None:
    """A failure where the command fails, a skip where a rule could not look, else only words."""
    text = show("junit", seconds=1.5)
    suite = ET.fromstring(text).find("testsuite")  # noqa: S314
    assert suite is not None
    assert {name: suite.attrib[name] for name in ("tests", "failures", "skipped", "errors", "time")} == {
        "tests": "3",
        "failures": "1",
        "skipped": "1",
        "errors": "0",
        "time": "1.500",
    }
    found = cases(text)
    failure = found["holdfast.HF201"].find("failure")
    assert failure is not None
    assert (failure.attrib["message"], failure.attrib["type"]) == ("a secret", "error")
    assert failure.text == "b c.tf:3: error: a secret  Mend it."
    assert [child.tag for child in found["holdfast.HF700"]] == ["system-out"]
    assert [child.tag for child in found["holdfast.HF702"]] == ["skipped", "system-out"]


def test_junit_lists_tools_that_were_skipped() -> None:
    """A program that is not there is a skipped case, though it is no rule of ours."""
    found = cases(show("junit", report(skipped=(NotEvaluated(rule="checkov", reason="it is not on PATH"),))))
    skip = found["holdfast.checkov"].find("skipped")
    assert skip is not None
    assert skip.attrib["message"] == "it is not on PATH"


def test_junit_fails_where_the_command_does() -> None:
    """`--fail-on warning` makes warnings failures."""
    found = cases(show("junit", fail_on=Severity.WARNING))
    failure = found["holdfast.HF700"].find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "2 findings: wrong"


def test_junit_is_xml_whatever_the_texts_hold() -> None:
    """Characters that XML does not know are replaced, and no line is a command."""
    text = show(
        "junit", report(one(message=NASTY, hint=NASTY, file="::error::x.tf", severity=Severity.ERROR))
    )
    assert cases(text)
    assert not any(line.lstrip().startswith("::") or "##[" in line for line in text.splitlines())


MANY = report(
    *(one(file=f"live/{folder}/main.tf", line=line) for folder in "abcdef" for line in (1, 2, 3)),
    *(one(rule=SECRET, severity=Severity.ERROR, file=f"{folder}/a.tf", hint="Hide it.") for folder in "xyz"),
)


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_of_many_findings_each_folder_is_shown_once_and_the_rest_is_counted(name: str) -> None:
    """Errors before warnings, and how to see all of them."""
    said = show(name, MANY)
    assert said.index("z/a.tf:3") < said.index("live/a/main.tf:1")
    assert said.count("(+2 in this folder)") == 3
    assert "live/d" not in said
    assert "9 more findings in 3 more folders" in said
    assert "--full" in said
    assert all(f"live/{folder}/main.tf:3" in show("text", MANY, full=True) for folder in "abcdef")
