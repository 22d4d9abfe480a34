"""Code as good modules have it: no rule cries wolf, and what is wrong beside it is still found."""

from __future__ import annotations

import json

import pytest
from checkouts import check, lines, messages, of

from holdfast.checks.code.bodies import holds, lines_with
from holdfast.checks.engine import catalogue
from holdfast.checks.model.interface import Rule, Severity
from holdfast.checks.secrets.known_secrets import names_secret
from holdfast.hcl.reader import read
from holdfast.kernel.patterns import pattern

RANDOM = "q7Rz2Lw9Xk4Tn8Vb3Md6"
GITHUB = "token.actions.githubusercontent.com"


def rule(id_: str) -> Rule:
    found = catalogue.rule(id_)
    assert found is not None
    return found


def found(id_: str, files: dict[str, str] | str) -> list[str]:
    return messages(check(rule(id_), files if isinstance(files, dict) else {"main.tf": files}), rule(id_))


# HF210: a table of providers that has `*` first.


@pytest.mark.parametrize(
    "value",
    ["azurerm_application_gateway.a.id", "google_compute_disk.a.self_link", "google_compute_disk.a[*].id",
     "[for one in google_compute_disk.a : one.name]", "azurerm_app_configuration.a.endpoint",
     "data.azurerm_app_configuration.a.id"],
)  # fmt: skip
def test_an_attribute_beside_blocks_with_secrets_is_no_secret(value: str) -> None:
    """Its id and its address are what every module puts out."""
    assert found("HF210", f'output "o" {{\n  value = {value}\n}}\n') == []


@pytest.mark.parametrize(
    "value",
    ["azurerm_application_gateway.a", "azurerm_application_gateway.a.ssl_certificate",
     "google_compute_disk.a.disk_encryption_key[0].raw_key", "azurerm_app_configuration.a.primary_read_key",
     "[for one in google_compute_disk.a : one]",
     "azurerm_app_configuration.a.primary_write_key[0].connection_string"],
)  # fmt: skip
def test_the_blocks_and_the_whole_carry_their_secrets(value: str) -> None:
    """The whole holds the part."""
    (message,) = found("HF210", f'output "o" {{\n  value = {value}\n}}\n')
    assert "is not marked `sensitive`" in message


# HF208, HF209, HF211: names that are only about a secret, texts that only fetch or name one.


@pytest.mark.parametrize(
    "name",
    ["http_tokens", "instance_metadata_http_tokens", "access_token_validity", "token_validity_units",
     "auth_token_update_strategy", "session_token_duration", "external_secrets_kms_key_arns",
     "api_key_required", "private_key_fingerprint", "creation_token", "image_pull_secret",
     "auth.existingSecret", "disk_encryption_key_sha256", "secret_rotation_interval",
     "password_reuse_prevention", "iam_password_policy_param_require_lowercase_characters",
     "expired_token", "EMPTY_HEADER_TOKEN", "fake_jwt_secret", "weak_password"],
)  # fmt: skip
def test_a_name_that_is_only_about_a_secret_sounds_like_none(name: str) -> None:
    """Arguments of well-known resources, and variables that are called after them."""
    assert not names_secret(name)
    assert found("HF211", f'variable "{name.replace(".", "_")}" {{\n  type = string\n}}\n') == []


@pytest.mark.parametrize(
    "name", ["github_tokens", "pull_secret", "grant_token", "password_sha256", "refresh_token", "age_secret"]
)
def test_a_name_that_only_looks_like_these_sounds_secret(name: str) -> None:
    """A word more or less makes it one."""
    assert names_secret(name)


@pytest.mark.parametrize(
    "code",
    ['locals {\n  c = "$password = ConvertTo-SecureString ${var.p} -AsPlainText -Force"\n}\n',
     "locals {\n  c = <<-EOT\n    $password=Get-AzKeyVaultSecret -Name a\n  EOT\n}\n",
     'resource "a_vm" "a" {\n  additional_unattend_config {\n    pass = "oobeSystem"\n  }\n}\n'],
)  # fmt: skip
@pytest.mark.parametrize("id_", ["HF208", "HF209"])
def test_what_fetches_a_secret_or_only_shares_its_name_is_none(id_: str, code: str) -> None:
    """Commands of PowerShell, and a pass of the setup of Windows."""
    assert found(id_, code) == []


@pytest.mark.parametrize("store", ["PARAMETER_STORE", "SECRETS_MANAGER"])
@pytest.mark.parametrize(
    "code",
    ['resource "a_b" "a" {{\n  e {{\n  name = "TOKEN"\n    value = "{value}"\n    type = "{type}"\n  }}\n}}',
     'module "a" {{\n  variables = [{{ name = "TOKEN", value = "{value}", type = "{type}" }}]\n}}'],
)  # fmt: skip
def test_an_entry_of_an_environment_may_only_name_a_secret(code: str, store: str) -> None:
    """CodeBuild reads it from the store; any other type is a value."""
    assert found("HF208", code.format(value=RANDOM, type=store)) == []
    assert len(found("HF208", code.format(value=RANDOM, type="PLAINTEXT"))) == 1


# HF128


