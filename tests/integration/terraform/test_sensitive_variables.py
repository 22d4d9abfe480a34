from __future__ import annotations

from pathlib import Path

from holdfast.hcl.eval.code import Code
from holdfast.terraform.statefile.sensitive import sensitive_variables


def test_sensitive_variables_are_known_before_there_is_a_plan(tmp_path: Path) -> None:
    """Their defaults, what every variables file says, and what the environment and the configuration give."""
    module = tmp_path / "module"
    module.mkdir()
    (module / "main.tf").write_text(
        """
        variable "password" {
          sensitive = true
          default   = "default-password"
        }
        variable "tokens" {
          sensitive = true
          type      = list(string)
        }
        variable "open" {
          sensitive = false
        }
        variable "region" {}
        """
    )
    (module / "terraform.tfvars").write_text('password = "own-password"\nregion = "eu-west-1"\n')
    (tmp_path / "more.tfvars.json").write_text('{"tokens": ["token-one", "token-two"], "open": "seen"}')
    found = sensitive_variables(
        Code(tmp_path),
        "module",
        ("more.tfvars.json", "gone.tfvars"),
        {"password": "given-password", "open": "x"},
    )
    assert found == {"default-password", "own-password", "token-one", "token-two", "given-password"}


def test_a_module_without_sensitive_variables_has_none(tmp_path: Path) -> None:
    """Nothing of an ordinary stack is hidden."""
    (tmp_path / "main.tf").write_text('variable "name" {\n  default = "plain-name"\n}\n')
    assert sensitive_variables(Code(tmp_path), ".", (), {"name": "other-name"}) == frozenset()
