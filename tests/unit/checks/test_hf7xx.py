"""HF703, HF708 and HF709: undeclared variables, unprotected resources, version constraints."""

from __future__ import annotations

import json
from typing import Any

import pytest
from checkouts import check, checkout, lines, messages, of, plan_of, skips, the
from msgspec.structs import replace
from rule_cases import change

from holdfast.checks.engine.running import Available, CheckInputs
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import Report
from holdfast.terraform.tables.stateful_types import stateful_types

UNDECLARED, HF708, HF709 = the("HF703"), the("HF708"), the("HF709")

# Variables that are set and not declared.

DECLARED = 'variable "size" {\n  type = string\n}\n'


def test_a_variable_is_set_that_no_code_declares() -> None:
    """With the name that was probably meant; a declared one is fine."""
    report = check(UNDECLARED, {"main.tf": DECLARED, "terraform.tfvars": 'size = "a"\nsiez = "b"\n'})
    assert lines(report, UNDECLARED) == [("terraform.tfvars", 2)]
    assert report.findings[0].hint == "Did you mean `size`?"
    json = check(UNDECLARED, {"main.tf": DECLARED, "x.auto.tfvars.json": '{"size": "a", "other": 1}'})
    (said,) = messages(json, UNDECLARED)
    assert said == "`other` is set here, but the root module does not declare it"


def test_a_file_that_several_stacks_share_may_set_what_one_declares() -> None:
    """A common variables file is right if any of its modules knows the name."""
    config = """
        version: 1
        stacks:
          - { name: a, module: a, environment: prod, variables_files: [common.tfvars] }
          - { name: b, module: b, environment: prod, variables_files: [common.tfvars] }
    """
    files = {"a/main.tf": DECLARED, "b/main.tf": "locals {}\n", "common.tfvars": 'size = "a"\nmore = 1\n'}
    assert lines(check(UNDECLARED, files, config=config), UNDECLARED) == [("common.tfvars", 2)]


def test_a_file_of_no_stack_and_code_that_cannot_be_read_are_skips() -> None:
    """Nobody knows what is declared there."""
    alone = check(UNDECLARED, {"main.tf": DECLARED, "vars/x.tfvars": "y = 1\n"})
    assert skips(alone, UNDECLARED) == ["no selected stack uses this file"]
    broken = check(UNDECLARED, {"main.tf": "variable {{{\n", "terraform.tfvars": "y = 1\n"})
    assert messages(broken, UNDECLARED) == []
    assert len(skips(broken, UNDECLARED)) == 1


# What nothing keeps from being deleted.


@pytest.mark.parametrize("type_", ["google_storage_bucket", "google_bigquery_dataset"])
def test_a_provider_that_refuses_to_delete_what_is_not_empty_is_enough(type_: str) -> None:
    assert not unplanned({"main.tf": f'resource "{type_}" "a" {{}}\n'}).findings
    off = {"google_storage_bucket": "force_destroy", "google_bigquery_dataset": "delete_contents_on_destroy"}
    (found,) = unplanned({"main.tf": f'resource "{type_}" "a" {{\n  {off[type_]} = true\n}}\n'}).findings
    assert f"`{off[type_]} = false`" in str(found.hint)


def test_each_setting_in_a_hint_is_enough() -> None:
    """Of every type: what the hint says must clear the finding."""
    for type_, row in stateful_types().items():
        for name, safe in row.sufficient.items():
            least = safe["min"] if isinstance(safe, dict) else safe[0] if isinstance(safe, list) else safe
            *blocks, last = name.split(".")
            written = f"{last} = {json.dumps(least)}"
            for block in reversed(blocks):
                written = f"{block} {{\n{written}\n}}"
            report = unplanned({"main.tf": f'resource "{type_}" "a" {{\n{written}\n}}\n'})
            assert not of(report, HF708), (type_, name)


def unplanned(files: dict[str, str], config: str | None = None) -> Report:
    """What its code alone shows."""
    return check(HF708, files, config=config, inputs=CheckInputs(plans=Available()))


def database(inside: str) -> dict[str, str]:
    return {"main.tf": f'resource "aws_db_instance" "main" {{\n{inside}\n}}\n'}


