"""HF201 to HF214 in every way: files that Git must not keep, and secrets."""

from __future__ import annotations

from collections.abc import Mapping

from rule_cases import (
    Case,
    Cases,
    Files,
    change,
    passing,
    reported,
    skipped,
    state_resource,
    with_history,
    with_plan,
    with_state,
    with_state_file,
)

from holdfast.checks.engine.running import Available, CheckInputs
from holdfast.checks.model.contents import ContentKind, History, HistoryMatch
from holdfast.checks.model.subjects import Checkout

STATE = '{"version": 4, "terraform_version": "1.9.0", "serial": 3, "lineage": "a", "resources": []}'
KEY = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEpAIBAAKCAQEA7Qw2ErTy9UiOp3LkJhGfDsA1\n-----END"
GITHUB = "ghp_" + "7Qw2ErTy9UiOp3LkJhGfDsA1ZxCvBnXy7Qw2"
RANDOM = "q7Rz2Lw9Xk4Tn8Vb3Md6"
HARMLESS: Files = {"main.tf": "locals {}\n", "a.tfvars": 'region = "eu-west-1"\n', "a.json": '{"a": 1}'}
OPEN = {"after": f"app:{RANDOM}", "after_sensitive": False, "actions": ["create"]}
SHUT = {**OPEN, "after_sensitive": True}
LATER = {"after_unknown": True, "after_sensitive": False, "actions": ["create"]}
PASSWORD = change("aws_db_instance.a", {"password": RANDOM}, after_sensitive={"password": True})


def no_git(files: Files) -> Case:
    """Outside Git nobody can tell what Git would keep."""
    return skipped(files)._replace(no_git=True)


def in_git(path: str, content: str, harmless: str) -> Cases:
    """A file, in the tree and in the past, and one that is only called nearly the same."""
    return Cases(
        passes=(
            passing({"main.tf": "", harmless: "{}"}),
            passing({"main.tf": ""}, make_inputs=with_history(harmless)),
        ),
        fails=(
            reported({"main.tf": "", path: content}),
            reported({"main.tf": ""}, make_inputs=with_history(path)),
        ),
        missing=(passing({"main.tf": ""}), passing({"main.tf": ""}, make_inputs=with_history())),
        unknown=(no_git({"main.tf": "", path: content}),),
    )


def leaked(made: Checkout) -> CheckInputs:
    trace = HistoryMatch(
        ContentKind.SECRET, "gone.tf", "0123456789abcdef", "2025-03-04", "GitHub tokens", 3, "0" * 64
    )
    return CheckInputs(history=Available(items=(History(checkout=made, commits=(), traces=(trace,)),)))


