"""What is a danger only by its name is a note at most; the real danger beside it stays an error."""

# ruff: noqa: E501 - rows of cases

from __future__ import annotations

import base64
import json

import pytest
from checkouts import check, checkout, levels, of, the

from holdfast.checks.model.interface import Severity
from holdfast.checks.secrets.evidence import is_placeholder, is_sealed
from holdfast.checks.secrets.known_secrets import names_secret

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
RANDOM = "q7Rz2Lw9Xk4Tn8Vb3Md6Hp5"


@pytest.mark.parametrize(
    "text",
    ["TF_HTTP_PASSWORD", "${TOKEN}", "$TOKEN", "__TOKEN__", "%TOKEN%", "@TOKEN@", "#{token}#", "((token))", "[PASSWORD]",
     "op://vault/item/field", "ref+awsssm://a/b", "vault:kv/data/app#token", "aws-sm:prod/db", "gcp_secret:projects/a",
     "azurekeyvault:name", "doppler:TOKEN", "bws:1f2e", "secretsmanager:prod", "projects/a/secrets/b/versions/1",
     "!vault |", "ENC[AES256_GCM,data:x]", "ENC(gT5x)", "{cipher}9f8e", "encrypted:BDx8", "AQICAHabc", "CiQAabc"],
)  # fmt: skip
def test_a_name_or_a_reference_stands_for_a_secret(text: str) -> None:
    assert is_placeholder(text)
    assert levels("HF206", {".env": f'APP_SECRET="{text}"\n'}) in ([NOTE], [])


@pytest.mark.parametrize("text", [RANDOM, "Winter_Sports", '{"private_key": "hunter2"}', "https://u:pw7@db"])
def test_other_texts_do_not(text: str) -> None:
    assert not is_placeholder(text)


def test_an_address_with_a_name_as_its_password() -> None:
    url = "repo: https://robot:{}@git.acme.io/a.git\n"
    assert levels("HF207", {"a.yaml": url.format("DEPLOY_KEY"), "main.tf": ""}) == []
    assert levels("HF207", {"a.yaml": url.format(RANDOM), "main.tf": ""}) == [ERROR]


def token(claims: object) -> str:
    middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"access_token: eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.{middle}.dozjgNryP4J3jVmNHl0w5NXgL0n3I9PlFUP0THsR8U\n"


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"sub": "1234567890"}, NOTE),
        ({"name": "John Doe", "admin": True}, NOTE),
        ({"iss": "supabase", "ref": "kqzvwtrp", "role": "anon"}, NOTE),
        ({"iss": "https://login.example.com"}, NOTE),
        ({"iss": "https://login.acme.io", "sub": "deploy", "role": "service_role"}, ERROR),
    ],
)
def test_tokens_of_tutorials(claims: object, expected: Severity) -> None:
    assert levels("HF207", {"a.yaml": token(claims), "main.tf": ""}) == [expected]


# Files.

SOPS = '{\n\t"version": "ENC[AES256_GCM,data:1g==,iv:Q2,tag:Cy,type:float]",\n\t"resources": [{"a": "ENC[AES256_GCM]"}]}'
TOFU = '{"serial":1,"lineage":"a","meta":{"key_provider.pbkdf2.a":"e"},"encrypted_data":"x","encryption_version":"v0"}'


@pytest.mark.parametrize(
    "text",
    [SOPS, TOFU, "$ANSIBLE_VAULT;1.1;AES256\n3132", "\0GITCRYPT\0abc", "age-encryption.org/v1\n-> X25519", "U2FsdGVkX1abc",
     "-----BEGIN AGE ENCRYPTED FILE-----\n", "-----BEGIN PGP MESSAGE-----\n", "data: ENC[AES256_GCM,data:x]\n"],
)  # fmt: skip
def test_an_encrypted_file_is_none(text: str) -> None:
    assert is_sealed(text.encode())
    for id_, path in (
        ("HF201", "a.tfstate"),
        ("HF202", "tfplan"),
        ("HF205", "id_rsa"),
        ("HF206", ".vault-token"),
    ):
        assert levels(id_, {path: text, "main.tf": ""}) == []


