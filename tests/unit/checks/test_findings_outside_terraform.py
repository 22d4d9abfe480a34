"""What only a name makes suspicious, placeholders, checksums and defaults of vendors stop nobody."""

# ruff: noqa: E501 - rows of cases

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

import pytest
from checkouts import check, of

from holdfast.checks.engine.catalogue import rule as rule_of
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.model.report import redact_report
from holdfast.checks.secrets.evidence import is_placeholder
from holdfast.checks.secrets.known_secrets import names_secret

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
RANDOM = "q7Rz2Lw9Xk4Tn8Vb3Md6Hp5"
HEX = "5514c8081c74362c58993e5de935cb925514c8081c74362c58993e5de935cb92"
COSMOS = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
PROD = "version: 1\nstacks: [{ name: a, module: ., environment: prod }]\n"


def the(id_: str) -> Rule:
    found = rule_of(id_)
    assert found is not None
    return found


def levels(id_: str, files: Mapping[str, str | bytes], config: str | None = None) -> list[Severity]:
    return [one.severity for one in of(check(the(id_), {"main.tf": "", **files}, config=config), the(id_))]


@pytest.mark.parametrize(
    ("path", "document", "expected"),
    [
        ("app/appsettings.json", {"ApiToken": RANDOM}, [WARNING]),
        ("app/appsettings.Production.json", {"ApiToken": RANDOM}, [ERROR]),
        ("environments/prod.json", {"api_token": RANDOM}, [ERROR]),
        ("products/a.json", {"api_token": RANDOM}, [WARNING]),
        ("a.tfvars.json", {"api_token": RANDOM}, [ERROR]),
        ("a.tf.json", {"locals": {"api_token": RANDOM}}, [ERROR]),
        ("plan.json", {"format_version": "1", "planned_values": {"api_token": RANDOM}}, [ERROR]),
        ("a.json", {"Endpoint": "https://localhost:8081", "AccountKeySecret": RANDOM}, [NOTE]),
        ("a.json", {"other": {"at": "127.0.0.1"}, "api_token": RANDOM}, [WARNING]),
        ("a.json", {"at": "127.0.0.1", "other": {"api_token": RANDOM}}, [WARNING]),
        ("a.json", {"Key": 1, "CosmosSecret": COSMOS}, []),
        ("a.json", {"StorageSecret": f"AccountName=devstoreaccount1;Key={RANDOM}"}, []),
        ("a.json", {"annotations": {"checksum/secret": HEX}}, []),
        ("a.json", {"tokenHash": HEX, "apiTokenDigest": HEX}, []),
        ("a.json", {"api_token": HEX}, [WARNING]),
        ("fake/token.json", {"api_token": RANDOM}, [NOTE]),
        ("app/token.expected.json", {"api_token": RANDOM}, [NOTE]),
    ],
)
def test_a_name_alone_is_no_error_outside_terraform(
    path: str, document: object, expected: list[Severity]
) -> None:
    """HF208: an error needs a file of Terraform, or the values of production."""
    assert levels("HF208", {path: json.dumps(document)}, "") == expected


def test_a_command_with_a_password_stays_an_error() -> None:
    assert levels("HF208", {"run.sh": f"mysql -u app -p{RANDOM} app\n"}, "") == [ERROR]
    assert levels("HF208", {"a.tfbackend": f'secret_key = "{RANDOM}"\n'}, "") == [ERROR]


def test_a_checksum_in_code_is_no_secret() -> None:
    code = f'locals {{\n  annotations = {{ "%s" = "{HEX}" }}\n}}\n'
    assert levels("HF208", {"main.tf": code % "checksum/secret"}) == []
    assert levels("HF208", {"main.tf": code % "acme/secret"}) == [ERROR]


@pytest.mark.parametrize(
    "value",
    ["xxx", "CHANGE_THIS", "change-this-secret", "", "<secret>", "__db_secret__", "not-for-production"],
)
def test_an_environment_file_of_placeholders(value: str) -> None:
    """HF206."""
    assert levels("HF206", {".env": f"API_SECRET={value}\n"}) in ([], [NOTE])
    assert levels("HF206", {".env": f"API_SECRET={value}\nAPI_TOKEN={RANDOM}\n"}) == [ERROR]


