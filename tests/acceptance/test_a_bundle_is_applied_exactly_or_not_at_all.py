"""`plan --out` and `apply --plan`, as a pipeline uses them."""

from __future__ import annotations

import base64
import json
import shutil
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from lab_stacks import none_left
from program import Program, eventually
from small import MODULE, stacks

KEY = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY = base64.b64encode(bytes(32)).decode()


def state(program: Program, stack: str) -> dict[str, Any]:
    """The state of a stack that was applied, as the program itself reads it. To have none is a mistake."""
    found: dict[str, Any] = json.loads(program.ok("state", "pull", stack).out)
    assert found["resources"]
    return found


def never_applied(program: Program, stack: str, **options: Any) -> bool:
    """Whether the program knows no version of the state."""
    return program.ok("state", "pull", stack, **options).out == ""


def refused(program: Program, *arguments: str, **options: Any) -> dict[str, Any]:
    """The error with which an `apply --plan` of a single stack is refused, exit 3."""
    document = program.json("apply", "--plan", *arguments, code=3, **options)
    if "errors" in document:
        return dict(document["errors"][0])
    (one,) = document["stacks"]
    assert one["status"] == "refused"
    return dict(one["error"])


def test_a_bundle_holds_the_plan_and_is_applied_once(holdfast: Program) -> None:
    """Plan, look, apply exactly that: at either level, without a question, and never twice."""
    stacks(holdfast, "a", "c", more="  - { name: team/b, module: module, environment: dev }\n")
    out = holdfast.folder / "out"
    planned = {one["name"]: one for one in holdfast.json("plan", "--out", "out")["stacks"]}
    summary = json.loads((out / "a/summary.json").read_text())
    assert summary["digest"] == planned["a"]["digest"]
    assert summary["changes"]["create"] == 1
    assert summary["resources"] == [{"address": "terraform_data.it", "actions": ["create"], "reason": None}]
    assert json.loads((out / "change.json").read_text())["stacks"][0] == {"name": "a", "status": "planned"}
    for path in (out, *out.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    one = holdfast.results("apply", "--plan", "out/a")
    assert {name: each["status"] for name, each in one.items()} == {"a": "applied"}
    assert one["a"]["digest"] == planned["a"]["digest"]
    assert one["a"]["outputs"] == {"x": {"value": "a", "sensitive": False}}
    rest = holdfast.results("apply", "--plan", "out")
    assert {name: each["status"] for name, each in rest.items()} == {
        "a": "unchanged",
        "c": "applied",
        "team/b": "applied",
    }
    assert rest["a"]["notes"] == ["already applied"]
    assert rest["a"]["run"] == one["a"]["run"]
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert len(list((holdfast.folder / ".holdfast/used").iterdir())) == 3
    copy = shutil.copytree(out, holdfast.folder.parent / "copy")
    assert holdfast.results("apply", "--plan", str(copy / "c"))["c"]["status"] == "unchanged"
    assert len(list((holdfast.folder / ".holdfast/used").iterdir())) == 3


def test_a_changed_byte_is_refused_on_the_command_line(holdfast: Program) -> None:
    """The program says exit 3 and what is wrong, changes nothing, and the plan is still unused."""
    stacks(holdfast, "a")
    holdfast.ok("plan", "--out", "out")
    file = holdfast.folder / "out/a/plan.sealed"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    ran = holdfast.ok("apply", "--plan", "out", code=3)
    assert "HF-BUND-3" in ran.err
    assert "plan.sealed was changed" in ran.err
    assert never_applied(holdfast, "a")
    file.write_bytes(content)
    assert holdfast.results("apply", "--plan", "out")["a"]["status"] == "applied"


def _tfvars(program: Program) -> None:
    program.write("vars/a.tfvars", 'x = "another"\n')


def _code(program: Program) -> None:
    program.write("module/main.tf", MODULE + "# a comment\n")


def _read_file(program: Program) -> None:
    program.write("module/policy.json", '{"other": true}')


def _module(program: Program) -> None:
    program.write(
        "holdfast.yaml",
        (program.folder / "holdfast.yaml").read_text().replace("module: module", "module: other"),
    )
    shutil.copytree(program.folder / "module", program.folder / "other")


def _backend(program: Program) -> None:
    with (program.folder / "holdfast.yaml").open("a") as file:
        file.write("    backend: { type: local, settings: { path: /nowhere/else.tfstate } }\n")
    program.write("module/backend.tf", 'terraform { \n backend "local" {} \n}\n')


def test_what_the_plan_was_made_from_must_be_the_same(holdfast: Program) -> None:
    """Variables, code, files that are read, the module, the backend: any changed since, refused."""
    stacks(holdfast, "a")
    holdfast.write("module/policy.json", "{}")
    holdfast.write("module/policy.tf", 'output "policy" {\n  value = file("${path.module}/policy.json")\n}\n')
    holdfast.ok("plan", "--out", "out")
    kept = shutil.copytree(holdfast.folder, holdfast.folder.parent / "kept")
    for change in (_tfvars, _code, _read_file, _module, _backend):
        change(holdfast)
        error = refused(holdfast, "out")
        assert error["code"] == "HF-BUND-6", change
        assert "changed since the plan was made" in error["message"]
        (holdfast.folder / "module/backend.tf").unlink(missing_ok=True)
        shutil.copytree(kept, holdfast.folder, dirs_exist_ok=True)
    assert never_applied(holdfast, "a")
    assert holdfast.results("apply", "--plan", "out")["a"]["status"] == "applied"


def test_a_stack_that_is_no_more_is_refused(holdfast: Program) -> None:
    """A bundle for another repository's stack is not applied to anything else."""
    stacks(holdfast, "a", "b")
    holdfast.ok("plan", "a", "--out", "out")
    (holdfast.folder / "vars/a.tfvars").unlink()
    assert refused(holdfast, "out")["code"] == "HF-BUND-9"


def test_a_plan_is_stale_once_somebody_applied_in_between(holdfast: Program) -> None:
    """The state moved: Terraform refuses the plan, in words that say so, and the state stays as it is."""
    stacks(holdfast, "a")
    holdfast.ok("apply", "--yes")
    holdfast.write("vars/a.tfvars", 'x = "second"\n')
    holdfast.ok("plan", "--out", "out")
    holdfast.ok("apply", "--yes")
    after = state(holdfast, "a")
    one = holdfast.results("apply", "--plan", "out", code=3)["a"]
    assert one["status"] == "refused"
    assert one["error"]["code"] == "HF-BUND-11"
    assert state(holdfast, "a") == after


@pytest.mark.parametrize("owner", ["production", "ci"])
def test_with_another_run_store_nobody_knows_whether_it_was_used(holdfast: Program, owner: str) -> None:
    """Production and what CI owns are refused there; elsewhere a person is warned."""
    environment = "prod" if owner == "production" else "dev"
    stacks(holdfast, "a", environment=environment)
    if owner == "ci":
        with (holdfast.folder / "holdfast.yaml").open("a") as file:
            file.write("    target: aws\ntargets: { aws: { owner: ci } }\nstore: .holdfast\n")
    environment_of_ci = {"CI": "true", "HOLDFAST_KEY": KEY} if owner == "ci" else {}
    holdfast.ok("plan", "--out", "out", env=environment_of_ci)
    store = holdfast.folder / ".holdfast"
    identity = (store / "store.json").read_bytes()
    (store / "store.json").unlink()
    lost = holdfast.ok("apply", "--plan", "out", env=environment_of_ci, code=6).text
    assert "store.json is missing" in lost
    (store / "store.json").write_bytes(identity.replace(b'"id":"01', b'"id":"00'))
    other = holdfast.ok("apply", "--plan", "out", env=environment_of_ci, code=6).text
    assert "copied from another store" in other
    shutil.rmtree(store)
    error = refused(holdfast, "out", env=environment_of_ci)
    assert error["code"] == "HF-BUND-7"
    assert never_applied(holdfast, "a", env=environment_of_ci)


def test_elsewhere_another_run_store_is_a_warning(holdfast: Program) -> None:
    """A clone without the record applies a development bundle, and says what is no longer checked."""
    stacks(holdfast, "a")
    holdfast.ok("plan", "--out", "out")
    clone = Program(
        holdfast.folder.parent / "clone",
        home=holdfast.home,
        path=holdfast.environment["PATH"],
        user_home=holdfast.folder.parent / "user",
    )
    ignored = shutil.ignore_patterns(".holdfast")
    shutil.copytree(holdfast.folder, clone.folder, dirs_exist_ok=True, ignore=ignored)
    ran = clone.ok("apply", "--plan", "out", "--json")
    assert "another run store" in ran.err
    (one,) = json.loads(ran.out)["stacks"]
    assert one["status"] == "applied"
    assert any("another run store" in note for note in one["notes"])


def test_the_wrong_key_is_named(holdfast: Program) -> None:
    """With another key the answer names both, in clear words, and nothing is called absent."""
    stacks(holdfast, "a")
    holdfast.ok("plan", "--out", "out", env={"HOLDFAST_KEY": KEY})
    sealed_with = json.loads((holdfast.folder / "out/change.json").read_text())["key"]
    error = refused(holdfast, "out", env={"HOLDFAST_KEY": OTHER_KEY})
    assert error["code"] == "HF-BUND-10"
    assert sealed_with in error["message"]
    assert "the current key is" in error["message"]
    assert "HOLDFAST_KEY" in error["hint"]


def test_a_folder_that_is_not_empty_is_left_alone(holdfast: Program) -> None:
    """`--out` into a folder with anything in it is exit 64, and the folder is as it was."""
    stacks(holdfast, "a")
    holdfast.write("out/mine.txt", "keep")
    ran = holdfast.ok("plan", "--out", "out", code=64)
    assert "HF-BUND-1" in ran.err
    assert [path.name for path in (holdfast.folder / "out").iterdir()] == ["mine.txt"]
    assert not (holdfast.folder / ".holdfast").exists()


def test_in_ci_a_bundle_needs_a_key_that_lasts(holdfast: Program) -> None:
    """Without HOLDFAST_KEY `--out` in CI is exit 64 before a key, a folder or a record is written."""
    stacks(holdfast, "a")
    ran = holdfast.ok("plan", "--out", "out", code=64, env={"CI": "true"})
    assert "HF-KEY-9" in ran.err
    assert not (holdfast.folder / "out").exists()
    assert not (holdfast.folder / ".holdfast").exists()
    assert not (holdfast.home / "key").exists()


def test_of_an_empty_selection_there_is_nothing_to_apply(holdfast: Program) -> None:
    """A pipeline that always plans and applies goes on when a change touches no stack."""
    stacks(holdfast, "a")
    holdfast.ok("plan", "--changed", "README.md", "--out", "out")
    document = holdfast.json("apply", "--plan", "out")
    assert document["stacks"] == []
    assert document["summary"]["stacks"] == 0


@pytest.mark.long
def test_an_unchanged_stack_applies_as_unchanged(holdfast: Program) -> None:
    """A bundle without changes does nothing, and its plan is not used up by that."""
    stacks(holdfast, "a")
    holdfast.ok("apply", "--yes")
    before = state(holdfast, "a")
    holdfast.ok("plan", "--out", "out")
    for _ in range(2):
        assert holdfast.results("apply", "--plan", "out")["a"]["status"] == "unchanged"
    assert state(holdfast, "a") == before


def test_a_bundle_of_a_stack_that_reads_anything_is_applied(holdfast: Program) -> None:
    """A bundle inside the repository is no part of what a stack with a computed path was planned from."""
    stacks(holdfast, "a")
    holdfast.write(
        "module/computed.tf",
        """
        output "file" {
          value = file("../${substr(timestamp(), 0, 0)}vars/a.tfvars")
        }
        """,
    )
    planned = holdfast.results("plan", "--out", "bundles/out")["a"]
    assert any("computed" in note for note in planned["notes"])
    assert holdfast.results("apply", "--plan", "bundles/out")["a"]["status"] == "applied"


def test_no_secret_stands_in_a_bundle_in_clear(holdfast: Program) -> None:
    """A sensitive variable's value is in no file of the bundle, nor in what is shown of it."""
    stacks(holdfast, "a")
    holdfast.write(
        "module/main.tf",
        """
        variable "x" {
          sensitive = true
        }
        resource "terraform_data" "it" {
          input            = var.x
          triggers_replace = var.x
        }
        output "x" {
          value     = var.x
          sensitive = true
        }
        """,
    )
    holdfast.write("vars/a.tfvars", 'x = "hunter2-is-secret"\n')
    said = [holdfast.ok("plan", "--out", "out", "--verbose").text, holdfast.ok("apply", "--plan", "out").text]
    for path in (holdfast.folder / "out").rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path
    assert "hunter2" not in "".join(said)
    assert (holdfast.folder / "out/a/plan.sealed").is_file()
    left = [path for path in holdfast.home.rglob("*") if path.is_file() and path.name != "a.tfvars"]
    assert left
    assert all(b"hunter2" not in path.read_bytes() for path in left)


def test_a_plan_of_another_version_is_refused(holdfast: Program, terraform_folder: Path) -> None:
    """The same product in another version, or another product, does not apply a bundle."""
    stacks(holdfast, "a")
    holdfast.ok("plan", "--out", "out")
    real = terraform_folder / "terraform"
    tools = holdfast.folder.parent / "tools"
    for name, version in (("terraform", "1.99.0"), ("tofu", None)):
        folder = tools / name
        folder.mkdir(parents=True)
        program = folder / name
        program.write_text(
            f"""#!/bin/sh
if [ "$1" = version ]; then
  echo '{{"terraform_version": "{version or "1.15.5"}"}}'
else
  exec "{real}" "$@"
fi
"""
        )
        program.chmod(0o755)
        with_engine = (holdfast.folder / "holdfast.yaml").read_text().split("engine:")[0]
        holdfast.write("holdfast.yaml", f"{with_engine}engine: {{ use: binary }}\n")
        error = refused(holdfast, "out", env={"PATH": f"{folder}:{holdfast.environment['PATH']}"})
        assert error["code"] == "HF-BUND-5"
        assert (version or "tofu") in error["message"]


LAB = """
terraform {
  required_providers {
    lab = { source = "holdfast.dev/labs/lab", version = "1.0.0" }
  }
}
variable "objects" {}
variable "delay" { default = 0 }
provider "lab" {
  directory = var.objects
  delay     = var.delay
}
resource "lab_object" "it" {
  name = "made"
}
"""


def test_a_plan_is_used_up_before_terraform_starts(with_lab: Program) -> None:
    """Killed in the middle of an apply, the program leaves the mark: the plan is not applied once more."""
    stacks(with_lab, "a")
    with_lab.write("module/main.tf", LAB.replace("default = 0", "default = 3"))
    with_lab.write("vars/a.tfvars", "")
    with_lab.ok("plan", "--out", "out")
    assert not (with_lab.folder / ".holdfast/used").exists()
    objects = Path(with_lab.environment["TF_VAR_objects"])
    process = with_lab.start("apply", "--plan", "out")
    eventually(lambda: any(objects.iterdir()), what="the apply began")
    process.send_signal(signal.SIGKILL)
    process.wait()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()
    assert len(list((with_lab.folder / ".holdfast/used").iterdir())) == 1
    none_left(with_lab)
    again = with_lab.results("apply", "--plan", "out")["a"]
    assert again["status"] == "unchanged"
    assert "already applied" in again["notes"]
    assert len(list(objects.iterdir())) == 1


@pytest.mark.long
def test_a_bundle_carries_its_lock_file(with_lab: Program) -> None:
    """The providers of the plan are in the bundle, sealed, and the apply has exactly these."""
    stacks(with_lab, "a")
    with_lab.write("module/main.tf", LAB)
    with_lab.write("vars/a.tfvars", "")
    with_lab.ok("plan", "--out", "out")
    assert (with_lab.folder / "out/a/lock.sealed").is_file()
    assert with_lab.results("apply", "--plan", "out")["a"]["status"] == "applied"


@pytest.mark.long
def test_a_dependency_that_moved_refuses_the_bundle(holdfast: Program) -> None:
    """Planned beside one state of its dependency, a stack is not applied beside another."""
    stacks(holdfast, "network")
    holdfast.write(
        "holdfast.yaml",
        (holdfast.folder / "holdfast.yaml").read_text()
        + "  - { name: app, module: module, environment: dev, depends_on: [network] }\n",
    )
    holdfast.ok("apply", "network", "--yes")
    holdfast.ok("plan", "--out", "same")
    assert holdfast.results("apply", "--plan", "same")["app"]["status"] == "applied"

    holdfast.write("module/main.tf", MODULE.replace("var.x", '"${var.x}!"'))
    holdfast.ok("plan", "app", "--out", "apart")
    holdfast.ok("apply", "network", "--yes")
    error = refused(holdfast, "apart")
    assert error["code"] == "HF-BUND-8"
    assert "network" in error["message"]
    assert "serial" in error["message"]