def state(*resources: tuple[str, str, list[str]]) -> str:
    listed = [
        {"type": type_, "name": name, "instances": [{"attributes": {}, "sensitive_attributes": marked}]}
        for type_, name, marked in resources
    ]
    return json.dumps(
        {"version": 4, "terraform_version": "1.9", "serial": 1, "lineage": "a", "resources": listed}
    )


BUCKET = ("aws_s3_bucket", "states", list[str]())
LOCK = ("aws_dynamodb_table", "lock", list[str]())


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.tfstate", state(BUCKET, LOCK), WARNING),
        ("a.tfstate", state(BUCKET, ("aws_kms_key", "k", ["policy"])), ERROR),
        ("a.tfstate", state(BUCKET, ("aws_db_instance", "d", [])), ERROR),
        ("a.tfstate", state(("vault_generic_secret", "d", [])) + '{"raw": "ENC[AES256_GCM,data:x]", "sops_version": 1}', ERROR),
        ("obsolete/a.tfstate", state(), NOTE),
        ("obsolete/a.tfstate", state(("aws_db_instance", "d", [])), ERROR),
    ],
)  # fmt: skip
def test_what_a_state_holds_decides(path: str, text: str, expected: Severity) -> None:
    assert levels("HF201", {path: text, "main.tf": ""}) == [expected]


def test_a_backup_belongs_to_its_state() -> None:
    """Also if only the backup has resources."""
    full, empty = state(("aws_db_instance", "d", [])), state()
    report = check(
        the("HF201"), {"a.tfstate": full, "a.tfstate.backup": full, "b.tfstate": full, "main.tf": ""}
    )
    assert [one.message for one in report.findings] == [
        "a state file is committed to Git (`a.tfstate`, `a.tfstate.backup`)",
        "a state file is committed to Git (`b.tfstate`)",
    ]
    workspaces = {f"terraform.tfstate.d/{name}/terraform.tfstate": full for name in ("dev", "prod")}
    assert levels("HF201", workspaces) == [ERROR, ERROR]
    (found,) = check(the("HF201"), {"a.tfstate": empty, "a.tfstate.backup": full, "main.tf": ""}).findings
    assert found.severity is ERROR
    assert found.message == "a state file is committed to Git (`a.tfstate.backup`, `a.tfstate`)"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (".aws/credentials", "[default]\nregion = eu-west-1\n", []),
        (".aws/credentials", "[default]\naws_access_key_id =\naws_secret_access_key =\n", []),
        (".aws/credentials", "[a]\ncredential_process = /bin/fetch\n", []),
        (".aws/credentials", f"[default]\naws_secret_access_key = {RANDOM}\n", [ERROR]),
        (".git-credentials", "https://git.acme.io\n", []),
        (".git-credentials", f"https://robot:{RANDOM}@git.acme.io\n", [ERROR]),
        (".azure/accessTokens.json", "[]", []),
        (".vault-token", "hvs." + RANDOM, [ERROR]),
    ],
)
def test_the_values_of_a_credentials_file_decide(path: str, text: str, expected: list[Severity]) -> None:
    assert levels("HF206", {path: text, "main.tf": ""}) == expected


def test_an_environment_file_for_this_machine() -> None:
    keys = f"API_SECRET={RANDOM}\n"
    assert levels("HF206", {".env.local": keys + "DB_HOST=localhost\n"}) == [NOTE]
    assert levels("HF206", {".env.local": keys}) == [WARNING]
    assert levels("HF206", {".env": keys + "DB_HOST=localhost\n"}) == [ERROR]


# Names.


@pytest.mark.parametrize(
    "name",
    ["1password-site-verification", "onepassword_vault", "token.actions.githubusercontent.com:sub", "secret_kid",
     "token_valid_for", "token_issuer", "token_audiences", "secret_jwks", "oidc.acme.io:aud", "secret_tenant"],
)  # fmt: skip
def test_names_about_a_secret(name: str) -> None:
    assert not names_secret(name)


@pytest.mark.parametrize(
    "name", ["onepassword_token", "1password_secret_key", "app:db_password", "kid_token"]
)
def test_names_of_a_secret(name: str) -> None:
    assert names_secret(name)


