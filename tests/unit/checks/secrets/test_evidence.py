"""An error needs a strong text in a live file; weaker evidence is a warning or a note, never silence."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

import pytest
from checkouts import check, of
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from holdfast.checks.engine.catalogue import rule
from holdfast.checks.model.interface import Severity
from holdfast.checks.secrets.evidence import (
    Quality,
    is_made_up,
    is_sample_token,
    quality_of,
    quality_of_key,
)

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE
RANDOM = "q7Zk2mXw9TpL4rVb8sNd"
GITHUB = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
SLACK = "xoxb" + "-2048163264-4096128256512-aBcDeFgHiJkLmNoPqRsTuVwX"


def pem(kind: str, data: bytes) -> str:
    return f"-----BEGIN {kind}-----\n{base64.encodebytes(data).decode()}-----END {kind}-----\n"


def der(content: bytes) -> bytes:
    """A sequence that states its own length, as every key and certificate does."""
    return b"\x30\x82" + len(content).to_bytes(2, "big") + content


BODY = bytes(range(7, 247)) * 3
KEY_DER = ec.generate_private_key(ec.SECP256R1()).private_bytes(
    Encoding.DER, PrivateFormat.TraditionalOpenSSL, NoEncryption()
)
KEY = pem("EC PRIVATE KEY", KEY_DER)
CUT = pem("EC PRIVATE KEY", KEY_DER[:90])
ENCRYPTED = pem("ENCRYPTED PRIVATE KEY", der(BODY))
FOR_LOCALHOST = pem("CERTIFICATE", der(BODY[:40] + b"localhost" + BODY))


def levels(id_: str, files: Mapping[str, str | bytes], config: str | None = "") -> list[Severity]:
    the = rule(id_)
    assert the is not None
    return [finding.severity for finding in of(check(the, files, config=config), the)]


@pytest.mark.parametrize(
    ("text", "quality"),
    [
        (RANDOM, Quality.STRONG),
        (GITHUB, Quality.STRONG),
        (SLACK, Quality.STRONG),
        ("9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", Quality.STRONG),
        ("A,o8U0.RY+g4DeMK", Quality.STRONG),
        ("summer-holiday", Quality.PLAIN),
        ("Winter2024!", Quality.PLAIN),
        ("P@ssw0rd1234!", Quality.WEAK),
        ("xoxb-" + "test-token-for-tests", Quality.PLAIN),
        ("admin123", Quality.WEAK),
        ("unused", Quality.WEAK),
        ("temp", Quality.WEAK),
        ("value", Quality.WEAK),
        ("asdf", Quality.WEAK),
        ("changeme", Quality.WEAK),
    ],
)
def test_the_quality_of_a_text(text: str, quality: Quality) -> None:
    """Random texts are strong, words are not, and what everybody tries first is weak."""
    assert quality_of(text) is quality


@pytest.mark.parametrize(
    ("key", "quality"),
    [
        (KEY, Quality.STRONG),
        (KEY.replace("\n", "\\n"), Quality.STRONG),
        (CUT, Quality.PLAIN),
        (ENCRYPTED, Quality.PLAIN),
        (pem("OPENSSH PRIVATE KEY", b"openssh-key-v1\0\0\0\0\x04none" + BODY), Quality.STRONG),
        (pem("OPENSSH PRIVATE KEY", b"openssh-key-v1\0\0\0\0\x0aaes256-ctr" + BODY), Quality.PLAIN),
        (pem("RSA PRIVATE KEY", der(BODY)), Quality.PLAIN),
        (pem("EC PRIVATE KEY", b"\x30\x77" + BODY[:0x77]), Quality.PLAIN),
    ],
)
def test_the_quality_of_a_key(key: str, quality: Quality) -> None:
    """A key that is cut off, made up or encrypted opens nothing."""
    assert quality_of_key(key) is quality


@pytest.mark.parametrize(
    "path",
    ["docs/app.yaml", "demo-certs/ca.key", "lessons/7/a.tf", "docker/local-ssl/key.pem", ".vscode/a.json",
     "app/pytest.ini", "docker-compose.dev.yml", "quickstart/a/main.tf", "pacts/a.json", "a/localhost.key"],
)  # fmt: skip
def test_what_is_not_live(path: str) -> None:
    """Tests, documentation, local development, editors; in each of them a token is still a note."""
    assert is_made_up(path)
    if path.endswith((".yml", ".yaml", ".json", ".ini")):
        assert levels("HF207", {path: f"a: {GITHUB}\n"}) == [NOTE]


@pytest.mark.parametrize("path", ["live/prod/app.yaml", "environments/dev/app.json", "test/app.conf", "a.sh"])
@pytest.mark.parametrize("secret", [GITHUB, SLACK, KEY.replace("\n", "\\n")])
def test_a_real_secret_in_a_live_file_is_an_error(path: str, secret: str) -> None:
    """Whatever the file is called; a folder `test` or `dev` may be an environment."""
    assert levels("HF207", {path: f'{{"a": "{secret}"}}\n'}) == [ERROR]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f'env = ["SLACK_TOKEN={"xoxb"}-test-token-for-tests"]', NOTE),
        (f'env = ["SLACK_TOKEN={"xapp"}-test-token-1"]', NOTE),
        (f'env = ["SLACK_TOKEN={SLACK}"]', ERROR),
        ('public_google_api_key = "' + "AIza" + 'SyD3m0K9xLq7Vw2RtYp8NbZc5Hf1JgU6aEo"', NOTE),
        ('google_api_key = "' + "AIza" + 'SyD3m0K9xLq7Vw2RtYp8NbZc5Hf1JgU6aEo"', WARNING),
        ('key = "' + "sk_" + 'test_4eC39HqLyjWDarjtT1zdp7dc"', WARNING),
        (
            "signed: " + "eyJhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiI4ODI3MTkwMzUxIn0.dozjgNryP4J3jVmNHl0w5N",
            WARNING,
        ),
        ("access_token: " + "eyJhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiI4ODI3MTkwMzUxIn0.dozjgNryP4J3jVmNH", ERROR),
        ('key = "' + "sk_" + 'live_4eC39HqLyjWDarjtT1zdp7dc"', ERROR),
    ],
)
def test_tokens_of_a_known_format(line: str, expected: Severity) -> None:
    """HF207: settings of test runners, public keys and test modes are not live."""
    assert levels("HF207", {"pyproject.toml": line + "\n"}) == [expected]


def test_a_public_key_under_the_name_of_its_variable() -> None:
    """HF207: the name is on another line."""
    key = "AIza" + "SyD3m0K9xLq7Vw2RtYp8NbZc5Hf1JgU6aEo"
    code = 'variable "%s" {\n  type    = string\n  default = "%s"\n}\n'
    assert levels("HF207", {"main.tf": code % ("public_google_key", key)}, None) == [NOTE]
    assert levels("HF207", {"main.tf": code % ("google_key", key)}, None) == [WARNING]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("bot_token_hashes", []), ("token_digest", []), ("next_page_token", []), ("bot_token", [ERROR])],
)
def test_digests_of_secrets_are_none(name: str, expected: list[Severity]) -> None:
    """HF208, in code and in documents."""
    text = "5514c8081c74362c58993e5de935cb92"
    assert levels("HF208", {"main.tf": f'locals {{\n  {name} = ["{text}"]\n}}\n'}, None) == expected
    outside = [WARNING for _ in expected]
    assert levels("HF208", {"a.json": f'{{"{name}": "{text}"}}\n'}) == outside


DATABASE = 'variable "a" {}\nresource "aws_db_instance" "a" {\n  password = %s\n}\n'


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (DATABASE % 'coalesce(var.a, "unused")', [NOTE]),
        (DATABASE % 'coalesce(var.a, "winter-sports")', [WARNING]),
        (DATABASE % f'coalesce(var.a, "{RANDOM}")', [ERROR]),
        (DATABASE % 'var.a == null ? "winter-sports" : var.a', [WARNING]),
        (DATABASE % '"winter-sports"', [WARNING]),
        (DATABASE % '"Winter7sports"', [ERROR]),
        ('variable "b" {\n  default = "winter-sports"\n}\n' + DATABASE % "var.b", [WARNING]),
        ('locals {\n  b = "winter-sports7!"\n}\n' + DATABASE % "local.b", [ERROR]),
        ('resource "aws_ssm_parameter" "a" {\n  type = "SecureString"\n  value = "temp"\n}\n', []),
        ('resource "aws_ssm_parameter" "a" {\n  type = "SecureString"\n  value = "value"\n}\n', []),
        (
            f'resource "aws_ssm_parameter" "a" {{\n  type = "SecureString"\n  value = "{RANDOM}"\n}}\n',
            [ERROR],
        ),
        ('variable "env" {\n  description = "Such as DATABASE_PASSWORD=winter7, one per line"\n}\n', []),
        ('variable "env" {\n  description = <<-E\n    DATABASE_PASSWORD=winter7\n  E\n}\n', []),
        ('locals {\n  env = "DATABASE_PASSWORD=winter7"\n}\n', [WARNING]),
    ],
)
def test_hard_coded_passwords(code: str, expected: list[Severity]) -> None:
    """HF209: what another value replaces, what stands in for one, and descriptions are no live secrets."""
    assert levels("HF209", {"main.tf": code}, None) == expected


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"tls/a.key": KEY}, [ERROR]),
        ({"tls/a.key": CUT}, [WARNING]),
        ({"tls/a.key": ENCRYPTED}, [WARNING]),
        ({"tls/admin_test.key": KEY}, [WARNING]),
        ({"environments/dev/tls/a.key": KEY}, [ERROR]),
        ({"environments/dev/tls/a.key": CUT}, [WARNING]),
        ({"environments/dev/tls/admin_test.key": KEY}, [WARNING]),
        ({"dev/a.key": KEY}, [WARNING]),
        ({"tls/a.key": KEY, "tls/a.crt": FOR_LOCALHOST}, [NOTE]),
        ({"tls/a.key": KEY, "other/a.crt": FOR_LOCALHOST}, [ERROR]),
        ({"docker/local-ssl/a.key": KEY}, [NOTE]),
        ({"tls/a.key": KEY, "tls/README.md": "Do not use the keys in production.\n"}, [WARNING]),
        ({"tls/a.key": KEY, "README.md": "Do not use the keys in production.\n"}, [ERROR]),
        ({"a.key": "PuTTY-User-Key-File-2: ssh-rsa\nEncryption: aes256-cbc\n"}, [WARNING]),
        ({"a.key": "PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\n"}, [ERROR]),
    ],
)
def test_keys_in_git(files: dict[str, str], expected: list[Severity]) -> None:
    """HF205: a certificate for localhost in the same folder says what its key is for."""
    assert levels("HF205", files) == expected


def test_a_key_is_reported_once() -> None:
    """HF207 names the line in a document, HF205 a file that is a key."""
    document, key = {"account.json": f'{{"private_key": "{KEY}"}}'.replace("\n", "\\n")}, {"a.pem": KEY}
    assert (levels("HF205", document), levels("HF207", document)) == ([], [ERROR])
    assert (levels("HF205", key), levels("HF207", key)) == ([ERROR], [])


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (".pgpass", "localhost:5432:app:app:winter-sports\n127.0.0.1:5432:*:app:winter7\n", []),
        (".pgpass", "db.acme.io:5432:app:app:winter-sports\n", [ERROR]),
        (".pgpass", "db.acme.io:5432:app:app:winter\n", [WARNING]),
        (".pgpass", f"db:5432:app:app:{RANDOM}\n", [WARNING]),
        (".pgpass", f"*:*:*:app:{RANDOM}\n", [ERROR]),
        (".my.cnf", "[client]\nhost = db\npassword = winter-sports7\n", [WARNING]),
        (".my.cnf", f"[client]\npassword = {RANDOM}\n", [ERROR]),
        (".netrc", f"machine git.acme.io login a password {RANDOM}\nmachine b password c7\n", [ERROR]),
        (".netrc", "machine git.acme.io login a password meadow\n", [WARNING]),
        (".pgpass", "db.acme.io:5432:app:app:postgres\n", [NOTE]),
        (".env", f"API_TOKEN={RANDOM}\n", [ERROR]),
        (".env", "DATABASE_URL=postgres://app:winter-sports@db.acme.io/app\n", [ERROR]),
        (".env", "DB_PASSWORD=winter-sports\n", [WARNING]),
        (".env", "DB_PASSWORD=postgres\n", [NOTE]),
        (".env.development", f"API_TOKEN={RANDOM}\n", [WARNING]),
        (".env.production", f"VITE_API_KEY={RANDOM}\n", [NOTE]),
        (".npmrc", f"//registry.npmjs.org/:_authToken={RANDOM}\n", [ERROR]),
    ],
)
def test_credentials_files(path: str, text: str, expected: list[Severity]) -> None:
    """HF206: by what is in them."""
    assert levels("HF206", {path: text}) == expected


def test_a_state_without_resources_is_a_note() -> None:
    """HF201: after a destroy nothing is left in it; its backup still has everything."""
    state = '{"lineage": "a", "serial": 1, "terraform_version": "1.9.0", "resources": [%s]}'
    files = {"terraform.tfstate": state % "", "terraform.tfstate.backup": state % '{"mode": "managed"}'}
    assert levels("HF201", files) == [ERROR], "both are one finding"
    assert levels("HF201", {"terraform.tfstate": "not JSON"}) == [WARNING]
    assert levels("HF201", {"terraform.tfstate": b"\xff\xfe"}) == [NOTE]
    assert levels("HF201", {"terraform.tfstate": (state % "").encode("utf-16")}) == [NOTE]
    assert levels("HF201", {"terraform.tfstate": (state % '{"mode": "managed"}').encode("utf-16")}) == [ERROR]
    assert levels("HF201", {"terraform.tfstate": b" " * 5_000_001}) == [ERROR], "too large to be read"


PAIR = 'resource "tls_private_key" "a" {\n  count = 1\n}\noutput "o" {\n  value = %s\n}\n'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("length(tls_private_key.a)", []),
        ("length(tls_private_key.a) > 0 ? tls_private_key.a[0].id : null", []),
        ("tls_private_key.a[0].public_key_openssh", []),
        ("tls_private_key.a", [WARNING]),
        ("tls_private_key.a[0].private_key_pem", [WARNING]),
        ("sha256(jsonencode(tls_private_key.a))", [WARNING]),
        ("nonsensitive(tls_private_key.a[0].private_key_pem)", [ERROR]),
    ],
)
def test_counting_resources_reads_no_secret(value: str, expected: list[Severity]) -> None:
    """HF210: Terraform marks the attribute, not the resource."""
    assert levels("HF210", {"main.tf": PAIR % value}, None) == expected


@pytest.mark.parametrize(
    ("name", "description", "use", "expected"),
    [
        ("api_token", "Name of the parameter in SSM", "value", []),
        ("api_token", "The ARN of the secret", "value", []),
        ("api_token", "Token of the deployment user", "value", [WARNING]),
        ("webhook_token_secret", "", "name", []),
        ("webhook_token_secret", "", "token", [NOTE]),
        ("webhook_token_secret", "", "header", [WARNING]),
        ("aws_access_key", "", "value", []),
        ("aws_secret_key_password", "", "value", [WARNING]),
    ],
)
def test_names_of_secrets_need_no_mark(
    name: str, description: str, use: str, expected: list[Severity]
) -> None:
    """HF211: by the description, by the only use, and ids of keys beside their secret."""
    code = f'variable "{name}" {{\n  type        = string\n  description = "{description}"\n}}\n'
    code += 'variable "secret_name" {}\nprovider "x" {}\n'
    code += f'resource "x_y" "a" {{\n  {use} = var.{name}\n}}\n'
    assert levels("HF211", {"main.tf": code}, None) == expected


@pytest.mark.parametrize(
    ("claims", "over"),
    [
        ({"iat": 1_790_000_000, "exp": 1_790_003_600}, True),
        ({"exp": 1_599_636_643}, True),
        ({"iat": 1_790_000_000, "exp": 1_999_000_000}, False),
        ({"exp": 1_999_000_000}, False),
        ({"iat": 1_790_000_000}, False),
    ],
)
def test_a_token_that_expired_in_git_is_no_error(claims: dict[str, int], *, over: bool) -> None:
    payload = base64.urlsafe_b64encode(json.dumps({"sub": "deployer", **claims}).encode()).decode()
    assert is_sample_token(f"eyJhbGciOiJIUzI1NiJ9.{payload.rstrip('=')}.c2lnbmF0dXJl") is over
