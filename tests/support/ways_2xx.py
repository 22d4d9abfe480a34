"""HF201 to HF214 in every way: files that Git must not keep, and secrets."""

from __future__ import annotations

from collections.abc import Mapping

from five_ways import Files, Way, Ways, change, found, held, kept, past, planned, quiet, skipped, state

from holdfast.checks.engine.running import Available, CheckInputs
from holdfast.checks.model.contents import ContentKind, HistoryMatch
from holdfast.checks.model.subjects import Checkout, History

STATE = '{"version": 4, "terraform_version": "1.9.0", "serial": 3, "lineage": "a", "resources": []}'
KEY = "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEpAIBAAKCAQEA7Qw2ErTy9UiOp3LkJhGfDsA1\n-----END"
GITHUB = "ghp_" + "7Qw2ErTy9UiOp3LkJhGfDsA1ZxCvBnXy7Qw2"
RANDOM = "q7Rz2Lw9Xk4Tn8Vb3Md6"
HARMLESS: Files = {"main.tf": "locals {}\n", "a.tfvars": 'region = "eu-west-1"\n', "a.json": '{"a": 1}'}
OPEN = {"after": f"app:{RANDOM}", "after_sensitive": False, "actions": ["create"]}
SHUT = {**OPEN, "after_sensitive": True}
LATER = {"after_unknown": True, "after_sensitive": False, "actions": ["create"]}
PASSWORD = change("aws_db_instance.a", {"password": RANDOM}, after_sensitive={"password": True})


def no_git(files: Files) -> Way:
    """Outside Git nobody can tell what Git would keep."""
    return skipped(files)._replace(no_git=True)


def in_git(path: str, content: str, harmless: str) -> Ways:
    """A file, in the tree and in the past, and one that is only called nearly the same."""
    return Ways(
        passes=(quiet({"main.tf": "", harmless: "{}"}), quiet({"main.tf": ""}, hand=past(harmless))),
        fails=(found({"main.tf": "", path: content}), found({"main.tf": ""}, hand=past(path))),
        missing=(quiet({"main.tf": ""}), quiet({"main.tf": ""}, hand=past())),
        unknown=(no_git({"main.tf": "", path: content}),),
    )


def leaked(made: Checkout) -> CheckInputs:
    trace = HistoryMatch(
        ContentKind.SECRET, "gone.tf", "0123456789abcdef", "2025-03-04", "GitHub tokens", 3, "0" * 64
    )
    return CheckInputs(history=Available(items=(History(checkout=made, commits=(), traces=(trace,)),)))


WAYS: Mapping[str, Ways] = {
    "HF201": in_git("terraform.tfstate", STATE, "tfstate.tf"),
    "HF202": in_git("prod.tfplan", "PK", "plan.tf"),
    "HF203": in_git(".terraform/x", "", "terraform/x.tf"),
    "HF204": in_git("crash.log", "", "crash.tf"),
    "HF205": in_git("id_rsa", KEY, "id_rsa.pub"),
    "HF206": in_git(".env", "DB_PASSWORD=hunter2\n", ".env.example"),
    "HF207": Ways(
        passes=(quiet(HARMLESS), quiet(HARMLESS, hand=past("a.tf"))),
        fails=(
            found({"a.tfvars": f'a = "{GITHUB}"\n', "main.tf": ""}),
            found({"a.json": f'{{"a": "{GITHUB}"}}', "main.tf": ""}),
            found(HARMLESS, hand=leaked),
        ),
        missing=(quiet({"main.tf": "", "a.tfvars": "", "a.json": ""}),),
        unknown=(
            quiet('locals {\n  a = "postgres://app:${var.password}@db.internal/app"\n}\n'),
            skipped({"main.tf": "", "a.json": b" " * 5_000_001}),
        ),
    ),
    "HF208": Ways(
        passes=(quiet(HARMLESS),),
        fails=(
            found({"a.tfvars": f'api_key = "{RANDOM}"\n', "main.tf": ""}),
            found({"a.json": f'{{"api_key": "{RANDOM}"}}', "main.tf": ""}),
        ),
        missing=(quiet('locals {\n  api_key = ""\n  token = null\n}\n'),),
        unknown=(quiet("locals {\n  api_key = var.api_key\n}\n"),),
    ),
    "HF209": Ways(
        passes=(quiet(HARMLESS),),
        fails=(
            found({"a.tfvars": 'db_password = "Summer2024!"\n', "main.tf": ""}),
            found({"a.sh": "PGPASSWORD=Summer2024 psql\n", "main.tf": ""}),
        ),
        missing=(quiet('resource "aws_db_instance" "a" {\n  username = "a"\n}\n'),),
        unknown=(quiet('resource "aws_db_instance" "a" {\n  password = var.p\n}\n'),),
    ),
    "HF210": Ways(
        passes=(
            quiet(
                "locals {}\n", hand=planned({"resource_changes": [PASSWORD], "output_changes": {"o": SHUT}})
            ),
            quiet("locals {}\n", hand=kept(held("aws_db_instance.a", password=RANDOM))),
        ),
        fails=(
            found(
                "locals {}\n", hand=planned({"resource_changes": [PASSWORD], "output_changes": {"o": OPEN}})
            ),
            found(
                "locals {}\n",
                hand=kept(held("aws_db_instance.a", password=RANDOM), outputs={"o": {"value": RANDOM}}),
            ),
        ),
        missing=(
            quiet('output "o" {}\n'),
            quiet("locals {}\n", hand=planned({"output_changes": {"o": OPEN}})),
        ),
        unknown=(
            skipped('output "o" {\n  value = random_password.a.result\n  sensitive = var.s\n}\n'),
            quiet(
                "locals {}\n", hand=planned({"resource_changes": [PASSWORD], "output_changes": {"o": LATER}})
            ),
            skipped("locals {}\n", hand=state(b"{")),
        ),
    ),
    "HF211": Ways(
        missing=(found('variable "db_password" {}\n'), quiet("variable {}\n")),
        unknown=(skipped('variable "db_password" {\n  sensitive = local.s\n}\n'),),
    ),
    "HF212": Ways(
        missing=(quiet('resource "aws_db_instance" "a" {}\n'),),
        unknown=(
            found('resource "aws_db_instance" "a" {\n  password = var.p\n}\n'),
            skipped('resource "aws_ssm_parameter" "a" {\n  type = var.t\n  value = var.v\n}\n'),
        ),
    ),
    "HF213": Ways(
        passes=(
            quiet("locals {}\n", hand=planned({"resource_changes": [change("aws_vpc.a", {"id": "x"})]})),
            quiet("locals {}\n", hand=kept(held("aws_vpc.a", id="x"))),
        ),
        fails=(
            found("locals {}\n", hand=planned({"resource_changes": [PASSWORD]})),
            found("locals {}\n", hand=kept(held("aws_db_instance.a", password=RANDOM))),
        ),
        missing=(
            quiet("locals {}\n", hand=planned({"resource_changes": [change("aws_db_instance.a", {})]})),
            quiet("locals {}\n", hand=kept(held("aws_db_instance.a"))),
        ),
        unknown=(
            found(
                "locals {}\n",
                hand=planned(
                    {"resource_changes": [change("aws_db_instance.a", {}, after_unknown={"password": True})]}
                ),
            ),
            skipped("locals {}\n", hand=state(b"{")),
        ),
    ),
    "HF214": Ways(
        missing=(quiet("data {}\n"), found('data "aws_ssm_parameter" "a" {}\n')),
        unknown=(skipped('data "aws_ssm_parameter" "a" {\n  name = "/x"\n  with_decryption = var.d\n}\n'),),
    ),
}
