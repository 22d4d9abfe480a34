"""What real repositories have and their owners would not change is a note, or no finding at all."""

from __future__ import annotations

import base64
import json

import pytest
from checkouts import check, messages, of, the

from holdfast.checks.engine.running import CheckInputs
from holdfast.checks.formats.interface import partly_evaluated_text
from holdfast.checks.model.interface import Severity
from holdfast.checks.model.report import redact_report

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
TWO = "version: 1\nstacks:\n  - { name: a, module: a }\n  - { name: b, module: b }\n"


def levels(id_: str, files: dict[str, str], config: str | None = None) -> list[Severity]:
    """The severities of what one rule reports, as a repository with these settings has it."""
    return [one.severity for one in of(check(the(id_), files, config=config, only_configured=True), the(id_))]


# Building blocks.

UNPINNED = 'module "m" {\n  source = "acme/vpc/aws"\n}\n'
NEEDS = 'variable "name" {}\n'


@pytest.mark.parametrize(
    ("code", "config", "severity"),
    [
        (UNPINNED, None, WARNING),
        (UNPINNED + NEEDS, None, NOTE),
        (UNPINNED + NEEDS + 'provider "aws" {}\n', None, WARNING),
        (UNPINNED + NEEDS + 'terraform {\n  backend "s3" {}\n}\n', None, WARNING),
        (UNPINNED + NEEDS, "version: 1\nstacks: [{ name: a, module: ., variables: { name: x } }]\n", WARNING),
        (
            UNPINNED + NEEDS,
            "version: 1\nstacks: [{ name: a, module: ., env: { TF_VAR_name: x } }]\n",
            WARNING,
        ),
        (UNPINNED, "", NOTE),
    ],
)
def test_a_building_block_gets_notes(code: str, config: str | None, severity: Severity) -> None:
    """Without a backend, a provider and the values that it needs, it is not applied on its own."""
    assert levels("HF304", {"main.tf": code}, config) == [severity]


def test_what_is_planned_is_no_building_block() -> None:
    """It has values for its variables, from wherever it is planned."""
    planned = check(the("HF304"), {"main.tf": UNPINNED + NEEDS}, inputs=CheckInputs(planned=True))
    assert [one.severity for one in of(planned, the("HF304"))] == [WARNING]


def test_what_a_stack_calls_counts_in_full() -> None:
    """The module lacks values, but its caller has them."""
    files = {"main.tf": 'module "a" {\n  source = "./a"\n  name = "x"\n}\n', "a/main.tf": UNPINNED + NEEDS}
    assert levels("HF304", files) == [WARNING]


def test_several_calls_of_one_source_are_one_finding() -> None:
    """They are pinned together."""
    code = UNPINNED + UNPINNED.replace('"m"', '"n"') + UNPINNED.replace('"m"', '"o"').replace("vpc", "dns")
    found = messages(check(the("HF304"), {"main.tf": code}), the("HF304"))
    assert found == [
        "the module `m` (and 1 other call of it) has no `version`, so it is always the newest",
        "the module `o` has no `version`, so it is always the newest",
    ]


# Conventions.

HELM = 'resource "helm_release" "a" {}\n'
ARGO = "kind: Application\napiVersion: argoproj.io/v1alpha1\n"


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ("apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\n", [NOTE]),
        (ARGO, [NOTE]),
        ("---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\n", [NOTE]),
        ("apiVersion: argoproj.io/v1alpha1\nkind: Workflow\n", []),
        ("text: argoproj.io\n", []),
    ],
)
def test_the_boundary_is_off_unless_the_repository_uses_gitops(
    manifest: str, expected: list[Severity]
) -> None:
    """Manifests turn it on, as notes; workflows of Argo are no GitOps."""
    assert levels("HF101", {"main.tf": HELM, "apps/a.yaml": manifest}) == expected


def test_a_configured_boundary_counts_in_full() -> None:
    """Whether there are manifests or not."""
    config = "version: 1\nstacks: [{ name: a, module: . }]\nchecks: { boundary: {} }\n"
    assert levels("HF101", {"main.tf": HELM}, config) == [ERROR]
    assert levels("HF101", {"main.tf": HELM}) == []
    assert levels(
        "HF101", {"main.tf": HELM}, config.replace("boundary: {}", "rules: { HF101: warning }")
    ) == [WARNING]


def test_names_of_states_are_off_until_configured() -> None:
    """HF125 needs the environment in the bucket's name."""
    files = {
        "a/main.tf": 'terraform {\n  backend "s3" {\n    bucket = "s"\n    key = "a"\n  }\n}\n',
        "b/main.tf": 'terraform {\n  backend "s3" {\n    bucket = "s"\n    key = "b"\n  }\n}\n',
    }
    config = "version: 1\nenvironments: { dev: { match: [x] } }\nstacks:\n"
    config += "  - { name: a, module: a, environment: dev }\n  - { name: b, module: b, environment: prod }\n"
    for id_ in ("HF123", "HF125"):
        assert levels(id_, files, config) == []
        assert levels(id_, files, config + "checks: { backend: {} }\n")
    assert levels("HF125", files, config + "checks: { backend: { bucket: any } }\n") == []


# Backends.