def test_texts_that_are_public() -> None:
    record = 'resource "aws_route53_record" "a" {\n  records = [\n    "%s"\n  ]\n}\n'
    for text in (
        "1password-site-verification=UVX2GYFY6BEWBO4OIYWSJG2LKU",
        "secret-domain-verification=a8Kq2LwX9zTn4Vb3",
    ):
        assert levels("HF208", {"main.tf": record % text}) == []
    condition = 'locals {\n  a = { "token.acme.io:sub" = ["repo:acme/app-2x9:ref:refs/heads/main"] }\n}\n'
    assert levels("HF208", {"main.tf": condition}) == []


def test_the_id_of_a_key_beside_its_secret() -> None:
    key = f'locals {{\n  store_access_key = "{RANDOM.upper()}"\n}}\n'
    beside = 'variable "store_secret_key" {\n  sensitive = true\n}\n'
    assert levels("HF208", {"main.tf": key + beside}) == [NOTE]
    assert levels("HF208", {"main.tf": key}) == [ERROR]
    secret = f'locals {{\n  store_secret_key = "{RANDOM}"\n}}\n'
    assert levels("HF208", {"main.tf": secret + 'variable "store_access_key" {}\n'}) == [ERROR]


# Code.

PRODUCTION = "version: 1\nstacks: [{ name: a, module: . }]\n"
S3 = 'terraform {{\n  backend "s3" {{\n    bucket = "b"\n    key = "k"\n{}  }}\n}}\n'
MINIO = (
    "    skip_credentials_validation = true\n    skip_region_validation = true\n    use_path_style = true\n"
)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ('    region = "auto"\n', NOTE),
        ('    region = "nyc3"\n', NOTE),
        (f'    region = "us-east-1"\n{MINIO}', NOTE),
        ('    region = "us-east-1"\n    skip_region_validation = true\n', ERROR),
        ('    region = "us-gov-west-1"\n', ERROR),
        ("", ERROR),
    ],
)
def test_stores_that_are_not_aws(settings: str, expected: Severity) -> None:
    code = S3.format(settings)
    assert levels("HF114", {"main.tf": code}, PRODUCTION) == [expected]
    if expected is NOTE:
        assert levels("HF119", {"main.tf": code}, PRODUCTION) == []


def test_a_part_that_is_no_secret_may_be_shown() -> None:
    given = 'provider "aws" {}\nvariable "host" {\n  sensitive = true\n}\n'
    nodes = (
        "locals {\n  nodes = { for name, one in var.nodes : name => merge(one, { at = nonsensitive(var.host.%s) }) }\n}\n"
        'output "a" {\n  value = [for name, one in local.nodes : one.%s]\n}\nvariable "nodes" {}\n'
    )
    assert levels("HF210", {"main.tf": given + nodes % ("name", "at")}) == []
    assert levels("HF210", {"main.tf": given + nodes % ("value", "upgrade")}) == []
    assert levels("HF210", {"main.tf": given + nodes % ("value", "at")}) == [ERROR]


def test_a_default_that_every_call_replaces() -> None:
    module = 'variable "admin_password" {\n  default = "winter-sports"\n}\n'
    call = 'module "%s" {\n  source = "./m"\n%s}\n'
    given = call % ("a", "  admin_password = var.p\n") + 'variable "p" {}\n'
    assert levels("HF209", {"main.tf": given, "m/main.tf": module}) == [NOTE]
    assert levels("HF209", {"main.tf": given + call % ("b", ""), "m/main.tf": module}) == [WARNING]


def test_a_variable_that_nothing_uses() -> None:
    variable = 'variable "db_password" {\n  default = ""\n}\n'
    call = 'module "m" {\n  source = "./m"\n  text = var.db_password\n}\n'
    taken = 'variable "text" {}\n'
    used = taken + 'resource "null_resource" "a" {\n  triggers = { a = var.text }\n}\n'
    assert levels("HF211", {"main.tf": variable}) == []
    assert levels("HF211", {"main.tf": variable + call, "m/main.tf": taken}) == []
    assert levels("HF211", {"main.tf": variable + call, "m/main.tf": used}) == [WARNING]


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("z_old", NOTE), ("uat-decom/a", NOTE), ("archive/2021", NOTE), ("cold-storage/a", NOTE), ("deprecated", NOTE),
     ("log-archive", WARNING), ("threshold", WARNING), ("folder/live", WARNING)],
)  # fmt: skip
def test_folders_of_old_code(folder: str, expected: Severity) -> None:
    code = 'provider "aws" {}\nvariable "db_password" {}\noutput "a" {\n  value = var.db_password\n}\n'
    stack = f"version: 1\nstacks: [{{ name: a, module: {folder} }}]\n"
    assert levels("HF211", {f"{folder}/main.tf": code}, stack) == [expected]


