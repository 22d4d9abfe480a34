"""HF601 to HF907 in every way: what Terraform says, hygiene, and the checks themselves."""

from __future__ import annotations

from collections.abc import Mapping

from rule_cases import Cases, MakeInputs, change, passing, reported, skipped, with_engine_output, with_plan

from holdfast.checks.engine.running import CheckInputs
from holdfast.kernel.errors import Place, Problem

UNFORMATTED = "locals {\n  a=1\n}\n"
FORMATTED = with_engine_output(formatted={"main.tf": b"locals {\n  a = 1\n}\n"})
INVALID = Problem(code="HF-TF-2", message="Unsupported argument", place=Place(file="main.tf", line=2))
NOWHERE = Problem(code="HF-TF-2", message="Unsupported argument", place=None)
NO_ENGINE = with_engine_output(validate_skipped="there is no engine", fmt_skipped="there is no engine")
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


def unfound(*problems: Problem) -> MakeInputs:
    return lambda _: CheckInputs(stack_problems=problems)


def levels(name: str) -> str:
    return f"version: 1\nstacks: [{{ name: root, module: . }}]\nchecks:\n  rules: {{ {name}: off }}\n"


CASES_BY_RULE: Mapping[str, Cases] = {
    "HF601": Cases(
        passes=(passing("locals {\n  a = 1\n}\n", make_inputs=FORMATTED),),
        fails=(reported(UNFORMATTED, make_inputs=FORMATTED),),
        missing=(passing(UNFORMATTED, make_inputs=with_engine_output()),),
        unknown=(skipped(UNFORMATTED, make_inputs=NO_ENGINE),),
    ),
    "HF602": Cases(
        passes=(passing("locals {}\n", make_inputs=with_engine_output()),),
        fails=(reported("locals {\n}\n", make_inputs=with_engine_output(problems=(INVALID,))),),
        missing=(reported("locals {}\n", make_inputs=with_engine_output(problems=(NOWHERE,))),),
        unknown=(skipped("locals {}\n", make_inputs=NO_ENGINE),),
    ),
    "HF703": Cases(
        passes=(passing({"main.tf": UNUSED, "terraform.tfvars": "a = 1\n"}),),
        fails=(reported({"main.tf": UNUSED, "terraform.tfvars": "b = 1\n"}),),
        missing=(passing({"main.tf": UNUSED, "terraform.tfvars": ""}),),
        unknown=(
            skipped({"main.tf": BROKEN, "terraform.tfvars": "b = 1\n"}),
            skipped({"main.tf": UNUSED, "other/a.tfvars": "b = 1\n"}),
        ),
    ),
    "HF708": Cases(
        passes=(
            passing(
                CALL.replace("./m", "acme/m/aws"),
                make_inputs=with_plan({"resource_changes": [far(protected=True)]}),
            ),
        ),
        fails=(
            reported(COMPUTED, make_inputs=with_plan({"resource_changes": [change("aws_db_instance.a")]})),
        ),
        missing=(reported(DATABASE % ""),),
        unknown=(
            skipped(COMPUTED),
            skipped(
                CALL.replace("./m", "acme/m/aws"),
                make_inputs=with_plan({"resource_changes": [far(protected=False)]}),
            ),
        ),
    ),
    "HF709": Cases(
        missing=(reported("terraform {}\n"),),
        unknown=(passing("terraform {\n  required_version = local.v\n}\n"), skipped("terraform {\n  a = \n")),
    ),
    "HF901": Cases(
        passes=(passing(f"{UNUSED} {WAIVER} until=2027-01-01 reason=x\n"),),
        fails=(reported(f"{UNUSED} {WAIVER} until=2026-01-01 reason=x\n"),),
        missing=(passing(f"{UNUSED} {WAIVER} reason=x\n"),),
        unknown=(passing(f"{UNUSED} {WAIVER} until=2026-02-30 reason=x\n"),),
    ),
    "HF902": Cases(
        passes=(passing(f"{UNUSED} {WAIVER} until=2027-01-01 reason=x\n"),),
        fails=(reported(f"{UNUSED} {WAIVER} until=2027-01-01 reason=x\n{USED}"),),
        missing=(passing(f"{UNUSED} {WAIVER} until=2027-01-01\n{USED}"),),
        unknown=(passing(f"{UNUSED} {WAIVER} until=2027-01-01 reason=x\n{USED}{BROKEN}"),),
    ),
    "HF903": Cases(
        passes=(passing(f"{UNUSED} {WAIVER} until=2027-01-01 reason=x\n"),),
        fails=(reported(f"{UNUSED} {WAIVER} until=2026-02-30 reason=x\n"),),
        missing=(
            reported(f"{UNUSED} {WAIVER} until=2027-01-01\n"),
            reported(f"{UNUSED} # holdfast:ignore\n"),
        ),
        unknown=(reported(f"{UNUSED} # holdfast:ignore HF000 until=2027-01-01 reason=x\n"),),
    ),
    "HF904": Cases(
        passes=(
            passing({"main.tf": "", "a.tfvars": "a = 1\n"}),
            passing({"main.tf": CALL, "m/main.tf": ""}),
            passing({"main.tf": CALL.replace("./m", "acme/m/aws")}),
        ),
        fails=(
            reported({"main.tf": "", "a.tfvars": "a = [\n"}),
            reported({"main.tf": "", "a.tfvars.json": "{"}),
            reported({"main.tf": CALL}),
            reported({"main.tf": CALL, "m/README.md": ""}),
            reported({"main.tf": CALL.replace("./m", "../m")}),
        ),
        missing=(passing(""), passing({"main.tf": "", "a.tfvars": ""}), passing('module "m" {\n}\n')),
        unknown=(reported({"main.tf": b'a = "\xff"\n'}), passing(CALL.replace('"./m"', "var.where"))),
    ),
    "HF906": Cases(
        passes=(passing("locals {}\n"),),
        fails=(reported("locals {\n}\n", "", unfound(INVALID)),),
        missing=(reported("locals {}\n", "", unfound(NOWHERE)),),
        unknown=(passing("locals {}\n", ""),),
    ),
    "HF907": Cases(
        passes=(passing("locals {}\n", levels("HF703")),),
        fails=(reported("locals {}\n", levels("HF799")),),
        missing=(passing("locals {}\n", "version: 1\nchecks: {}\n"),),
        unknown=(passing("locals {}\n", levels("CKV_AWS_20")), passing("locals {}\n", levels("HF7*"))),
    ),
}