def backend(settings: str, type_: str = "s3") -> str:
    return f'terraform {{\n  backend "{type_}" {{\n    {settings}\n  }}\n}}\n'


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ('bucket = "s"\n    key = "k"\n    encrypt = true', []),
        ('bucket = "s"\n    key = "k"\n    encrypt = false', [WARNING]),
        ('bucket = "s"\n    key = "k"', [NOTE]),
        ('bucket = "s"\n    key = "k"\n    endpoint = "https://s3.acme.internal"', [NOTE]),
        ('bucket = "s"\n    key = "k"\n    encrypt = false\n    endpoint = "https://s3.acme.io"', [NOTE]),
        ('bucket = "s"\n    key = "k"\n    encrypt = true\n    endpoint = "http://s3.acme.io"', [ERROR]),
        (
            'bucket = "s"\n    key = "k"\n    encrypt = true\n    endpoint = "http://minio.lan:9000"',
            [WARNING],
        ),
        ("", []),
    ],
)
def test_s3_encrypts_by_default(settings: str, expected: list[Severity]) -> None:
    """Other servers often cannot. An empty block is completed elsewhere."""
    assert levels("HF116", {"main.tf": backend(settings)}) == expected


def test_an_empty_backend_block_is_not_called_unlocked() -> None:
    """A wrapper adds the settings, and the lock with them."""
    report = check(the("HF114"), {"main.tf": backend("")})
    assert not report.findings
    assert [skip.expected for skip in report.skipped] == [True]
    assert levels("HF114", {"main.tf": backend('bucket = "s"\n    key = "k"')}) == [ERROR]


@pytest.mark.parametrize(
    "settings",
    ['bucket = "<BUCKET>"\n    key = "k"', 'bucket = "my-bucket"\n    key = "k"', "encrypt = true"],
)
def test_a_backend_to_be_filled_in_is_not_called_unlocked(settings: str) -> None:
    """With or without a stack; settings of the configuration count."""
    files = {"a/main.tf": backend(settings)}
    stack = "version: 1\nstacks: [{ name: a, module: a%s }]\n"
    assert levels("HF114", files, "") == levels("HF114", files, stack % "") == []
    given = ", backend: { settings: { bucket: b, key: k } }"
    assert levels("HF114", files, stack % given) == [ERROR]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ('key = "k"', 'key = "k"', [NOTE]),
        ('key = "k"\n    workspace_key_prefix = "a"', 'key = "k"\n    workspace_key_prefix = "b"', []),
        ('key = "k"\n    workspace_key_prefix = "a"', 'key = "k"\n    workspace_key_prefix = "a"', [NOTE]),
        ('key = "UPDATE_ME"', 'key = "UPDATE_ME"', []),
    ],
)
def test_root_modules_without_a_stack_may_share_a_location(
    one: str, other: str, expected: list[Severity]
) -> None:
    """Their workspaces keep them apart, or a person who copies a template."""
    files = {
        "a/main.tf": backend(f'bucket = "s"\n    {one}'),
        "b/main.tf": backend(f'bucket = "s"\n    {other}'),
    }
    assert levels("HF124", files, "") == expected


def test_a_placeholder_in_a_backend_is_no_secret() -> None:
    """It says that somebody else sets it."""
    assert levels("HF120", {"main.tf": backend('secret_key = "<YOUR_SECRET_KEY>"')}) == []
    assert levels("HF120", {"main.tf": backend('access_key = "access_key"')}) == []
    assert levels("HF120", {"main.tf": backend('secret_key = "minioadmin"')}) == [WARNING]
    assert levels("HF120", {"main.tf": backend('secret_key = "Summer-holiday7"')}) == [ERROR]


def test_an_unclear_environment_crosses_no_boundary() -> None:
    """Whether it is production is a guess."""
    read = (
        'data "terraform_remote_state" "a" {\n  backend = "s3"\n  config = { bucket = "s", key = "a" }\n}\n'
    )
    files = {
        "a/main.tf": backend('bucket = "s"\n    key = "a"'),
        "b/main.tf": backend('bucket = "s"\n    key = "b"') + read,
    }
    config = "version: 1\nenvironments: { dev: { match: [x] } }\nstacks:\n"
    config += "  - { name: b, module: b, environment: dev }\n  - { name: a, module: a%s }\n"
    assert levels("HF127", files, config % "") == []
    assert levels("HF127", files, config % ", environment: prod") == [WARNING]


# Secrets.

PLAN = '{"format_version": "1.2", "planned_values": {}}'
STATE = '{"lineage": "a", "serial": 1, "terraform_version": "1.9.0", "resources": [{"mode": "managed"}]}'


@pytest.mark.parametrize(
    "folder",
    ["tests", "a/testdata", "test/fixtures", "api-mock", "examples/b", "samples", "wiremock", "mock-api/src",
     "stub_api", "aws.fixture", "openapi-examples.d"],
)  # fmt: skip
def test_what_is_made_up_for_tests_is_no_leak(folder: str) -> None:
    """A plan as JSON is not reported, a state is a note; `test` alone may be an environment."""
    assert levels("HF202", {f"{folder}/plan.json": PLAN}, "") == []
    assert levels("HF201", {f"{folder}/a.tfstate": STATE}, "") == [NOTE]
    assert levels("HF202", {"environments/test/plan.json": PLAN}, "") == [WARNING]
    assert levels("HF201", {"environments/test/a.tfstate": STATE}, "") == [ERROR]


