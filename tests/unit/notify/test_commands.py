"""Annotations, folds and outputs, as the runner wants them."""

from __future__ import annotations

import re

import pytest
from reports_made import checked, failed, losing, plain, ready, refused, report

from holdfast.notify.commands import output_lines, outputs_of, report_annotations
from holdfast.notify.hosts.catalogue import HOSTS
from holdfast.notify.hosts.github import GITHUB
from holdfast.notify.hosts.interface import CodeHost
from holdfast.notify.report import ChangeReport, Trouble
from holdfast.system.markup import escape_commands


def annotation_lines(change: ChangeReport, prefix: str = "") -> list[str]:
    assert GITHUB.annotation is not None
    return [GITHUB.annotation(one) for one in report_annotations(change, prefix)]


def test_an_error_is_annotated_at_its_place() -> None:
    """At the file and line, counted from the checkout on."""
    found = annotation_lines(report(failed("a", "50% off,\nreally", file="a/main.tf", line=3)), "infra/")
    assert found == [
        "::error file=infra/a/main.tf,line=3,title=a failed::HF-TF-1 50%25 off,%0Areally",
    ]


def test_a_refusal_is_an_error_and_a_loss_a_warning() -> None:
    """What is fine is not annotated at all."""
    found = annotation_lines(
        report(ready("a"), plain("b", "unchanged"), losing("c", "x.y"), refused("d", "x.z"))
    )
    assert found == [
        "::error title=d refused::HF-GUARD-1 x.z goes%0Ax.z deleted because its key is gone",
        "::warning title=c planned::x.y deleted because its key is gone",
    ]


def test_findings_are_annotated_at_their_place() -> None:
    assert annotation_lines(checked(ready("a"), errors=1), "infra/") == [
        "::error file=infra/a/main.tf,line=1,title=Holdfast::HF207 a secret, 1"
    ]


def test_no_more_than_are_shown() -> None:
    """GitHub shows ten of a level and drops the rest without a word; the tenth says how many."""
    found = annotation_lines(report(*(refused(f"s{number:02}", "x.y") for number in range(25))))
    assert len(found) == 10
    assert found[-1] == "::error title=Holdfast::16 more: see the report"


def test_a_mistake_in_the_configuration_is_annotated() -> None:
    """Where nothing could be planned, the mistake is shown at its line."""
    trouble = Trouble(code="HF-CONF-4", message="unknown key", file="holdfast.yaml", line=14)
    broken = ChangeReport(operation="plan", headline="", stacks=(), troubles=(trouble,))
    assert annotation_lines(broken) == [
        "::error file=holdfast.yaml,line=14,title=Holdfast::HF-CONF-4 unknown key"
    ]


def test_what_is_printed_is_no_command() -> None:
    """At the beginning of any line, or anywhere in the old form; the rest stays as it is."""
    assert escape_commands("a::b\n  ::error::x\r##[group]y") == "a::b\n  : :error::x\n## [group]y"
    assert escape_commands("a ##vso[task.x]b ##VSO[c") == "a ## vso[task.x]b ## VSO[c"
    assert escape_commands("  ✗ all is well\n") == "  ✗ all is well\n"


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_a_fold_begins_and_ends(host: CodeHost) -> None:
    """As the runner wants it; a title cannot begin another line."""
    begin, end = host.fold("a: 2\nresources", "0" * 32)
    token = "0" * 32
    marks = {
        "github": (
            ["::group::a: 2 resources", f"::stop-commands::{token}"],
            [f"::{token}::", "::endgroup::"],
        ),
        "gitlab": (["a: 2 resources"], [""]),
        "azure": (["##[group]a: 2 resources"], ["##[endgroup]"]),
    }
    assert ([line.text for line in begin], [line.text for line in end]) == marks[host.name]
    if host.name == "gitlab":
        assert re.match(
            r"\x1b\[0Ksection_start:\d+:holdfast_0+\[collapsed=true\]\r\x1b\[0K\Z", begin[0].command
        )
        assert re.match(r"\x1b\[0Ksection_end:\d+:holdfast_0+\r\x1b\[0K\Z", end[0].command)


def test_outputs_are_there_for_later_steps() -> None:
    """Verdict, exit code, how many of what, and which stacks."""
    found = outputs_of(report(ready("b"), refused("a", "x.y"), plain("c", "unchanged")), exit_code=3)
    wanted = {
        "verdict": "refused", "exit-code": "3", "stacks": "3", "refused": "1", "delete": "1", "create": "1",
    }  # fmt: skip
    assert wanted.items() <= found.items()
    assert found["changed-stacks"] == "a\nb"
    assert output_lines({"a": "1\n2"}, "t0") == "a<<holdfast_t0\n1\n2\nholdfast_t0\n"
    with pytest.raises(ValueError, match="delimiter"):
        output_lines({"a": "holdfast_t0"}, "t0")
