"""A secret that only its name shows is an error if it looks like one; samples of known formats are notes."""

# ruff: noqa: E501 - rows of cases

from __future__ import annotations

import base64
import json

import pytest
from checkouts import check, levels, of, the
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from holdfast.checks.model.interface import Severity
from holdfast.checks.secrets.evidence import is_made_up, looks_like_credential

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
RANDOM = "q7Rz2Lw9Xk4Tn8Vb3Md6Hp5"
UUID = "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"
GITHUB = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
KEY_ID = "AKIA" + "Z7QK2M4XWPL6RTVB"
KEY = (
    ec.generate_private_key(ec.SECP256R1())
    .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    .decode()
)


NO_KEY = f"-----BEGIN PRIVATE KEY-----\n{base64.b64encode(b'0' + bytes((120, *range(7, 127)))).decode()}\n-----END PRIVATE KEY-----\n"
"""A sequence of the length that it states, with nothing in it."""


@pytest.mark.parametrize("text", [RANDOM, "Summer7sports", "blue!button", "hunter2x", "Nite2025!Prod"])
def test_a_password_that_somebody_made_up(text: str) -> None:
    assert looks_like_credential(text)
    assert levels(
        "HF209", {"main.tf": f'resource "aws_db_instance" "a" {{\n  password = "{text}"\n}}\n'}
    ) == [ERROR]


@pytest.mark.parametrize(
    "text", ["bluebutton", "rustfs-admin", "demotime", "Winter_Sports", "meadow-db-02", "84930284"]
)
def test_words_and_names_of_resources(text: str) -> None:
    assert not looks_like_credential(text)
    assert levels(
        "HF209", {"main.tf": f'resource "aws_db_instance" "a" {{\n  password = "{text}"\n}}\n'}
    ) == [WARNING]


@pytest.mark.parametrize(
    ("id_", "code", "expected"),
    [
        ("HF208", 'resource "x_y" "a" {{\n  signing_key = "{}"\n}}\n', WARNING),
        ("HF208", 'locals {{\n  client_secret = "{}"\n}}\n', WARNING),
        ("HF208", 'provider "consul" {{\n  token = "{}"\n}}\n', ERROR),
        ("HF208", 'locals {{\n  hook = "https://api.acme.io/v1/json?apiKey={}"\n}}\n', ERROR),
        ("HF208", 'provider "x" {{\n  api_key = "{}"\n}}\n', WARNING),
        ("HF209", 'resource "aws_db_instance" "a" {{\n  password = "{}"\n}}\n', ERROR),
    ],
)
def test_a_uuid_mostly_refers_to_something(id_: str, code: str, expected: Severity) -> None:
    assert levels(id_, {"main.tf": code.format(UUID)}) == [expected]


@pytest.mark.parametrize(("option", "expected"), [("--password", ERROR), ("-p", ERROR), ("--label", None)])
def test_a_uuid_that_a_command_takes_as_a_password(option: str, expected: Severity | None) -> None:
    script = f"docker login --username robot {option} {UUID}\n"
    assert levels("HF208", {"login.sh": script}) == ([expected] if expected else [])


@pytest.mark.parametrize("text", ["RS256", "ES384", "HS512", "AES-256-GCM", "EdDSA"])
def test_algorithms_are_no_secrets(text: str) -> None:
    code = f'resource "kubernetes_secret" "a" {{\n  data = {{\n    signing_key = "{text}"\n  }}\n}}\n'
    named = f'resource "kubernetes_secret" "a" {{\n  data = {{\n    id_token_alg_values = "{RANDOM}"\n    token_supported = "{RANDOM}"\n  }}\n}}\n'
    assert levels("HF209", {"main.tf": code}) == levels("HF209", {"main.tf": named}) == []


def test_the_id_of_a_pair() -> None:
    """The secret may come from elsewhere; without it, the id is one like every other."""
    code = 'resource "kubernetes_secret" "a" {{\n  data = {{\n    STORE_ACCESS_KEY = "{}"\n{}  }}\n}}\n'
    other = "    STORE_SECRET_KEY = random_password.a.result\n"
    assert levels("HF209", {"main.tf": code.format("store-admin7!", other)}) == [NOTE]
    assert levels("HF209", {"main.tf": code.format("store-admin7!", "")}) == [ERROR]
    script = f"storeAccessKey: {RANDOM}\nstoreSecretKey: $SECRET\n"
    assert levels("HF208", {"main.tf": f"locals {{\n  a = <<E\n{script}E\n}}\n"}) == [NOTE]


