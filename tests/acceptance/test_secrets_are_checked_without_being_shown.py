from __future__ import annotations

import hashlib

from program import Program
from vault_server import VaultWorld, vault_server

CONFIGURATION = """
version: 1
environments: { dev: { match: [dev] } }
stacks:
  - variables: vars/{name}.tfvars
    module: module
    name: "{name}"
    environment: dev
    env:
      TOKEN: { secret: "vault:kv/{name}#token" }
      SHARED: { secret: "env:SHARED" }
"""


def test_secrets_are_checked_without_being_shown(holdfast: Program) -> None:
    """Each reference once, with who read it and who uses it; what is missing is exit 1; no value anywhere."""
    holdfast.write("holdfast.yaml", CONFIGURATION)
    holdfast.write("module/main.tf", "")
    for name in ("a", "b"):
        holdfast.write(f"vars/{name}.tfvars", "")
    world = VaultWorld(secrets={"kv/a": [{"token": "hunter2-of-a"}]}, tokens={"token-of-vault": ("kv/",)})
    with vault_server(world) as server:
        env = {"VAULT_ADDR": server.url, "VAULT_TOKEN": "token-of-vault", "SHARED": "hunter2-shared"}
        ran = holdfast.ok("secrets", "check", code=1, env=env)
        assert " ✓ env:SHARED  by the environment of this command  (a, b)\n" in ran.out
        assert f" ✓ vault:kv/a#token  by the token in VAULT_TOKEN at {server.url} (accessor" in ran.out
        assert " ✗ vault:kv/b#token  (b)\n" in ran.out
        assert "HF-SEC-10" in ran.out
        assert "2 stacks: 2 secrets readable, 1 missing" in ran.out
        document = holdfast.json("secrets", "check", "a", env=env)
    assert "hunter2" not in ran.text
    assert "token-of-vault" not in ran.text
    assert document["summary"] == {"stacks": 1, "present": 2, "missing": 0}
    shared, of_a = document["references"]
    assert shared == {
        "reference": "env:SHARED",
        "present": True,
        "identity": "the environment of this command",
        "stacks": ["a"],
        "required_by": [],
        "error": None,
    }
    assert (of_a["reference"], of_a["present"], of_a["stacks"]) == ("vault:kv/a#token", True, ["a"])


def test_a_secret_of_vault_reaches_terraform_and_nothing_else(holdfast: Program) -> None:
    """Terraform gets the very value, by variable and by environment, and no exit shows it."""
    value = "hunter2-of-vault"
    digest = hashlib.sha256(value.encode()).hexdigest()
    holdfast.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        stacks:
          - name: app
            module: module
            environment: dev
            variables: { x: { secret: "vault:kv/app#token" } }
            env: { TF_VAR_y: { secret: "vault:kv/app#token" } }
        """,
    )
    holdfast.write(
        "module/main.tf",
        f"""
        variable "x" {{}}
        variable "y" {{}}
        resource "terraform_data" "it" {{
          input = var.x
          lifecycle {{
            precondition {{
              condition     = sha256(var.x) == "{digest}" && var.x == var.y
              error_message = "another value: ${{var.x}} ${{var.y}}"
            }}
          }}
        }}
        output "x" {{
          value = terraform_data.it.output
        }}
        """,
    )
    world = VaultWorld(secrets={"kv/app": [{"token": value}]}, tokens={"token-of-vault": ("kv/",)})
    with vault_server(world) as server:
        env = {"VAULT_ADDR": server.url, "VAULT_TOKEN": "token-of-vault"}
        applied = holdfast.ok("apply", "--yes", "--json", env=env)
    assert '"applied"' in applied.out
    assert value not in applied.text
    kept = [file for file in [*holdfast.folder.rglob("*"), *holdfast.home.rglob("*")] if file.is_file()]
    assert [file for file in kept if value.encode() in file.read_bytes()] == []


def test_every_secret_is_there_before_the_first_stack_is_applied(holdfast: Program) -> None:
    """All that are missing at once, with who needs them; nothing is applied. A plan goes as far as it can."""
    holdfast.write("holdfast.yaml", CONFIGURATION.replace('"vault:kv/{name}#token"', '"env:OF_{name}"'))
    holdfast.write("module/main.tf", 'resource "terraform_data" "x" {}\n')
    for name in ("a", "b", "c"):
        holdfast.write(f"vars/{name}.tfvars", "")
    env = {"SHARED": "hunter2-shared", "OF_a": "hunter2-of-a"}
    failed = holdfast.json("apply", "--yes", code=1, env=env)["errors"]
    assert [error["code"] for error in failed] == ["HF-SEC-2", "HF-SEC-2"]
    assert "needed by b. Nothing was applied" in failed[0]["message"]
    assert "OF_c" in failed[1]["message"]
    assert not (holdfast.folder / ".holdfast/states").exists()
    planned = holdfast.results("plan", code=1, env=env)
    assert [planned[name]["status"] for name in "abc"] == ["planned", "failed", "failed"]
    bundle = holdfast.ok("plan", "a", "--out", "bundle", env=env)
    assert "hunter2" not in bundle.text
    holdfast.ok("apply", "--plan", "bundle", code=1, env={"SHARED": "hunter2-shared"})
    assert holdfast.results("apply", "--plan", "bundle", env=env)["a"]["status"] == "applied"