CASES_BY_RULE: Mapping[str, Cases] = {
    "HF201": in_git("terraform.tfstate", STATE, "tfstate.tf"),
    "HF202": in_git("prod.tfplan", "PK", "plan.tf"),
    "HF203": in_git(".terraform/x", "", "terraform/x.tf"),
    "HF204": in_git("crash.log", "", "crash.tf"),
    "HF205": in_git("id_rsa", KEY, "id_rsa.pub"),
    "HF206": in_git(".env", "DB_PASSWORD=hunter2\n", ".env.example"),
    "HF207": Cases(
        passes=(passing(HARMLESS), passing(HARMLESS, make_inputs=with_history("a.tf"))),
        fails=(
            reported({"a.tfvars": f'a = "{GITHUB}"\n', "main.tf": ""}),
            reported({"a.json": f'{{"a": "{GITHUB}"}}', "main.tf": ""}),
            reported(HARMLESS, make_inputs=leaked),
        ),
        missing=(passing({"main.tf": "", "a.tfvars": "", "a.json": ""}),),
        unknown=(
            passing('locals {\n  a = "postgres://app:${var.password}@db.internal/app"\n}\n'),
            skipped({"main.tf": "", "a.json": b" " * 5_000_001}),
        ),
    ),
    "HF208": Cases(
        passes=(passing(HARMLESS),),
        fails=(
            reported({"a.tfvars": f'api_key = "{RANDOM}"\n', "main.tf": ""}),
            reported({"a.json": f'{{"api_key": "{RANDOM}"}}', "main.tf": ""}),
        ),
        missing=(passing('locals {\n  api_key = ""\n  token = null\n}\n'),),
        unknown=(passing("locals {\n  api_key = var.api_key\n}\n"),),
    ),
    "HF209": Cases(
        passes=(passing(HARMLESS),),
        fails=(
            reported({"a.tfvars": 'db_password = "Summer2024!"\n', "main.tf": ""}),
            reported({"a.sh": "PGPASSWORD=Summer2024 psql\n", "main.tf": ""}),
        ),
        missing=(passing('resource "aws_db_instance" "a" {\n  username = "a"\n}\n'),),
        unknown=(passing('resource "aws_db_instance" "a" {\n  password = var.p\n}\n'),),
    ),
    "HF210": Cases(
        passes=(
            passing(
                "locals {}\n",
                make_inputs=with_plan({"resource_changes": [PASSWORD], "output_changes": {"o": SHUT}}),
            ),
            passing(
                "locals {}\n", make_inputs=with_state(state_resource("aws_db_instance.a", password=RANDOM))
            ),
        ),
        fails=(
            reported(
                "locals {}\n",
                make_inputs=with_plan({"resource_changes": [PASSWORD], "output_changes": {"o": OPEN}}),
            ),
            reported(
                "locals {}\n",
                make_inputs=with_state(
                    state_resource("aws_db_instance.a", password=RANDOM), outputs={"o": {"value": RANDOM}}
                ),
            ),
        ),
        missing=(
            passing('output "o" {}\n'),
            passing("locals {}\n", make_inputs=with_plan({"output_changes": {"o": OPEN}})),
        ),
        unknown=(
            skipped('output "o" {\n  value = random_password.a.result\n  sensitive = var.s\n}\n'),
            passing(
                "locals {}\n",
                make_inputs=with_plan({"resource_changes": [PASSWORD], "output_changes": {"o": LATER}}),
            ),
            skipped("locals {}\n", make_inputs=with_state_file(b"{")),
        ),
    ),
    "HF211": Cases(
        missing=(reported('variable "db_password" {}\n'), passing("variable {}\n")),
        unknown=(skipped('variable "db_password" {\n  sensitive = local.s\n}\n'),),
    ),
    "HF212": Cases(
        missing=(passing('resource "aws_db_instance" "a" {}\n'),),
        unknown=(
            reported('resource "aws_db_instance" "a" {\n  password = var.p\n}\n'),
            skipped('resource "aws_ssm_parameter" "a" {\n  type = var.t\n  value = var.v\n}\n'),
        ),
    ),
    "HF213": Cases(
        passes=(
            passing(
                "locals {}\n", make_inputs=with_plan({"resource_changes": [change("aws_vpc.a", {"id": "x"})]})
            ),
            passing("locals {}\n", make_inputs=with_state(state_resource("aws_vpc.a", id="x"))),
        ),
        fails=(
            reported("locals {}\n", make_inputs=with_plan({"resource_changes": [PASSWORD]})),
            reported(
                "locals {}\n", make_inputs=with_state(state_resource("aws_db_instance.a", password=RANDOM))
            ),
        ),
        missing=(
            passing(
                "locals {}\n", make_inputs=with_plan({"resource_changes": [change("aws_db_instance.a", {})]})
            ),
            passing("locals {}\n", make_inputs=with_state(state_resource("aws_db_instance.a"))),
        ),
        unknown=(
            reported(
                "locals {}\n",
                make_inputs=with_plan(
                    {"resource_changes": [change("aws_db_instance.a", {}, after_unknown={"password": True})]}
                ),
            ),
            skipped("locals {}\n", make_inputs=with_state_file(b"{")),
        ),
    ),
    "HF214": Cases(
        missing=(passing("data {}\n"), reported('data "aws_ssm_parameter" "a" {}\n')),
        unknown=(skipped('data "aws_ssm_parameter" "a" {\n  name = "/x"\n  with_decryption = var.d\n}\n'),),
    ),
}