@pytest.mark.parametrize(
    ("path", "id_", "expected"),
    [
        ("policies/test/a/mock-tfplan-pass.sentinel", "HF202", []),
        ("app/truststore.jks", "HF205", []),
        ("app/src/test/resources/client.p12", "HF205", [NOTE]),
        ("app/client.p12", "HF205", [WARNING]),
        ("app/local.env", "HF206", [NOTE]),
        ("app/.env.development", "HF206", [NOTE]),
        ("app/api.env", "HF206", [WARNING]),
        ("app/.env", "HF206", [WARNING]),
    ],
)
def test_what_belongs_to_tests_and_local_containers_is_no_leak(
    path: str, id_: str, expected: list[Severity]
) -> None:
    """Mocks of policies, certificates of others, passwords of this machine."""
    assert levels(id_, {path: "DB_PASSWORD=winter-sports\n"}, "") == expected


@pytest.mark.parametrize(
    "path", ["db.sample.tf", "test_db.tf", "x.md.tf", "examples/main.tf", "sample.auto.tfvars"]
)
def test_a_name_does_not_make_live_code_an_example(path: str) -> None:
    """Terraform loads it with the stack; without a stack it is a note."""
    text = f'token = "{"ghp_"}16C7e42F292c6912E7710c838347Ae178B4a"\n'
    files = {path: text if path.endswith("vars") else f"locals {{\n  {text}}}\n", "main.tf": ""}
    live = f"version: 1\nstacks: [{{ name: a, module: {'examples' if 'examples' in path else '.'} }}]\n"
    assert levels("HF207", files, live) == [ERROR]
    assert levels("HF207", files, "") == [NOTE]


@pytest.mark.parametrize("note", ["openapi: 3.0.0", 'x = "sops"'])
def test_code_is_no_api_description_or_encrypted_file(note: str) -> None:
    """Whatever a heredoc or a comment in it says."""
    text = f"/*\n{note}\n*/\nlocals {{\n  a = <<E\n  password=q7Zk2mXw9TpL4rVb8sNd\nE\n"
    token = f'  b = "{"ghp_"}16C7e42F292c6912E7710c838347Ae178B4a"\n}}\n'
    assert levels("HF208", {"main.tf": text + token}) == [ERROR]
    assert levels("HF207", {"main.tf": text + token}) == [ERROR]


def test_tokens_in_an_api_description_are_examples() -> None:
    """However they are laid out."""
    token = "Authorization: Bearer q7Zk2mXw9TpL4rVb8sNd"
    assert levels("HF207", {"api.yaml": f"openapi: 3.0.0\nexample: >-\n  {token}\n"}, "") == [NOTE]
    assert levels("HF207", {"api.yaml": f"a: >-\n  {token}\n"}, "") == [ERROR]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("curl -H 'Authorization: Token token=${TOKEN}'", []),
        ("curl -H 'Authorization: Token q7Zk2mXw9TpL4rVb8sNd'", [ERROR]),
        (f"curl -H 'Authorization: Basic {base64.b64encode(b'app:super-secret').decode()}'", [NOTE]),
        (f"curl -H 'Authorization: Basic {base64.b64encode(b'app:winter-sports-7').decode()}'", [ERROR]),
        ("# ftp://user[:password]@host/folder", []),
        ("# mongodb://user:auth_key@10.10.3.30:27017", []),
        ("# postgres://ADMIN_USER:ADMIN_PASSWORD@db.acme.io/app", []),
        ("psql postgres://app:winter-sports-7@db.acme.io/app", [ERROR]),
        ('debug "pwd=`pwd`"', []),
        ("# See the Authorization: Bearer header above.", []),
        ("example: 'Authorization: Bearer q7Zk2mXw9TpL4rVb8sNd'", []),
        ("aws_access_key_id: " + "AKIA" + "Z7QK2M4XWPL6RTVB", [NOTE]),
        ("value: " + "AKIA" + "Z7QK2M4XWPL6RTVB", [NOTE]),
        ("psql postgres://app:winter-sports-7@db/app", [WARNING]),
        ("psql postgres://app:q7Zk2mXw9TpL4rVb8sNd@db/app", [ERROR]),
        ("psql postgres://postgres:postgres@db/app", [NOTE]),
    ],
)
def test_samples_and_variables_are_no_secrets(line: str, expected: list[Severity]) -> None:
    """What a script fills in, what a comment shows, and the public half of a credential."""
    assert levels("HF207", {"run.sh": line + "\n"}, "") == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (
            'resource "aws_secretsmanager_secret_version" "a" {\n  secret_string = "replace me"\n}\n',
            [],
        ),
        (
            'resource "aws_secretsmanager_secret_version" "a" {\n  secret_string = "summer-holiday"\n}\n',
            [WARNING],
        ),
        ('resource "aws_secretsmanager_secret_version" "username" {\n  secret_string = "root"\n}\n', []),
        ('resource "azurerm_key_vault_secret" "a" {\n  name = "POSTGRES-SCHEMA"\n  value = "app"\n}\n', []),
        ('resource "azurerm_key_vault_secret" "a" {\n  name = "db-login"\n  value = "app"\n}\n', []),
        ('resource "azurerm_key_vault_secret" "db_username_ro" {\n  value = "app_reader"\n}\n', []),
        ('resource "azurerm_key_vault_secret" "username_password" {\n  value = "winter7"\n}\n', [WARNING]),
        ('resource "aws_ssm_parameter" "a" {\n  type = "SecureString"\n  value = "unset"\n}\n', []),
        ('resource "aws_secretsmanager_secret_version" "a" {}\n', []),
        ('resource "aws_secretsmanager_secret_version" "a" {\n  secret_string = var.a\n}\n', []),
        ('resource "aws_db_instance" "a" {\n  password = "changeme"\n}\n', [WARNING]),
        ('resource "aws_db_instance" "a" {\n  password = "winter-sports"\n}\n', [WARNING]),
        ('resource "aws_db_instance" "a" {\n  password = "winter2sports"\n}\n', [ERROR]),
    ],
)
def test_a_placeholder_in_a_secret_store_is_no_secret(code: str, expected: list[Severity]) -> None:
    """As the password of a database it is one."""
    assert levels("HF209", {"main.tf": code}) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("PGPASSWORD=winter-sports psql", [WARNING]),
        ("PGPASSWORD=postgres psql", [NOTE]),
        ("# PGPASSWORD=winter-sports psql", []),
    ],
)
def test_a_default_password_is_a_note(line: str, expected: list[Severity]) -> None:
    """HF209: everybody knows it, and it belongs to a local container. Nobody runs a comment."""
    assert levels("HF209", {"run.sh": line + "\n"}, "") == expected
    known = 'resource "aws_db_instance" "a" {\n  password = "postgres"\n}\n'
    assert levels("HF209", {"main.tf": known}) == [WARNING]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("secret_rotator_image", "acme.io/prod/secret-rotator:v20260819060021xk", []),
        ("secret_rotator", "acme.io/prod/secret-rotator:v20260819060021xk", [WARNING]),
        ("rum_client_token", "pub" + "50834fcc1999d53e" * 2, []),
        ("rum_client_token", "50834fcc1999d53e" * 2, [ERROR]),
    ],
)
def test_images_and_public_tokens_are_no_secrets(name: str, value: str, expected: list[Severity]) -> None:
    """HF208: a token for browsers begins with `pub`."""
    assert levels("HF208", {"main.tf": f'locals {{\n  {name} = "{value}"\n}}\n'}) == expected


