"""An error is what its owner acts on: samples, what cannot run and what is public are rated lower."""

from __future__ import annotations

import base64

import pytest
from checkouts import check, levels, of, the
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from holdfast.checks.model.interface import Severity
from holdfast.checks.secrets.evidence import is_expired, is_made_up

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
GITHUB = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
RANDOM = "q7Rz2Lw9Xk4Tn8Vb3Md6Hp5"
PRODUCTION = "version: 1\nstacks: [{ name: a, module: live, environment: prod }]\n"


# HF207: comments.

PUBLISHED = (
    "# This should never be checked into version control.\n"
    "# It is provided here to simplify the deployment.\nkind: Secret\ndata:\n  token: {}\n"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# DEV bootstrap token\ntoken: {}\n", WARNING),
        ("# Only for dev clusters.\n# More about it.\ntoken: {}\n", WARNING),
        ("# Rotate it before\n# the first release.\ntoken: {}\n", WARNING),
        ("token: {}  # change me\n", WARNING),
        ('token = "{}" // dummy\n', WARNING),
        ('token = "{}" // not a real token\n', WARNING),
        ("/* local only */\ntoken: {}\n", WARNING),
        (PUBLISHED, WARNING),
        ("# It must never be checked into Git.\nkind: Secret\ndata:\n  token: {}\n", ERROR),
        ("# token: {}\n", ERROR),
        ("# TODO: move it to the vault\ntoken: {}\n", ERROR),
        ("# DEV\nhost: a\ntoken: {}\n", ERROR),
        ("token: {}\n# DEV\n", ERROR),
        ("# The developers' bot\ntoken: {}\n", ERROR),
        ("dummy: a\ntoken: {}\n", ERROR),
    ],
)
def test_a_comment_says_that_a_secret_is_not_live(text: str, expected: Severity) -> None:
    assert levels("HF207", {"a.yaml": text.format(GITHUB)}) == [expected]


# HF208: what makes Terraform generate a secret again.

CALL = f'module "a" {{\n  source = "./m"\n  db_password = "{RANDOM}"\n}}\n'
KEPT = 'variable "db_password" {}\nresource "random_password" "a" {\n  keepers = { a = var.db_password }\n}\n'


@pytest.mark.parametrize("name", ["password_seed", "master_password_seed", "token_trigger", "secret_keepers"])
def test_seeds_and_triggers_are_no_secrets(name: str) -> None:
    assert levels("HF208", {"main.tf": f'locals {{\n  {name} = "{RANDOM}"\n}}\n'}) == []


def test_the_seed_of_a_key_is_a_secret() -> None:
    assert levels("HF208", {"main.tf": f'locals {{\n  secret_seed = "{RANDOM}"\n}}\n'}) == [ERROR]


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (KEPT, []),
        (KEPT + 'output "a" {\n  value = var.db_password\n}\n', [ERROR]),
        (KEPT + 'provider "x" {\n  password = var.db_password\n}\n', [ERROR]),
        (KEPT + 'resource "x_y" "a" {\n  a = random_password.a.keepers.a\n}\n', [ERROR]),
        ('variable "db_password" {}\n', [ERROR]),
    ],
)
def test_what_is_only_in_keepers_is_no_secret(module: str, expected: list[Severity]) -> None:
    assert levels("HF208", {"main.tf": CALL, "m/main.tf": module}) == expected
    default = module.replace("{}", f'{{\n  default = "{RANDOM}"\n}}', 1)
    assert levels("HF208", {"main.tf": default}) == expected


# HF205: keys.


def pem(kind: str, data: bytes) -> str:
    return f"-----BEGIN {kind}-----\n{base64.encodebytes(data).decode()}-----END {kind}-----\n"


BODY = bytes(range(7, 247)) * 3
KEY = (
    ec.generate_private_key(ec.SECP256R1())
    .private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    .decode()
)


def certificate(until: str) -> str:
    """With the time in the form of its length."""
    tag = b"\x17\x0d" if len(until) == len("240101000000Z") else b"\x18\x0f"
    return pem("CERTIFICATE", b"\x30\x1e\x17\x0d160101000000Z" + tag + until.encode() + BODY)


@pytest.mark.parametrize(
    ("until", "expired"),
    [
        ("210101000000Z", True),
        ("991231235959Z", True),
        ("260701000000Z", False),
        ("20210101000000Z", True),
        ("20590101000000Z", False),
    ],
)
def test_a_key_beside_an_expired_certificate(until: str, *, expired: bool) -> None:
    assert is_expired(certificate(until).encode()) is expired
    files = {"tls/a.key": KEY, "tls/a.crt": certificate(until)}
    assert levels("HF205", files) == [WARNING if expired else ERROR]
    assert levels("HF205", {**files, "tls/b.crt": certificate("260701000000Z")}) == [ERROR]
    document = "".join(f"    {line}\n" for line in f"{certificate(until)}{KEY}".splitlines())
    assert levels("HF207", {"user-data.yaml": document}) == [WARNING if expired else ERROR]


@pytest.mark.parametrize(
    "folder", ["sample", "samples", "etcd_sample", "example", "fixtures", "testdata", "demo", "mock"]
)
def test_keys_in_folders_of_samples(folder: str) -> None:
    assert is_made_up(f"app/{folder}/ca.key")
    assert levels("HF205", {f"app/{folder}/ca.key": KEY}, "") == [NOTE]


def test_a_certificate_that_expired_last_month() -> None:
    assert levels("HF205", {"tls/a.key": KEY, "tls/a.crt": certificate("260501000000Z")}) == [WARNING]


