"""The runner: what each rule is asked about, what it could not see, and what happens when it breaks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from checkouts import check, checkout, messages, of, plan_of, skips, state_of

from holdfast.checks.engine.running import Available, CheckInputs
from holdfast.checks.model.contents import History
from holdfast.checks.model.interface import Finding, Rule, Severity, Skipped, finding, place_of
from holdfast.checks.model.report import Report
from holdfast.checks.model.subjects import (
    ABSENT,
    COMPUTED,
    UNKNOWN,
    CheckedPlan,
    CheckedStack,
    CheckedState,
    Checkout,
    Module,
    VariablesFile,
    nested,
    value,
)
from holdfast.kernel.errors import Exit, Place, Problem

PLAN = b'{"format_version":"1.2","terraform_version":"1.9.0","resource_changes":[]}'
STATE = b'{"version":4,"serial":1,"lineage":"l","outputs":{},"resources":[]}'
TWO = """
    version: 1
    stacks:
      - { name: a, module: a, environment: prod }
      - { name: b, module: b, environment: prod }
"""
FILES = {
    "a/main.tf": 'module "s" {\n  source = "../shared"\n}\n',
    "a/terraform.tfvars": "x = 1\n",
    "b/main.tf": 'module "s" {\n  source = "../shared"\n}\n',
    "shared/main.tf": "locals {}\n",
    "alone/main.tf": "locals {}\n",
    "alone/extra.tfvars": "y = 2\n",
}


def made(**functions: object) -> Rule:
    words = {"id": "HF799", "title": "t", "why": "w.", "fix": "f.", "severity": Severity.ERROR}
    return Rule(**{**words, **functions})  # type: ignore[arg-type] # the functions are what a test says


def ran(rule: Rule, found: Checkout, at_hand: CheckInputs | None = None) -> Report:
    return check(rule, found, inputs=at_hand)


def test_each_thing_is_checked_once() -> None:
    """A module that two stacks share is one module; code that no stack uses counts too."""
    seen: list[str] = []

    def source(module: Module) -> tuple[Finding, ...]:
        seen.append(f"{module.folder} {[one.name for one in module.stacks]}")
        return ()

    def variables(file: VariablesFile) -> tuple[Finding, ...]:
        seen.append(f"{file.path} {[one.name for one in file.stacks]}")
        return ()

    def stack(one: CheckedStack) -> tuple[Finding, ...]:
        seen.append(f"{one.name} {sorted(one.folders)}")
        return ()

    def repository(whole: Checkout) -> tuple[Finding, ...]:
        seen.append(f"{len(whole.files)} files, {len(whole.all_stacks)} stacks")
        return ()

    rule = made(source=source, variables=variables, stack=stack, repository=repository)
    report = check(rule, FILES, config=TWO)
    assert seen == [
        "a ['a']",
        "alone []",
        "b ['b']",
        "shared ['a', 'b']",
        "a/terraform.tfvars ['a']",
        "alone/extra.tfvars []",
        "a ['a', 'shared']",
        "b ['b', 'shared']",
        "6 files, 2 stacks",
    ]
    assert (report.files, report.modules, report.stacks) == (6, 4, 2)


def test_a_selection_is_its_stacks_and_what_no_stack_uses() -> None:
    """Named stacks: their code. Changed files: the code of touched stacks, and changed code of none."""

    def folders(found: Checkout) -> list[str]:
        return [module.folder for module in found.modules]

    assert folders(checkout(FILES, config=TWO, select=["a"])) == ["a", "shared"]
    changed = checkout(
        FILES, config=TWO, select=["b"], changed=["alone/main.tf", "a/main.tf", "shared/main.tf"]
    )
    assert folders(changed) == ["alone", "b", "shared"]
    assert [one.path for one in checkout(FILES, config=TWO, select=["a"]).variables_files] == [
        "a/terraform.tfvars"
    ]


def test_what_is_not_that_are_available_is_a_skip_with_its_reason() -> None:
    """A plan, a state, the history and Terraform's word: each is missed by name, once for each rule."""

    def look(_: object) -> tuple[Finding, ...]:
        return ()

    report = check(made(plan=look, state=look, history=look, engine=look), {"main.tf": ""})
    assert skips(report, made()) == [
        "the Git history was not searched: use --history",
        "Terraform was not run: use --engine",
        "no plan is available: `holdfast plan` checks it",
        "no state is available",
    ]
    assert report.partly_evaluated == ("HF799",)
    assert report.exit(Severity.NOTE) is Exit.DONE


