"""Ciphertext, placeholders and decisions in comments count less; the real danger beside them stays an error."""

# ruff: noqa: E501 - rows of cases

from __future__ import annotations

import pytest
from checkouts import check, levels, of, the

from holdfast.checks.model.interface import Severity

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
RANDOM = "q7Rz2Lw9Xk4Tn8Vb3Md6Hp5"
SEALED = """\
apiVersion: bitnami.com/v1alpha1
kind: {kind}
metadata:
  name: dns
spec:
  encryptedData:
    api-token: {random}

    webhook-secret: {random}
  template:
    type: Opaque
"""


def manifest(text: str) -> dict[str, str]:
    return {"main.tf": f'resource "kubectl_manifest" "dns" {{\n  yaml_body = <<-EOF\n{text}EOF\n}}\n'}


def test_a_sealed_secret_is_meant_for_git() -> None:
    sealed = SEALED.format(kind="SealedSecret", random=RANDOM)
    assert levels("HF208", manifest(sealed)) == []
    assert levels("HF208", manifest(SEALED.format(kind="Other", random=RANDOM))) != []
    assert levels("HF208", manifest(f"{sealed}  api_token: {RANDOM}\n")) == [ERROR]
    assert levels("HF208", manifest(f"{sealed}---\nkind: Secret\nstringData:\n  api_token: {RANDOM}\n")) == [
        ERROR
    ]
    both = f"{sealed}---\nkind: Secret\nstringData:\n  api_token: {RANDOM}\n"
    reader = {"main.tf": 'locals { a = file("a.yaml") }\n'}
    assert levels("HF208", {**reader, "a.yaml": sealed}) == []
    assert len(levels("HF208", {**reader, "a.yaml": both})) == 1


def test_what_sops_encrypted_is_no_secret() -> None:
    value = "ENC[AES256_GCM,data:p673w6J0Vd2kQ9x7,iv:YY7Rz2Lw9Xk4Tn8Vb3Md6Hp5=,tag:q7Rz2Lw9Xk4Tn8==,type:str]"
    assert levels("HF208", manifest(f"api_token: {value}\n")) == []
    assert levels("HF208", {"main.tf": f'locals {{ api_token = "{value}" }}\n'}) == []


@pytest.mark.parametrize(
    ("host", "password", "expected"),
    [
        ("states.acme.io", RANDOM, ERROR),
        ("states.acme.io", "Correct-Horse7", ERROR),
        ("states.acme.io", "taken-by-proxy", WARNING),
        ("proxy.attacker.example.com", RANDOM, WARNING),
        ("states.invalid", RANDOM, WARNING),
        ("states.test", RANDOM, WARNING),
        ("example.com.acme.io", RANDOM, ERROR),
    ],
)
def test_a_backend_that_nobody_can_reach(host: str, password: str, expected: Severity) -> None:
    block = f'terraform {{\n  backend "http" {{\n    address = "https://{host}/a"\n    password = "{password}"\n  }}\n}}\n'
    assert levels("HF120", {"main.tf": block}) == [expected]


def test_all_hosts_of_a_backend_must_be_reserved() -> None:
    block = f"""\
    terraform {{
      backend "http" {{
        address      = "https://a.example.com/a"
        lock_address = "https://states.acme.io/a"
        password     = "{RANDOM}"
      }}
    }}
    """
    assert levels("HF120", {"main.tf": block}) == [ERROR]


CHILD = 'variable "key" {\n  sensitive = true\n}\noutput "peers" {\n  value = nonsensitive(var.key)\n}\n'
CALL = 'module "net" {\n  source = "./net"\n  key = "x"\n}\n'


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ('resource "terraform_data" "a" {\n  input = module.net.peers\n}\n', WARNING),
        ('output "other" {\n  value = module.net.id\n}\n', WARNING),
        ('output "peers" {\n  value = module.net.peers\n}\n', ERROR),
        ('output "net" {\n  value = module.net\n}\n', ERROR),
        ("locals {\n  peers = module.net.peers\n}\n", ERROR),
    ],
)
def test_an_output_that_only_its_caller_reads(more: str, expected: Severity) -> None:
    report = check(the("HF210"), {"main.tf": CALL + more, "net/main.tf": CHILD})
    found = [one.severity for one in of(report, the("HF210")) if one.file == "net/main.tf"]
    assert found == [expected]


