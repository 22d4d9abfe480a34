"""What lies in real folders under names of code, and names in code that no file can have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.hcl.eval.code import Code


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "main.tf").write_text("locals {\n  a = 1\n}\n", encoding="utf-8")
    return tmp_path / "m"


def test_a_folder_with_a_name_of_code_is_no_code(module: Path) -> None:
    """Terraform passes it over."""
    (module / "x.tf").mkdir()
    code = Code(module.parent).module("m")
    assert ([file.path for file in code.files], list(code.problems)) == (["m/main.tf"], [])


@pytest.mark.parametrize("kind", ["a pipe", "a device"])
def test_what_never_ends_is_not_read(module: Path, kind: str) -> None:
    """A pipe waits for somebody, a device gives for ever: a link to one may stand in any repository."""
    odd = module / "odd.tf"
    if kind == "a pipe":
        os.mkfifo(odd)
    else:
        odd.symlink_to("/dev/zero")
    (problem,) = Code(module.parent).module("m").problems
    assert (problem.code, str(problem.place)) == ("HF-HCL-5", "m/odd.tf")


@pytest.mark.parametrize("name", ["a\0b", "\0", "m/\0.json"])
def test_a_name_that_no_file_can_have_is_of_no_file(module: Path, name: str) -> None:
    """Code may write it as the source of a module, or as a path: nothing is there."""
    code = Code(module.parent)
    assert not code.module(name).exists
    assert code.content(name) is None
    assert code.file(f"{name}.tf") is None