def test_plans_and_states_that_are_available_are_checked() -> None:
    """With their stack, whose name the findings carry."""
    found = checkout({"main.tf": ""})

    def plan(one: CheckedPlan) -> Iterator[Finding]:
        yield Finding(message=f"plan of {one.plan.terraform_version}", address="a.b")

    def state(one: CheckedState) -> Iterator[Finding]:
        yield Finding(message=f"state {one.contents.serial}", severity=Severity.NOTE)

    def history(one: History) -> Iterator[Finding]:
        yield Finding(message=f"{len(one.commits)} commits")

    at_hand = CheckInputs(
        plans=Available(items=(plan_of(found, PLAN),)),
        states=Available(items=(state_of(found, STATE),), missing="no state is available for 1 of 2 stacks"),
        history=Available(items=(History(checkout=found, commits=()),)),
    )
    rule = made(plan=plan, state=state, history=history)
    report = ran(rule, found, at_hand)
    assert [(one.message, one.stack, one.severity.value) for one in of(report, rule)] == [
        ("0 commits", None, "error"),
        ("state 1", "root", "note"),
        ("plan of 1.9.0", "root", "error"),
    ]
    assert skips(report, rule) == ["no state is available for 1 of 2 stacks"]


def test_a_rule_that_breaks_is_an_error_and_harms_no_other() -> None:
    """What it found before stays; its own words may hold what the file holds and are not shown."""

    def breaks(module: Module) -> Iterator[Finding]:
        yield finding(module.files[0], "first")
        raise ValueError("hunter2")

    report = check(made(source=breaks), {"main.tf": 'variable "a" {}\n'})
    first, broken = report.findings
    assert first.message == "first"
    assert (broken.rule.id, broken.severity, broken.file) == ("HF905", Severity.ERROR, "main.tf")
    assert broken.message.startswith("HF799 crashed here: ValueError in test_running.py, line ")
    assert "hunter2" not in broken.message
    assert report.exit(Severity.ERROR) is Exit.REFUSED


def test_stacks_that_cannot_be_found_are_findings_and_skips() -> None:
    """Every problem is told with its place; rules that look at stacks say that they could not."""

    def look(_: object) -> tuple[Finding, ...]:
        return ()

    problem = Problem(code="HF-STACK-3", message="no", hint="do", place=Place(file="holdfast.yaml", line=3))
    report = check(
        made(stack=look), {"main.tf": ""}, config="", inputs=CheckInputs(stack_problems=(problem,))
    )
    assert [(one.rule.id, one.message, one.line) for one in report.findings] == [
        ("HF906", "HF-STACK-3 no", 3)
    ]
    assert skips(report, made()) == ["the stacks could not be discovered"]


def test_broken_code_is_a_finding_with_a_position() -> None:
    """And everything that can be read is still looked at."""
    report = check((), {"main.tf": 'variable "a" {\n', "b.tfvars": "x = [\n", "c.tf": b"\xff\n"})
    assert [(one.file, one.line, one.rule.id) for one in report.findings] == [
        ("b.tfvars", 1, "HF904"),
        ("c.tf", 1, "HF904"),
        ("main.tf", 1, "HF904"),
    ]


def test_other_tools_findings_come_into_the_same_report() -> None:
    """Under their own ids, with severities and waivers like any other."""
    theirs = Rule(id="CKV_AWS_20", title="Public", why="", fix="", severity=Severity.ERROR)
    at_hand = CheckInputs(
        tool_results=(
            (theirs, Finding(message="public", place=Place(file="main.tf", line=1))),
            (theirs, Finding(message="again", place=Place(file="main.tf", line=2))),
            (
                Rule(id="rego", title="Rego", why="", fix="", severity=Severity.ERROR),
                Skipped(reason="no opa"),
            ),
        )
    )
    code = {"main.tf": "locals {} # holdfast:ignore CKV_AWS_20 until=2027-01-01 reason=a site\nlocals {}\n"}
    report = check((), code, inputs=at_hand)
    assert [(one.rule.id, one.message, one.waived) for one in report.findings] == [
        ("CKV_AWS_20", "public", True),
        ("CKV_AWS_20", "again", False),
    ]
    assert report.findings[0].source == code["main.tf"].splitlines()[0]
    assert [(one.rule, one.reason) for one in report.skipped] == [("rego", "no opa")]


