"""A real OpenTofu, as a library and as a program, where there is one: `make test-interop`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import other_tools
import pytest
from engines import EngineUnderTest
from lab_stacks import one_stack
from program import Program

from holdfast.terraform.engine.interface import EngineKind

pytestmark = pytest.mark.parametrize("any_engine", ["embedded-tofu", "tofu"], indirect=True)

CONFIG = """
    version: 1
    environments: { dev: { match: [dev] } }
    stacks: [{ name: a, module: a, environment: dev, variables_files: [a.tfvars] }]
    """
ENCRYPTED = """
    variable "word" {}
    variable "phrase" {}
    terraform {
      encryption {
        key_provider "pbkdf2" "k" {
          passphrase = var.phrase
          iterations = 200000
        }
        method "aes_gcm" "m" {
          keys = key_provider.pbkdf2.k
        }
        state {
          method = method.aes_gcm.m
        }
        plan {
          method = method.aes_gcm.m
        }
      }
    }
    resource "terraform_data" "x" {
      input = var.word
    }
    output "word" {
      value = var.word
    }
    """

UNENCRYPTED = """
    variable "word" {}
    variable "phrase" {}
    resource "terraform_data" "x" {
      input = var.word
    }
    """
FALLBACK = """
        method "unencrypted" "old" {}
        state {
          fallback {
            method = method.unencrypted.old
          }
    """
LOCAL = """
    terraform {
      backend "local" {
        path = "../a.tfstate"
      }
    }
    """
KEY = """
key_provider "pbkdf2" "k" {
  passphrase = "correct horse battery staple"
  iterations = 200000
}
method "aes_gcm" "m" {
  keys = key_provider.pbkdf2.k
}
state {
  method = method.aes_gcm.m
}
"""


@pytest.fixture
def tofu(holdfast: Program, any_engine: EngineUnderTest) -> Program:
    """The program with this OpenTofu; the embedded Terraform is there as always."""
    any_engine.install(holdfast)
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write("a.tfvars", 'word = "hello"\nphrase = "correct horse battery staple"\n')
    return holdfast


def test_code_of_opentofu_is_run_by_opentofu(tofu: Program, any_engine: EngineUnderTest) -> None:
    """A .tofu file is invisible to Terraform, and replaces a .tf file of the same name."""
    tofu.write("a/main.tf", 'variable "word" {}\nvariable "phrase" {}\n')
    tofu.write(
        "a/more.tf", 'terraform {\n  required_version = "< 1.0"\n}\nresource "terraform_data" "no" {}\n'
    )
    tofu.write("a/more.tofu", 'resource "terraform_data" "x" {\n  input = var.word\n}\n')
    applied = tofu.results("apply", "--yes")["a"]
    assert applied["engine"]["product"] == "tofu"
    assert applied["engine"]["kind"] == any_engine.identity.kind
    assert applied["changes"]["create"] == 1
    assert tofu.results("plan")["a"]["status"] == "unchanged"
    assert tofu.ok("state", "list", "a").out.split() == ["terraform_data.x"]
    assert "OpenTofu" in tofu.ok("plan").out.splitlines()[-1]


def test_an_encrypted_state_goes_through_a_bundle(tofu: Program) -> None:
    """State and plan encryption: planned here, sealed, applied there; what cannot be checked is said."""
    tofu.write("a/main.tf", ENCRYPTED)
    tofu.ok("plan", "--out", "bundle")
    applied = tofu.results("apply", "--plan", "bundle")["a"]
    assert applied["status"] == "applied"
    assert any("cannot check that it was made from this code" in note for note in applied["notes"])
    assert tofu.results("plan")["a"]["status"] == "unchanged"
    state = tofu.ok("state", "pull", "a").out
    assert "encrypted_data" in state
    assert "hello" not in state
    assert "hello" in tofu.ok("terraform", "a", "--", "show").out
    refusals = {
        ("rm", "a", "terraform_data.x", "--yes"): "holdfast plan a",
        ("list", "a"): "holdfast terraform a -- state list",
        ("rollback", "a", "1", "--yes"): "holdfast state pull a 1 > old/terraform.tfstate",
    }
    for words, hint in refusals.items():
        refused = tofu.run("state", *words)
        assert (refused.code, "HF-STATE-26" in refused.text, hint in refused.text) == (3, True, True)
    assert "terraform_data.x" in tofu.ok("terraform", "a", "--", "state", "list").out


def test_encryption_settings_of_the_caller_are_used_or_the_stack_is_refused(tofu: Program) -> None:
    """`TF_ENCRYPTION` is never dropped: a state in plain text would be written without a word."""
    tofu.write("a/main.tf", 'variable "word" {}\nvariable "phrase" {}\noutput "word" { value = var.word }\n')
    tofu.environment["TF_ENCRYPTION"] = KEY
    refused = tofu.run("apply", "--yes")
    assert (refused.code, "HF-ENG-25" in refused.text) == (64, True)
    config = tofu.folder / "holdfast.yaml"
    config.write_text(config.read_text() + "pass_env: [TF_ENCRYPTION]\n")
    applied = tofu.results("apply", "--yes", "-var", "phrase=x")["a"]
    assert (applied["status"], applied["engine"]["product"]) == ("applied", "tofu")
    assert "encrypted_data" in tofu.ok("state", "pull", "a").out


@pytest.mark.parametrize("backend", ["", LOCAL], ids=["managed", "local"])
def test_a_state_that_cannot_be_decrypted_is_never_new(tofu: Program, backend: str) -> None:
    """It stops the stack with what to check: nothing is planned as if it were empty."""
    plain = backend + UNENCRYPTED
    tofu.write("a/main.tf", plain)
    config = tofu.folder / "holdfast.yaml"
    config.write_text(config.read_text() + "engine: { use: tofu }\n")
    tofu.ok("apply", "--yes")

    def failure(code: str, phrase: str) -> str:
        tofu.write("a/main.tf", code)
        failed = tofu.results("plan", "-var", f"phrase={phrase}", code=1)["a"]
        assert (failed["status"], failed["error"]["code"]) == ("failed", "HF-TF-6")
        return str(failed["error"]["hint"])

    assert "fallback { method = method.unencrypted.old }" in failure(
        backend + ENCRYPTED, "a first passphrase"
    )
    tofu.write("a/main.tf", backend + ENCRYPTED.replace("state {", FALLBACK))
    tofu.ok("apply", "--yes", "-var", "word=again")
    assert "Check the passphrase" in failure(backend + ENCRYPTED, "another passphrase, a long one")
    assert "restore its `encryption` block" in failure(plain, "")
    tofu.write("a/main.tf", backend + ENCRYPTED)
    assert tofu.results("plan", "-var", "word=again")["a"]["status"] == "unchanged"


def test_outputs_of_an_encrypted_state_are_inputs_of_another_stack(tofu: Program) -> None:
    """OpenTofu decrypts it: what Holdfast cannot read itself is asked for, not taken as absent."""
    tofu.write("a/main.tf", ENCRYPTED)
    tofu.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        stacks:
          - { name: a, module: a, environment: dev, variables_files: [a.tfvars] }
          - { name: b, module: b, environment: dev, inputs: { word: { output: "a.word" } } }
        """,
    )
    tofu.write("b/main.tf", 'variable "word" {}\nresource "terraform_data" "y" {\n  input = var.word\n}\n')
    applied = tofu.results("apply", "--yes")
    assert [applied[name]["status"] for name in "ab"] == ["applied", "applied"]
    assert '"hello"' in tofu.ok("state", "pull", "b").out


