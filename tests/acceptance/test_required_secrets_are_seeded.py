from __future__ import annotations

from pathlib import Path

from key_vault_server import AzureWorld, azure_server
from moto.server import ThreadedMotoServer
from program import Program
from vault_server import VaultWorld, vault_server

CONFIGURATION = """
version: 1
targets:
  local:
    secrets:
      - { name: database, secret: "dotenv:.env.secrets#DATABASE" }
      - { name: admin-password, secret: "file:secrets/admin" }
  cloud:
    owner: ci
    secrets:
      - { name: coder-admin, secret: "aws-sm:platform/coder/admin" }
      - { name: smtp-user, secret: "aws-sm:platform/smtp#user" }
      - { name: smtp-password, secret: "aws-sm:platform/smtp#password" }
      - { name: token, secret: "aws-ssm:/platform/token" }
      - { name: vault-token, secret: "vault:kv/platform#token" }
      - { name: old-token, secret: "vault:old/platform#token" }
      - { name: key-vault, secret: "azure-kv:platform/token" }
stacks: []
"""


def kept(program: Program, canary: str) -> list[Path]:
    files = [file for file in [*program.folder.rglob("*"), *program.home.rglob("*")] if file.is_file()]
    return [file for file in files if canary.encode() in file.read_bytes()]


def test_a_local_target_is_seeded_from_env_files(holdfast: Program) -> None:
    """Never overwritten, never shown, never where Git would commit it; the rest can be generated."""
    holdfast.write("holdfast.yaml", CONFIGURATION)
    holdfast.write(".env", "DATABASE=hunter2-of-env\nADMIN_PASSWORD=hunter2-admin\n")
    holdfast.write(".env.local", "export DATABASE='hunter2-of \"local'\n")
    (holdfast.folder / "secrets").mkdir()
    holdfast.git("init", "--quiet")
    holdfast.write(".gitignore", ".env*\n")
    missing = holdfast.json("secrets", "check", "local", code=1)
    assert {part["reference"]: part["required_by"] for part in missing["references"]} == {
        "dotenv:.env.secrets#DATABASE": ["local/database"],
        "file:secrets/admin": ["local/admin-password"],
    }
    refused = holdfast.ok("secrets", "seed", "local", code=64)
    assert "HF-SEED-2" in refused.err
    holdfast.write(".gitignore", ".env*\nsecrets/\n")
    seeded = holdfast.ok("secrets", "seed", "local")
    assert "file:secrets/admin  created (admin-password, from .env)" in seeded.out
    assert "dotenv:.env.secrets#DATABASE" in seeded.out
    checked = holdfast.ok("secrets", "check", "local")
    assert (holdfast.folder / "secrets/admin").read_text() == "hunter2-admin"
    assert (holdfast.folder / "secrets/admin").stat().st_mode & 0o777 == 0o600
    again = holdfast.json("secrets", "seed", "local", "--generate", "database")
    assert {secret["status"] for secret in again["secrets"]} == {"present"}
    assert r"hunter2-of \"local" in (holdfast.folder / ".env.secrets").read_text()
    assert holdfast.ok("audit", "show", "--json").out.count("secrets-seed") == 3
    for shown in (refused.text, seeded.text, checked.text, str(again)):
        assert "hunter2" not in shown
    assert [file.name for file in kept(holdfast, "hunter2-admin")] in ([".env", "admin"], ["admin", ".env"])


def test_stores_are_seeded_once_and_in_ci(holdfast: Program) -> None:
    """AWS, Vault and Key Vault; fields of one secret together; from standard input; each only once."""
    holdfast.write("holdfast.yaml", CONFIGURATION)
    vault = VaultWorld(tokens={"token-of-vault": ("kv/", "old/")})
    azure = AzureWorld(managed=True)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    try:
        with vault_server(vault) as vaults, azure_server(azure) as clouds:
            env = {
                "VAULT_ADDR": vaults.url,
                "VAULT_TOKEN": "token-of-vault",
                "AWS_ENDPOINT_URL": f"http://{host}:{port}",
                "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
                "AWS_SECRET_ACCESS_KEY": "hunter2-of-aws",
                "AWS_REGION": "eu-west-1",
                "AZURE_POD_IDENTITY_AUTHORITY_HOST": clouds.url,
                "HOLDFAST_AZURE_VAULT_URL": f"{clouds.url}/{{vault}}",
                "HOLDFAST_KEY": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            }
            refused = holdfast.ok("secrets", "seed", "cloud", code=3, env=env)
            assert "HF-OWN-1" in refused.err
            env["CI"] = "true"
            lines = "CODER_ADMIN=hunter2-a\nSMTP_USER=hunter2-u\nSMTP_PASSWORD=hunter2-p\nTOKEN=hunter2-t\n"
            without = holdfast.ok("secrets", "seed", "cloud", "--from", "-", code=64, env=env, stdin=lines)
            assert "HF-SEED-4" in without.err
            assert "vault-token (VAULT_TOKEN)" in without.err
            assert not vault.secrets
            generated = [
                word for name in ("vault-token", "old-token", "key-vault") for word in ("--generate", name)
            ]
            arguments = ("secrets", "seed", "cloud", "--from", "-", *generated)
            seeded = holdfast.ok(*arguments, env=env, stdin=lines)
            assert "7 secrets created, 0 existed" in seeded.text
            values = (vault.secrets["kv/platform"][0]["token"], azure.secrets["platform/token"])
            assert len({*values, vault.secrets["old/platform"][0]["token"]}) == 3
            assert all(len(value) == 43 for value in values)
            again = holdfast.ok(*arguments, env=env, stdin=lines.replace("hunter2", "hunter3"))
            assert "0 secrets created, 7 existed" in again.text
            checked = holdfast.ok("secrets", "check", "cloud", env=env)
            assert values == (vault.secrets["kv/platform"][0]["token"], azure.secrets["platform/token"])
            vault.tokens = {"token-of-vault": ()}
            denied = holdfast.ok(*arguments, code=1, env=env, stdin=lines)
            assert "HF-SEC-11" in denied.err
    finally:
        moto.stop()
    for ran in (seeded, again, checked, denied, without):
        assert not any(value in ran.text for value in (*values, "hunter2", "hunter3"))
    assert kept(holdfast, "hunter2") == []
    assert not any(kept(holdfast, value) for value in values)


def test_mistakes_in_required_secrets_are_explained(holdfast: Program) -> None:
    """With line and hint, and without the text, which may be the secret itself."""
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        targets:
          a:
            secrets:
              - { name: one, secret: hunter2-in-clear }
              - { name: one, secret: "awssm:x" }
              - { name: two, secret: "vault:kv/x" }
              - { name: three, secret: "env:{environment}" }
        stacks: []
        """,
    )
    wrong = holdfast.json("secrets", "check", code=64)
    assert [error["code"] for error in wrong["errors"]] == ["HF-CONF-13", "HF-CONF-29", *["HF-CONF-13"] * 3]
    assert "hunter2" not in str(wrong)
    holdfast.write("holdfast.yaml", CONFIGURATION)
    assert "HF-USE-60" in holdfast.ok("secrets", "seed", "clod", code=64).err
    assert "HF-SEED-6" in holdfast.ok("secrets", "seed", "local", "--generate", "x", code=64).err
    assert "HF-FILE-2" in holdfast.ok("secrets", "seed", "local", "--from", "gone", code=1).err