@pytest.mark.parametrize(
    "inside",
    [
        "deletion_protection = true",
        'deletion_protection = "true"',
        "lifecycle {\n  prevent_destroy = true\n}",
        "deletion_protection = false\nlifecycle {\n  prevent_destroy = true\n}",
        "count = 0",
    ],
)
def test_a_resource_that_is_protected_passes(inside: str) -> None:
    """By its provider, or by Terraform; and so does one that is not made at all."""
    report = unplanned(database(inside))
    assert not report.findings
    assert not report.skipped


@pytest.mark.parametrize(
    "inside",
    [
        "",
        "deletion_protection = false",
        "deletion_protection = null",
        "skip_final_snapshot = false",
        "lifecycle {\n  prevent_destroy = false\n}",
        "lifecycle {\n  create_before_destroy = true\n}",
    ],
)
def test_a_resource_that_is_not_is_found(inside: str) -> None:
    """A last snapshot is little where its provider could have refused."""
    report = unplanned(database(inside))
    assert lines(report, HF708) == [("main.tf", 1)]
    assert "holds data" in messages(report, HF708)[0]
    assert "`deletion_protection = true`" in (of(report, HF708)[0].hint or "")


def test_only_production_counts() -> None:
    """Elsewhere things come and go."""
    config = "version: 1\nenvironments: { dev: {} }\nstacks: [{ name: root, module: ., environment: dev }]\n"
    assert not unplanned(database(""), config=config).findings


def test_a_value_that_is_not_known_is_skipped() -> None:
    """What a resource decides is known when it is planned."""
    report = unplanned(database("deletion_protection = data.a.b.c"))
    assert not report.findings
    assert skips(report, HF708) == ["the protection of aws_db_instance.main is only known in a plan"]


