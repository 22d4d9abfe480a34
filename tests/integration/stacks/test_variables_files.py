"""Variables files on disk, and discovery of a repository that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.read import load
from holdfast.hcl.eval.worktree import Worktree
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.text import plain_text
from holdfast.stacks.discover import discover
from holdfast.stacks.listing import FolderTree
from holdfast.stacks.scope import variables_reader


def test_both_syntaxes_give_their_values(tmp_path: Path) -> None:
    """Plain values, lists and maps, from HCL and from JSON."""
    (tmp_path / "a.tfvars").write_text(
        'env = "dev"\ncount = 3\non = true\nzones = ["a"]\ntags = { k = "v" }\n'
    )
    (tmp_path / "b.tfvars.json").write_text('{"env": "dev", "count": 3, "zones": ["a"], "tags": {"k": "v"}}')
    read = variables_reader(Worktree(tmp_path))
    native, as_json = read("a.tfvars"), read("b.tfvars.json")
    assert (native["env"], native["count"], native["on"]) == ("dev", 3, True)
    assert native["zones"] == as_json["zones"] == ("a",)
    assert native["tags"] == as_json["tags"] == {"k": "v"}


@pytest.mark.parametrize("content", [b"env = \xff", b'env = "', b"= = ="])
def test_a_broken_file_is_an_error_with_its_place(tmp_path: Path, content: bytes) -> None:
    """Half a file's values are never believed: one of them may say production."""
    (tmp_path / "a.tfvars").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        variables_reader(Worktree(tmp_path))("a.tfvars")
    assert caught.value.problem.place is not None
    assert caught.value.problem.place.file == "a.tfvars"


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """A file that went away between looking and reading."""
    with pytest.raises(ConfigError) as caught:
        variables_reader(Worktree(tmp_path))("gone.tfvars")
    assert caught.value.problem.code == "HF-STACK-13"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (True, "true"),
        (3, "3"),
        (3.0, "3"),
        (1.5, "1.5"),
        (None, None),
        (("a",), None),
        ({}, None),
    ],
)
def test_values_in_text(value: object, text: str | None) -> None:
    """A single value is written as Terraform writes it; anything else has no text."""
    assert plain_text(value) == text


def test_a_repository_on_disk(tmp_path: Path) -> None:
    """Everything together: configuration, folders, values from files."""
    (tmp_path / "holdfast.yaml").write_text(
        "version: 1\nenvironments: { dev: {} }\n"
        "stacks: [{ variables: 'v/{name}.tfvars', account: '{var.account_id}' }]\n"
    )
    (tmp_path / "main.tf").write_text("")
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "a.tfvars").write_text('environment = "dev"\naccount_id = "012"\n')
    (stack,) = discover(
        load(tmp_path / "holdfast.yaml"),
        files=FolderTree(tmp_path),
        read_values=variables_reader(Worktree(tmp_path)),
        code_backend=lambda _: None,
    )
    assert (stack.name, stack.environment, stack.production, stack.account) == ("v/a", "dev", False, "012")