# HF201.


def test_the_state_of_another_program() -> None:
    state = '{"version": 4, %s"lineage": "a", "resources": [{"type": "channel"}]}'
    assert levels("HF201", {"a.tfstate": state % ""}) == [WARNING]
    assert levels("HF201", {"a.tfstate": state % '"terraform_version": "1.9.0", '}) == [ERROR]


# HF209.


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("kubectl create secret docker-registry a --docker-password winter-sports", [ERROR]),
        ("kubectl create secret docker-registry a --docker-password=postgres", [NOTE]),
        ("kubectl create secret docker-registry a --docker-password=$TOKEN", []),
        ("docker login -u acme -p winter-sports registry.acme.io", [ERROR]),
        ("keytool -list --password=winter-sports", [WARNING]),
    ],
)
def test_the_password_of_a_registry(command: str, expected: list[Severity]) -> None:
    """In scripts and in code, as in an address of a remote host."""
    assert levels("HF209", {"a.sh": f"{command}\n"}) == expected
    provisioner = f'  provisioner "local-exec" {{\n    command = "{command}"\n  }}\n'
    code = f'resource "terraform_data" "a" {{\n{provisioner}}}\n'
    assert levels("HF209", {"main.tf": code}) == expected


# HF206.


@pytest.mark.parametrize(
    ("path", "text", "rotate"),
    [
        (".env", f"API_TOKEN={RANDOM}\n", True),
        (".env", "PGPASSWORD=postgres\n", False),
        ("examples/.env", f"API_TOKEN={RANDOM}\n", False),
        (".env.docker", f"DATABASE=localhost\nAPI_TOKEN={RANDOM}\n", False),
    ],
)
def test_only_what_may_be_live_has_to_be_rotated(path: str, text: str, *, rotate: bool) -> None:
    (found,) = of(check(the("HF206"), {path: text, "main.tf": ""}), the("HF206"))
    assert ("Rotate" in (found.hint or found.rule.fix)) is rotate
    assert (found.severity is NOTE) is not rotate


# HF210.

MARKED = (
    'provider "aws" {{}}\nvariable "{0}" {{\n  sensitive = true\n}}\n'
    'output "a" {{\n  value = nonsensitive(var.{0})\n}}\n'
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("account_id", NOTE), ("role_arn", NOTE), ("id", NOTE), ("password", ERROR), ("secret_id", ERROR)],
)
def test_an_id_that_somebody_marked(name: str, expected: Severity) -> None:
    assert levels("HF210", {"main.tf": MARKED.format(name)}) == [expected]


@pytest.mark.parametrize(
    ("folder", "environment", "expected"),
    [
        ("examples/simple", "", NOTE),
        ("modules/a/tests", "", NOTE),
        ("examples/simple", ", environment: prod", ERROR),
        ("live", "", ERROR),
    ],
)
def test_the_output_of_an_example(folder: str, environment: str, expected: Severity) -> None:
    config = f"version: 1\nstacks: [{{ name: a, module: {folder}{environment} }}]\n"
    assert levels("HF210", {f"{folder}/main.tf": MARKED.format("password")}, config) == [expected]


def test_all_parameters_below_a_path() -> None:
    """Most are settings."""
    data = 'data "aws_ssm_parameters_by_path" "{0}" {{\n  path = "/{0}"\n}}\n'
    output = 'output "a" {{\n  value = nonsensitive(data.aws_ssm_parameters_by_path.{0}.values)\n}}\n'
    for name, expected in (("network", list[Severity]()), ("db_password", [ERROR])):
        assert levels("HF210", {"main.tf": (data + output).format(name)}) == expected


# HF114.

S3 = 'terraform {\n  backend "s3" {\n    bucket = "b"\n    key = "k"\n  }\n}\n'


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ERROR),
        ({"live/a.tf": 'variable "a" {\n'}, WARNING),
        ({"live/a.tf": 'module "a" {\n  source = "./missing"\n}\n'}, WARNING),
        ({"live/a.tf": 'module "a" {\n  source = "./there"\n}\n', "live/there/main.tf": ""}, ERROR),
        ({"live/a.tf": 'module "a" {\n  source = "acme/network/aws"\n}\n'}, ERROR),
        ({"live/a.tf": 'module "a" {\n  source = "../shared"\n}\n', ".gitmodules": "path = shared\n"}, ERROR),
        ({"live/a.tf": 'resource "aws_vpc" "a" {\n  tags {\n    "a" = "b"\n  }\n}\n'}, ERROR),
    ],
)
def test_what_cannot_be_loaded_has_no_runs_that_meet(files: dict[str, str], expected: Severity) -> None:
    assert levels("HF114", {"live/main.tf": S3, **files}, PRODUCTION) == [expected]


# Hints.


def test_every_line_that_ignores_lock_files_is_named() -> None:
    """HF306."""
    files = {"live/main.tf": 'provider "aws" {}\n', ".gitignore": ".terraform*\n*.log\n.terraform.lock.hcl\n"}
    (found,) = of(check(the("HF306"), files, config=PRODUCTION), the("HF306"))
    assert (found.line, found.hint) == (1, "Remove this line and .gitignore:3, and commit the lock files.")


def test_a_module_in_another_repository() -> None:
    """HF904."""
    files = {"live/main.tf": 'module "a" {\n  source = "../../../network/modules/vpc"\n}\n'}
    (found,) = of(check(the("HF904"), files, config=PRODUCTION), the("HF904"))
    assert "git::https://" in (found.hint or "")