def test_an_override_file_takes_the_place_of_the_backend_in_every_folder() -> None:
    """Terraform reads `override.tf` last, wherever the module lies."""
    backend = 'terraform {\n  backend "gcs" {}\n}\n'
    files = {
        "main.tf": "locals {}\n",
        "live/a/main.tf": 'terraform {\n  backend "s3" {}\n}\n',
        "live/a/override.tf": backend,
    }
    assert found("HF128", files) == []
    report = check(rule("HF128"), {**files, "live/a/override.tf": backend * 2})
    assert lines(report, rule("HF128")) == [("live/a/override.tf", 5)]


# HF501 to HF511


def policy(**more: object) -> str:
    statement = {"Effect": "Allow", "Action": "oss:*", "Principal": ["1746495857602745"], **more}
    return json.dumps({"Version": "1", "Statement": [{"Resource": "acs:oss:*:*:a/*", **statement}]})


@pytest.mark.parametrize("id_", ["HF501", "HF503", "HF508"])
@pytest.mark.parametrize(
    "type_", ["alicloud_oss_bucket", "tencentcloud_cam_policy", "scaleway_object_bucket_policy"]
)
def test_policies_of_other_clouds_are_ignored(id_: str, type_: str) -> None:
    """They only look alike."""
    document = policy(Principal="*") if id_ == "HF508" else policy()
    code = f'resource "{type_}" "a" {{\n  policy = <<EOT\n{document}\nEOT\n}}\n'
    assert found(id_, code) == []
    assert found(id_, {"main.tf": "locals {}\n", "policy.json": document}) == []


def test_a_resource_that_no_table_lists_is_still_checked() -> None:
    """Whatever holds a policy of AWS is held against its grammar."""
    document = policy(Resource="a")
    said = found("HF501", f'resource "other_thing" "a" {{\n  policy = <<EOT\n{document}\nEOT\n}}\n')
    assert any("`Version` is `1`" in one for one in said)


@pytest.mark.parametrize(
    ("part", "count"), [('{"Id": "base"}', 0), ('{"Statement": [{"Effect": "Maybe"}]}', 3), ("[]", 1)]
)
def test_a_part_of_a_document_needs_no_statements(part: str, count: int) -> None:
    """`source_policy_documents` may bring an id alone; what it does bring is looked at."""
    code = (
        'data "aws_iam_policy_document" "a" {\n'
        f"  source_policy_documents = [<<EOT\n{part}\nEOT\n  ]\n"
        '  statement {\n    actions   = ["s3:GetObject"]\n    resources = ["arn:aws:s3:::a/*"]\n  }\n}\n'
        'resource "aws_iam_policy" "a" {\n  policy = data.aws_iam_policy_document.a.json\n}\n'
    )
    assert len(found("HF501", code)) == count


@pytest.mark.parametrize(
    ("claim", "severity"), [("aud", Severity.NOTE), ("iss", Severity.NOTE), ("actor", Severity.ERROR)]
)
def test_a_claim_that_every_token_has_is_never_missing(claim: str, severity: Severity) -> None:
    """AWS itself compares audience and issuer with the provider."""
    statement = {
        "Effect": "Allow",
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Principal": {"Federated": f"arn:aws:iam::111122223333:oidc-provider/{GITHUB}"},
        "Condition": {
            "StringEquals": {
                **({} if claim == "aud" else {f"{GITHUB}:aud": "sts.amazonaws.com"}),
                f"{GITHUB}:sub": "repo:acme/infra:environment:prod",
            },
            "ForAllValues:StringEquals": {f"{GITHUB}:{claim}": "sts.amazonaws.com"},
        },
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    code = f'resource "aws_iam_role" "a" {{\n  assume_role_policy = jsonencode({document})\n}}\n'
    report = check(rule("HF511"), {"main.tf": code})
    (one,) = of(report, rule("HF511"))
    assert one.severity is severity
    assert "no such claim" in one.message


# What a quick look passes over.


def test_lines_are_matched_to_blocks_by_their_numbers() -> None:
    """The first and the last line count; in JSON, where blocks have no end, every line may be the block's."""
    text = b'a "b" {\n  c = 1\n}\n\nd {\n  # mark\n}\ne {\n} # mark\n'
    marked = lines_with(pattern(rb"mark"), text)
    assert marked == [6, 9]
    assert [holds(block, marked) for block in read(text, "main.tf").body.blocks] == [False, True, True]
    (block,) = read('{\n"locals": {"a": 1}}', "main.tf.json").body.blocks
    assert holds(block, [])


def test_a_provisioner_and_a_chosen_provider_are_found_in_every_syntax() -> None:
    """Files without the word are passed over, others are not."""
    code = {"resource": {"null_resource": {"a": {"provider": "other.b", "provisioner": {"local-exec": {}}}}}}
    files = {"main.tf.json": json.dumps(code)}
    config = "version: 1\nstacks: [{ name: a, module: ., environment: prod }]\n"
    report = check(rule("HF301"), files, config=config)
    assert len(of(report, rule("HF301"))) == 1
    assert "provider `other`" in messages(check(rule("HF305"), files), rule("HF305"))[0]
