"""HF601 to HF907 in every way: what Terraform says, hygiene, and the checks themselves."""

from __future__ import annotations

from collections.abc import Mapping

from five_ways import Hand, Ways, change, found, planned, quiet, said, skipped

from holdfast.checks.engine.running import CheckInputs
from holdfast.kernel.errors import Place, Problem

UNFORMATTED = "locals {\n  a=1\n}\n"
FORMATTED = said(formatted={"main.tf": b"locals {\n  a = 1\n}\n"})
INVALID = Problem(code="HF-TF-2", message="Unsupported argument", place=Place(file="main.tf", line=2))
NOWHERE = Problem(code="HF-TF-2", message="Unsupported argument", place=None)
NO_ENGINE = said(validate_skipped="there is no engine", fmt_skipped="there is no engine")
BROKEN = 'output "o" {\n  value = \n'
DATABASE = 'resource "aws_db_instance" "a" {\n  %s\n}\n'
COMPUTED = DATABASE % "deletion_protection = data.a.b.c"
UNUSED = 'variable "a" {}'
CALL = 'module "m" {\n  source = "./m"\n}\n'
USED = 'output "a" {\n  value = var.a\n}\n'
WAIVER = "# holdfast:ignore HF700"


def far(*, protected: bool) -> Mapping[str, object]:
    """An object of a module of which the repository has no code."""
    made = change("aws_db_instance.a", {"deletion_protection": protected})
    return {**made, "address": "module.m.aws_db_instance.a"}


def unfound(*problems: Problem) -> Hand:
    return lambda _: CheckInputs(stack_problems=problems)


def levels(name: str) -> str:
    return f"version: 1\nstacks: [{{ name: root, module: . }}]\nchecks:\n  rules: {{ {name}: off }}\n"


WAYS: Mapping[str, Ways] = {
    "HF601": Ways(
        passes=(quiet("locals {\n  a = 1\n}\n", hand=FORMATTED),),
        fails=(found(UNFORMATTED, hand=FORMATTED),),
        missing=(quiet(UNFORMATTED, hand=said()),),
        unknown=(skipped(UNFORMATTED, hand=NO_ENGINE),),
    ),
    "HF602": Ways(
        passes=(quiet("locals {}\n", hand=said()),),
        fails=(found("locals {\n}\n", hand=said(problems=(INVALID,))),),
        missing=(found("locals {}\n", hand=said(problems=(NOWHERE,))),),
        unknown=(skipped("locals {}\n", hand=NO_ENGINE),),
    ),
    "HF703": Ways(
        passes=(quiet({"main.tf": UNUSED, "terraform.tfvars": "a = 1\n"}),),
        fails=(found({"main.tf": UNUSED, "terraform.tfvars": "b = 1\n"}),),
        missing=(quiet({"main.tf": UNUSED, "terraform.tfvars": ""}),),
        unknown=(
            skipped({"main.tf": BROKEN, "terraform.tfvars": "b = 1\n"}),
            skipped({"main.tf": UNUSED, "other/a.tfvars": "b = 1\n"}),
        ),
    ),
    "HF708": Ways(
        passes=(
            quiet(
                CALL.replace("./m", "acme/m/aws"), hand=planned({"resource_changes": [far(protected=True)]})
            ),
        ),
        fails=(found(COMPUTED, hand=planned({"resource_changes": [change("aws_db_instance.a")]})),),
        missing=(found(DATABASE % ""),),
        unknown=(
            skipped(COMPUTED),
            skipped(
                CALL.replace("./m", "acme/m/aws"), hand=planned({"resource_changes": [far(protected=False)]})
            ),
        ),
    ),
    "HF709": Ways(
        missing=(found("terraform {}\n"),),
        unknown=(quiet("terraform {\n  required_version = local.v\n}\n"), skipped("terraform {\n  a = \n")),
    ),
    "HF901": Ways(
        passes=(quiet(f"{UNUSED} {WAIVER} until=2027-01-01 reason=x\n"),),
        fails=(found(f"{UNUSED} {WAIVER} until=2026-01-01 reason=x\n"),),
        missing=(quiet(f"{UNUSED} {WAIVER} reason=x\n"),),
        unknown=(quiet(f"{UNUSED} {WAIVER} until=2026-02-30 reason=x\n"),),
    ),
    "HF902": Ways(
        passes=(quiet(f"{UNUSED} {WAIVER} until=2027-01-01 reason=x\n"),),
        fails=(found(f"{UNUSED} {WAIVER} until=2027-01-01 reason=x\n{USED}"),),
        missing=(quiet(f"{UNUSED} {WAIVER} until=2027-01-01\n{USED}"),),
        unknown=(quiet(f"{UNUSED} {WAIVER} until=2027-01-01 reason=x\n{USED}{BROKEN}"),),
    ),
    "HF903": Ways(
        passes=(quiet(f"{UNUSED} {WAIVER} until=2027-01-01 reason=x\n"),),
        fails=(found(f"{UNUSED} {WAIVER} until=2026-02-30 reason=x\n"),),
        missing=(found(f"{UNUSED} {WAIVER} until=2027-01-01\n"), found(f"{UNUSED} # holdfast:ignore\n")),
        unknown=(found(f"{UNUSED} # holdfast:ignore HF000 until=2027-01-01 reason=x\n"),),
    ),
    "HF904": Ways(
        passes=(
            quiet({"main.tf": "", "a.tfvars": "a = 1\n"}),
            quiet({"main.tf": CALL, "m/main.tf": ""}),
            quiet({"main.tf": CALL.replace("./m", "acme/m/aws")}),
        ),
        fails=(
            found({"main.tf": "", "a.tfvars": "a = [\n"}),
            found({"main.tf": "", "a.tfvars.json": "{"}),
            found({"main.tf": CALL}),
            found({"main.tf": CALL, "m/README.md": ""}),
            found({"main.tf": CALL.replace("./m", "../m")}),
        ),
        missing=(quiet(""), quiet({"main.tf": "", "a.tfvars": ""}), quiet('module "m" {\n}\n')),
        unknown=(found({"main.tf": b'a = "\xff"\n'}), quiet(CALL.replace('"./m"', "var.where"))),
    ),
    "HF906": Ways(
        passes=(quiet("locals {}\n"),),
        fails=(found("locals {\n}\n", "", unfound(INVALID)),),
        missing=(found("locals {}\n", "", unfound(NOWHERE)),),
        unknown=(quiet("locals {}\n", ""),),
    ),
    "HF907": Ways(
        passes=(quiet("locals {}\n", levels("HF703")),),
        fails=(found("locals {}\n", levels("HF799")),),
        missing=(quiet("locals {}\n", "version: 1\nchecks: {}\n"),),
        unknown=(quiet("locals {}\n", levels("CKV_AWS_20")), quiet("locals {}\n", levels("HF7*"))),
    ),
}
