"""Commits of a registered repository: fetched once, verified, and without running anything of theirs."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from certificates import write_certificate
from git_server import git_host

from holdfast.kernel.errors import Failed, UsageError
from holdfast.kernel.secret import Secret
from holdfast.system import confine, processes
from holdfast.system.git_mirror import GitMirror
from holdfast.system.git_remote import protocol_of
from holdfast.worker.source_folders import Commit, SourceFolders

VARIABLES = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "HOLDFAST_TOKEN": "never"}


class Origin:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        own = {"GIT_CONFIG_GLOBAL": "/dev/null", "PATH": os.environ["PATH"]}
        names = ("-c", "user.name=Ida", "-c", "user.email=ida@example.com")
        ran = subprocess.run(
            ["git", *names, *arguments], cwd=self.folder, env=own, capture_output=True, text=True, check=True
        )
        return ran.stdout.strip()

    def commit(self, text: str) -> str:
        (self.folder / "main.tf").write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", text)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return Origin(tmp_path / "origin")


def folders(tmp_path: Path) -> SourceFolders:
    return SourceFolders(tmp_path / "sources", tmp_path / "repositories", VARIABLES)


def test_an_own_authority_is_trusted_as_by_everything_else(tmp_path: Path, origin: Origin) -> None:
    """Git itself does not read SSL_CERT_FILE. Without it, the error says what to set."""
    commit = origin.commit("one")
    certificate = write_certificate(tmp_path)
    with git_host(tmp_path, certificate=certificate) as host:
        url = f"{host.url}/origin/.git"
        trusting = {**VARIABLES, "SSL_CERT_FILE": str(certificate[0])}
        assert GitMirror(tmp_path / "a.git", url, trusting).fetch("main") == commit
        with pytest.raises(Failed, match="HF-SRC-5") as raised:
            GitMirror(tmp_path / "b.git", url, VARIABLES).fetch("main")
        assert "SSL_CERT_FILE" in str(raised.value.problem.hint)


@pytest.mark.skipif(not confine.landlock_abi(), reason="needs Landlock")
def test_code_of_one_change_cannot_change_that_of_another(
    tmp_path: Path, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook in the copy of a repository would get its credentials, and every later change its objects."""
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path))
    first = origin.commit("one")
    sources = SourceFolders(tmp_path / "workers/1/sources", tmp_path / "repositories", VARIABLES)
    with git_host(tmp_path) as host:

        def fetched(source: str, revision: str) -> Path:
            wanted = Commit(repository="r", url=f"{host.url}/origin/.git", revision=revision)
            return sources.open_commit(source, wanted)[0]

        folder = fetched("s1", first)
        for file in (tmp_path / "repositories/r.git/config", folder / "main.tf", folder / "new.tf"):
            before = file.read_text() if file.exists() else None
            written = processes.run(("tee", str(file)), folder=tmp_path, environment=VARIABLES, stdin=b"bad")
            assert written.code != 0
            assert (file.read_text() if file.exists() else None) == before
        assert processes.run(("cat", "main.tf"), folder=folder, environment=VARIABLES).out == b"one"
        assert (fetched("s2", origin.commit("two")) / "main.tf").read_text() == "two"


def test_a_branch_a_tag_and_a_commit_are_checked_out(tmp_path: Path, origin: Origin) -> None:
    first = origin.commit("one")
    origin.git("tag", "-a", "v1", "-m", "v1")
    second = origin.commit("two")
    sources = folders(tmp_path)
    with git_host(tmp_path) as host:
        url = f"{host.url}/origin/.git"
        for number, (revision, commit) in enumerate(
            [("main", second), ("refs/heads/main", second), ("v1", first), (first, first), (second, second)]
        ):
            wanted = Commit(repository="R", url=url, revision=revision)
            folder, fetched = sources.open_commit(f"S{number}", wanted)
            assert fetched == commit
            assert (folder / "main.tf").read_text() == ("one" if commit == first else "two")
            assert folder.stat().st_mode & 0o777 == 0o700
        third = origin.commit("three")
        main = Commit(repository="R", url=url, revision="main")
        assert sources.open_commit("S0", main)[1] == second  # As it was resolved for this source.
        assert sources.open_commit("S9", main)[1] == third
        for missing in ("nothing", "0" * 40):
            with pytest.raises(UsageError, match="HF-SRC-4"):
                sources.open_commit("S10", Commit(repository="R", url=url, revision=missing))
    sources.remove_unused({"S9"}, seconds=0)
    assert [path.name for path in (tmp_path / "sources").iterdir()] == ["S9"]
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path / "sources/S9", capture_output=True, check=True
    )
    assert status.stdout == b""


