"""What only a name makes suspicious, placeholders, checksums and defaults of vendors stop no change."""

# ruff: noqa: E501 - rows of cases

from __future__ import annotations

import base64
import json

import pytest
from checkouts import check, levels, of, the

from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import redact_report
from holdfast.checks.secrets.evidence import is_placeholder
from holdfast.checks.secrets.known_secrets import names_secret

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
RANDOM = "q7Rz2Lw9Xk4Tn8Vb3Md6Hp5"
HEX = "5514c8081c74362c58993e5de935cb925514c8081c74362c58993e5de935cb92"
COSMOS = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
PROD = "version: 1\nstacks: [{ name: a, module: ., environment: prod }]\n"


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


@pytest.mark.parametrize(
    ("address", "level"),
    [
        ('endpoint = "http://localhost:4566"', NOTE),
        ('endpoints = { s3 = "http://127.0.0.1:4566" }', NOTE),
        ('endpoint = "https://s3.acme.io"', ERROR),
    ],
)
def test_a_backend_on_this_machine_is_a_note(address: str, level: Severity) -> None:
    """HF120: an emulator takes any key."""
    code = f'terraform {{\n  backend "s3" {{\n    secret_key = "summer-4711"\n    {address}\n  }}\n}}\n'
    assert levels("HF120", {"main.tf": code}) == [level]
    assert levels("HF120", {"main.tf": code.replace("summer-4711", "AKIAABCDEFGHIJKLMNOP")}) == [ERROR]


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


STRIPE = "sk_" + "live_" + "q7Rz2Lw9Xk4Tn8Vb3Md6Hp5Q"
GOOGLE = "AI" + "zaSyD4kfL2mN8pQ1rS5tU7vW9xY0zA3bC6dE8"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"VITE_API_KEY={RANDOM}", NOTE),
        (f"X_VITE_API_TOKEN={RANDOM}", NOTE),
        (f"export NEXT_PUBLIC_API_KEY={GOOGLE}", NOTE),
        (f"ACME_REACT_APP_SECRET={RANDOM}", NOTE),
        (f"PUBLIC_API_KEY={RANDOM}", NOTE),
        (f"STRIPE_API_KEY=pk_live_{RANDOM}", NOTE),
        (f"SDK_KEY_TOKEN=configcat-sdk-1/{RANDOM}", NOTE),
        (f"GOOGLE_MAPS_API_KEY={GOOGLE}", NOTE),
        (f"VITE_API_KEY={RANDOM}\nAPI_TOKEN={RANDOM}", ERROR),
        (f"GEMINI_API_KEY={GOOGLE}", WARNING),
        (f"VITE_STRIPE_KEY={STRIPE}", ERROR),
        (f"PUBLIC_DB_PASSWORD={RANDOM}", ERROR),
        (f"INVITE_API_TOKEN={RANDOM}", ERROR),
    ],
)
def test_what_every_browser_gets_is_no_secret(text: str, expected: Severity) -> None:
    """HF206."""
    assert levels("HF206", {"app/.env": f"{text}\n"}) == [expected]


@pytest.mark.parametrize(
    ("types", "inside", "expected"),
    [
        (
            ("aws_s3_bucket", "aws_dynamodb_table", "aws_iam_role", "aws_iam_role_policy_attachment"),
            "",
            WARNING,
        ),
        (("aws_s3_bucket", "aws_iam_user", "aws_iam_policy", "aws_region"), "", WARNING),
        (("aws_s3_bucket", "aws_iam_access_key"), "", ERROR),
        (("aws_s3_bucket", "aws_iam_user_login_profile"), "", ERROR),
        (("aws_iam_user",), '"sensitive_attributes": [["name"]]', ERROR),
        (("aws_s3_bucket", "azurerm_storage_account"), "", ERROR),
    ],
)
def test_a_state_of_what_a_bootstrap_needs(types: tuple[str, ...], inside: str, expected: Severity) -> None:
    """HF201 says so once, without secrets to rotate."""
    resources = ", ".join(f'{{"mode": "managed", "type": "{type_}", "instances": []}}' for type_ in types)
    state = f'{{"version": 4, "resources": [{resources}], "x": {{{inside}}}}}'
    (found,) = of(check(the("HF201"), {"main.tf": "", "terraform.tfstate": state}), the("HF201"))
    assert found.severity is expected
    assert ("rotate" in (found.hint or the("HF201").fix)) is (expected is ERROR)
    assert levels("HF111", {"terraform.tfstate": state}) == []
    assert levels("HF111", {}) == [WARNING]


def test_a_key_that_only_tests_use() -> None:
    """HF205."""
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIEowIBAAKCAQEA' * 8}\n-----END RSA PRIVATE KEY-----\n"
    for path in ("roles/a/molecule/default/id_rsa", "certs/testca/a.key", "test-ca.key", "x/fixtures/id_rsa"):
        assert levels("HF205", {path: key}) == [NOTE]
    assert NOTE not in levels("HF205", {"certs/latestca/id_rsa": key})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgres://orders:orders@db:5432/app", NOTE),
        ("postgres://orders:orders@db.acme.io:5432/app", WARNING),
        ("postgres://a:invoices@db.acme.io/invoices", WARNING),
        ("postgres://a:winter-sports@db.acme.io/orders", ERROR),
        (f"Server=localhost,1433;User Id=a;Password={RANDOM};", NOTE),
        (f"Server=host.docker.internal;User Id=a;Password={RANDOM};", NOTE),
        ("Server=db.acme.io;User Id=orders;Password=orders;", NOTE),
        (f"Server=db.acme.io;User Id=a;Password={RANDOM};", ERROR),
    ],
)
def test_a_password_that_is_the_name_or_of_this_machine(text: str, expected: Severity) -> None:
    """HF207."""
    assert levels("HF207", {"a.yaml": f'a: "{text}"\nb: "localhost"\n'}) == [expected]


