"""HF207, HF208, HF209: secrets written into code, variables files and JSON."""

from __future__ import annotations

import pytest
from checkouts import check, checkout, lines, messages, of, skips, the

from holdfast.checks.engine.pages import rule_details
from holdfast.checks.engine.running import NO_HISTORY
from holdfast.checks.model.interface import Severity
from holdfast.secrets.formats import shipped_formats

TEXTS = [the(id_) for id_ in ("HF207", "HF208", "HF209")]
GITHUB = "ghp_" + "7Qw2ErTy9UiOp3LkJhGfDsA1ZxCvBnXy7Qw2"
RANDOM = "q7Rz2Lw9Xk4Tn8Vb3Md6"
EXAMPLES = [(one.id, "".join(one.example)) for one in shipped_formats()]

HARMLESS = r"""
terraform {
  required_version = ">= 1.6"
  required_providers {
    aws = { source = "hashicorp/aws", version = "~> 5.40" }
  }
}
variable "secret_name" { default = "prod/db/Q7x9-main" }
variable "token_ttl" { default = "3600s" }
variable "password_length" { default = 32 }
variable "password_policy" { default = "TLS13-2025a" }
variable "db_password" {
  description = "The password; see https://wiki.example.org/display/OPS/Passwords+2024x"
  type        = string
  sensitive   = true
}
variable "manage_master_user_password" { default = true }
variable "secrets_prefix" { default = "tf-3xQ9r2Lw7" }
locals {
  # A token is asked of the server below: see token docs.
  token_url           = "https://login.example.org/oauth2/v2.0/token"
  private_key_path    = "~/.ssh/id_ed25519"
  secret_arn          = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-Ab3dE9"
  access_key_id       = "AKIAIOSFODNN7EXAMPLE"
  api_key             = data.aws_ssm_parameter.api_key.value
  password            = var.db_password
  ssm_password        = "/prod/db/password"
  vault_password      = "vault:secret/data/db#password"
  keyvault_password   = "@Microsoft.KeyVault(SecretUri=https://kv.vault.azure.net/secrets/db)"
  secret_keys         = { password = "db_password", username = "db_user" }
  password_field      = "password"
  token               = ""
  client_secret       = null
  connection          = "postgres://${var.user}:${var.db_password}@db.internal:5432/app"
  local_database      = "postgres://postgres:postgres@localhost:5432/app"
  docs_database       = "postgres://user:password@host/db"
  image               = "registry.example.org/app@sha256:9f86d081884c7d659a2feaa0c55ad015"
  kms_key             = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
  secret_placeholder  = "CHANGE_ME_q7Rz2Lw9Xk4Tn8"
  checksum            = "h1:Vb3Md6q7Rz2Lw9Xk4Tn8Vb3Md6q7Rz2Lw9Xk4Tn8Vb="
  ami                 = "ami-0abcdef1234567890"
  certificate         = "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0B\n"
  ssh_public_key      = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKq7Rz2Lw9Xk4Tn8Vb3Md6q7Rz2Lw9Xk4Tn8Vb3M"
}
resource "aws_iam_account_password_policy" "strict" {
  minimum_password_length      = 14
  require_lowercase_characters = true
  password_reuse_prevention    = 24
}
resource "aws_ssm_parameter" "plain" {
  name  = "/app/level"
  type  = "String"
  value = "info"
}
resource "aws_secretsmanager_secret" "db" {
  name = "prod/db/9fK2x7Q"
}
resource "aws_db_instance" "main" {
  manage_master_user_password = true
  password                    = random_password.db.result
}
resource "aws_db_instance" "later" {
  password = "set-once-then-changed"
  lifecycle {
    ignore_changes = [password]
  }
}
resource "aws_ecs_task_definition" "app" {
  container_definitions = jsonencode([{
    name    = "app"
    secrets = [{ name = "DB_PASSWORD", valueFrom = "arn:aws:ssm:eu-west-1:123456789012:parameter/db" }]
    environment = [{ name = "TOKEN_URL", value = "https://login.example.org/token" },
                   { name = "DB_PASSWORD_FILE", value = "/run/secrets/db9X2k7Q" }]
  }])
}
resource "kubernetes_deployment" "app" {
  env {
    name = "API_TOKEN"
    value_from {
      secret_key_ref {
        name = "app"
        key  = "api_token"
      }
    }
  }
}
resource "aws_instance" "web" {
  user_data = <<-EOT
    #!/bin/bash
    export TOKEN=$(aws secretsmanager get-secret-value --secret-id app --query SecretString)
    curl -H "Authorization: Bearer $TOKEN" https://api.example.org
  EOT
}
module "github_token" {
  source = "git::https://github.com/example/modules.git//token?ref=v1.2.3"
}
"""


def test_harmless_code_is_left_alone() -> None:
    """What is about secrets, names them, or stands for them is no secret: nobody waives a hundred lines."""
    assert messages(check(TEXTS, {"main.tf": HARMLESS})) == []


