from __future__ import annotations

import stat
from pathlib import Path

import pytest
from program import Program

LAB = """
    terraform {
      required_providers {
        lab = { source = "holdfast.dev/labs/lab", version = ">= 1.0.0" }
      }
    }
    variable "objects" {}
    provider "lab" {
      directory = var.objects
    }
    resource "lab_object" "a" {
      name = "a"
    }
"""


def tree(holdfast: Program, stack: str = "only") -> Path:
    [found] = holdfast.home.glob(f"work/*/{stack}/0/tree")
    return found


def laid_out(holdfast: Program) -> set[str]:
    """Files of the work directory, but Terraform's own."""
    top = tree(holdfast)
    return {
        str(path.relative_to(top))
        for path in top.rglob("*")
        if path.is_file() and ".terraform" not in path.parts and path.name != ".terraform.lock.hcl"
    }


def one_stack(holdfast: Program, code: str) -> None:
    holdfast.write("holdfast.yaml", "version: 1\nstacks:\n  - {name: only, module: live/app}\n")
    holdfast.write("live/app/main.tf", code)


def test_only_what_is_reached_lies_there_and_nobody_else_may_look(holdfast: Program) -> None:
    """Modules and files in their relative layout, private, outside the source; a deleted file disappears."""
    one_stack(
        holdfast,
        """
        module "m" {
          source = "../../modules/m"
        }
        resource "terraform_data" "a" {
          input = [for name in fileset("${path.module}/data", "*.txt") : file("${path.module}/data/${name}")]
        }
        """,
    )
    holdfast.write("modules/m/main.tf", 'output "t" {\n  value = file("${path.module}/text.txt")\n}\n')
    holdfast.write("modules/m/text.txt", "text")
    holdfast.write("modules/m/unrelated.md", "not read")
    holdfast.write("modules/other/main.tf", "")
    holdfast.write("live/app/data/one.txt", "1")
    holdfast.write("live/app/data/two.txt", "2")
    (holdfast.folder / "live/app/data/two.txt").chmod(0o755)
    (holdfast.folder / "live/app/linked.tf").symlink_to("../../shared.tf")
    holdfast.write("shared.tf", 'output "shared" {\n  value = 1\n}\n')
    assert holdfast.results("plan")["only"]["notes"] == []
    expected = {
        "live/app/main.tf",
        "live/app/linked.tf",
        "live/app/data/one.txt",
        "live/app/data/two.txt",
        "modules/m/main.tf",
        "modules/m/text.txt",
    }
    found = {name for name in laid_out(holdfast) if "holdfast" not in name}
    assert found - {"shared.tf"} == expected
    top = tree(holdfast)
    assert holdfast.folder not in top.parents
    folders = [path for path in (holdfast.home / "work").rglob("*") if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
    assert stat.S_IMODE((top / "live/app/data/two.txt").stat().st_mode) == 0o700
    assert stat.S_IMODE((top / "live/app/data/one.txt").stat().st_mode) == 0o600
    assert not (top / "live/app/linked.tf").is_symlink()
    (holdfast.folder / "live/app/data/two.txt").unlink()
    planned = holdfast.results("apply", "--yes")["only"]
    assert planned["status"] == "applied"
    assert "live/app/data/two.txt" not in laid_out(holdfast)
    left = [path.name for path in (top / "live/app").iterdir() if path.name.startswith("holdfast.")]
    assert left == []


def test_a_path_that_cannot_be_followed_brings_the_whole_tree(holdfast: Program) -> None:
    """A missing file must never change a plan: ignored files come too, and the note says why."""
    one_stack(
        holdfast,
        """
        resource "terraform_data" "which" {
          input = "b"
        }
        resource "terraform_data" "a" {
          input = fileset("${path.module}/${terraform_data.which.id == null ? "x" : "../../build"}", "*")
        }
        output "read" {
          value = file("../../build/${terraform_data.which.input}.txt")
        }
        """,
    )
    holdfast.write("build/b.txt", "ignored and read")
    holdfast.write(".gitignore", "build/\n")
    holdfast.write("elsewhere/c.txt", "never named")
    holdfast.commit_all()
    planned = holdfast.results("apply", "--yes")["only"]
    assert planned["outputs"]["read"]["value"] == "ignored and read"
    assert any("live/app/main.tf" in note for note in planned["notes"])
    assert {"build/b.txt", "elsewhere/c.txt", ".gitignore"} <= laid_out(holdfast)
    assert not any(name.startswith((".git/", ".holdfast/")) for name in laid_out(holdfast))


def test_a_state_that_another_stack_reads_is_there_for_it(holdfast: Program) -> None:
    """`terraform_remote_state` with a relative path works as it does beside the code."""
    holdfast.write(
        "holdfast.yaml",
        'version: 1\nstacks:\n  - folder: live/{c}\n    name: "{c}"\n'
        "  - {name: reader, module: reader, depends_on: [net]}\n",
    )
    local = 'terraform {\n  backend "local" {}\n}\n'
    holdfast.write("live/net/main.tf", local + 'output "id" {\n  value = "net-1"\n}\n')
    holdfast.write(
        "reader/main.tf",
        local
        + """
data "terraform_remote_state" "net" {
  backend = "local"
  config = {
    path = "../live/net/terraform.tfstate"
  }
}
output "id" {
  value = data.terraform_remote_state.net.outputs.id
}
""",
    )
    applied = holdfast.results("apply", "--yes")
    assert applied["reader"]["outputs"]["id"]["value"] == "net-1"
    assert list((holdfast.home / "work").rglob("terraform.tfstate")) == list(
        (holdfast.home / "work").rglob(".terraform/terraform.tfstate")
    )


@pytest.mark.long
def test_the_lock_file_is_the_sources_and_its_changes_are_told(with_lab: Program) -> None:
    """A lock file that is missing or would change is a note; `--lockfile update` writes it back."""
    one_stack(with_lab, LAB)
    lock = with_lab.folder / "live/app/.terraform.lock.hcl"
    notes = with_lab.results("plan")["only"]["notes"]
    assert any("lock file is missing" in note and "--lockfile update" in note for note in notes)
    assert not lock.exists()
    with_lab.ok("plan", "--lockfile", "update")
    assert 'provider "holdfast.dev/labs/lab"' in lock.read_text()
    assert with_lab.results("plan")["only"]["notes"] == []
    written = lock.read_text()
    assert 'version     = "2.0.0"' in written
    lock.write_text(
        written.replace('version     = "2.0.0"', 'version     = "1.0.0"').partition("  hashes")[0] + "}\n"
    )
    planned = with_lab.results("apply", "--yes")["only"]
    assert any("lock file would change" in note for note in planned["notes"])
    used = (tree(with_lab) / "live/app/.terraform.lock.hcl").read_text()
    assert 'version     = "1.0.0"' in used
