"""Which repository a folder belongs to."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.system.repository import is_other, normal_address, repository_of


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://github.com/Ours/Infra.git", "github.com/ours/infra"),
        ("https://ada:s3cr3t@github.com/ours/infra/", "github.com/ours/infra"),
        ("git@github.com:ours/infra.git", "github.com/ours/infra"),
        ("ssh://git@git.example.com:7999/team/infra.git", "git.example.com/team/infra"),
        ("https://git.example.com/scm/team/infra.git", "git.example.com/team/infra"),
        ("https://ours@dev.azure.com/ours/web/_git/infra", "dev.azure.com/ours/web/infra"),
        ("git@ssh.dev.azure.com:v3/ours/web/infra", "ssh.dev.azure.com/ours/web/infra"),
        ("/srv/git/infra.git", ""),
        ("../infra", ""),
        ("file:///srv/git/infra.git", ""),
        ("C:/git/infra", ""),
        ("codecommit::eu-west-1://profile@infra", ""),
    ],
)
def test_every_way_to_write_an_address_is_one_repository(url: str, address: str) -> None:
    assert normal_address(url) == address


@pytest.mark.parametrize(
    ("last", "now", "other"),
    [
        ("github.com/ours/a", "github.com/ours/b", True),
        ("github.com/ours/a", "github.com-work/ours/a", False),
        ("ssh.dev.azure.com/ours/web/a", "dev.azure.com/ours/web/a", False),
        ("a" * 40, "b" * 40, True),
        ("a" * 40, "a" * 40, False),
        ("a" * 40, "github.com/ours/a", False),
        ("", "github.com/ours/a", False),
        ("github.com/ours/a", "", False),
    ],
)
def test_only_what_is_known_to_differ_is_another_repository(last: str, now: str, other: bool) -> None:  # noqa: FBT001
    assert is_other(last, now) is other


def test_a_repository_is_known_by_its_origin_or_its_first_commit(tmp_path: Path) -> None:
    top = tmp_path / "repo"
    inner = top / "infra"
    inner.mkdir(parents=True)
    assert repository_of(inner, os.environ) == ""
    git(top, "init", "--quiet")
    assert repository_of(inner, os.environ) == ""
    commit = (
        "-c",
        "user.name=x",
        "-c",
        "user.email=x@example.com",
        "commit",
        "--quiet",
        "--allow-empty",
        "-m",
    )
    git(top, *commit, "first")
    first = git(top, "rev-parse", "HEAD")
    git(top, *commit, "second")
    assert repository_of(inner, {**os.environ, "GIT_DIR": "/nowhere"}) == first
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{top}", "shallow")
    assert repository_of(tmp_path / "shallow", os.environ) == ""

    git(top, "remote", "add", "upstream", "https://github.com/them/infra")
    git(top, "remote", "add", "origin", "https://x:secret@github.com/ours/infra.git")
    git(top, "worktree", "add", "--quiet", str(tmp_path / "beside"))
    for folder in (top, inner, tmp_path / "beside"):
        # Without a process.
        assert repository_of(folder, {"PATH": "/nowhere"}) == "github.com/ours/infra"


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ("git", *arguments), cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()
