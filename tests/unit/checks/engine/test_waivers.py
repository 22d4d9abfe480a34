"""Waivers: where they stand, what they cover, when they end, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest
from checkouts import UNUSED, check, checkout, lines, messages, of

from holdfast.checks.engine.waivers import LineWaiver, read_waivers
from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped
from holdfast.checks.model.subjects import CheckedStack
from holdfast.checks.rules.code.hf703_variables_and_version import HF703 as UNDECLARED
from holdfast.checks.rules.code.hf901_own_findings import HF901 as EXPIRED
from holdfast.checks.rules.code.hf901_own_findings import HF902 as NEEDLESS
from holdfast.checks.rules.code.hf901_own_findings import HF903 as BROKEN
from holdfast.checks.rules.code.hf901_own_findings import HF907 as UNKNOWN_RULE
from holdfast.checks.rules.policies.hf504_broad_statements import HF504 as EVERYTHING
from holdfast.kernel.errors import Place

IDS = frozenset({"HF101", "HF201", "HF700"})
GOOD = "holdfast:ignore HF700 until=2027-01-31 reason=why"

STACK = "stacks:\n  - name: root\n    module: .\n    environment: prod\n"


def configured(waiver: str) -> str:
    return f"version: 1\n{STACK}checks:\n  waivers:\n    - {waiver}\n"


def read(*text: str) -> list[LineWaiver]:
    return [one for one in read_waivers("main.tf", text, IDS) if isinstance(one, LineWaiver)]


@pytest.mark.parametrize("mark", ["#", "//", "# ", "/*"])
def test_every_kind_of_comment_is_read(mark: str) -> None:
    """Terraform knows three; all of them can hold a waiver."""
    end = " */" if mark == "/*" else ""
    (found,) = read(f"a = 1 {mark}{GOOD}{end}")
    assert (found.waiver.rule, found.waiver.reason, found.waiver.until) == ("HF700", "why", date(2027, 1, 31))
    assert found.waiver.owner is None
    assert found.line == 1


def test_fields_come_in_any_order_and_reasons_have_spaces() -> None:
    """A reason goes on until the next field or the end; quotes are taken off."""
    (one,) = read("# holdfast:ignore HF101 reason=for a good reason owner=a team until=2027-01-31", "x = 1")
    assert (one.waiver.reason, one.waiver.owner, one.line) == ("for a good reason", "a team", 2)
    (two,) = read('x = 1 # holdfast:ignore HF101 reason="until=then" until=2027-01-31')
    assert two.waiver.reason == "until=then"


def test_one_comment_names_several_rules() -> None:
    """Separated by commas; each is a waiver of its own."""
    found = read("# holdfast:ignore HF101, HF201,HF700,HF101 until=2027-01-31 reason=why", "", "# m", "x = 1")
    assert [(one.waiver.rule, one.line) for one in found] == [("HF101", 4), ("HF201", 4), ("HF700", 4)]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("holdfast:ignore", "no rule"),
        ("holdfast:ignore until=2027-01-31 reason=why", "no rule"),
        ("holdfast:ignore HF700 until=2027-01-31", "no reason (`reason=…`)"),
        ("holdfast:ignore HF700 reason=why", "no end date (`until=2027-01-31`)"),
        (
            "holdfast:ignore HF700 until=2027-02-30 reason=why",
            "`2027-02-30` is not a date (`until=2027-01-31`)",
        ),
        ("holdfast:ignore HF799 until=2027-01-31 reason=why", "there is no rule `HF799`"),
        ("holdfast:ignore HF7O1 until=2027-01-31 reason=why", "there is no rule `HF7O1`"),
        (
            "holdfast:ignore HF700 HF705 until=2027-01-31 reason=why",
            "unexpected `HF705`; separate rules with commas",
        ),
        ("holdfast:ignore HF7* until=2027-01-31 reason=why", "unexpected `*`; separate rules with commas"),
    ],
)
def test_an_incomplete_waiver_waives_nothing(written: str, says: str) -> None:
    """It is a finding with its place, and what it was meant for still counts."""
    report = check(UNUSED, {"main.tf": f'variable "a" {{}} # {written}\n'})
    assert messages(report, BROKEN) == [f"invalid waiver: {says}"]
    assert lines(report, BROKEN) == [("main.tf", 1)]
    assert [one.waived for one in of(report, UNUSED)] == [False]


@pytest.mark.parametrize(
    "code",
    [
        f'variable "a" {{}} # {GOOD}\n',
        f'# {GOOD}\nvariable "a" {{}}\n',
        f'# {GOOD}\n\n# a comment\nvariable "a" {{\n  type = string\n}}\n',
        f'variable "a" {{\n  type = string # {GOOD}\n}}\n',
        f'variable "a" {{\r\n  type = string # {GOOD}\r\n}}\r\n',
    ],
)
def test_a_waiver_covers_its_line_and_its_block(code: str) -> None:
    """On the line, alone above it, or inside the block that the finding is about."""
    report = check(UNUSED, {"main.tf": code})
    (found,) = of(report, UNUSED)
    assert found.waiver is not None
    assert (found.waiver.reason, len(report.active)) == ("why", 0)


@pytest.mark.parametrize(
    "code",
    [
        f'variable "a" {{}}\n# {GOOD}\n',
        f'variable "a" {{\n  type = string\n}} \n\nlocals {{ # {GOOD}\n}}\n',
        'variable "a" {} # holdfast:ignore HF702 until=2027-01-31 reason=why\n',
    ],
)
def test_a_waiver_covers_nothing_else(code: str) -> None:
    """Not the line before, not the next block, not another rule."""
    assert [one.waived for one in of(check(UNUSED, {"main.tf": code}), UNUSED)] == [False]


def test_the_last_day_counts_and_the_next_does_not() -> None:
    """`until` names the last day; after it the finding is back, and the waiver is one too."""
    code = {"main.tf": f'variable "a" {{}} # {GOOD}\n'}
    on_the_day = check(UNUSED, checkout(code, today=date(2027, 1, 31)))
    assert [one.waived for one in on_the_day.findings] == [True]
    after = check(UNUSED, checkout(code, today=date(2027, 2, 1)))
    assert [(one.rule.id, one.waived) for one in after.findings] == [("HF700", False), ("HF901", False)]
    assert messages(after, EXPIRED) == ["the waiver for HF700 (why) expired on 2027-01-31"]


def test_a_waiver_that_waives_nothing_is_a_finding() -> None:
    """Its rule looked at that file and found nothing on that line."""
    code = f'variable "a" {{}} # {GOOD}\noutput "a" {{\n  value = var.a\n}}\n'
    report = check(UNUSED, {"main.tf": code})
    assert messages(report, NEEDLESS) == ["the waiver for HF700 (why) has no effect"]


def test_a_waiver_is_unused_only_where_its_rule_was_evaluated() -> None:
    """A rule that was not asked, is off there, or could not look says nothing about its waivers."""
    code = {"main.tf": f"locals {{}} # {GOOD}\n"}
    unasked = {"main.tf": "locals {} # holdfast:ignore HF703 until=2027-01-31 reason=why\n"}
    assert check(EXPIRED, unasked).findings == ()
    off = f"version: 1\n{STACK}checks: {{ paths: [{{ path: main.tf, rules: {{ HF700: off }} }}] }}\n"
    assert check(UNUSED, code, config=off).findings == ()
    broken = {"main.tf": f"locals {{}} # {GOOD}\n", "other.tf": "resource {{\n"}
    assert of(check(UNUSED, broken), NEEDLESS) == []


def test_a_waiver_may_be_needed_by_a_stack_that_was_not_selected() -> None:
    """Of shared code only a look with all its stacks can say that a waiver waives nothing."""
    config = """
        version: 1
        stacks:
          - { name: one, module: shared, environment: prod, workspace: one }
          - { name: two, module: shared, environment: prod, workspace: two }
          - { name: other, module: other, environment: prod }
    """
    code = {"shared/main.tf": f"locals {{}} # {GOOD}\n", "other/main.tf": f"locals {{}} # {GOOD}\n"}
    found = check(UNUSED, code, config=config, select=["one", "other"])
    assert lines(found, NEEDLESS) == [("other/main.tf", 1)]
    whole = check(UNUSED, code, config=config, select=["one", "two"])
    assert lines(whole, NEEDLESS) == [("shared/main.tf", 1)]


CODE = {"main.tf": 'variable "a" {}\n'}
WORDS = "owner: team, reason: why, until: 2027-01-31"


@pytest.mark.parametrize(
    "about",
    ["rule: HF700", "rule: hf700, path: main.tf", "rule: HF700, path: '*.tf'", "rule: HF700, address: var.*"],
)
def test_the_configuration_waives_too(about: str) -> None:
    """By path, address, or rule alone; whoever answers for it is named."""
    report = check(UNUSED, CODE, config=configured(f"{{ {about}, {WORDS} }}"))
    assert [one.waiver.owner if one.waiver else None for one in of(report, UNUSED)] == ["team"]
    assert report.active == ()


@pytest.mark.parametrize(
    "about",
    [
        "rule: HF700, path: other.tf",
        "rule: HF700, address: var.b",
        "rule: HF700, path: main.tf, stack: other",
    ],
)
def test_all_that_a_waiver_names_must_match(about: str) -> None:
    """A waiver for another place leaves the finding as it is."""
    report = check(UNUSED, CODE, config=configured(f"{{ {about}, {WORDS} }}"))
    assert [one.waived for one in of(report, UNUSED)] == [False]


def test_a_waiver_of_the_configuration_can_expire_and_be_unused() -> None:
    """Both are findings, at its place in the file."""
    gone = check(UNUSED, CODE, config=configured("{ rule: HF700, owner: o, reason: why, until: 2026-06-14 }"))
    assert lines(gone, EXPIRED) == [("holdfast.yaml", 8)]
    read_ = {"main.tf": 'variable "a" {}\noutput "a" {\n  value = var.a\n}\n'}
    needless = check(UNUSED, read_, config=configured(f"{{ rule: HF700, path: main.tf, {WORDS} }}"))
    assert messages(needless, NEEDLESS) == ["the waiver for HF700 (why) has no effect"]
    elsewhere = check(UNUSED, read_, config=configured(f"{{ rule: HF700, path: modules, {WORDS} }}"))
    assert of(elsewhere, NEEDLESS) == []


def test_a_waiver_without_a_path_waits_for_everything_its_rule_looks_at() -> None:
    """A plan that was not at hand may be what it is for."""

    def source(_: object) -> list[Skipped]:
        return []

    def plan(_: object) -> list[Skipped]:
        return []

    both = Rule(id="HF700", title="t", why="w.", fix="f.", severity=Severity.NOTE, source=source, plan=plan)
    report = check(both, CODE, config=configured(f"{{ rule: HF700, address: a.b, {WORDS} }}"))
    assert of(report, NEEDLESS) == []


def test_rules_that_do_not_exist_are_reported() -> None:
    """In severities and waivers of the configuration; ids of other people's tools are theirs to know."""
    config = configured(f"{{ rule: HF799, {WORDS} }}\n    - {{ rule: CKV_AWS_20, {WORDS} }}") + (
        "  rules: { HF798: off, HF7*: note, HF8*: off, CKV2_X: off, CKV_*: off }\n"
    )
    report = check(UNUSED, {"main.tf": "locals {}\n"}, config=config)
    assert messages(report, UNKNOWN_RULE) == [
        "there is no rule `HF799`",
        "there is no rule `HF798`",
        "there is no rule `HF8*`",
    ]