def test_a_block_in_a_list_is_old_syntax() -> None:
    old = 'resource "a" "b" {\n  rules = [\n    {\n      a = "b"\n      options {\n        "min" = 1\n      }\n    }\n  ]\n}\n'
    assert levels("HF904", {"main.tf": old}) == [WARNING]


def test_a_path_with_too_many_steps_up() -> None:
    code = 'module "m" {\n  source = "../../../modules//m"\n}\n'
    report = check(the("HF904"), {"main.tf": "", "a/b/main.tf": code, "modules/m/main.tf": ""})
    assert [one.hint for one in of(report, the("HF904"))] == [
        "Fix the path: the code is in modules/m (../../modules/m)."
    ]


@pytest.mark.parametrize(
    ("pipeline", "authors", "expected"),
    [
        ("terraform apply", 1, ERROR),
        ("terraform plan", 1, NOTE),
        ("terraform plan", 2, ERROR),
        ("", None, ERROR),
    ],
)
def test_two_runs_must_be_able_to_meet(pipeline: str, authors: int | None, expected: Severity) -> None:
    made = checkout(
        {"main.tf": S3.format(""), ".github/workflows/a.yml": f"- run: {pipeline}\n"}, config=PRODUCTION
    )
    for one in (made, *(stack.checkout for stack in made.stacks)):
        one.count_authors = lambda: authors
    assert [one.severity for one in of(check(the("HF114"), made), the("HF114"))] == [expected]


@pytest.mark.parametrize(("authors", "expected"), [(1, WARNING), (2, ERROR)])
def test_a_local_backend_of_one_person(authors: int, expected: Severity) -> None:
    config = "version: 1\nstacks: [{ name: a, module: ., environment: prod }]\n"
    made = checkout({"main.tf": 'terraform {\n  backend "local" {}\n}\n'}, config=config)
    for one in (made, *(stack.checkout for stack in made.stacks)):
        one.count_authors = lambda: authors
    assert [one.severity for one in of(check(the("HF112"), made), the("HF112"))] == [expected]


@pytest.mark.parametrize(
    ("id_", "backend"), [("HF114", S3.format("")), ("HF112", 'terraform {\n  backend "local" {}\n}\n')]
)
def test_a_backend_that_terragrunt_writes(id_: str, backend: str) -> None:
    config = "version: 1\nstacks: [{ name: a, module: ., environment: prod }]\n"
    assert levels(id_, {"backend.tf": backend}, config) == [ERROR]
    assert (
        levels(id_, {"backend.tf": f"# Generated by Terragrunt. Sig: nIlQXj57tbuaRZEa\n{backend}"}, config)
        == []
    )


# Where the value of a variable is shown.