@pytest.mark.parametrize(
    ("name", "use", "expected"),
    [
        ("db_password", 'output "a" {\n  value = var.db_password\n}\n', [WARNING]),
        ("db_password", 'resource "x_y" "a" {\n  b {\n    c = "${var.db_password}"\n  }\n}\n', [WARNING]),
        ("db_password", 'provider "x" {\n  password = var.db_password\n}\n', [NOTE]),
        ("secret_name_of_token", 'output "a" {\n  value = var.secret_name_of_token\n}\n', []),
        ("public_api_key", 'output "a" {\n  value = var.public_api_key\n}\n', []),
    ],
)
def test_a_variable_that_no_plan_shows_is_a_note(name: str, use: str, expected: list[Severity]) -> None:
    """HF211: providers get it, and names of secrets are public."""
    code = f'provider "aws" {{}}\nvariable "{name}" {{\n  type = string\n}}\n{use}'
    assert levels("HF211", {"main.tf": code}) == expected


def test_a_template_of_an_environment_file_is_no_leak() -> None:
    """HF206: another program fills it in."""
    assert levels("HF206", {"roles/api.env": "DB_PASSWORD={{ db_password }}\n"}, "") == []


def test_the_comment_of_a_public_key_is_no_secret() -> None:
    """However random it looks."""
    key = "ssh-rsa AAAA" + "B3NzaC1yc2EAAAADAQAB" * 6 + " root@581cd475-e455-4ce0-b137-a4772722a5cc"
    assert levels("HF208", {"a.json": json.dumps({"items": [{"key": "ssh-keys", "value": key}]})}, "") == []


UUID = "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"
BODY = "q7Zk2mXw9TpL4rVb8sNdAw5" * 3
PEM = "-----BEGIN {0}-----\\n" + BODY + "\\n-----END {0}-----\\n"


def in_base64(pem: str) -> str:
    return base64.b64encode(pem.replace("\\n", "\n").encode()).decode()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("signing_key", PEM.format("PUBLIC KEY"), []),
        ("signing_key", PEM.format("RSA PUBLIC KEY"), []),
        ("signing_key", PEM.format("CERTIFICATE"), []),
        ("signing_key", in_base64(PEM.format("CERTIFICATE")), []),
        ("signing_key", in_base64(PEM.format("CERTIFICATE") + PEM.format("ENCRYPTED PRIVATE KEY")), [ERROR]),
        ("signing_key", "ssh-ed25519 AAAA" + BODY, []),
        ("signing_key", BODY, [ERROR]),
        ("app_public_encryption_key", BODY, []),
        ("token_signing_public_key", BODY, []),
        ("public_site_private_key", BODY, [ERROR]),
        ("public_bucket_access_key", BODY, [ERROR]),
        ("public_key_password", BODY, [ERROR]),
        ("app_secrets_version_dev", UUID, []),
        ("SECRETS_OFFICER_GUID", UUID, []),
        ("app_secrets_version_dev", BODY, [ERROR]),
        ("version_2_secret", UUID, [WARNING]),
        ("api_key", UUID, [WARNING]),
        ("app_token", UUID, [WARNING]),
    ],
)
def test_public_keys_and_identifiers_are_no_secrets(name: str, value: str, expected: list[Severity]) -> None:
    """HF208: in code and in scripts. A private key has its own rule."""
    assert levels("HF208", {"main.tf": f'locals {{\n  {name} = "{value}"\n}}\n'}) == expected
    outside = [WARNING for _ in expected]
    assert levels("HF208", {"run.sh": f'export {name}="{value}"\n'}, "") == outside


