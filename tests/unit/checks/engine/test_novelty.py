"""Which findings are new, compared with a baseline and with the base of a change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from checkouts import check, checkout
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checks.engine.novelty import entry_of, mark_existing, mark_known, next_baseline
from holdfast.checks.engine.running import CheckInputs
from holdfast.checks.model.baseline import (
    BaselineEntry,
    RemainingEntries,
    common_entries,
    read_baseline,
    write_baseline,
)
from holdfast.checks.model.interface import Finding, Rule, Severity, finding
from holdfast.checks.model.report import Novelty, Report
from holdfast.checks.model.subjects import Checkout, Module
from holdfast.checks.rules.code.hf904_unreadable_code import RULE as HF904
from holdfast.kernel.errors import UsageError


def _resources(module: Module) -> Iterator[Finding]:
    for resource in module.resources():
        first = module.files[0].body.blocks[0].line
        message = f"wrong, as on line {first}"
        yield finding(resource.block, message, address=resource.address)


WRONG = Rule(id="HF703", title="Wrong", fix="Fix it.", severity=Severity.WARNING, source=_resources)
SECRET = Rule(id="HF208", title="A secret", fix="", severity=Severity.ERROR, source=_resources, secret=True)
RESOURCE = 'resource "a" "b" {\n  password = "x"\n}\n'


def of(files: dict[str, str] | str, *rules: Rule, **more: Any) -> tuple[Report, Checkout]:
    made = checkout({"main.tf": files} if isinstance(files, str) else files)
    return check(rules or (WRONG,), made, **more), made


def novelties(report: Report) -> list[str | None]:
    return [finding.novelty for finding in report.findings]


def entries(report: Report) -> tuple[BaselineEntry, ...]:
    return tuple(entry_of(finding) for finding in report.findings)


# The baseline


def test_a_baseline_is_readable_sorted_and_read_again() -> None:
    """One line per entry; equal ones are counted."""
    known = entries(of({"b.tf": RESOURCE, "a.tf": RESOURCE.replace('"b"', '"c"')})[0])
    text = write_baseline([*reversed(known), known[0]])
    assert text.splitlines()[3:5] == [
        (
            '    {"rule": "HF703", "severity": "warning", "file": "a.tf", "address": "a.c", '
            '"message": "wrong, as on line …", "count": 2},'
        ),
        (
            '    {"rule": "HF703", "severity": "warning", "file": "b.tf", "address": "a.b", '
            '"message": "wrong, as on line …"}'
        ),
    ]
    assert write_baseline(read_baseline(text.encode())) == text
    assert read_baseline(write_baseline(()).encode()) == ()


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"version": 2}', '{"version": 1, "findings": [{}]}', "\xff",
        pytest.param(f'{{"version": 1, "x": {"[" * 99_999}{"]" * 99_999}}}', id="deep"),
        '{"version": 1, "findings": [{"rule": "HF703", "severity": "note", "message": "", "count": -1}]}',
    ],
)  # fmt: skip
def test_an_invalid_baseline_is_an_error(text: str) -> None:
    """Also one of a later version, and one whose counts would hide what a change adds to it."""
    with pytest.raises(UsageError, match="HF-CHECK-7"):
        read_baseline(text.encode("latin-1"))


def test_a_finding_is_known_on_any_line_and_as_often_as_counted() -> None:
    """Not in another file, not if it became more severe, and not a second time."""
    known = entries(of(RESOURCE)[0])
    assert novelties(of("\n\n" + RESOURCE, inputs=CheckInputs(baseline=known))[0]) == [Novelty.KNOWN]
    twice = of(RESOURCE + RESOURCE, inputs=CheckInputs(baseline=known))[0]
    assert novelties(twice) == [Novelty.KNOWN, Novelty.NEW]
    assert novelties(of({"other.tf": RESOURCE}, inputs=CheckInputs(baseline=known))[0]) == [Novelty.NEW]
    less = tuple(BaselineEntry(rule="HF703", severity=Severity.NOTE, message=one.message) for one in known)
    assert novelties(of(RESOURCE, inputs=CheckInputs(baseline=less))[0]) == [Novelty.NEW]
    hostile = (*less, BaselineEntry(rule="HF703", severity=Severity.ERROR, message="x", count=10**15))
    assert RemainingEntries(hostile).left()[-1].count == 10**15


def test_what_is_fixed_is_distinguished_from_what_was_not_checked() -> None:
    """An entry of a rule that did not run, or in a file that cannot be read, may still be true."""
    known = (*entries(of(RESOURCE, WRONG)[0]), *entries(of(RESOURCE, SECRET)[0]))
    report = of("locals {}\n", WRONG, inputs=CheckInputs(baseline=known))[0]
    assert report.baseline is not None
    assert [entry.rule for entry in report.baseline.fixed] == ["HF703"]
    assert [entry.rule for entry in report.baseline.unchecked] == ["HF208"]
    kept, _ = next_baseline(report, str)
    assert [entry.rule for entry in kept] == ["HF208"]
    once = of(RESOURCE, inputs=CheckInputs(baseline=(*entries(of(RESOURCE)[0]),) * 2))[0]
    assert once.baseline is not None
    assert once.baseline.fixed_count == 1
    broken = of("locals {\n", WRONG, HF904, inputs=CheckInputs(baseline=known))[0]
    assert broken.baseline is not None
    assert not broken.baseline.fixed


def test_what_a_secret_is_in_cannot_be_written() -> None:
    """An entry is written as it is or not at all, and crashes and policies never are."""
    report = of(RESOURCE)[0]
    assert next_baseline(report, lambda text: text.replace("a.b", "…")) == ([], 1)
    for rule, tool in (("HF905", ""), ("HF908", ""), ("HF902", ""), ("rego.main.deny", "rego")):
        own = Rule(id=rule, title="", fix="", severity=Severity.ERROR, source=_resources, tool=tool)
        report = of(RESOURCE, own)[0]
        assert mark_known(report.findings, entries(report))[0][0].novelty is Novelty.NEW


_ENTRY = st.builds(
    BaselineEntry,
    rule=st.sampled_from(["HF1", "HF2"]),
    severity=st.sampled_from(Severity),
    file=st.sampled_from(["a.tf", "b.tf"]),
    message=st.sampled_from(["x", "y"]),
    count=st.integers(min_value=0, max_value=3),
)
_ENTRIES = st.lists(_ENTRY, max_size=8)


@given(base=_ENTRIES, change=_ENTRIES, found=_ENTRIES)
def test_no_edit_of_the_baseline_makes_a_finding_known_in_its_own_review(
    base: list[BaselineEntry], change: list[BaselineEntry], found: list[BaselineEntry]
) -> None:
    """Whatever the change writes, no more is known than by the baseline of the base."""
    with_base, with_both = RemainingEntries(base), RemainingEntries(common_entries(change, base))
    assert sum(map(with_both.take, found)) <= sum(map(with_base.take, found))
    assert write_baseline(common_entries(base, base)) == write_baseline(base)


# The base of a change


def compared(before: dict[str, str] | str, now: dict[str, str] | str, *rules: Rule) -> list[str | None]:
    report, made = of(now, *rules)
    return novelties(mark_existing(report, made, [of(before, *rules)], entries(report)))


def test_what_the_base_has_on_the_same_line_of_code_is_known() -> None:
    """Wherever that line is, also in another file of the folder; each counts once."""
    assert compared(RESOURCE, f"# more\n{RESOURCE}") == [Novelty.KNOWN]
    assert compared(RESOURCE, {"moved.tf": RESOURCE}) == [Novelty.KNOWN]
    assert compared(RESOURCE, {"main.tf": RESOURCE, "copy.tf": RESOURCE}).count(Novelty.NEW) == 1
    assert compared("", RESOURCE) == [Novelty.NEW]
    empty = {"main.tf": "locals {}\n"}
    assert compared({**empty, "x/a.tf": RESOURCE}, {**empty, "y/a.tf": RESOURCE}) == [Novelty.NEW]


def test_code_that_is_used_under_another_link_is_new() -> None:
    """A link to a known file brings its findings to where they were not."""
    files = {"main.tf": "locals {}\n", "old/a.tf": RESOURCE}
    linked = {**files, "new/a.tf": "-> /repository/old/a.tf"}
    assert [one.file for one in of(linked)[0].findings] == ["old/a.tf"]
    assert compared(files, linked) == [Novelty.NEW]
    assert compared(linked, linked) == compared(linked, files) == [Novelty.KNOWN]
    known = entries(of(files)[0])
    assert novelties(of(linked, inputs=CheckInputs(baseline=known))[0]) == [Novelty.NEW]
    known = entries(of(linked)[0])
    assert [entry.count for entry in known] == [2]
    assert novelties(of(linked, inputs=CheckInputs(baseline=known))[0]) == [Novelty.KNOWN]


def test_another_secret_at_the_same_address_is_new() -> None:
    """All its lines count; of other findings, only the line that they are at."""
    changed = RESOURCE.replace('"x"', '"y"')
    assert compared(RESOURCE, changed, SECRET) == [Novelty.NEW]
    assert compared(RESOURCE, changed, WRONG) == [Novelty.KNOWN]


def test_a_policy_that_allows_more_is_new() -> None:
    """The finding is at one of its lines, and the others decide what it allows."""
    policy = Rule(id="HF508", title="", fix="", severity=Severity.ERROR, source=_resources)
    assert compared(RESOURCE, RESOURCE.replace('"x"', '"y"'), policy) == [Novelty.NEW]
    assert compared(RESOURCE, f"locals {{}}\n{RESOURCE}", policy) == [Novelty.KNOWN]


def test_a_file_that_cannot_be_read_exists_only_as_it_is() -> None:
    """What was added to it cannot be seen."""
    assert compared("locals {\n", "locals {\n", HF904) == [Novelty.KNOWN]
    assert compared("locals {\n", f"locals {{\n{RESOURCE}", HF904) == [Novelty.NEW]


def test_a_finding_that_becomes_more_severe_is_new() -> None:
    """And one that becomes less severe is not."""
    worse = Rule(id="HF703", title="", fix="", severity=Severity.ERROR, source=_resources)
    now, made = of(RESOURCE, worse)
    then = of(RESOURCE, WRONG)
    assert novelties(mark_existing(now, made, [then], ())) == [Novelty.NEW]
    assert novelties(mark_existing(then[0], then[1], [(now, made)], ())) == [Novelty.EXISTING]