PLACEHOLDERS = """\
DB_URL=postgresql://tax_user:tax_password@tax-db.cluster-xyz.eu-west-1.rds.amazonaws.com:5432/tax
QUEUE_URL=amqps://app:Kw93vLq2@your-host.acme.io/a
PAYMENT_API_KEY="pk_test_mockgatewaykey7Rz2Lw9Xk4"
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", NOTE),
        (f"APP_SECRET={RANDOM}\n", ERROR),
        ("DB_URL2=postgresql://tax_user:Kw93vLq2@db.eu-west-1.rds.amazonaws.com/tax\n", ERROR),
    ],
)
def test_an_environment_file_to_be_filled_in(more: str, expected: Severity) -> None:
    assert levels("HF206", {".env": PLACEHOLDERS + more}) == [expected]


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ('# dynamodb_table = "locks"', WARNING),
        ("// not going to use locking here", WARNING),
        ("# blocks and keys", ERROR),
        ("", ERROR),
    ],
)
def test_a_comment_about_locks_is_a_decision(comment: str, expected: Severity) -> None:
    block = f'terraform {{\n  backend "s3" {{\n    bucket = "b"\n    {comment}\n    key = "k"\n    region = "eu-west-1"\n  }}\n}}\n# lock\n'
    assert levels("HF114", {"main.tf": block}) == [expected]


def test_the_hint_names_a_setting_that_the_pinned_version_knows() -> None:
    block = 'terraform {\n  required_version = "~> 1.9.0"\n  backend "s3" {\n    bucket = "b"\n    key = "k"\n    region = "eu-west-1"\n  }\n}\n'
    (found,) = of(check(the("HF114"), {"main.tf": block}), the("HF114"))
    assert found.hint is not None
    assert found.hint.startswith("Set `dynamodb_table`")


@pytest.mark.parametrize(
    ("folder", "ignored", "hint"),
    [
        ("live/.terragrunt-cache", "", "Run `git rm -r --cached live/.terragrunt-cache` and add `.terragrunt-cache/` to `.gitignore`."),
        ("live/.terragrunt-cache", "**/.terragrunt-cache/*\n", "It is already ignored, but still tracked: run `git rm -r --cached live/.terragrunt-cache`."),
        ("live/.terraform", "*.log\n.terraform/\n", "It is already ignored, but still tracked: run `git rm -r --cached live/.terraform`."),
        ("live/.terraform", ".terraform.lock.hcl\n", the("HF203").fix),
    ],
)  # fmt: skip
def test_a_working_directory_and_what_ignores_it(folder: str, ignored: str, hint: str) -> None:
    files = {"main.tf": "", f"{folder}/a/b.txt": "x", ".gitignore": ignored}
    (found,) = of(check(the("HF203"), files), the("HF203"))
    assert found.hint == hint


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"main.tf": 'locals {\n  ES_PASS = "shared/logging/es_pass"\n}\n'}, []),
        ({"main.tf": 'locals {\n  ES_PASS = "Shared9/logging!"\n}\n'}, [WARNING]),
        ({"main.tf": "", "crypto.js.tpl": "this.setPassword=function(h){this.p=h}\n"}, []),
    ],
)
def test_a_path_of_a_secret_and_a_function_are_no_passwords(
    files: dict[str, str], expected: list[Severity]
) -> None:
    assert levels("HF209", files) == expected


@pytest.mark.parametrize(
    ("part", "expected"), [("[0].host", Severity.NOTE), ("[0].client_key", ERROR), ("", ERROR)]
)
def test_the_address_of_a_cluster_is_public(part: str, expected: Severity) -> None:
    code = (
        'data "azurerm_kubernetes_cluster" "a" {}\n'
        f'output "a" {{\n  value = nonsensitive(data.azurerm_kubernetes_cluster.a.kube_config{part})\n}}\n'
    )
    assert levels("HF210", {"main.tf": code}) == [expected]


@pytest.mark.parametrize(
    ("endpoint", "transit", "certificate"),
    [
        ("https://s3.acme.example", [], [ERROR]),
        ("http://s3.acme.example", [ERROR], []),
        ("http://100.93.109.17:9000", [WARNING], []),
        ("http://100.163.109.17:9000", [ERROR], []),
    ],
)
def test_an_endpoint_without_tls_has_no_certificate(
    endpoint: str, transit: list[Severity], certificate: list[Severity]
) -> None:
    """One finding about the address, and none about a certificate; an overlay network encrypts by itself."""
    block = (
        'terraform {\n  backend "s3" {\n    bucket = "b"\n    key = "k"\n    region = "main"\n'
        f'    insecure = true\n    endpoint = "{endpoint}"\n  }}\n}}\n'
    )
    found = [level for level in levels("HF116", {"main.tf": block}) if level is not Severity.NOTE]
    assert (found, levels("HF119", {"main.tf": block})) == (transit, certificate)