def test_a_public_key_needs_no_mark_and_may_be_in_the_code() -> None:
    """HF209 and HF211, next to a private key."""
    code = 'variable "%s_encryption_key" {\n  type = string\n}\n'
    assert levels("HF211", {"main.tf": code % "app_public" + code % "app_private"}) == [NOTE]
    stored = 'resource "azurerm_key_vault_secret" "a" {\n  name = "%s"\n  value = "%s"\n}\n'
    assert levels("HF209", {"main.tf": stored % ("a", PEM.format("PUBLIC KEY"))}) == []
    assert levels("HF209", {"main.tf": stored % ("jwt_public_key", BODY)}) == []
    assert levels("HF209", {"main.tf": stored % ("jwt_key", BODY)}) == [ERROR]


@pytest.mark.parametrize(
    ("host", "credential", "expected"),
    [
        ("b.s3.amazonaws.com", "ASIAZ7QK2M4XWPL6", [WARNING]),
        ("localhost:4010", "ASIAZ7QK2M4XWPL6", []),
        ("127.0.0.1", "ASIAZ7QK2M4XWPL6", []),
        ("files.example.com", "ASIAZ7QK2M4XWPL6", []),
        ("b.s3.amazonaws.com", "AAAAAAAAAAAAA", []),
        ("example.com.acme.io", "ASIAZ7QK2M4XWPL6", [WARNING]),
    ],
)
def test_a_presigned_address_is_one_secret(host: str, credential: str, expected: list[Severity]) -> None:
    """HF207: token and signature belong together and expire; an example signs nothing."""
    token = "IQoJb3JpZ2lu" + "q7Zk2mXw9TpL4rVb8sNd" * 3
    query = f"X-Amz-Credential={credential}%2F20230110%2Feu-west-1&X-Amz-Security-Token={token}"
    address = f"https://{host}/a.jpg?{query}&X-Amz-Signature={'3f9a1c77d20b4e88' * 4}"
    assert (
        levels("HF207", {"a.json": f'{{\n"see": "http://localhost/",\n"path": "{address}"\n}}\n'}, "")
        == expected
    )


def test_a_secret_on_several_lines_is_one_finding() -> None:
    """HF207: it is rotated once; another secret is another finding."""
    lines = [f"token: {'ghp_'}{body}" for body in ("16C7e42F292c6912E7710c838347Ae178B4a",) * 3]
    lines.append(f"token: {'ghp_'}26C7e42F292c6912E7710c838347Ae178B4b")
    report = check(the("HF207"), {"a.yaml": "\n".join(lines)}, config="")
    first, second = messages(redact_report(report, str), the("HF207"))
    assert first.endswith("); also line 2, line 3")
    assert second.endswith(")")


# Write-only arguments.

SECRET = 'resource "aws_db_instance" "a" {\n  password = var.p\n}\n'


@pytest.mark.parametrize(
    ("pins", "expected"),
    [
        ("", [NOTE]),
        ('required_version = ">= 1.3"', [NOTE]),
        ('required_version = "~> 1.10.0"', []),
        ('required_version = "< 1.11"', []),
        ('required_version = "1.12.3"', [NOTE]),
        ("required_version = local.v", [NOTE]),
        ('required_providers {\n    aws = { source = "hashicorp/aws", version = "~> 5.0" }\n  }', []),
        ('required_providers {\n    aws = { source = "hashicorp/aws", version = "~> 6.1" }\n  }', [NOTE]),
        ('required_providers {\n    aws = { source = "hashicorp/aws", version = local.v }\n  }', [NOTE]),
    ],
)
def test_write_only_arguments_need_versions_that_know_them(pins: str, expected: list[Severity]) -> None:
    """Of the engine and of the provider; what is not known may be any version."""
    assert levels("HF212", {"main.tf": f"terraform {{\n  {pins}\n}}\n{SECRET}"}) == expected


@pytest.mark.parametrize(("locked", "expected"), [("5.99.0", []), ("6.2.0", [NOTE])])
def test_a_lock_file_says_which_version_it_is(locked: str, expected: list[Severity]) -> None:
    """It wins over the constraint."""
    lock = f'provider "registry.terraform.io/hashicorp/aws" {{\n  version = "{locked}"\n}}\n'
    assert levels("HF212", {"main.tf": SECRET, ".terraform.lock.hcl": lock}) == expected


def test_a_locked_version_that_does_not_fit_is_one_finding() -> None:
    """However many modules ask for another one."""
    aws = 'aws = { source = "hashicorp/aws", version = "~> 6.0" }'
    pin = f"terraform {{\n  required_providers {{\n    {aws}\n  }}\n}}\n"
    lock = 'provider "registry.terraform.io/hashicorp/aws" {\n  version = "5.0.0"\n}\n'
    files = {
        "main.tf": pin + 'module "a" {\n  source = "./a"\n}\n',
        "a/main.tf": pin,
        ".terraform.lock.hcl": lock,
    }
    assert levels("HF307", files) == [WARNING]


# Policies.


def policy(type_: str, *statements: dict[str, object]) -> dict[str, str]:
    document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    return {"main.tf": f'resource "{type_}" "a" {{\n  policy = {json.dumps(document)}\n}}\n'}