def test_what_opentofu_computes_from_variables(tofu: Program) -> None:
    """Module sources and backends: the modules a stack reads and the place of its state are known."""
    tofu.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: [dev] } }
        engine: { use: tofu }
        stacks:
          - { name: a, module: a, environment: dev, variables: { kind: one } }
          - { name: b, module: a, environment: dev, variables: { kind: two } }
        """,
    )
    tofu.write(
        "a/main.tf",
        """
        variable "kind" {}
        terraform {
          backend "local" {
            path = "states/${var.kind}.tfstate"
          }
        }
        module "m" {
          source = "../modules/${var.kind}"
        }
        """,
    )
    tofu.write("modules/one/main.tf", 'resource "terraform_data" "one" {}\n')
    tofu.write("modules/two/main.tf", 'resource "terraform_data" "two" {}\n')
    applied = tofu.results("apply", "--yes")
    assert [applied[name]["status"] for name in "ab"] == ["applied", "applied"]
    assert sorted(path.name for path in tofu.folder.glob("a/states/*.tfstate")) == [
        "one.tfstate",
        "two.tfstate",
    ]
    assert tofu.ok("state", "list", "b").out.split() == ["module.m.terraform_data.two"]
    selected = tofu.json("stacks", "--changed", "modules/two/main.tf")["stacks"]
    assert [one["name"] for one in selected] == ["b"]
    config = tofu.folder / "holdfast.yaml"
    config.write_text(config.read_text().replace("kind: two", "kind: one"))
    refused = tofu.run("plan")
    assert (refused.code, "states/one.tfstate" in refused.text) == (64, True)


def test_variables_cannot_point_a_stack_at_the_state_of_another(tofu: Program) -> None:
    """What OpenTofu computes from -var counts, for one stack and for several, and so does the last apply."""
    tofu.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: { match: ["*"] } }
        engine: { use: tofu }
        stacks:
          - { name: one, module: a, variables_files: [one.tfvars] }
          - { name: two, module: b, variables_files: [two.tfvars] }
        """,
    )
    for module in "ab":
        code = """
            variable "place" {}
            terraform {
              backend "local" {
                path = "../states/${var.place}.tfstate"
              }
            }
            resource "terraform_data" "NAME" {}
            """
        tofu.write(f"{module}/main.tf", code.replace("NAME", module))
    tofu.write("one.tfvars", 'place = "one"\n')
    tofu.write("two.tfvars", 'place = "two"\n')
    tofu.write("more.tfvars", 'place = "elsewhere"\n')
    tofu.ok("apply", "one", "--yes")
    for options in (("two", "-var", "place=one"), ("-var-file", "more.tfvars")):
        for command in (("plan",), ("apply", "--yes")):
            refused = tofu.run(*command, *options)
            assert (refused.code, "HF-STACK-2" in refused.text) == (64, True)
    assert tofu.results("apply", "two", "--yes", "-var", "place=other")["two"]["status"] == "applied"
    assert (tofu.folder / "states/other.tfstate").is_file()
    refused = tofu.run("apply", "one", "--yes", "-var", "place=other")
    assert "one: with these variables, its state is that of two" in refused.text
    assert tofu.results("plan", "one")["one"]["status"] == "unchanged"