MAYBE = 'variable "x" {}\n'
NESTED = 'resource "google_sql_database_instance" "a" {\n  deletion_protection = false\n%s\n}\n'
DYNAMIC = """
  dynamic "settings" {
    for_each = %s
    content {
      deletion_protection_enabled = true
    }
  }
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (database("lifecycle {\n  prevent_destroy = var.x\n}")["main.tf"] + MAYBE, "skipped"),
        (database("for_each = {}")["main.tf"], "fine"),
        (database("for_each = var.x")["main.tf"] + MAYBE, "found"),
        (database("lifecycle {\n  enabled = false\n}")["main.tf"], "fine"),
        (NESTED % (DYNAMIC % "[1]"), "fine"),
        (NESTED % (DYNAMIC % "[]"), "found"),
        (NESTED % (DYNAMIC % "var.x") + MAYBE, "skipped"),
    ],
)
def test_what_may_be_is_neither_fine_nor_found(code: str, said: str) -> None:
    """A block that may not be made does not protect, and one that may be is no reason to complain."""
    report = unplanned({"main.tf": code})
    assert [bool(of(report, HF708)), bool(skips(report, HF708))] == [said == "found", said == "skipped"]


def test_blocks_are_objects_in_the_json_syntax() -> None:
    """One, or a list of them."""
    settings = '{"deletion_protection_enabled": true}'
    for inside in (settings, f"[{settings}]"):
        body = f'{{"deletion_protection": false, "settings": {inside}}}'
        code = f'{{"resource": {{"google_sql_database_instance": {{"a": {body}}}}}}}'
        assert not unplanned({"main.tf.json": code}).findings


@pytest.mark.parametrize(
    ("written", "over", "number"),
    [
        ("", "lifecycle {\n  prevent_destroy = true\n}", 0),
        ("deletion_protection = false", "deletion_protection = true", 0),
        ("deletion_protection = true", "deletion_protection = false", 1),
        ("lifecycle {\n  prevent_destroy = true\n}", "lifecycle {\n  create_before_destroy = true\n}", 0),
    ],
)
def test_an_override_file_changes_what_protects(written: str, over: str, number: int) -> None:
    """Terraform takes both blocks for one, and the later word counts."""
    files = {"main.tf": database(written)["main.tf"], "main_override.tf": database(over)["main.tf"]}
    assert lines(unplanned(files), HF708) == [("main.tf", 1)] * number


TWO = """\
    version: 1
    environments: { dev: {} }
    stacks:
      - { name: one, module: ., environment: prod, variables: { keep: true } }
      - { name: two, module: ., environment: prod, variables: { keep: false } }
      - { name: dev, module: ., environment: dev, variables: { keep: false } }
    """


def test_each_stack_in_production_gives_its_own_values() -> None:
    """The finding names the one stack that leaves it bare."""
    files = {"main.tf": database("deletion_protection = var.keep")["main.tf"] + 'variable "keep" {}\n'}
    report = unplanned(files, config=TWO)
    assert [one.stack for one in of(report, HF708)] == ["two"]


def test_a_module_is_checked_as_its_caller_calls_it() -> None:
    """One caller protects, the other does not; one is not called at all."""
    files = {
        "main.tf": """\
            module "a" {
              source = "./db"
              keep   = true
            }
            module "b" {
              source = "./db"
              keep   = false
              count  = 0
            }
            """,
        "db/main.tf": database("deletion_protection = var.keep")["main.tf"] + 'variable "keep" {}\n',
    }
    assert not unplanned(files).findings
    bare = files["main.tf"].replace("count  = 0", "count  = 1")
    assert lines(unplanned({**files, "main.tf": bare}), HF708) == [("db/main.tf", 1)]


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ('resource "aws_s3_bucket" "a" {}', 0),
        ('resource "aws_s3_bucket" "a" {\n  force_destroy = true\n}', 1),
        ('resource "google_sql_database_instance" "a" {}', 0),
        ('resource "google_sql_database_instance" "a" {\n  deletion_protection = false\n}', 1),
        (
            """resource "google_sql_database_instance" "a" {
              deletion_protection = false
              settings {
                deletion_protection_enabled = true
              }
            }""",
            0,
        ),
        ('resource "kubernetes_persistent_volume" "a" {}', 1),
        ('resource "kubernetes_persistent_volume" "a" {\n  spec {}\n}', 0),
        ('resource "aws_efs_file_system" "a" {}', 1),
        ('data "aws_db_instance" "a" {}', 0),
        ('resource "aws_route" "a" {}', 0),
    ],
)
def test_defaults_of_a_provider_count(code: str, number: int) -> None:
    """A safe default protects; one of a block only where the block is written."""
    assert len(of(unplanned({"main.tf": f"{code}\n"}), HF708)) == number


def test_the_features_of_a_provider_protect() -> None:
    """They say it in one place for all objects."""
    files = {
        "main.tf": 'resource "azurerm_subscription" "a" {}\n',
        "provider.tf": """\
            provider "azurerm" {
              features {
                subscription {
                  prevent_cancellation_on_destroy = true
                }
              }
            }
            """,
    }
    assert not unplanned(files).findings


COMPUTED = database("deletion_protection = data.a.b.c")
FAR = {"main.tf": 'module "m" {\n  source = "acme/db/aws"\n}\n'}


def planned(
    files: dict[str, str], *changes: dict[str, Any], config: str | None = None, **more: Any
) -> Report:
    """What the plan shows beside the code, of which nothing is asked here."""
    made = checkout(files, config=config)
    document = {"format_version": "1.2", "terraform_version": "1.9.0", "resource_changes": changes, **more}
    plan = plan_of(made, json.dumps(document).encode(), made.stacks[0].name)
    return check(replace(HF708, source=None), made, inputs=CheckInputs(plans=Available(items=(plan,))))


def main_database(known: dict[str, Any], **more: Any) -> dict[str, Any]:
    return change("aws_db_instance.main", known, **more)


def test_a_plan_tells_what_the_code_does_not() -> None:
    """A computed value is known by then; where it protects nothing is said, else it is found at its block."""
    assert not planned(COMPUTED, main_database({"deletion_protection": True})).findings
    for known in ({"deletion_protection": False}, {"deletion_protection": None}, {}):
        report = planned(COMPUTED, main_database(known))
        assert lines(report, HF708) == [("main.tf", 1)]
        assert [one.stack for one in of(report, HF708)] == ["root"]


def test_what_even_a_plan_does_not_know_is_skipped() -> None:
    """Values that only the apply knows, and objects that a plan of a part leaves out."""
    later = planned(COMPUTED, main_database({}, after_unknown={"deletion_protection": True}))
    assert not later.findings
    told = "the protection of aws_db_instance.main is not known: "
    assert skips(later, HF708) == [f"{told}the plan does not show it"]
    assert skips(planned(COMPUTED, complete=False), HF708) == [f"{told}the plan omits it"]
    assert not planned(COMPUTED, complete=True).skipped, "it is not made"


def test_a_plan_does_not_repeat_what_the_code_shows() -> None:
    """That is found there, once; and what goes away needs no protection."""
    gone = {**main_database({}), "change": {"actions": ["delete"], "before": {}, "after": None}}
    for report in (
        planned(database(""), main_database({"deletion_protection": False})),
        planned(database("lifecycle {\n  prevent_destroy = true\n}"), main_database({})),
        planned(COMPUTED, gone),
    ):
        assert not report.findings
        assert not report.skipped


def test_a_resource_of_a_module_from_outside_is_checked_in_the_plan() -> None:
    """Its provider's protection is seen. Without one nobody here can tell whether Terraform prevents it."""
    far = {**main_database({"deletion_protection": True}), "address": "module.m.aws_db_instance.main"}
    safe = planned(FAR, far)
    assert not safe.findings
    assert not safe.skipped
    bare = planned(FAR, {**far, "change": {"actions": ["create"], "after": {"deletion_protection": False}}})
    assert not bare.findings
    (why,) = skips(bare, HF708)
    assert why.startswith("the protection of module.m.aws_db_instance.main is not known: its module is")