def test_what_is_reported_about_waivers_cannot_be_waived() -> None:
    """Else the end date of a waiver could be waived away."""
    code = {"main.tf": 'variable "a" {} # holdfast:ignore HF700,HF901 until=2026-01-01 reason=why\n'}
    report = check(UNUSED, code)
    assert [one.waived for one in report.findings] == [False, False, False]


def test_a_waiver_for_one_stack_is_not_for_the_other() -> None:
    """Two stacks of one module say the same of one line; one of them is excused."""

    def look(stack: CheckedStack) -> Iterator[Finding]:
        yield Finding(message="wrong", place=Place(file="shared/main.tf", line=1), stack=stack.name)

    rule = Rule(id="HF799", title="Wrong", why="Why.", fix="Mend.", severity=Severity.ERROR, stack=look)
    config = f"""
        version: 1
        stacks:
          - {{ name: one, module: shared, environment: prod, workspace: one }}
          - {{ name: two, module: shared, environment: prod, workspace: two }}
        checks:
          waivers: [{{ rule: HF799, stack: one, {WORDS} }}]
    """
    report = check(rule, {"shared/main.tf": "locals {}\n"}, config=config)
    assert [(one.stack, one.waived) for one in of(report, rule)] == [("one", True), ("two", False)]


JSON_WAIVER = f'"//": "{GOOD}"'