@pytest.mark.parametrize("value", ["__storage_key__", "#{x}#", "$(x)", "%%x%%"])
def test_what_a_pipeline_replaces_is_no_setting_of_a_backend(value: str) -> None:
    """HF120: in settings, addresses and connection strings."""
    assert is_placeholder(value)
    for type_, setting in (
        ("azurerm", 'access_key = "{}"'),
        ("http", 'address = "https://a:{}@state.acme.io"'),
        ("pg", 'conn_str = "host=db user=a password={}"'),
    ):
        code = 'terraform {{\n  backend "{}" {{\n    {}\n  }}\n}}\n'
        assert levels("HF120", {"main.tf": code.format(type_, setting.format(value))}) == []
        assert levels("HF120", {"main.tf": code.format(type_, setting.format("winter7"))}) == [ERROR]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.tfstate.sha256sum", f"{HEX}  a.tfstate\n", []),
        ("a.tfstate.sum", f"SHA256 (a.tfstate) = {HEX}\n", []),
        ("a.tfstate.md5", HEX[:32], []),
        ("a.tfstate.age", "age-encryption.org/v1\n-> X25519 a\n", []),
        ("a.tfstate.sha256sum", '{"version": 4, "resources": [{"type": "aws_db_instance"}]}', [ERROR]),
    ],
)
def test_the_content_says_whether_it_is_a_state(path: str, text: str, expected: list[Severity]) -> None:
    assert levels("HF201", {path: text}) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("app_password", "off", []),
        ("privacy_pass", "winter-sports", []),
        ("app_pass", "winter-sports", [WARNING]),
        ("app_password", "winter-not-for-production", []),
        ("app_password", "Harbor12345", [NOTE]),
        ("app_password", "prom-operator", [NOTE]),
        ("app_password", "winter-sports", [WARNING]),
    ],
)
def test_switches_and_defaults_of_vendors(name: str, value: str, expected: list[Severity]) -> None:
    """HF209."""
    code = f'locals {{\n  login = {{ user = "a", {name} = "{value}" }}\n}}\n'
    assert levels("HF209", {"main.tf": code}) == expected


def test_a_variable_that_is_the_key_of_an_object_or_a_path() -> None:
    """HF211."""
    code = 'variable "{}" {{\n  type = string\n{}}}\n'.format
    assert levels("HF211", {"main.tf": code("token_lambda_s3_key", "")}) == []
    for path in ("~/.ssh/id", "./key", "certs/app.pem"):
        assert levels("HF211", {"main.tf": code("app_private_key", f'  default = "{path}"\n')}) == []
    assert levels("HF211", {"main.tf": code("app_private_key", '  default = ""\n')}) == []
    assert levels("HF211", {"main.tf": code("app_private_key", "")}) == [NOTE]
    assert names_secret("s3_secret_key")


@pytest.mark.parametrize(
    ("account", "expected"), [("accountid", NOTE), ("YOUR_ACCOUNT_ID", NOTE), ("12345", WARNING)]
)
def test_an_account_that_was_removed(account: str, expected: Severity) -> None:
    """HF501."""
    statement = {
        "Effect": "Allow",
        "Action": "sts:AssumeRole",
        "Principal": {"AWS": f"arn:aws:iam::{account}:root"},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    code = f'resource "aws_iam_role" "a" {{\n  assume_role_policy = <<EOF\n{policy}\nEOF\n}}\n'
    assert levels("HF501", {"main.tf": code}) == [expected]


def test_a_complete_key_in_a_cluster_configuration() -> None:
    """HF207: however deep it is indented, after a certificate, and for each kind of key."""
    der = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20" + bytes(range(97, 129))
    for kind, label in ((der, "ED25519 "), (der, ""), (b"no key at all, whatever it says here", "")):
        pem = f"-----BEGIN {label}PRIVATE KEY-----\n{base64.b64encode(kind).decode()}\n-----END {label}PRIVATE KEY-----\n"
        key = base64.b64encode(pem.encode()).decode()
        text = f"machine:\n            ca:\n                crt: {'LS0t' * 30}\n                key: {key}\n"
        expected = ERROR if kind is der else WARNING
        assert levels("HF207", {"talos/control.yaml": text}) == [expected]
        assert levels("HF207", {"talos/expected.yaml": text}) == [NOTE]


ACCOUNT = 'resource "azurerm_storage_account" "a" {\n%s}\n'
APP = 'resource "azurerm_linux_function_app" "f" {\n  storage_account_name = azurerm_storage_account.a.name\n}\n'
CONTAINER = (
    'resource "azurerm_storage_container" "%s" {\n  storage_account_id = azurerm_storage_account.a.id\n}\n'
)
KEPT = "  blob_properties {\n    delete_retention_policy {\n      days = 1\n    }\n  }\n"


@pytest.mark.parametrize(
    ("inside", "others", "expected"),
    [
        ("", "", WARNING),
        ("", APP, NOTE),
        ("", APP + CONTAINER % "orders", WARNING),
        ("", CONTAINER % "orders", WARNING),
        ("", CONTAINER % "leases", NOTE),
        ("  static_website {}\n", "", NOTE),
    ],
)
def test_an_account_that_only_serves_an_app(inside: str, others: str, expected: Severity) -> None:
    """HF708."""
    assert levels("HF708", {"main.tf": ACCOUNT % (KEPT + inside) + others}, PROD) == [expected]


def test_one_name_in_several_variables_files() -> None:
    """HF703: one finding for each root module."""
    files = {
        "main.tf": 'variable "name" {}\n',
        "a.auto.tfvars": "x = 1\n",
        "b.auto.tfvars": "x = 2\nnmae = 3\n",
    }
    report = redact_report(check(the("HF703"), {**files, "c.auto.tfvars": "nmae = 3\n"}), str)
    assert [(one.file, one.message.partition("; ")[2]) for one in of(report, the("HF703"))] == [
        ("a.auto.tfvars", "also b.auto.tfvars:1"),
        ("b.auto.tfvars", "also c.auto.tfvars:1"),
    ]
