"""HF701, HF702 and HF703: variables and local values that nothing reads, or that nobody declares."""

from __future__ import annotations

import pytest
from checks_made import check, lines, messages, skips

from holdfast.checks.rules.hf701_unused_variable import RULE as VARIABLE
from holdfast.checks.rules.hf702_unused_local import RULE as LOCAL
from holdfast.checks.rules.hf703_undeclared_variable import RULE as UNDECLARED


@pytest.mark.parametrize(
    "reading",
    [
        'output "o" {\n  value = var.a\n}\n',
        'output "o" {\n  value = "${var.a}-x"\n}\n',
        'resource "x" "y" {\n  dynamic "b" {\n    for_each = var.a\n    content {}\n  }\n}\n',
        'module "m" {\n  source = "./m"\n  x = [for k, v in var.a : v if v != ""]\n}\n',
        'output "o" {\n  value = <<-EOT\n    %{ for i in var.a }x%{ endfor }\n  EOT\n}\n',
        'output "o" {\n  value = var.a[*].id\n}\n',
        'variable "b" {\n  validation {\n    condition = var.b != var.a\n  }\n}\nlocals {\n  b = var.b\n}\n',
    ],
)
def test_a_variable_is_read_wherever_it_stands(reading: str) -> None:
    """In strings, loops, dynamic blocks, templates, splats, and other variables' validations."""
    assert messages(check(VARIABLE, {"main.tf": 'variable "a" {}\n', "other.tf": reading}), VARIABLE) == []


def test_the_json_syntax_reads_too() -> None:
    """A `.tf.json` file counts like any other."""
    read = {"a.tf.json": '{"variable": {"a": {}}, "output": {"o": {"value": "${var.a}"}}}'}
    assert messages(check(VARIABLE, read), VARIABLE) == []
    unread = {"a.tf.json": '{"variable": {"a": {}}, "output": {"o": {"value": "var.a"}}}'}
    assert messages(check(VARIABLE, unread), VARIABLE) == ["nothing reads the variable `a`"]


def test_a_validation_of_its_own_is_no_reading() -> None:
    """A variable that only its own validation looks at does nothing."""
    code = 'variable "a" {\n  validation {\n    condition     = var.a > 0\n    error_message = "no"\n  }\n}\n'
    report = check(VARIABLE, {"main.tf": code})
    assert lines(report, VARIABLE) == [("main.tf", 1)]


def test_of_code_that_is_read_in_part_nothing_is_said() -> None:
    """What could not be read may read the variable: that is a skip with the file's name."""
    code = {"main.tf": 'variable "a" {}\nlocals {\n  b = 1\n}\n', "broken.tf": 'output "o" {\n  value = \n'}
    for rule in (VARIABLE, LOCAL):
        report = check(rule, code)
        assert messages(report, rule) == []
        assert skips(report, rule) == ["broken.tf could not be read in full"]


def test_locals_are_read_by_locals() -> None:
    """A chain of locals is read by whoever reads its end."""
    code = 'locals {\n  a = 1\n  b = local.a\n  c = 2\n}\noutput "b" {\n  value = local.b\n}\n'
    assert lines(check(LOCAL, {"main.tf": code}), LOCAL) == [("main.tf", 4)]


DECLARED = 'variable "size" {\n  type = string\n}\n'


def test_a_variable_is_set_that_nobody_declares() -> None:
    """With the name that was probably meant; a declared one is fine."""
    report = check(UNDECLARED, {"main.tf": DECLARED, "terraform.tfvars": 'size = "a"\nsiez = "b"\n'})
    assert lines(report, UNDECLARED) == [("terraform.tfvars", 2)]
    assert report.findings[0].hint == "Did you mean `size`?"
    json = check(UNDECLARED, {"main.tf": DECLARED, "x.auto.tfvars.json": '{"size": "a", "other": 1}'})
    (said,) = messages(json, UNDECLARED)
    assert said == "`other` is set here, and the root module declares no such variable"


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
    assert skips(alone, UNDECLARED) == ["no stack of this selection is given this file"]
    broken = check(UNDECLARED, {"main.tf": "variable {{{\n", "terraform.tfvars": "y = 1\n"})
    assert messages(broken, UNDECLARED) == []
    assert len(skips(broken, UNDECLARED)) == 1
