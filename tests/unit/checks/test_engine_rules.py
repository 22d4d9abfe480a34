"""HF601 and HF602: what Terraform says about format and validity."""

from __future__ import annotations

from collections.abc import Mapping

from checkouts import check, checkout, messages, of, skips
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checks.engine.running import Available, CheckInputs
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report
from holdfast.checks.model.subjects import EngineOutput
from holdfast.checks.rules.code.hf601_engine import HF601 as FORMAT
from holdfast.checks.rules.code.hf601_engine import HF602 as VALIDITY
from holdfast.checks.rules.code.hf601_engine import hunks
from holdfast.kernel.errors import Place, Problem

CODE = 'locals {\n  a=1\n  b = 2\n}\n\n\noutput "x" {\n  value="secret-word"\n}\n'
FORMATTED = 'locals {\n  a = 1\n  b = 2\n}\n\n\noutput "x" {\n  value = "secret-word"\n}\n'


def asked(
    formatted: Mapping[str, bytes],
    *,
    code: str | bytes = CODE,
    problems: tuple[Problem, ...] = (),
    warnings: tuple[Problem, ...] = (),
    why_not: str | None = None,
    unused_folders: tuple[str, ...] = (),
) -> Report:
    made = checkout({"main.tf": code})
    said = EngineOutput(
        stack=made.stacks[0],
        folder=".",
        formatted=formatted,
        problems=problems,
        warnings=warnings,
        validate_skipped=why_not,
        fmt_skipped=why_not,
        unused_folders=unused_folders,
    )
    return check((FORMAT, VALIDITY), made, inputs=CheckInputs(engine=Available(items=(said,))))


def test_every_place_that_the_format_changes_is_found() -> None:
    """With its line and what it becomes; a value is not repeated."""
    found = of(asked({"main.tf": FORMATTED.encode()}), FORMAT)
    assert [(one.line, one.hint) for one in found] == [
        (2, "Formatted: a = …"),
        (8, 'Formatted: value = "…"'),
    ]
    assert {one.severity for one in found} == {Severity.WARNING}


STACKS = """\
    version: 1
    environments: { dev: {} }
    stacks:
      - { name: first, module: a, environment: dev }
      - { name: second, module: b, environment: prod, variables_files: [b.tfvars] }
    checks: { environments: { prod: { rules: { HF601: error } } } }
    """


def test_a_file_is_reported_for_the_stacks_that_it_is_part_of() -> None:
    """One stack asks Terraform for the files of all: neither its name nor its environment counts for them."""
    call = 'module "m" {\n  source = "../m"\n}\n'
    files = {
        "a/main.tf": call,
        "b/main.tf": f"{call}\n\n",
        "m/main.tf": "locals {\n  a=1\n}\n",
        "b.tfvars": "a=1\n",
    }
    made = checkout(files, config=STACKS)
    formatted = {"b/main.tf": call.encode(), "m/main.tf": b"locals {\n  a = 1\n}\n", "b.tfvars": b"a = 1\n"}
    said = EngineOutput(stack=made.stacks[0], folder="a", formatted=formatted)
    found = of(check(FORMAT, made, inputs=CheckInputs(engine=Available(items=(said,)))), FORMAT)
    assert {(one.file, one.stack, one.stacks, one.severity) for one in found} == {
        ("b/main.tf", "second", ("second",), Severity.ERROR),
        ("m/main.tf", None, ("first", "second"), Severity.ERROR),
        ("b.tfvars", "second", ("second",), Severity.ERROR),
    }


def test_formatted_code_is_not_found() -> None:
    """The same bytes are the same format."""
    assert messages(asked({"main.tf": CODE.encode()}), FORMAT) == []


def test_line_ends_count() -> None:
    """The comparison is byte for byte."""
    report = asked({"main.tf": b"a = 1\n"}, code=b"a = 1\r\n")
    assert len(messages(report, FORMAT)) == 1


def test_a_waiver_counts_in_its_place() -> None:
    """On the line that is not formatted."""
    waived = "locals {\n  a=1 # holdfast:ignore HF601 until=2027-01-01 reason=made by a program\n}\n"
    (one,) = of(asked({"main.tf": waived.replace("a=1", "a = 1").encode()}, code=waived), FORMAT)
    assert one.waived


def test_errors_of_validate_are_reported_with_their_place() -> None:
    """Errors are errors, and what it only warns of is a warning."""
    place = Place(file="main.tf", line=8, column=3)
    report = asked(
        {},
        problems=(Problem(code="HF-TF-2", message="Unsupported argument", place=place),),
        warnings=(Problem(code="HF-TF-2", message="Deprecated", place=None),),
    )
    assert [(one.message, one.severity, one.line) for one in of(report, VALIDITY)] == [
        ("Unsupported argument", Severity.ERROR, 8),
        ("Deprecated", Severity.WARNING, None),
    ]


def test_code_that_was_not_validated_does_not_pass() -> None:
    """Both rules say why they could not look."""
    report = asked({}, why_not="HF-ENG-1 there is no engine")
    assert skips(report, FORMAT) == skips(report, VALIDITY) == ["HF-ENG-1 there is no engine"]


def test_code_that_no_stack_uses_does_not_pass() -> None:
    """Its format can be asked for, and that is all."""
    report = asked({}, unused_folders=("modules/m",))
    assert [(one.rule, one.file) for one in report.skipped] == [("HF602", "modules/m")]


TEXTS = st.lists(st.sampled_from(["a = 1", "b=2", "", "}"]), max_size=8).map(
    lambda lines: "".join(f"{line}\n" for line in lines).encode()
)


@given(TEXTS, TEXTS)
def test_hunks_name_what_changes_and_nothing_else(before: bytes, after: bytes) -> None:
    """The lines they name are those that go, the others stay as they are, and every line exists."""
    lines = before.decode().splitlines(keepends=True)
    kept, new = list(lines), after.decode().splitlines(keepends=True)
    found = list(hunks(before, after))
    for hunk in reversed(found):
        assert 1 <= hunk.line <= hunk.end_line <= max(len(lines), 1)
        start = hunk.line - 1
        assert tuple(lines[start : start + len(hunk.before)]) == hunk.before
        del kept[start : start + len(hunk.before)]
    rest = iter(new)
    assert all(line in rest for line in kept)
    assert len(new) == len(kept) + sum(len(hunk.after) for hunk in found)
    assert bool(found) == (before != after)


def test_only_a_line_feed_ends_a_line_of_a_hunk() -> None:
    """As HCL counts: the place of a finding would be another line."""
    (hunk,) = hunks("# a\u2028b\n\na=1\n".encode(), "# a\u2028b\n\na = 1\n".encode())
    assert (hunk.line, hunk.before) == (3, ("a=1\n",))