def public(action: str, **more: object) -> dict[str, object]:
    return {"Effect": "Allow", "Principal": "*", "Action": action, "Resource": "*", **more}


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (public("s3:PutObject"), [ERROR]),
        (public("s3:*"), [ERROR]),
        (public("s3:GetObject"), [WARNING]),
        (public("s3:GetObject", Sid="PublicRead"), [NOTE]),
        (public("s3:PutObject", Sid="PublicWrite"), [ERROR]),
        (public("es:*"), [NOTE]),
        (public("execute-api:Invoke"), [NOTE]),
        (public("%s"), [ERROR]),
    ],
)
def test_reading_is_less_than_writing(statement: dict[str, object], expected: list[Severity]) -> None:
    """HF508: a name only counts where everyone may read."""
    assert levels("HF508", policy("aws_s3_bucket_policy", statement)) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [("$${topic_arn}", []), ("$${aws:username}", [ERROR]), ("*", [ERROR])]
)
def test_a_variable_of_a_template_restricts(value: str, expected: list[Severity]) -> None:
    """HF508: `${topic_arn}` is filled in before AWS sees it, `${aws:username}` is not."""
    condition = {"ArnEquals": {"aws:SourceArn": value}}
    assert levels("HF508", policy("aws_sqs_queue_policy", public("sqs:*", Condition=condition))) == expected


@pytest.mark.parametrize(
    ("actions", "expected"),
    [("var.a", [WARNING]), ('["s3:GetObject", var.a]', [WARNING]), ('["s3:PutObject", var.a]', [ERROR])],
)
def test_actions_that_the_code_does_not_show_are_a_warning(actions: str, expected: list[Severity]) -> None:
    """HF508: unless it shows one that does more than read."""
    statement = f'Effect = "Allow"\nPrincipal = "*"\nResource = "*"\nAction = {actions}'
    document = f'jsonencode({{ Version = "2012-10-17", Statement = [{{\n{statement}\n}}] }})'
    code = f'variable "a" {{}}\nresource "aws_s3_bucket_policy" "a" {{\n  policy = {document}\n}}\n'
    code += 'provider "aws" {}\n'
    assert levels("HF508", {"main.tf": code}) == expected


def test_a_folder_says_that_reading_is_intended() -> None:
    """HF508: `modules/cdn`."""
    code = policy("aws_s3_bucket_policy", public("s3:GetObject"))["main.tf"]
    assert levels("HF508", {"modules/cdn/main.tf": code}, "") == [NOTE]


def test_broad_subjects_of_a_condition_are_one_finding() -> None:
    """HF511: the first is named, the others are counted."""
    host = "token.actions.githubusercontent.com"
    subjects = [f"repo:acme/{name}:*" for name in ("a", "b", "c")]
    statement: dict[str, object] = {
        "Effect": "Allow",
        "Principal": {"Federated": f"arn:aws:iam::111122223333:oidc-provider/{host}"},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {
            "StringEquals": {f"{host}:aud": "sts.amazonaws.com"},
            "StringLike": {f"{host}:sub": subjects},
        },
    }
    code = policy("aws_iam_role", statement)["main.tf"].replace("policy =", "assume_role_policy =")
    found = of(check(the("HF511"), {"main.tf": code}), the("HF511"))
    assert [one.severity for one in found] == [WARNING]
    assert found[0].message.endswith("(and 2 subjects like it)")


@pytest.mark.parametrize(("type_", "expected"), [("aws_kms_key", NOTE), ("aws_iam_policy", WARNING)])
def test_a_key_policy_may_repeat_a_sid(type_: str, expected: Severity) -> None:
    """HF501: KMS accepts it, IAM does not."""
    root = {"AWS": "arn:aws:iam::111122223333:root"} if type_ == "aws_kms_key" else None
    one: dict[str, object] = {"Sid": "a", "Effect": "Allow", "Action": "kms:*", "Resource": "*"}
    statement = {**one, "Principal": root} if root else one
    assert levels("HF501", policy(type_, statement, statement)) == [expected]


def test_a_service_of_a_template_is_not_a_mistake() -> None:
    """HF501: `${region}` is filled in before AWS sees it."""
    service = {"Service": "logs.$${region}.amazonaws.com"}
    statement: dict[str, object] = {
        "Effect": "Allow",
        "Action": "kms:*",
        "Resource": "*",
        "Principal": service,
    }
    assert levels("HF501", policy("aws_kms_key", statement)) == []


def test_a_table_for_locks_holds_no_data() -> None:
    """HF708: locks are there again with the next run."""
    table = 'resource "aws_dynamodb_table" "a" {\n  hash_key = "%s"\n}\n'
    assert levels("HF708", {"main.tf": table % "LockID"}) == []
    assert levels("HF708", {"main.tf": table % "OrderID"}) == [WARNING]


def test_dangerous_actions_of_a_statement_are_one_finding() -> None:
    """HF505: the worst of each kind is named, the others are counted."""
    actions = ["iam:PassRole", "iam:PutRolePolicy", "kms:Decrypt"]
    files = policy("aws_iam_policy", {"Effect": "Allow", "Action": actions, "Resource": "*"})
    found = of(check(the("HF505"), files), the("HF505"))
    assert [one.severity for one in found] == [WARNING, NOTE]
    assert "so is 1 other dangerous action" in found[0].message


@pytest.mark.parametrize(
    ("effect", "resource", "expected"),
    [
        ("Allow", "%TOPIC_ARN%", []),
        ("Allow", "_S3_BUCKET_ARN_/*", []),
        ("Allow", "topic", [WARNING]),
        ("allow", "*", [NOTE]),
        ("Alow", "*", [WARNING]),
    ],
)
def test_a_template_of_a_policy_is_not_a_mistake(
    effect: str, resource: str, expected: list[Severity]
) -> None:
    """HF501: code replaces `%TOPIC_ARN%`. Another case is accepted more often than documented."""
    statement: dict[str, object] = {"Effect": effect, "Action": "sqs:SendMessage", "Resource": resource}
    assert levels("HF501", policy("aws_iam_policy", statement)) == expected


