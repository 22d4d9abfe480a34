"""The line beside a finding: whatever rule found something there, a secret on it is not told once more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from checkouts import check, checkout

from holdfast.checks.engine.source_lines import SecretLines
from holdfast.checks.formats.interface import FORMATS, FormatInput, format_of
from holdfast.checks.model.interface import Finding, Rule, Severity
from holdfast.checks.model.report import Report
from holdfast.checks.model.subjects import Checkout
from holdfast.kernel.errors import Place

SECRET = "hunter2-of-the-lake"
KEY = "-----BEGIN PRIVATE KEY-----"


def rule(id_: str, place: Place, *, secret: bool, end_line: int | None = None) -> Rule:
    def look(_: Checkout) -> Iterator[Finding]:
        yield Finding(message="wrong", place=place, end_line=end_line)

    return Rule(
        id=id_,
        title="Wrong",
        why="Why.",
        fix="Mend.",
        severity=Severity.ERROR,
        repository=look,
        secret=secret,
    )


def reported(path: str, text: str, secret: Place, other: Place, end_line: int | None = None) -> Report:
    """A rule of secrets found something at one place, and another rule at the other."""
    found = (rule("HF208", secret, secret=True, end_line=end_line), rule("HF700", other, secret=False))
    return check(
        found, checkout({path: text, "main.tf": "locals {}\n"} if path != "main.tf" else {path: text})
    )


def source(path: str, text: str, line: int, of: str = "HF700", secret_line: int | None = None) -> str | None:
    at = Place(file=path, line=line)
    report = reported(path, text, Place(file=path, line=secret_line or line), at)
    return next(one.source for one in report.findings if one.rule.id == of and one.line == line)


@pytest.mark.parametrize("of", ["HF208", "HF700"])
@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (f'password = "{SECRET}"', 'password = "…"'),
        (f'password = "{SECRET}" # {SECRET}', 'password = "…" # …'),
        (f'a = {{ name = "TOKEN", value = "{SECRET}" }}', 'a = { … = "…", … = "…" }'),
        (f'login = "{SECRET}\\"{SECRET}"', 'login = "…"'),
        (f'login = "{SECRET}${{var.a}}"', 'login = "…"'),
        ("pin = 12345678", "pin = …"),
        ("password = hunter2", "password = …"),
        ("password = hunter2=", "password = …="),
        ("password = var.password", "password = var.password"),
        ("value = aws_db_instance.main.password", "value = …"),
        ("script = <<-EOT", "script = <<…"),
        ('output "login" {', 'output "login" {'),
        (f'variable "p" {{ default = "{SECRET}" }}', None),
        (f'"{SECRET}",', None),
        (f"{SECRET} of mine", None),
        (f"password = '{SECRET}'", None),
        (f'password = "${{lookup(var.a, "{SECRET}")}}"', None),
        ("MIIEvQIBADANBgkqhkiG=", None),
        (f'ghp_{"7Qw2ErTy9UiOp3LkJhGfDsA1ZxCvBnXy7Qw2"} = "a"', None),
    ],
)
def test_a_line_with_a_secret_is_shown_by_its_names_or_not_at_all(
    written: str, shown: str | None, of: str
) -> None:
    """For the rule that found the secret and for every other one."""
    assert source("main.tf", f"# first\n  {written}\n", 2, of) == shown


@pytest.mark.parametrize(
    "path", ["policy.json", ".env", "id_rsa", "config.yaml", "run.sh", "main.tf.json", "a.tfvars.json"]
)
def test_of_other_files_with_a_secret_no_line_is_shown(path: str) -> None:
    """Where a text ends is not known there, and a key goes on for many lines."""
    assert source(path, f'TOKEN: "{SECRET}"\nother\n', 1) is None
    assert source(path, f"{KEY}\n{SECRET}\n", 2, secret_line=1) is None


def test_part_of_a_longer_text_is_not_shown_where_the_file_has_a_secret() -> None:
    """A key in a heredoc begins on one line and is secret on all of them; so in a comment."""
    text = f"a = <<EOT\n{KEY}\n{SECRET}\nEOT\n/* {SECRET}\n{SECRET} */\nb = 1\n"
    assert [source("main.tf", text, line, secret_line=2) for line in (3, 6, 7)] == [None, None, "b = 1"]


def test_a_block_with_a_secret_hides_on_all_its_lines() -> None:
    """A finding may be about a whole block."""
    text = f'output "a" {{\n  value = "{SECRET}"\n}}\n'
    report = reported(
        "main.tf", text, Place(file="main.tf", line=1), Place(file="main.tf", line=2), end_line=3
    )
    assert [one.source for one in report.findings] == ['output "a" {', 'value = "…"']


@pytest.mark.parametrize(
    ("path", "shown"), [("a.tfvars", ['x = ["…", "…"] # …', None]), ("b.tfvars.json", [None, None])]
)
def test_values_of_variables_files_are_never_shown(path: str, shown: list[str | None]) -> None:
    """A secret may stand there under a name that says nothing of it."""
    lines = [f'x = ["{SECRET}", "two"] # three', f'y = "{SECRET}']
    assert [SecretLines(()).display_line(path, lines, number) for number in (1, 2)] == shown


def test_a_file_that_is_a_secret_shows_nothing() -> None:
    """A key, a state, an environment file."""
    report = reported("a.tf", f"a = 1\n# {SECRET}\n", Place(file="a.tf"), Place(file="a.tf", line=1))
    assert [one.source for one in report.findings] == [None, None]


def test_other_lines_stand_as_they_are_written() -> None:
    """Nothing is hidden without need."""
    assert source("main.tf", f'a = "open"\nb = "{SECRET}"\n', 1, secret_line=2) == 'a = "open"'
    assert SecretLines(()).display_line("p.json", ['  "Action": "*",'], 1) == '"Action": "*",'
    assert SecretLines(()).display_line("p.json", ["a"], 2) is None


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_tells_it_not_even_by_a_digest(name: str) -> None:
    """Two different secrets give the same document."""
    at = Place(file="main.tf", line=1)

    def shown(secret: str) -> str:
        report = reported("main.tf", f'password = "{secret}"\n', at, at)
        return format_of(name)(FormatInput(report=report, version="1", verbose=True))

    assert shown("one") == shown("two")


@pytest.mark.parametrize("end", ["\u2028", "\x0b", "\x0c", "\x1c", "\x85", "\r"])
def test_lines_are_those_that_hcl_counts(end: str) -> None:
    """Other ends of lines would move the count, and the secret would stand beside somebody else's finding."""
    text = f'# a{end}b\n\npassword = "{SECRET}"\r\nnext = 1\n'
    report = reported("main.tf", text, Place(file="main.tf", line=3), Place(file="main.tf", line=4))
    assert [one.source for one in report.findings] == ['password = "…"', "next = 1"]
    assert checkout({"main.tf": text}).lines("main.tf")[1:] == ("", f'password = "{SECRET}"', "next = 1")
