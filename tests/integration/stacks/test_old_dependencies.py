"""The dependencies of stacks before a change follow from the code and the values of that time."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.changes.old_repository import OldRepository
from holdfast.config import read as config_read
from holdfast.hcl.eval.code import Code

BACKEND = 'terraform {\n  backend "s3" {\n    bucket = "b"\n    key = "%s"\n  }\n}\n'
READ = 'data "terraform_remote_state" "x" {\n  backend = "s3"\n  config = { bucket = "b", key = "%s" }\n}\n'
CONFIG = "version: 1\nstacks:\n" + "".join(
    f"  - {{ name: {name}, module: {name}, variables_files: [v.tfvars] }}\n" for name in ("a", "b", "c")
)


@pytest.mark.parametrize(
    ("path", "before", "dependencies"),
    [
        ("c/read.tf", READ % "a", ("a",)),
        ("c/read.tf", "", ()),
        ("v.tfvars", 'key = "a"\n', ("a",)),
        ("m/main.tf", READ % "a", ("a", "b")),
        ("b/main.tf", BACKEND % "elsewhere", ()),
        ("readme.md", "", ("b",)),
    ],
)
def test_an_old_read_is_an_old_dependency(
    tmp_path: Path, path: str, before: str, dependencies: tuple[str, ...]
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "main.tf").write_text(BACKEND % name)
    (tmp_path / "m").mkdir()
    (tmp_path / "m/main.tf").write_text("")
    call = 'variable "key" {}\nmodule "m" {\n  source = "../m"\n}\n'
    (tmp_path / "c/call.tf").write_text(call)
    (tmp_path / "c/read.tf").write_text((READ % "x").replace('"x" }', "var.key }"))
    (tmp_path / "v.tfvars").write_text('key = "b"\n')
    (tmp_path / "holdfast.yaml").write_text(CONFIG)
    config = config_read.load(tmp_path / "holdfast.yaml")
    old = OldRepository(config, Code(tmp_path), {path: before.encode()})
    assert old.stacks is not None
    assert old.stacks["c"].depends_on == dependencies