def test_the_same_line_is_reported_once_for_many_stacks() -> None:
    """As gravely as for any of them, and no longer as one stack's."""

    def look(one: CheckedStack) -> Iterator[Finding]:
        yield finding(Place(file="shared/main.tf", line=1), "wrong", severity=Severity(one.stack.workspace))

    config = """
        version: 1
        stacks:
          - { name: a, module: a, environment: prod, workspace: note }
          - { name: b, module: b, environment: prod, workspace: error }
    """
    (found,) = of(check(made(stack=look), FILES, config=config), made())
    assert (found.severity, found.stack) == (Severity.ERROR, None)


def test_the_exit_code_follows_the_level() -> None:
    """3 from the level on; a waived finding fails nothing."""

    def look(module: Module) -> Iterator[Finding]:
        yield finding(next(module.blocks("locals")), "w", severity=Severity.WARNING)

    report = check(made(source=look), {"main.tf": "locals {}\n"})
    assert report.exit(Severity.ERROR) is Exit.DONE
    assert report.exit(Severity.WARNING) is Exit.REFUSED
    waived = {"main.tf": "locals {} # holdfast:ignore HF799 until=2027-01-01 reason=r\n"}
    assert check(made(source=look), waived).exit(Severity.NOTE) is Exit.DONE


def test_values_are_absent_unknown_or_plain() -> None:
    """A rule can tell what is not written from what cannot be told; a stack's values tell more."""
    code = """
        variable "name" {}
        locals {
          full = "${var.name}-x"
        }
        resource "aws_thing" "a" {
          plain   = "p"
          named   = local.full
          made    = aws_thing.b.id
          setting {
            deep = 1
          }
          dynamic "setting" {
            for_each = []
            content {
              deep = 2
            }
          }
        }
    """
    found = checkout({"main.tf": code, "terraform.tfvars": 'name = "n"\n'})
    (thing,) = found.modules[0].resources("aws_thing")
    scope = found.stacks[0].scope
    body = thing.body
    assert [value(body, name) for name in ("plain", "named", "none")] == ["p", UNKNOWN, ABSENT]
    assert [value(body, name, scope) for name in ("named", "made")] == ["n-x", COMPUTED]
    assert [value(block.body, "deep") for block in nested(body, "setting")] == [1, 2]
    assert not ABSENT


def test_called_modules_have_the_values_of_their_call() -> None:
    """Each instance its own, with its address; a module called with count = 0 is dormant."""
    files = {
        "main.tf": """
            module "each" {
              source   = "./m"
              for_each = toset(["x", "y"])
              name     = each.key
            }
            module "never" {
              source = "./m"
              count  = 0
              name   = "z"
            }
            module "far" {
              source = "registry/far/aws"
            }
        """,
        "m/main.tf": 'variable "name" {}\n',
    }
    (stack,) = checkout(files).stacks
    assert [
        (one.folder, one.address, one.scope.variables.get("name"), one.dormant) for one in stack.scopes
    ] == [
        (".", "", None, False),
        ("m", 'module.each["x"]', "x", False),
        ("m", 'module.each["y"]', "y", False),
        ("m", "module.never", "z", True),
    ]


@pytest.mark.parametrize(
    ("code", "backend", "kind", "bucket"),
    [
        ("", "", "holdfast", ABSENT),
        ('terraform {\n  backend "s3" {\n    bucket = "c"\n  }\n}\n', "", "s3", "c"),
        ('terraform {\n  backend "s3" {}\n}\n', "{ type: s3, settings: { bucket: b } }", "s3", "b"),
        ("terraform {\n  cloud {}\n}\n", "", "cloud", ABSENT),
    ],
)
def test_the_backend_is_what_code_and_configuration_say(
    code: str, backend: str, kind: str, bucket: object
) -> None:
    """Together; the configuration wins."""
    line = f", backend: {backend}" if backend else ""
    config = f"version: 1\nstacks:\n  - {{ name: root, module: ., environment: prod{line} }}\n"
    (stack,) = checkout({"main.tf": code or "locals {}\n"}, config=config).stacks
    assert (stack.backend.type, stack.backend.settings.get("bucket", ABSENT)) == (kind, bucket)


def test_a_finding_can_stand_at_anything() -> None:
    """A block with all its lines, an attribute, an expression, a file, a place."""
    found = checkout({"main.tf": 'locals {\n  a = [\n    "x",\n  ]\n}\n'})
    file = found.modules[0].files[0]
    (block,) = file.body.blocks
    attribute = block.body.attributes[0]
    spots = [finding(one, "m") for one in (block, attribute, file, place_of(attribute.expression, file))]
    assert [(one.place.line if one.place else None, one.end_line) for one in spots] == [
        (1, 5),
        (2, None),
        (None, None),
        (2, None),
    ]
    assert messages(check((), found)) == []