STACK = "version: 1\nstacks: [{ name: a, module: ., environment: prod }]\n"
VARIABLE = 'provider "aws" {}\nvariable "db_password" {\n  type = string\n}\n'
CALL = 'module "m" {\n  source = "./m"\n  text = var.db_password\n}\n'


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('resource "aws_ssm_parameter" "a" {\n  value = var.db_password\n}\n', NOTE),
        ('resource "kubernetes_secret" "a" {\n  data = { a = "x:${var.db_password}" }\n}\n', NOTE),
        ('resource "aws_db_instance" "a" {\n  password = local.p\n}\nlocals {\n  p = var.db_password\n}\n', NOTE),
        ('resource "helm_release" "a" {\n  dynamic "set_sensitive" {\n    for_each = [1]\n    content {\n      value = var.db_password\n    }\n  }\n}\n', NOTE),
        ('resource "aws_instance" "a" {\n  count = var.db_password != "" ? 1 : 0\n}\n', NOTE),
        ('provider "aws" {\n  secret_key = var.db_password\n}\n', NOTE),
        ('data "terraform_remote_state" "a" {\n  config = { password = var.db_password }\n}\n', NOTE),
        ('resource "acme_login" "a" {\n  password = var.db_password\n}\n', NOTE),
        ('output "a" {\n  value     = var.db_password\n  sensitive = true\n}\n', NOTE),
        ('output "a" {\n  value = "postgres://app:${var.db_password}@db"\n}\n', WARNING),
        ('resource "null_resource" "a" {\n  provisioner "local-exec" {\n    command = "login ${var.db_password}"\n  }\n}\n', WARNING),
        ('resource "aws_instance" "a" {\n  user_data = local.t\n}\nlocals {\n  t = templatefile("a.tpl", { p = var.db_password })\n}\n', WARNING),
        ('resource "aws_db_instance" "a" {\n  tags = { p = var.db_password }\n}\n', WARNING),
        ('module "m" {\n  source = "acme/m/aws"\n  secret = var.db_password\n}\n', WARNING),
    ],
)  # fmt: skip
def test_a_variable_is_shown_by_arguments_that_are_not_marked(code: str, expected: Severity) -> None:
    assert levels("HF211", {"main.tf": VARIABLE + code}, STACK) == [expected]


@pytest.mark.parametrize(
    ("module", "code", "expected"),
    [
        ('resource "aws_db_instance" "a" {\n  password = var.text\n}\n', "", NOTE),
        ('resource "aws_instance" "a" {\n  user_data = var.text\n}\n', "", WARNING),
        ('output "o" {\n  value = var.text\n}\n', "", NOTE),
        ('output "o" {\n  value = var.text\n}\n', 'output "o" {\n  value = module.m.o\n}\n', WARNING),
        ('module "m" {\n  source = "../m"\n  text = var.text\n}\n', "", NOTE),
    ],
)  # fmt: skip
def test_a_variable_is_followed_into_modules(module: str, code: str, expected: Severity) -> None:
    files = {"main.tf": VARIABLE + CALL + code, "m/main.tf": 'variable "text" {}\n' + module}
    assert levels("HF211", files, STACK) == [expected]


def test_only_the_part_that_a_module_shows_counts() -> None:
    module = 'variable "login" {}\nresource "aws_db_instance" "a" {\n  password = var.login.secret\n  %s = var.login["%s"]\n}\n'
    call = 'module "m" {\n  source = "./m"\n  login = { user = "app", secret = var.db_password }\n}\n'
    for names, expected in ((("username", "user"), NOTE), (("identifier", "secret"), WARNING)):
        files = {"main.tf": VARIABLE + call, "m/main.tf": module % names}
        assert levels("HF211", files, STACK) == [expected]


def test_an_output_of_an_unmarked_variable() -> None:
    shown = 'output "a" {\n  value = var.%s\n%s}\n'
    assert levels("HF210", {"main.tf": VARIABLE + shown % ("db_password", "")}, STACK) == [WARNING]
    assert (
        levels("HF210", {"main.tf": VARIABLE + shown % ("db_password", "  sensitive = true\n")}, STACK) == []
    )
    assert levels("HF210", {"main.tf": 'variable "region" {}\n' + shown % ("region", "")}, STACK) == []
    called = {"main.tf": VARIABLE + CALL, "m/main.tf": 'variable "text" {}\n' + shown % ("text", "")}
    assert levels("HF210", called, STACK) == []
    called["main.tf"] += 'output "b" {\n  value = module.m.a\n}\n'
    assert levels("HF210", called, STACK) == [WARNING]


