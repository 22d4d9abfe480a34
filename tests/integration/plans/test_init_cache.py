"""What the code of a stack says about the programs that Terraform will start for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.hcl.eval.code import Code
from holdfast.plans.init_cache import starts_no_program

DATA = 'resource "terraform_data" "a" {}\n'


@pytest.mark.parametrize(
    ("code", "config", "alone"),
    [
        (DATA, "", True),
        (DATA + 'data "terraform_remote_state" "b" {}\n', "credentials {}", True),
        (DATA + 'module "m" {\n  source = "./m"\n}\n', "", True),
        (DATA + 'module "m" {\n  source = "acme/m/aws"\n}\n', "", False),
        (DATA + 'module "m" {\n  source = var.source\n}\n', "", False),
        (DATA + 'resource "aws_vpc" "b" {}\n', "", False),
        (DATA + 'action "aws_lambda_invoke" "b" {}\n', "", False),
        (DATA + 'provider "aws" {}\n', "", False),
        (DATA + "terraform {\n  required_providers {\n    aws = {}\n  }\n}\n", "", False),
        ('resource "terraform_data" "a" {\n  provisioner "local-exec" {}\n}\n', "", False),
        (DATA, "provider_installation {\n  dev_overrides {}\n}", False),
    ],
)
def test_a_stack_that_may_start_a_program_is_not_alone(
    tmp_path: Path, code: str, config: str, *, alone: bool
) -> None:
    """Only a stack without plugins and provisioners gets settings of Go that these would inherit."""
    (tmp_path / "main.tf").write_text(code)
    assert starts_no_program([Code(tmp_path).module(".")], config) is alone