def test_a_secret_access_key_is_no_id() -> None:
    code = f'provider "aws" {{\n  access_key = "{KEY_ID}"\n  secret_key = "xtkIH9MFbMTvvPf2F7SdMUBLfmDTV8i4juSzhLF1"\n}}\n'
    assert levels("HF208", {"main.tf": code}) == [ERROR]
    assert levels("HF207", {"main.tf": code}) == [NOTE]


# HF207: test vectors, examples, made-up accounts.


def webhook(data: bytes) -> str:
    return "whsec" + "_" + base64.b64encode(data).decode()


SCATTERED = bytes(number * number * 7 % 251 for number in range(3, 35))


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("app.json", {"value": webhook(SCATTERED)}, [ERROR]),
        ("app.json", {"value": webhook(bytes(range(32)))}, [NOTE]),
        ("app.json", {"value": webhook(bytes(range(64, 0, -2)))}, [NOTE]),
        ("signature-vectors.json", {"value": webhook(SCATTERED)}, [NOTE]),
        ("golden/app.json", {"value": GITHUB}, [NOTE]),
        ("app.spec.json", {"value": GITHUB}, [NOTE]),
        ("app.json", {"id": "00000000-0000-4000-8000-000000000007", "value": GITHUB}, [NOTE]),
        ("app.json", {"id": "00000000-0000-0000-0000-000000000000", "value": GITHUB}, [ERROR]),
        ("app.json", {"id": "dummy-1", "value": GITHUB}, [NOTE]),
        ("app.json", {"headerExample": f"token {GITHUB}"}, []),
        ("app.json", {"header": f"token {GITHUB}"}, [ERROR]),
        ("app.json", {"url": "https://robot:q7Rz{password}2Lw9@git.acme.io"}, []),
        ("app.json", {"header": "Authorization: Basic base64(robot:password)"}, []),
        ("app.json", {"type": "service_account", "private_key": KEY}, [ERROR]),
        ("app.json", {"project_id": "dummy", "private_key": KEY}, [NOTE]),
        ("app.json", {"private_key": KEY, "client_email": "robot@example.iam"}, [NOTE]),
        ("app.json", {"private_key": NO_KEY}, [WARNING]),
        ("app.json", {"x": KEY_ID}, [NOTE]),
        ("app.json", {"x": KEY_ID, "y": "xtkIH9MFbMTvvPf2F/SdMUBLfmDTV8i4juSzhLF1"}, [WARNING]),
        ("google-services.json", {"current_key": "AI" + "zaSyD3m0K9xLq7Vw2RtYp8NbZc5Hf1JgU6aEo"}, [NOTE]),
        ("google-services.json", {"current_key": GITHUB}, [ERROR]),
    ],
)  # fmt: skip
def test_samples_of_known_formats(path: str, text: object, expected: list[Severity]) -> None:
    assert levels("HF207", {path: json.dumps(text, indent=1)}, "") == expected


@pytest.mark.parametrize("path", ["packer/golden-image.json", "specs/pod-spec.json", "vector/app.json"])
def test_paths_that_only_sound_like_tests(path: str) -> None:
    assert not is_made_up(path)


# HF904: encrypted files and templates.


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("-----BEGIN AGE ENCRYPTED FILE-----\nYWdl\n-----END AGE ENCRYPTED FILE-----\n", "age"),
        ("age-encryption.org/v1\n-> X25519 a\n", "age"),
        ("$ANSIBLE_VAULT;1.1;AES256\n6162\n", "Ansible Vault"),
        ("-----BEGIN PGP MESSAGE-----\n\nhQ\n", "OpenPGP"),
        ('{\n\t"data": "ENC[AES256_GCM,data:a]",\n\t"sops": {}\n}\n', "SOPS"),
    ],
)
def test_an_encrypted_file_is_no_syntax_error(text: str, tool: str) -> None:
    (found,) = of(check(the("HF904"), {"main.tf": "", "terraform.tfvars": text}), the("HF904"))
    assert (found.message, found.severity) == (f"the file is encrypted with {tool}", WARNING)
    assert "ecrypt" in str(found.hint)