@pytest.mark.parametrize(
    "code",
    [
        f'{{"variable": {{"a": {{{JSON_WAIVER}}}}}}}\n',
        f'{{\n"variable": {{\n"a": {{\n{JSON_WAIVER},\n"type": "string"\n}}\n}}\n}}\n',
        f'{{\n"variable": {{\n"a": [\n{{\n"type": "string",\n{JSON_WAIVER}\n}}]\n}}}}\n',
        f'{{\n  {JSON_WAIVER},\n  "//": "and more",\n  "variable": {{"a": {{"type": "string"}}}}\n}}\n',
    ],
)
def test_a_comment_of_json_syntax_waives(code: str) -> None:
    """The property `//` is how Terraform writes comments there: for what follows, and for its block."""
    report = check(UNUSED, {"main.tf.json": code})
    assert [(one.rule.id, one.waived) for one in report.findings] == [("HF700", True)]


def test_a_comment_of_json_syntax_waives_nothing_else() -> None:
    """Not a block further down, not one beside it; and of too little is said what is missing."""
    code = f"""{{
      "variable": {{
        "b": {{{JSON_WAIVER}, "type": "string"}},
        "a": {{"type": "string"}}
      }}
    }}
    """
    report = check(UNUSED, {"main.tf.json": code})
    assert [(one.address, one.waived) for one in of(report, UNUSED)] == [("var.b", True), ("var.a", False)]
    broken = check(UNUSED, {"main.tf.json": '{"variable": {"a": {"//": "holdfast:ignore HF700"}}}\n'})
    assert messages(broken, BROKEN) == ["invalid waiver: no reason (`reason=…`)"]