# More names and texts that only look like secrets.


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('locals {\n  action = { pass = "upstream-name7" }\n}\n', []),
        ('locals {\n  action = { pass = "upstream-name7", user = var.a }\n}\n', [WARNING]),
        ('resource "a_b" "c" {\n  rule {\n    pass = "upstream-name7"\n  }\n}\n', []),
        ('resource "a_b" "c" {\n  rule {\n    pass  = "upstream-name7"\n    login = "app"\n  }\n}\n', [WARNING]),
        ('locals {\n  db_pass = "upstream-name7"\n}\n', [WARNING]),
        ('locals {\n  db_password = "myfakevalue77"\n}\n', []),
        ('locals {\n  db_password = "aSampleOne77"\n}\n', []),
    ],
)  # fmt: skip
def test_a_key_or_a_text_that_is_no_password(code: str, expected: list[Severity]) -> None:
    assert levels("HF209", {"main.tf": code}) == expected


def test_folders_of_tests() -> None:
    code = 'locals {\n  db_password = "winter-sports7"\n}\n'
    for folder, expected in (("rds_test", NOTE), ("rds-test/a", NOTE), ("rds_latest", WARNING)):
        assert levels("HF209", {f"{folder}/main.tf": code}) == [expected]
    assert levels("HF201", {"acme-test/a.tfstate": state(("aws_db_instance", "d", []))}) == [ERROR]


def test_a_crash_log_with_and_without_secrets() -> None:
    log = "2020/01/01 [INFO] Terraform version: 0.12.20\npanic: runtime error: index out of range\n"
    assert levels("HF204", {"crash.log": log}) == [WARNING]
    assert levels("HF204", {"crash.log": f'{log}  "api_token": "{RANDOM}"\n'}) == [ERROR]


@pytest.mark.parametrize(
    "line", ["*.terraform.lock.*", "**.lock.*", ".terraform*", "**/.terraform.lock.hcl", "/a/*.lock.hcl"]
)
def test_lines_that_ignore_lock_files(line: str) -> None:
    files = {"a/main.tf": 'provider "aws" {}\n', ".gitignore": f".terraform/\n{line}\n"}
    config = "version: 1\nstacks: [{ name: a, module: a }]\n"
    found = of(check(the("HF306"), files, config=config), the("HF306"))
    assert [(one.file, one.line) for one in found] == [(".gitignore", 2)]
    files[".gitignore"] += "!.terraform.lock.hcl\n"
    assert of(check(the("HF306"), files, config=config), the("HF306"))[0].file == "a/main.tf"


def test_code_beside_old_code_needs_no_lock_file() -> None:
    old = (
        'resource "a" "b" {\n  rules = [\n    {\n      options {\n        "min" = 1\n      }\n    }\n  ]\n}\n'
    )
    config = "version: 1\nstacks: [{ name: a, module: a }, { name: b, module: b }]\n"
    plain = {"a/main.tf": 'provider "aws" {}\n', "b/main.tf": old}
    assert levels("HF306", plain, config) == []
    new = 'terraform {\n  required_providers {\n    aws = { source = "hashicorp/aws" }\n  }\n}\n'
    assert levels("HF306", {**plain, "a/main.tf": new}, config) == [WARNING]


def requires(version: str) -> str:
    return f'terraform {{\n  required_providers {{\n    aws = {{ source = "hashicorp/aws"{version} }}\n  }}\n}}\n'


@pytest.mark.parametrize(
    ("root", "state", "expected"),
    [
        (requires(""), "", WARNING),
        (requires(', version = "~> 5.1"'), "", NOTE),
        (requires(""), '{"version": 4, "terraform_version": "0.12.31"}', NOTE),
        (requires(""), '{"version": 4, "terraform_version": "1.9.0"}', WARNING),
    ],
)
def test_what_a_missing_lock_file_would_lock(root: str, state: str, expected: Severity) -> None:
    """HF306: a constraint of the root module counts for all modules; old versions write no lock file."""
    call = root + 'module "a" {\n  source = "./a"\n}\n'
    files = {"main.tf": call, "a/main.tf": 'resource "aws_vpc" "a" {}\n', "terraform.tfstate": state}
    assert levels("HF306", files) == [expected]


FOLDER = "live/.terraform"


def test_the_name_of_a_workspace_is_little() -> None:
    """HF203; with more of the folder it is one finding, as severe as the rest."""
    name = {f"{FOLDER}/environment": "dev"}
    assert levels("HF203", name) == [NOTE]
    assert levels("HF203", {**name, f"{FOLDER}/terraform.tfstate": "{}"}) == [ERROR]
    assert levels("HF203", {"environment/.terraform/providers/a": ""}) == [ERROR]
    little = {**name, f"{FOLDER}/modules/modules.json": "{}", f"{FOLDER}/providers/a/b/LICENSE.txt": ""}
    assert levels("HF203", little) == [WARNING]