@pytest.mark.parametrize(("id_", "text"), EXAMPLES, ids=[id_ for id_, _ in EXAMPLES])
def test_every_format_is_found_and_never_shown(id_: str, text: str) -> None:
    """Each format the redactor knows is found in code; no word of the report holds the secret."""
    code = f"locals {{\n  a = <<-EOT\n{text}\n  EOT\n}}\n"
    found = of(check(the("HF207"), {"main.tf": code}), the("HF207"))
    assert found, id_
    secret = max(text.split(), key=len)
    assert all(secret not in f"{one.message}{one.hint}{one.address}" for one in found)


def test_a_known_secret_is_found_anywhere() -> None:
    """In code, comments, variables files, JSON, YAML and scripts, with its line."""
    files = {
        "main.tf": f'\nlocals {{\n  a = "{GITHUB}"\n}}\n',
        "old.tf": f"# old: {GITHUB}\n",
        "prod.tfvars": f'region = "eu"\nwhatever = "{GITHUB}"\n',
        "policy.json": f'{{\n "a": "{GITHUB}"}}\n',
        "user-data.sh": f"curl -u x:{GITHUB} https://x\n",
        "README.txt": GITHUB,
    }
    assert lines(check(the("HF207"), files), the("HF207")) == [
        ("main.tf", 3),
        ("old.tf", 1),
        ("policy.json", 2),
        ("prod.tfvars", 2),
        ("user-data.sh", 1),
    ]


def test_a_secret_is_found_in_what_powershell_writes() -> None:
    """`>` makes UTF-16 there: no code for Terraform, and a secret all the same."""
    files = {
        "out.json": f'{{\n "a": "{GITHUB}"}}\n'.encode("utf-16"),
        "a.tfvars": f"\n# {GITHUB}".encode("utf-16"),
    }
    assert lines(check(the("HF207"), files, config=""), the("HF207")) == [("a.tfvars", 2), ("out.json", 2)]


def test_a_secret_in_code_that_cannot_be_read_is_still_found() -> None:
    """A syntax error hides nothing: the text is searched."""
    assert lines(check(the("HF207"), {"main.tf": f'locals {{\n a = "{GITHUB}"\n b = \n'}), the("HF207")) == [
        ("main.tf", 2)
    ]


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (f'variable "api_token" {{\n  default = "{RANDOM}"\n}}\n', "api_token"),
        (f'locals {{\n  a = {{ client_secret = "{RANDOM}" }}\n}}\n', "client_secret"),
        (f'module "m" {{\n  source    = "./m"\n  api_key = "{RANDOM}"\n}}\n', "api_key"),
        (f'provider "x" {{\n  token = "{RANDOM}"\n}}\n', "token"),
        (
            f'resource "x_y" "a" {{\n  env {{\n    name  = "API_TOKEN"\n    value = "{RANDOM}"\n  }}\n}}\n',
            "API_TOKEN",
        ),
        (
            f'locals {{\n  e = jsonencode([{{ name = "DB_PASSWORD", value = "{RANDOM}" }}])\n}}\n',
            "DB_PASSWORD",
        ),
        (f'locals {{\n  secret_key = var.a ? "{RANDOM}" : ""\n}}\n', "secret_key"),
    ],
)
def test_a_random_text_under_a_name_that_sounds_secret_is_found(code: str, name: str) -> None:
    """By the nearest name, however it is written; never with the text."""
    found = of(check(TEXTS, {"main.tf": code}), the("HF208"))
    assert [one.message for one in found] == [f"`{name}` is set to a text that looks like a secret"]
    assert RANDOM not in (found[0].source or "")


def test_random_texts_in_variables_files_and_json_are_found() -> None:
    """They are committed as easily as code, and read by as many."""
    files = {
        "main.tf": 'variable "db_password" {\n  type = string\n}\n',
        "prod.tfvars": f'db_password = "{RANDOM}"\n',
        "prod.tfvars.json": f'{{\n  "db_password": "{RANDOM}"\n}}\n',
        "settings/app.json": f'{{\n  "db": {{"password": "{RANDOM}"}}\n}}\n',
        "sealed.json": f'{{"password": "ENC[AES256_GCM,data:{RANDOM}]", "sops": {{}}}}\n',
        "package-lock.json": f'{{"js-token": "{RANDOM}"}}\n',
    }
    found = lines(check(TEXTS, files), the("HF208"))
    assert found == [("prod.tfvars", 1), ("prod.tfvars.json", 2), ("settings/app.json", 2)]


def test_a_script_that_is_handed_on_is_searched() -> None:
    """A heredoc has names of its own, on lines of its own; a name of the code is told once."""
    script = f"#!/bin/sh\nexport DB_PASSWORD={RANDOM}\nTOKEN=$(ask)\npassword: ${{var.p}}\n"
    code = f'resource "x_y" "a" {{\n  data = <<-EOT\n{script}  EOT\n  api_token = <<EOT\n{RANDOM}\nEOT\n}}\n'
    files = {
        "main.tf": code,
        "a.tfvars": f"\nx = <<E\r\n  api_key: '{RANDOM}'\r\nE\r\n",
        "b.tf": "a = <<EOT\n",
    }
    assert lines(check(TEXTS, files), the("HF208")) == [("a.tfvars", 3), ("main.tf", 4), ("main.tf", 8)]