def test_a_base_is_fetched_with_the_common_history(tmp_path: Path, origin: Origin) -> None:
    base = origin.commit("base")
    origin.git("checkout", "--quiet", "-b", "feature")
    for number in range(60):
        origin.commit(f"feature {number}")
    origin.git("checkout", "--quiet", "main")
    tip = origin.commit("main moved")
    with git_host(tmp_path) as host:
        wanted = Commit(repository="R", url=f"{host.url}/origin/.git", revision="feature", base=tip)
        folder, commit = folders(tmp_path).open_commit("S", wanted)
    merged = subprocess.run(["git", "merge-base", "HEAD", tip], cwd=folder, capture_output=True, check=True)
    assert merged.stdout.decode().strip() == base != commit


def test_credentials_are_sent_and_found_nowhere(tmp_path: Path, origin: Origin) -> None:
    origin.commit("one")
    with git_host(tmp_path, user="x-access-token:very-secret") as host:
        url = f"{host.url}/origin/.git"
        wanted = Commit(repository="R", url=url, revision="main", credentials=Secret("very-secret\n"))
        folders(tmp_path).open_commit("S", wanted)
        for credentials in (None, Secret("wrong"), Secret("user:wrong")):
            wrong = Commit(repository="R2", url=url, revision="main", credentials=credentials)
            with pytest.raises(Failed, match="HF-SRC-6") as raised:
                folders(tmp_path).open_commit("S", wrong)
            assert "wrong" not in str(raised.value)
    stored = [path.read_bytes() for path in (tmp_path / "repositories").rglob("*") if path.is_file()]
    assert stored
    assert not any(b"very-secret" in content or b"Authorization" in content for content in stored)


def test_nothing_of_the_repository_is_run(tmp_path: Path, origin: Origin) -> None:
    """No hook, no filter, no submodule, and no configuration of the user."""
    (origin.folder / ".gitattributes").write_text("*.tf filter=evil\n")
    (origin.folder / ".gitmodules").write_text('[submodule "m"]\n path = m\n url = ../origin\n')
    commit = origin.commit("one")
    home = tmp_path / "home"
    home.mkdir()
    ran = tmp_path / "ran"
    (home / ".gitconfig").write_text(f'[filter "evil"]\n smudge = touch {ran}\n[core]\n hooksPath = {home}\n')
    (home / "post-checkout").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (home / "post-checkout").chmod(0o755)
    sources = SourceFolders(tmp_path / "s", tmp_path / "r", {**VARIABLES, "HOME": str(home)})
    with git_host(tmp_path) as host:
        wanted = Commit(repository="R", url=f"{host.url}/origin/.git", revision=commit)
        folder, _ = sources.open_commit("S", wanted)
    assert (folder / "main.tf").read_text() == "one"
    assert not ran.exists()


def test_fetches_at_the_same_time_wait_for_each_other(tmp_path: Path, origin: Origin) -> None:
    commit = origin.commit("one")
    with git_host(tmp_path) as host, ThreadPoolExecutor(4) as pool:
        mirrors = [GitMirror(tmp_path / "R.git", f"{host.url}/origin/.git", VARIABLES) for _ in range(4)]
        assert set(pool.map(lambda mirror: mirror.fetch("main"), mirrors)) == {commit}


@pytest.mark.parametrize(
    ("url", "protocol"),
    [
        ("https://git.example.com/acme/infra.git", "https"),
        ("http://127.0.0.1:8080/infra", "http"),
        ("ssh://git@git.example.com:2222/acme/infra", "ssh"),
        ("git@git.example.com:acme/infra.git", "ssh"),
        ("http://git.example.com/acme", None),
        ("https://ida:secret@git.example.com/acme", None),
        ("https://token@git.example.com/acme", None),
        ("ssh://-oProxyCommand=x/acme", None),
        ("-oProxyCommand=x@git.example.com:acme", None),
        ("file:///etc", None),
        ("/srv/git", None),
        ("ext::sh -c id", None),
        ("https://git.example.com/a\n[core]", None),
        ('https://git.example.com"]/a', None),
        ("", None),
    ],
)
def test_only_safe_addresses_are_accepted(url: str, protocol: str | None) -> None:
    if protocol is not None:
        assert protocol_of(url) == protocol
        return
    with pytest.raises(UsageError, match="HF-SRC-3") as raised:
        protocol_of(url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("name", ["-x", "a..b", "--upload-pack=x", "a b", "", "a:b", "a@{1}", "x.lock", "/a"])
def test_names_that_git_could_misread_are_refused(tmp_path: Path, name: str) -> None:
    mirror = GitMirror(tmp_path / "R.git", "https://git.invalid/x", VARIABLES)
    with pytest.raises(UsageError, match="HF-SRC-4"):
        mirror.fetch(name)
