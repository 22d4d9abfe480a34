"""What Git keeps, would keep and has ever kept, as the checks are told."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.system import git as git_door
from holdfast.system.git import Git

IDENTITY = {
    "GIT_AUTHOR_NAME": "n",
    "GIT_AUTHOR_EMAIL": "n@example.com",
    "GIT_COMMITTER_NAME": "n",
    "GIT_COMMITTER_EMAIL": "n@example.com",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "PATH": os.environ["PATH"],
}


def run(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, env=IDENTITY, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    run(folder, "init", "-q", "-b", "main")
    (folder / "a b.tf").write_text("a")
    (folder / "old.tfstate").write_text("{}")
    run(folder, "add", ".")
    run(folder, "commit", "-qm", "one")
    run(folder, "rm", "-q", "old.tfstate")
    run(folder, "commit", "-qm", "two")
    run(folder, "checkout", "-qb", "side")
    (folder / "é.key").write_text("k")
    run(folder, "add", ".")
    run(folder, "commit", "-qm", "three")
    run(folder, "checkout", "-q", "main")
    return folder


def found(folder: Path) -> Git:
    git = git_door.find(folder, IDENTITY)
    assert git is not None
    return git


def test_what_was_ever_added_is_listed_with_its_commit(repository: Path) -> None:
    """Of every branch, the newest first, files that are gone and names with odd letters included."""
    added = found(repository).added()
    assert [one.paths for one in added] == [("é.key",), ("a b.tf", "old.tfstate")]
    assert all(len(one.commit) == 40 and one.date.startswith("20") for one in added)
    assert not found(repository).shallow()


def test_a_shallow_clone_is_reported(repository: Path, tmp_path: Path) -> None:
    """Its history is cut off: who looks must know."""
    run(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "clone")
    assert found(tmp_path / "clone").shallow()


def test_what_git_would_keep_is_listed_and_what_it_ignores_is_not(repository: Path) -> None:
    """Untracked files, without those that .gitignore names."""
    (repository / ".gitignore").write_text("*.log\n")
    (repository / "new.tf").write_text("")
    (repository / "crash.log").write_text("")
    assert found(repository).untracked() == (".gitignore", "new.tf")


def test_a_repository_without_a_commit_has_no_history(tmp_path: Path) -> None:
    """Nothing was ever added; that is no failure."""
    run(tmp_path, "init", "-q")
    assert found(tmp_path).added() == ()


def test_every_content_is_named_with_the_commit_that_brought_it(repository: Path) -> None:
    """Changed files too, and those of a merge that are like no parent's; no links."""
    (repository / "a b.tf").write_text("main")
    (repository / "link").symlink_to("a b.tf")
    run(repository, "add", ".")
    run(repository, "commit", "-qm", "four")
    run(repository, "merge", "-q", "--no-commit", "--no-ff", "side")
    (repository / "a b.tf").write_text("merged")
    run(repository, "add", ".")
    run(repository, "commit", "-qm", "five")
    git = found(repository)
    brought = [[path for path, _ in one.blobs] for one in git.added()]
    assert sorted(brought) == [["a b.tf"], ["a b.tf"], ["a b.tf", "old.tfstate"], ["é.key"]]
    ids = {path: blob for one in reversed(git.added()) for path, blob in one.blobs}
    contents = {blob.id: blob.content for blob in git.blobs(tuple(ids.values()), largest=10)}
    assert {path: contents[blob] for path, blob in ids.items()} == {
        "a b.tf": b"merged",
        "old.tfstate": b"{}",
        "é.key": b"k",
    }


def test_contents_are_complete_or_have_a_reason(tmp_path: Path) -> None:
    """Bytes of any kind; what is too large, or is not there, is no empty content."""
    run(tmp_path, "init", "-q")
    odd = b"\0\n\nx" * 3
    (tmp_path / "odd").write_bytes(odd)
    (tmp_path / "none").write_bytes(b"")
    (tmp_path / "large").write_bytes(b"a" * 100)
    run(tmp_path, "add", ".")
    run(tmp_path, "commit", "-qm", "one")
    ids = dict(found(tmp_path).added()[0].blobs)
    gone = "0" * 39 + "1"
    wanted = (ids["odd"], ids["large"], gone, ids["none"])
    blobs = {blob.id: (blob.content, blob.why_not) for blob in found(tmp_path).blobs(wanted, largest=99)}
    assert blobs == {
        ids["odd"]: (odd, None),
        ids["none"]: (b"", None),
        ids["large"]: (None, "it is larger than 0 MB"),
        gone: (None, "it is not in this clone"),
    }


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (["N <other@acme.io>", "Nora <n@acme.io>", "Nora Ek <12+n@users.noreply.github.com>"], 1),
        (["Renovate Bot <renovate@acme.io>", "dependabot[bot] <d@acme.io>", "flux-updater <f@acme.io>"], 1),
        (["release-bot <r@acme.io>", "GitHub <noreply@github.com>"], 1),
        (["Mia Abbot <mia@acme.io>"], 2),
        (["Ida <me@ida.dev>", "Tom <me@tom.dev>"], 3),
        (["Ida Ék <Ida.Ek@acme.io>", "idaek <ida@home.dev>", "I. E. <ida-ek@ACME.io>"], 2),
    ],
)
def test_people_with_several_names_and_bots(repository: Path, others: list[str], expected: int) -> None:
    for author in others:
        run(repository, "commit", "-qm", "more", "--allow-empty", f"--author={author}")
    assert found(repository).authors() == expected


def test_a_shallow_clone_counts_the_people_it_has(repository: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    run(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", str(clone))
    assert found(clone).shallow()
    assert found(clone).authors() == 1