def test_words_of_the_configuration_count() -> None:
    """What a company calls its secrets is known from `redaction.words`."""
    config = "version: 1\nredaction:\n  words: [kennwort]\n"
    code = {"main.tf": f'locals {{\n  kennwort = "{RANDOM}"\n}}\n'}
    assert of(check(the("HF208"), code, config=config), the("HF208"))
    assert not of(check(the("HF208"), code, config=""), the("HF208"))


@pytest.mark.parametrize(
    ("code", "message", "severity"),
    [
        (
            'resource "aws_db_instance" "a" {\n  password = "changeme"\n}\n',
            "`password` is a secret and is hard-coded here",
            Severity.WARNING,
        ),
        (
            'resource "aws_mq_broker" "a" {\n  user {\n    password = "summer holiday"\n  }\n}\n',
            "`user.password` is a secret and is hard-coded here",
            Severity.ERROR,
        ),
        (
            'resource "aws_mq_broker" "a" {\ndynamic "user" {\ncontent {\npassword = "summer7!"\n}\n}\n}\n',
            "`user.password` is a secret and is hard-coded here",
            Severity.ERROR,
        ),
        (
            'resource "aws_ssm_parameter" "a" {\n  type  = "SecureString"\n  value = "summer"\n}\n',
            "`value` is a secret and is hard-coded here",
            Severity.WARNING,
        ),
        (
            f'resource "azurerm_key_vault_secret" "a" {{\n  value = "{RANDOM}"\n}}\n',
            "`value` is a secret and is hard-coded here",
            Severity.ERROR,
        ),
        (
            'variable "db_password" {\n  default = "Summer2024!"\n}\n',
            "`db_password` is hard-coded",
            Severity.WARNING,
        ),
        ('provider "x" {\n  password = "summer"\n}\n', "`password` is hard-coded", Severity.WARNING),
    ],
)
def test_a_password_that_is_written_out_is_found_once(code: str, message: str, severity: Severity) -> None:
    """An error where the provider says that it is a password; for words in a store, a warning."""
    found = check(TEXTS, {"main.tf": code}).findings
    assert [(one.rule.id, one.message, one.severity) for one in found] == [("HF209", message, severity)]


def test_a_password_in_json_code_is_found() -> None:
    """The JSON syntax has no blocks of providers: objects are followed."""
    code = '{"resource": {"aws_mq_broker": {"a": {"user": [{"password": "summer holiday"}]}}}}'
    assert messages(check(the("HF209"), {"main.tf.json": code})) == [
        "`user.password` is a secret and is hard-coded here"
    ]


@pytest.mark.parametrize(
    "code",
    [
        'resource "aws_db_instance" "a" {\n  username = "app"\n}\n',
        'resource "aws_db_instance" "a" {\n  password = null\n}\n',
        'resource "aws_db_instance" "a" {\n  password = var.password\n}\n',
        'resource "aws_db_instance" "a" {\n  password = "${var.a}-${var.b}"\n}\n',
        'resource "aws_ssm_parameter" "a" {\n  type  = var.type\n  value = "x"\n}\n',
    ],
)
def test_a_password_that_is_missing_or_not_known_is_left_alone(code: str) -> None:
    """Nothing is written out, or the code does not say what."""
    assert messages(check(TEXTS, {"main.tf": code})) == []


@pytest.mark.parametrize(
    ("id_", "line"),
    [("HF207", f'a = "{GITHUB}"'), ("HF208", f'api_key = "{RANDOM}"'), ("HF209", 'password = "summer"')],
)
def test_a_text_is_waived_on_its_line(id_: str, line: str) -> None:
    """With a reason and a day, at the end of the line."""
    waiver = f"# holdfast:ignore {id_} until=2027-01-01 reason=rotated"
    (found,) = of(check(TEXTS, {"main.tf": f"locals {{\n  {line}  {waiver}\n}}\n"}), the(id_))
    assert found.waived


@pytest.mark.parametrize("id_", ["HF207", "HF208", "HF209"])
def test_the_line_is_shown_without_the_secret(id_: str) -> None:
    """A reader finds the line, and the secret is not told once more."""
    secret = rule_details(the(id_)).bad.split('"')[-2]
    (found,) = of(check(the(id_), {"main.tf": rule_details(the(id_)).bad}), the(id_))
    assert secret not in f"{found.source}{found.message}{found.hint}"
    assert '"…"' in (found.source or "")


def test_a_file_that_is_too_large_is_reported_as_not_evaluated() -> None:
    """Nothing that was not looked at is reported as fine."""
    made = checkout({"main.tf": "", "dump.json": b" " * 5_000_001})
    assert skips(check(the("HF207"), made), the("HF207")) == ["larger than 5 MB", NO_HISTORY]