@pytest.mark.parametrize(
    ("name", "expected"), [("app", WARNING), ("ci_deploy", NOTE), ("tf", NOTE), ("tfx", WARNING)]
)
def test_who_administers_needs_broad_rights(name: str, expected: Severity) -> None:
    """HF504 and HF505: their names say so."""
    for id_, action in (("HF504", "*"), ("HF505", "iam:PassRole")):
        files = policy("aws_iam_policy", {"Effect": "Allow", "Action": action, "Resource": "*"})
        code = files["main.tf"].replace('"a" {', f'"{name}" {{')
        assert levels(id_, {"main.tf": code}) == [expected]


def test_tags_of_a_session_let_nobody_in() -> None:
    """HF512: only assuming the role does."""
    federated = {"Federated": "arn:aws:iam::111122223333:oidc-provider/id.acme.io"}
    statement: dict[str, object] = {"Effect": "Allow", "Principal": federated, "Action": "sts:TagSession"}
    code = policy("aws_iam_role", statement)["main.tf"].replace("policy =", "assume_role_policy =")
    assert levels("HF512", {"main.tf": code}) == []
    assert levels("HF512", {"main.tf": code.replace("sts:TagSession", "sts:AssumeRoleWithWebIdentity")}) == [
        ERROR
    ]


def test_an_action_that_is_listed_twice_counts_once() -> None:
    """HF502: the provider writes a set, and its size is what AWS counts."""
    actions = ", ".join(['"athena:GetTableMetadata"'] * 400)
    statement = f'statement {{\n    actions = [{actions}]\n    resources = ["*"]\n  }}'
    code = f'data "aws_iam_policy_document" "a" {{\n  {statement}\n}}\n'
    use = 'resource "aws_iam_policy" "a" {\n  policy = data.aws_iam_policy_document.a.json\n}\n'
    assert levels("HF502", {"main.tf": code + use}) == []


# Missing code, and what is counted.


@pytest.mark.parametrize(
    ("source", "config", "expected"),
    [
        ("./lost", None, [WARNING]),
        ("./vendor/a", None, [NOTE]),
        ("./.tools/a", None, [NOTE]),
        ("./lost", "", [NOTE]),
    ],
)
def test_modules_that_are_fetched_first_are_notes(
    source: str, config: str | None, expected: list[Severity]
) -> None:
    """Another program fills `vendor` before Terraform runs."""
    assert levels("HF904", {"main.tf": f'module "a" {{\n  source = "{source}"\n}}\n'}, config) == expected


def test_what_nobody_asked_for_is_not_counted() -> None:
    """`check` has no plan: the report says so, its last line does not."""
    code = 'resource "aws_db_instance" "a" {\n  deletion_protection = %s\n}\n'
    report = check(the("HF708"), {"main.tf": code % "true"})
    assert report.skipped
    assert partly_evaluated_text(report) == ""
    report = check(the("HF708"), {"main.tf": code % "data.a.b.c"})
    assert partly_evaluated_text(report) == "1 rule was only partly evaluated"


def test_a_submodule_that_is_not_checked_out_is_one_finding() -> None:
    """However many modules are called from it; a folder that is called twice is one, too."""
    call = 'module "%s" {\n  source = "./%s"\n}\n'
    modules = '[submodule "a"]\n\tpath = shared\n\turl = https://git.example.com/a\n'
    code = (
        call % ("a", "shared/vpc") + call % ("b", "shared/dns") + call % ("c", "lost") + call % ("d", "lost")
    )
    found = of(check(the("HF904"), {"main.tf": code, ".gitmodules": modules}), the("HF904"))
    assert [(one.file, one.line, one.severity) for one in found] == [
        (".gitmodules", 2, WARNING),
        ("main.tf", 8, WARNING),
    ]


def test_a_value_that_other_modules_declare_is_shared_on_purpose() -> None:
    """One that none declares is a mistake, or left over."""
    files = {
        "a/main.tf": 'variable "zone" {}\n',
        "b/main.tf": "",
        "b/terraform.tfvars": 'zone = ""\nzne = ""\n',
    }
    found = of(check(the("HF703"), files, config=TWO), the("HF703"))
    assert [(one.address, one.severity) for one in found] == [("var.zone", NOTE), ("var.zne", WARNING)]


def test_a_repository_without_lock_files_has_one_finding() -> None:
    """It is one decision; with one lock file, each other root module counts."""
    code = 'resource "random_id" "a" {}\n'
    files = {"a/main.tf": code, "b/main.tf": code}
    assert [one.stacks for one in of(check(the("HF306"), files, config=TWO), the("HF306"))] == [("a", "b")]
    locked = {**files, "a/.terraform.lock.hcl": ""}
    assert [one.file for one in of(check(the("HF306"), locked, config=TWO), the("HF306"))] == ["b/main.tf"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("**/modules/**/.terraform.lock.hcl", "main.tf"),
        ("b/.terraform.lock.hcl", "main.tf"),
        ("/live/a/.terraform.lock.hcl", ".gitignore"),
        ("**/.terraform.lock.hcl", ".gitignore"),
        (".terraform.lock.hcl", ".gitignore"),
    ],
)
def test_lock_files_of_modules_may_be_ignored(line: str, expected: str) -> None:
    """HF306: the line that keeps this lock file out of Git is named, no other."""
    config = "version: 1\nstacks: [{ name: a, module: live/a }]\n"
    files = {"live/a/main.tf": 'resource "aws_vpc" "a" {}\n', ".gitignore": line + "\n"}
    (found,) = of(check(the("HF306"), files, config=config), the("HF306"))
    assert str(found.file).endswith(expected)