def test_a_comment_of_a_variables_file_is_no_variable() -> None:
    """Terraform passes over it; a quote in its reason is written as JSON writes it."""
    values = '{\n  "//": "holdfast:ignore HF703 until=2027-01-31 reason=\\"later\\"",\n  "b": "x"\n}\n'
    report = check(UNDECLARED, {"main.tf": "locals {}\n", "terraform.tfvars.json": values})
    assert [(one.line, one.waiver.reason if one.waiver else None) for one in of(report, UNDECLARED)] == [
        (3, "later")
    ]


OPEN = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}\n'
SHUT = OPEN.replace(
    '"Action": "*", "Resource": "*"', '"Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"'
)


@pytest.mark.parametrize(
    "files",
    [
        {"main.tf": "locals {}\n", "deploy-policy.json": "TEXT"},
        {
            "main.tf": 'resource "aws_iam_policy" "p" {\n  policy = file("${path.module}/files/p.json")\n}\n',
            "files/p.json": "TEXT",
        },
        {
            "main.tf": 'variable "f" {}\n',
            "terraform.tfvars": 'f = "policies/p.json"\n',
            "policies/p.json": "TEXT",
        },
    ],
)
def test_a_waiver_of_a_policy_file_is_unused_once_the_policy_is_fixed(files: dict[str, str]) -> None:
    """Such a file is looked at because it lies there, or because the code or a variables file names it."""
    path = next(path for path, text in files.items() if text == "TEXT")
    config = configured(f"{{ rule: HF504, path: {path}, {WORDS} }}")
    needed = check(EVERYTHING, {**files, path: OPEN}, config=config)
    assert ([one.waived for one in of(needed, EVERYTHING)], of(needed, NEEDLESS)) == ([True], [])
    needless = check(EVERYTHING, {**files, path: SHUT}, config=config)
    assert messages(needless, NEEDLESS) == ["the waiver for HF504 (why) has no effect"]
    unasked = check(UNUSED, {**files, path: SHUT}, config=config)
    assert of(unasked, NEEDLESS) == []


def test_a_removed_rule_is_a_note() -> None:
    """Settings and waivers of a rule that was removed have no effect, and say what to use instead."""
    config = configured(f"{{ rule: HF705, {WORDS} }}") + "  rules: { hf701: off }\n"
    code = 'variable "a" {} # holdfast:ignore HF702, HF700 until=2027-01-31 reason=why\n'
    report = check(UNUSED, {"main.tf": code}, config=config)
    assert [(one.rule.id, one.severity, one.message) for one in report.active] == [
        ("HF907", "note", "HF705 was removed: use TFLint (`terraform_typed_variables`)"),
        ("HF907", "note", "HF701 was removed: use TFLint (`terraform_unused_declarations`)"),
        ("HF907", "note", "HF702 was removed: use TFLint (`terraform_unused_declarations`)"),
    ]
    assert [one.waived for one in of(report, UNUSED)] == [True]