def test_code_that_a_shell_fills_in() -> None:
    code = 'resource "x_y" "a" {\n  size = $SIZE\n  at   = $(date +%s)\n}\n'
    (found,) = of(check(the("HF904"), {"main.tf": code}), the("HF904"))
    assert (found.severity, "`$NAME`" in found.message) == (NOTE, True)
    assert levels("HF904", {"main.tf": code + "}\n"}) == [ERROR]


# HF201, HF205, HF306, HF708, HF209.


def test_a_lock_and_an_empty_state_are_no_state_files() -> None:
    lock = of(check(the("HF201"), {"main.tf": "", ".terraform.tfstate.lock.info": "{}"}), the("HF201"))
    empty = of(
        check(the("HF201"), {"main.tf": "", "terraform.tfstate": '{"outputs": {}, "resources": []}'}),
        the("HF201"),
    )
    assert [(one.severity, "state file" in one.message) for one in (*lock, *empty)] == [(NOTE, False)] * 2
    output = '{"outputs": {"a": {"value": 1}}, "resources": []}'
    assert levels("HF201", {"terraform.tfstate": output}) == [WARNING]
    assert levels("HF201", {"terraform.tfstate": "", "terraform.tfstate.backup": output}) == [WARNING]


def test_the_key_of_a_vagrant_machine() -> None:
    assert levels("HF205", {".vagrant/machines/default/virtualbox/private_key": KEY}) == [NOTE]
    assert levels("HF205", {"machines/private_key": KEY}) == [ERROR]


CODE = 'variable "a" {}\nresource "aws_vpc" "a" {\n  cidr_block = %s\n}\n'


@pytest.mark.parametrize(
    ("files", "reported"),
    [
        ({"a/main.tf": CODE % "var.a"}, True),
        ({"a/main.tf": CODE % '"${var.a}"'}, False),
        ({"a/main.tf": 'resource "aws_vpc" "a" {\n  tags {\n    Name = "a"\n  }\n}\n'}, False),
        (
            {"a/main.tf": CODE % "var.a", "b/main.tf": 'terraform {\n  required_version = "~> 0.12.0"\n}\n'},
            False,
        ),
        ({"a/main.tf": 'terraform {\n  required_version = ">= 1.5"\n}\n' + CODE % '"${var.a}"'}, True),
    ],
)
def test_old_code_has_no_lock_files(files: dict[str, str], *, reported: bool) -> None:
    found = levels("HF306", files, "version: 1\nstacks: [{ name: a, module: a }]\n")
    assert bool(found) is reported


def test_how_many_lock_files_are_missing() -> None:
    config = "version: 1\nstacks: [{ name: a, module: a }, { name: b, module: b }]\n"
    files = {"a/main.tf": CODE % "var.a", "b/main.tf": CODE % "var.a", ".gitignore": ".terraform.lock.hcl\n"}
    (none,) = of(check(the("HF306"), files, config=config), the("HF306"))
    assert none.message.startswith("lock files are not in Git")
    (some,) = of(check(the("HF306"), {**files, "a/.terraform.lock.hcl": ""}, config=config), the("HF306"))
    assert some.message.startswith("lock files of 1 of 2 root modules are not in Git")


@pytest.mark.parametrize(
    ("type_", "body", "expected"),
    [
        ("google_bigquery_table", "view {}", NOTE),
        ("google_bigquery_table", "materialized_view {}", NOTE),
        ("google_bigquery_table", "external_data_configuration {}", NOTE),
        ("google_bigquery_table", "deletion_protection = false", WARNING),
        ("aws_db_instance", 'replicate_source_db = "main"', NOTE),
    ],
)
def test_a_copy_of_data_that_is_elsewhere(type_: str, body: str, expected: Severity) -> None:
    code = f'resource "{type_}" "a" {{\n  deletion_protection = false\n  {body}\n}}\n'
    config = "version: 1\nstacks: [{ name: a, module: live, environment: prod }]\n"
    assert levels("HF708", {"live/main.tf": code.replace("false\n  deletion_protection = ", "")}, config) == [
        expected
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("connect(user=name, password=entered)", []),
        ("connect(password=entered, user=name)", []),
        ("connect(password=settings['password'])", []),
        ("connect(password='meadowlark')", [WARNING]),
        ("DB_PASSWORD=meadowlark run", [WARNING]),
    ],
)
def test_variables_of_a_program_are_no_passwords(line: str, expected: list[Severity]) -> None:
    assert levels("HF209", {"main.tf": f"locals {{\n  a = <<E\n{line}\nE\n}}\n"}) == expected