def test_an_inline_password_of_this_machine() -> None:
    """HF208."""
    for host, expected in (("127.0.0.1", NOTE), ("db.acme.io", ERROR)):
        code = f'locals {{\n  a = "mysql -h {host} -u app -p{RANDOM}"\n}}\n'
        assert levels("HF208", {"main.tf": code}) == [expected]


@pytest.mark.parametrize(
    "code",
    [
        'resource "k" "a" {\n  "metadata" {\n    name = "x"\n  }\n}\n',
        'resource "k" "a" {\n  name = "b"\n  "metadata" {\n    "labels" = { a = "b" }\n  }\n}\n',
        '"resource" "k" "a" {\n  b = 1\n}\n',
    ],
)
def test_code_for_terraform_0_11_is_one_warning(code: str) -> None:
    """HF904."""
    (found,) = of(check(the("HF904"), {"main.tf": code, "b.tf": code, "c.tf": ""}), the("HF904"))
    assert found.severity is WARNING
    assert "Terraform 0.11) (and 1 more file)" in found.message
    assert levels("HF904", {"main.tf": f"{code}x = {{\n"}) == [ERROR]


def test_a_template_is_one_note() -> None:
    """HF904."""
    code = 'resource "a" {{ name }} {\n  {% if x %}\n  c = module.{{ name }}.id\n  {% endif %}\n}\n'
    (found,) = of(check(the("HF904"), {"main.tf": code, "b.tf": code}), the("HF904"))
    assert found.severity is NOTE
    assert "template with `{{ … }}`, which no rule checks (and 1 more file)" in found.message
    assert levels("HF904", {"main.tf": f"{code}x = {{\n"}) == [ERROR]
    assert levels("HF904", {"main.tf": 'a = {\n  b = "{{ c }}"\n'}) == [ERROR]


def test_what_is_sealed_or_signs_an_assembly() -> None:
    """HF208."""
    data = {"api_token": RANDOM}
    assert levels("HF208", {"a.json": json.dumps({"kind": "SealedSecret", "encryptedData": data})}) == []
    assert levels("HF208", {"a.json": json.dumps({"kind": "Config", "data": data})}) == [WARNING]
    both = [{"kind": "SealedSecret"}, {"kind": "Secret", "data": data}]
    assert levels("HF208", {"a.json": json.dumps(both)}) == [WARNING]
    assert levels("HF208", {"a.json": json.dumps({"publicKeyToken": RANDOM})}) == []


@pytest.mark.parametrize(
    ("name", "inside", "expected"),
    [
        ("app_secret_keyname", "type = string", []),
        ("app_secret_keyrole", "type = string", []),
        ("external_secrets", "type = any", []),
        ("secrets_store_csi_driver", "type = any", []),
        ("external_secrets_token", "type = string", [NOTE]),
        ("app_password", "type = any\n  default = {}", []),
        ("app_password", "type = any\n  default = { a = 1 }", []),
        ("app_password", "type = any\n  default = null", [NOTE]),
    ],
)
def test_variables_about_secrets(name: str, inside: str, expected: list[Severity]) -> None:
    """HF211."""
    assert levels("HF211", {"main.tf": f'variable "{name}" {{\n  {inside}\n}}\n'}) == expected


@pytest.mark.parametrize(
    ("type_", "action", "expected"),
    [
        ("aws_efs_file_system_policy", "elasticfilesystem:ClientMount", WARNING),
        ("aws_efs_file_system_policy", "*", WARNING),
        ("aws_sqs_queue_policy", "sqs:*", ERROR),
    ],
)
def test_a_file_system_is_in_a_network(type_: str, action: str, expected: Severity) -> None:
    """HF508."""
    statement = {"Effect": "Allow", "Action": action, "Principal": "*", "Resource": "*"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    code = f'resource "{type_}" "a" {{\n  policy = <<EOF\n{policy}\nEOF\n}}\n'
    assert levels("HF508", {"main.tf": code}) == [expected]


@pytest.mark.parametrize(
    ("type_", "inside", "expected"),
    [
        ("aws_dynamodb_table", "ttl {\n    enabled = true\n  }", NOTE),
        ("aws_dynamodb_table", "ttl {\n    enabled = false\n  }", WARNING),
        ("google_firestore_database", 'delete_protection_state = "DELETE_PROTECTION_DISABLED"', WARNING),
        (
            "google_firestore_database",
            'delete_protection_state = "DELETE_PROTECTION_DISABLED"\n  deletion_policy = "DELETE"',
            NOTE,
        ),
    ],
)
def test_data_that_its_code_lets_go(type_: str, inside: str, expected: Severity) -> None:
    """HF708."""
    assert levels("HF708", {"main.tf": f'resource "{type_}" "a" {{\n  {inside}\n}}\n'}, PROD) == [expected]


@pytest.mark.parametrize(
    ("changes", "mask", "expected"),
    [(1, {}, WARNING), (1, False, WARNING), (2, {}, ERROR), (1, {"password": True}, ERROR), (1, True, ERROR)],
)
def test_a_plan_of_one_resource(changes: int, mask: object, expected: Severity) -> None:
    """HF202."""
    change = {"address": "a.b", "change": {"actions": ["create"], "after_sensitive": mask}}
    plan = json.dumps({"format_version": "1.2", "resource_changes": [change] * changes}, indent=1)
    assert levels("HF202", {"tfplan.json": plan}) == [expected]