def test_new_arguments_and_exclude(tofu: Program, lab: Path, tmp_path: Path) -> None:
    """Providers with `for_each`, resources that are not enabled, and plans without some resources."""
    tofu.environment["TF_CLI_CONFIG_FILE"] = str(lab)
    code = """
        provider "lab" {
          for_each = toset(["x", "y"])
          alias    = "by"
        }
        resource "lab_object" "o" {
          for_each = toset(["x", "y"])
          provider = lab.by[each.key]
          name     = each.key
        }
        resource "terraform_data" "off" {
          lifecycle {
            enabled = false
          }
        }
        resource "terraform_data" "late" {}
        """
    (tmp_path / "objects").mkdir()
    one_stack(tofu, use="tofu", env={"LAB_DIRECTORY": str(tmp_path / "objects")}, body=code)
    config = tofu.folder / "holdfast.yaml"
    lenient = config.read_text()
    config.write_text(json.dumps({**json.loads(lenient), "guard": {"target": "deny"}}))
    partial = tofu.results("plan", "-exclude=terraform_data.late", code=3)["a"]
    assert partial["changes"]["create"] == 2
    assert "without terraform_data.late" in partial["notes"]
    nothing = tofu.results("plan", "-exclude=terraform_data.nope[0]", "-exclude=lab_object.o", code=3)["a"]
    assert "--exclude terraform_data.nope[0] matches no resource" in nothing["notes"]
    assert "HF-GUARD-11" in json.dumps(partial)
    config.write_text(lenient)
    assert tofu.results("apply", "--yes", "--exclude", "terraform_data.late")["a"]["changes"]["create"] == 2
    assert tofu.results("apply", "--yes")["a"]["changes"]["create"] == 1
    assert tofu.results("plan")["a"]["status"] == "unchanged"


def test_the_tour_runs_on_opentofu_only(any_engine: EngineUnderTest, quiet_path: str) -> None:
    """`make quickstart ENGINE=tofu`."""
    if any_engine.identity.kind is not EngineKind.EMBEDDED:
        pytest.skip("one engine is enough for the tour")
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).parents[2] / "tools/quickstart.py"), "tofu"],
        env={
            "PATH": quiet_path,
            "HOME": "/nonexistent",
            "PYTHONPATH": str(Path(any_engine.identity.path).parents[1]),  # It need not be installed.
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "engine: embedded OpenTofu" in ran.stdout
    assert "OpenTofu exited without an exit record" in ran.stdout
    assert "Terraform 1." not in ran.stdout


def test_a_bundle_belongs_to_a_version_and_not_to_a_kind(
    tofu: Program, any_engine: EngineUnderTest, tmp_path: Path
) -> None:
    """What the library planned, a machine that has only the program of the same version applies."""
    if any_engine.identity.kind is not EngineKind.EMBEDDED:
        pytest.skip("the program applies its own plans in the other tests")
    tofu.write("a/main.tofu", 'variable "word" {}\nvariable "phrase" {}\nresource "terraform_data" "x" {}\n')
    assert tofu.results("plan", "--out", "bundle")["a"]["engine"]["kind"] == "embedded"
    (tmp_path / "none/holdfast_libtofu").mkdir(parents=True)
    (tmp_path / "none/holdfast_libtofu/__init__.py").touch()
    path = f"{other_tools.only('tofu', tmp_path / 'only')}:{tofu.environment['PATH']}"
    env = {"PATH": path, "PYTHONPATH": str(tmp_path / "none")}
    applied = tofu.results("apply", "--plan", "bundle", env=env)["a"]
    assert (applied["status"], applied["engine"]["kind"]) == ("applied", "binary")


def test_a_bundle_of_opentofu_is_not_applied_by_terraform(tofu: Program) -> None:
    """A plan belongs to one product and one version."""
    tofu.write("a/main.tf", 'variable "word" {}\nvariable "phrase" {}\nresource "terraform_data" "x" {}\n')
    config = tofu.folder / "holdfast.yaml"
    config.write_text(config.read_text() + "engine: { use: tofu }\n")
    tofu.ok("plan", "--out", "bundle")
    config.write_text(config.read_text().replace("use: tofu", "use: terraform"))
    refused = tofu.results("apply", "--plan", "bundle", code=3)["a"]
    assert refused["error"]["code"] == "HF-BUND-5"
    assert "use: tofu" in refused["error"]["hint"]