def test_blocks_in_a_plan_are_lists_of_objects() -> None:
    """Some of their values may be unknown."""
    files = {"main.tf": NESTED.replace("false", "var.x") % (DYNAMIC % "var.x") + MAYBE}

    def report(settings: dict[str, bool], unknown: dict[str, bool]) -> Report:
        known = {"deletion_protection": False, "settings": [settings]}
        made = change("google_sql_database_instance.a", known, after_unknown={"settings": [unknown]})
        return planned(files, made)

    assert not report({"deletion_protection_enabled": True}, {}).findings
    assert lines(report({"deletion_protection_enabled": False}, {}), HF708) == [("main.tf", 1)]
    assert skips(report({}, {"deletion_protection_enabled": True}), HF708)


def test_each_stack_that_a_plan_could_answer_for_is_named() -> None:
    """So that its plan takes the question away, and not that of another stack."""
    config = TWO.replace(", variables: { keep: true }", "").replace(", variables: { keep: false }", "")
    report = unplanned(COMPUTED, config=config)
    assert [one.stack for one in report.skipped] == ["one", "two"]


def test_only_types_that_lose_data_are_reported() -> None:
    """Not an address, a key, or a machine, queue or cache, whose data is elsewhere."""
    types = ("aws_eip", "aws_kms_key", "aws_instance", "aws_sqs_queue", "helm_release", "aws_db_instance")
    code = "".join(f'resource "{type_}" "a" {{}}\n' for type_ in types)
    found = of(unplanned({"main.tf": code}), HF708)
    assert {one.address: one.severity for one in found} == {"aws_db_instance.a": Severity.WARNING}


def test_where_the_environment_is_unclear_it_is_a_note() -> None:
    """It may be production."""
    config = "version: 1\nstacks: [{ name: root, module: . }]\n"
    report = check(HF708, {"main.tf": 'resource "aws_db_instance" "a" {}\n'}, config=config)
    assert [one.severity for one in of(report, HF708)] == [Severity.NOTE]


# The version of Terraform.


def test_a_root_module_without_a_version_is_found() -> None:
    """At its `terraform` block, else at the first block there is."""
    assert lines(check(HF709, {"main.tf": '\noutput "a" {}\n'}), HF709) == [("main.tf", 2)]
    files = {"main.tf": 'output "a" {}\n', "versions.tf": "\nterraform {\n}\n"}
    assert lines(check(HF709, files), HF709) == [("versions.tf", 2)]


@pytest.mark.parametrize("version", ['"~> 1.9"', "local.version"])
def test_a_required_version_passes(version: str) -> None:
    """What it is is for Terraform to judge."""
    code = f"terraform {{\n  required_version = {version}\n}}\n"
    assert not check(HF709, {"main.tf": code}).findings


def test_only_root_modules_need_one() -> None:
    """A module that others call is run with theirs."""
    files = {
        "main.tf": 'terraform {\n  required_version = "~> 1.9"\n}\nmodule "a" {\n  source = "./a"\n}\n',
        "a/main.tf": 'output "a" {\n  value = 1\n}\n',
    }
    assert not check(HF709, files).findings
    assert not check(HF709, {"main.tf": 'output "a" {}\n'}, config="").findings


def test_a_file_that_cannot_be_read_may_ask_for_one() -> None:
    """So it is not said to be missing."""
    report = check(HF709, {"main.tf": "terraform {\n  required_version = \n"})
    assert not of(report, HF709)
