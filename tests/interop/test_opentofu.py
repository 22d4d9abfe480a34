"""A real OpenTofu, where there is one (PATH, or the folder named by HOLDFAST_TOOLS): `make test-interop`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from program import Program

_PLACES = [*([os.environ["HOLDFAST_TOOLS"]] if os.environ.get("HOLDFAST_TOOLS") else [])]
TOFU = shutil.which(
    "tofu", path=os.pathsep.join([*_PLACES, *(f"{one}/bin" for one in _PLACES), os.environ["PATH"]])
)
pytestmark = pytest.mark.skipif(TOFU is None, reason="no tofu on PATH or in HOLDFAST_TOOLS")

CONFIG = """
    version: 1
    environments: { dev: { match: [dev] } }
    stacks: [{ name: a, module: a, environment: dev, variables_files: [a.tfvars] }]
    """


@pytest.fixture
def tofu(holdfast: Program, tmp_path: Path) -> Program:
    """The program with tofu on its PATH and nothing else; the embedded Terraform is there as always."""
    folder = tmp_path / "tofu-only"
    folder.mkdir()
    (folder / "tofu").symlink_to(Path(str(TOFU)).resolve())
    holdfast.environment["PATH"] = f"{folder}:{holdfast.environment['PATH']}"
    holdfast.write("holdfast.yaml", CONFIG)
    holdfast.write("a.tfvars", 'word = "hello"\nphrase = "correct horse battery staple"\n')
    return holdfast


def test_code_of_opentofu_is_run_by_opentofu(tofu: Program) -> None:
    """A .tofu file is invisible to Terraform: the stack goes to tofu, which applies it and then is done."""
    tofu.write("a/main.tf", 'variable "word" {}\nvariable "phrase" {}\n')
    tofu.write("a/more.tofu", 'resource "terraform_data" "x" {\n  input = var.word\n}\n')
    applied = tofu.results("apply", "--yes")["a"]
    assert applied["engine"]["product"] == "tofu"
    assert applied["changes"]["create"] == 1
    assert tofu.results("plan")["a"]["status"] == "unchanged"
    assert tofu.ok("state", "list", "a").out.split() == ["terraform_data.x"]


def test_an_encrypted_state_goes_through_a_bundle(tofu: Program) -> None:
    """State and plan encryption of OpenTofu: planned here, sealed, applied there, and no secret in clear."""
    tofu.write(
        "a/main.tf",
        """
        variable "word" {}
        variable "phrase" {}
        terraform {
          encryption {
            key_provider "pbkdf2" "k" {
              passphrase = var.phrase
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
        """,
    )
    tofu.ok("plan", "--out", "bundle")
    assert tofu.results("apply", "--plan", "bundle")["a"]["status"] == "applied"
    assert tofu.results("plan")["a"]["status"] == "unchanged"
    state = tofu.ok("state", "pull", "a").out
    assert "encrypted_data" in state
    assert "hello" not in state


def test_a_bundle_of_opentofu_is_not_applied_by_terraform(tofu: Program) -> None:
    """A plan belongs to one product and one version."""
    tofu.write("a/main.tf", 'variable "word" {}\nvariable "phrase" {}\nresource "terraform_data" "x" {}\n')
    config = tofu.folder / "holdfast.yaml"
    config.write_text(config.read_text() + "engine: { use: tofu }\n")
    tofu.ok("plan", "--out", "bundle")
    config.write_text(config.read_text().replace("use: tofu", "use: embedded"))
    refused = tofu.results("apply", "--plan", "bundle", code=3)["a"]
    assert refused["error"]["code"] == "HF-BUND-5"


def test_its_unreachable_registry_is_tried_once(tofu: Program) -> None:
    """The first stack tries the registry; the others fail at once and name it, as with Terraform."""
    tofu.environment |= {"HTTPS_PROXY": "http://127.0.0.1:9"}
    tofu.write(
        "holdfast.yaml",
        """
        version: 1
        environments: { dev: {} }
        stacks: [{ folder: "live/{name}", environment: dev, engine: { use: tofu } }]
        engine: { retries: { attempts: 1, wait: 0s } }
        """,
    )
    for name in ("a", "b", "c"):
        code = 'terraform {\n  required_providers {\n    x = { source = "acme/x" }\n  }\n}\n'
        tofu.write(f"live/{name}/main.tf", code + 'resource "x_y" "z" {}\n')
    results = tofu.results("plan", code=1)
    codes = sorted(results[f"live/{name}"]["error"]["code"] for name in ("a", "b", "c"))
    assert codes == ["HF-ENG-23", "HF-ENG-23", "HF-TF-1"]
    assert "registry.opentofu.org" in tofu.ok("plan", code=1).err