def test_a_folder_behind_the_version_of_a_module() -> None:
    """HF304: older versions of Terraform accept it there."""
    call = 'module "m" {\n  source = "github.com/acme/modules?ref=%s//vpc"\n}\n'
    assert levels("HF304", {"main.tf": call % "v0.0.1"}) == []
    assert levels("HF304", {"main.tf": call % "main"}) == [WARNING]


# Versions that the code is pinned to.

PASSWORD = (
    'variable "db_password" {}\noutput "a" {\n  value = var.db_password\n}\nresource "aws_vpc" "a" {}\n'
)
OLD = 'resource "aws_cloudwatch_metric_alarm" "a" {\n  dimensions {\n    "X" = "y"\n  }\n}\n'
STACK = "version: 1\nstacks: [{ name: a, module: ., variables: { db_password: x } }]\n"


def required(constraint: str) -> str:
    return f'terraform {{\n  required_version = "{constraint}"\n}}\n'


@pytest.mark.parametrize(
    ("pins", "config", "known"),
    [
        ({}, STACK, True),
        ({"v.tf": required("~> 0.13.3")}, STACK, False),
        ({"v.tf": required(">= 0.10, < 0.14")}, STACK, False),
        ({"v.tf": required("~> 0.12")}, STACK, True),
        ({".terraform-version": "0.13.3\n"}, STACK, False),
        ({".terraform-version": "latest\n"}, STACK, True),
        ({".terraform-version": "0.13.3\n"}, STACK + "engine: { version: 1.9.0 }\n", False),
        ({".terraform-version": "0.13.3\n"}, STACK.replace("a,", "a, engine: { version: 1.9.0 },"), True),
        ({}, STACK + "engine: { version: 0.13.3 }\n", False),
        ({"old.tf": OLD}, STACK, False),
        ({"m/old.tf": OLD, "m.tf": 'module "m" {\n  source = "./m"\n}\n'}, STACK, False),
    ],
)
def test_versions_before_014_know_neither_sensitive_nor_lock_files(
    pins: dict[str, str], config: str, *, known: bool
) -> None:
    """HF211, HF306: all that is pinned counts, and syntax that only Terraform 0.11 reads."""
    files = {"main.tf": PASSWORD, **pins}
    for id_ in ("HF211", "HF306"):
        assert levels(id_, files, config) == [WARNING] * known


def test_a_lock_file_beside_the_terragrunt_unit_counts() -> None:
    """HF306: Terragrunt copies it to the code; every stack of the module needs one."""
    entries = "version: 1\nstacks: [{ name: live/a, module: m }, { name: b, module: m }]\n"
    units = {f"{unit}/terragrunt.hcl": "" for unit in ("live/a", "live/b")}
    files = {"m/main.tf": 'resource "aws_vpc" "a" {}\n', **units, "live/a/.terraform.lock.hcl": ""}
    assert levels("HF306", files, entries) == [WARNING]
    assert levels("HF306", {**files, "live/b/.terraform.lock.hcl": ""}, entries) == []


@pytest.mark.parametrize(
    ("constraint", "argument"),
    [("~> 0.13.3", "dynamodb_table"), ("~> 1.9.0", "dynamodb_table"), (">= 1.9", "use_lockfile")],
)
def test_the_lock_that_the_pinned_version_knows_is_named(constraint: str, argument: str) -> None:
    """HF114; HF115 does not object to DynamoDB before there is anything else."""
    backend = 'terraform {\n  backend "s3" {\n    bucket = "b"\n    key = "k"\n    region = "r"\n  }\n}\n'
    (found,) = of(check(the("HF114"), {"main.tf": backend + required(constraint)}), the("HF114"))
    assert f"without `{argument}" in found.message
    assert str(found.hint).startswith(f"Set `{argument}")
    table = backend.replace("region", 'dynamodb_table = "t"\n    region') + required(constraint)
    assert levels("HF115", {"main.tf": table}) == [NOTE] * (argument == "use_lockfile")


@pytest.mark.parametrize(("value", "severity"), [("true", NOTE), ("var.a", WARNING)])
def test_a_bucket_that_may_be_deleted_with_its_contents(value: str, severity: Severity) -> None:
    """HF708: its owner wrote down that it may be deleted."""
    config = "version: 1\nenvironments: { prod: { match: [a], production: true } }\n"
    config += "stacks: [{ name: a, module: ., environment: prod }]\n"
    code = 'variable "a" {\n  default = true\n}\n'
    code += f'resource "aws_s3_bucket" "a" {{\n  bucket = "b"\n  force_destroy = {value}\n}}\n'
    assert levels("HF708", {"main.tf": code}, config) == [severity]


def test_old_syntax_is_a_warning() -> None:
    """HF904: Terraform has not read it for years."""
    (found,) = of(check(the("HF904"), {"main.tf": OLD}), the("HF904"))
    message = "invalid HCL: argument names must not be quoted (this is the syntax of Terraform 0.11)"
    assert (found.line, found.severity, found.message) == (3, WARNING, message)
    assert "terraform 0.12upgrade" in str(found.hint)