GOOGLE = "AI" + "zaSyD3m0K9xLq7Vw2RtYp8NbZc5Hf1JgU6aEo"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'google_maps_api_key: "{GOOGLE}"', WARNING),
        (f"src: https://maps.googleapis.com/api/js?key={GOOGLE}&v=3", WARNING),
        (f'gemini_api_key: "{GOOGLE}"', WARNING),
        (f'{{"key": {{"type": "string", "default": "{GOOGLE}"}}}}', NOTE),
        (f'{{"key": {{"type": "string", "examples": ["{GOOGLE}"]}}}}', NOTE),
        (f'{{"$schema": "http://json-schema.org/draft-07/schema#", "key": {{"const": "{GOOGLE}"}}}}', NOTE),
    ],
)
def test_a_google_key_which_most_browsers_have(text: str, expected: Severity) -> None:
    (found,) = of(check(the("HF207"), {"a.yaml": f"{text}\n", "main.tf": ""}), the("HF207"))
    assert "referrers" in str(found.hint)
    assert levels("HF207", {"a.yaml": f"{text}\n"}) == [expected]


@pytest.mark.parametrize(
    ("id_", "code", "state", "nothing"),
    [
        ("HF111", "", "age-encryption.org/v1\n", "locks it"),
        ("HF112", 'terraform {\n  backend "local" {}\n}\n', "age-encryption.org/v1\n", "locks it"),
    ],
)
def test_a_state_in_git_is_not_on_one_machine(id_: str, code: str, state: str, nothing: str) -> None:
    """What HF201 reports is not reported twice."""
    files = {"live/main.tf": code, "live/terraform.tfstate": state}
    config = "version: 1\nstacks: [{ name: a, module: live, environment: prod }]\n"
    (found,) = of(check(the(id_), files, config=config), the(id_))
    assert f"in Git (live/terraform.tfstate), where nothing {nothing}, but" in found.message
    assert levels(id_, {**files, "live/terraform.tfstate": "{}"}, config) == []
    (other,) = of(check(the(id_), checkout(files, config=config, tracked=["live/main.tf"])), the(id_))
    assert "on one machine, but" in other.message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  DOCKERHUB_PASS: acme-eu1-dockerhub:password", []),
        ("  DOCKERHUB_PASS: acme-eu1-dockerhub:winter7", [WARNING]),
    ],
)
def test_one_key_of_a_secret_in_a_store(text: str, expected: list[Severity]) -> None:
    """HF209: as a build specification names it."""
    files = {"main.tf": 'locals {\n  spec = file("build.yaml")\n}\n', "build.yaml": f"env:\n{text}\n"}
    assert levels("HF209", files) == expected


@pytest.mark.parametrize(("word", "expected"), [("Oracle", NOTE), ("Wintersports", WARNING), (RANDOM, ERROR)])
def test_a_header_with_a_word_that_the_server_expects(word: str, expected: Severity) -> None:
    """HF207: the metadata service of one cloud wants this one."""
    assert levels(
        "HF207", {"a.sh": f'curl -H "Authorization: Bearer {word}" http://169.254.169.254/opc/v2/\n'}
    ) == [expected]


@pytest.mark.parametrize(
    "name", ["token_units_access", "access_token_validity_hours", "mq_password_key", "username_key"]
)
def test_a_name_about_the_time_or_the_key_of_a_secret(name: str) -> None:
    assert not names_secret(name)
    assert names_secret("token_access")
    assert names_secret("secret_key")


@pytest.mark.parametrize("value", ["true", "false"])
def test_a_registry_that_may_be_deleted_with_its_images(value: str) -> None:
    code = f'resource "aws_ecr_repository" "a" {{\n  force_delete = {value}\n}}\n'
    config = "version: 1\nstacks: [{ name: a, module: ., environment: prod }]\n"
    assert levels("HF708", {"main.tf": code}, config) == ([NOTE] if value == "true" else [])
