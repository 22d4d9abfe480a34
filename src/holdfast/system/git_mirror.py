"""A bare copy of a remote repository: commits are fetched into it, and checked out into their own folders."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar, Final

from holdfast.kernel.errors import UsageError
from holdfast.kernel.patterns import pattern
from holdfast.system import files
from holdfast.system.git_remote import GitRemote

_ID: Final = pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NAME: Final = pattern(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|$)))[\w][\w./+@#-]*(?<![./])")
_DEPTHS: Final = (50, 1000, 2**31 - 1)
"""Of history, until two commits have a common one."""


class GitMirror(GitRemote):
    check_hint: ClassVar[str] = "Check its address and credentials: holdfast repository list."
    missing_hint: ClassVar[str] = (
        "Register the repository with them: holdfast repository add NAME URL --credentials REFERENCE"
    )
    wrong_hint: ClassVar[str] = "Check the secret that `holdfast repository list` names"
    given: ClassVar[str] = "registered"
    where: ClassVar[str] = " of the workers"

    def fetch(self, revision: str, *, base: str | None = None) -> str:
        """The id of the commit that a branch, a tag or an id names now; with it, `base` and their history.

        One fetch at a time: others wait.
        """
        files.private_folder(self._folder.parent)
        with files.hold_lock(self._folder.with_suffix(".lock")):
            self._create()
            commit = self._fetch_commit(revision, depth=1)
            if base is not None:
                self._fetch_history(commit, self._fetch_commit(base, depth=1))
            return commit

    def check_out(self, commit: str, folder: Path) -> None:
        """Into a new folder, which is a Git working tree."""
        with files.hold_lock(self._folder.with_suffix(".lock")):
            self._git("worktree", "prune")
            added = self._git("worktree", "add", "--detach", "--force", "--no-checkout", str(folder), commit)
            if added.code == 0:
                folder.chmod(0o700)
                added = self._git("checkout", "--quiet", "--detach", commit, folder=folder)
            if added.code != 0:
                shutil.rmtree(folder, ignore_errors=True)
                raise self._error(f"commit {commit[:12]} cannot be checked out", added)

    def _fetch_commit(self, revision: str, *, depth: int) -> str:
        if _ID.fullmatch(revision):
            return self._fetch_id(revision, depth=depth)
        if not _NAME.fullmatch(revision):
            raise UsageError(
                "HF-SRC-4",
                f"{revision[:100]!r} is not the name of a branch or a tag, nor the id of a commit",
                hint="Give a branch, a tag, or all characters of a commit's id.",
            )
        name = revision.removeprefix("refs/heads/").removeprefix("refs/tags/")
        kinds = ("heads", "tags") if name == revision else (revision.split("/")[1],)
        for kind in kinds:
            goal = f"refs/holdfast/{kind}/{name}"
            fetched = self._git(*_fetch(depth), self._url, f"+refs/{kind}/{name}:{goal}", remote=True)
            if fetched.code == 0:
                return self._commit(goal)
            if b"couldn't find remote ref" not in fetched.err:
                raise self._error(f"{revision} cannot be fetched", fetched)
        raise UsageError(
            "HF-SRC-4",
            f"{self._url} has no branch or tag {revision}",
            hint="Check its name, and that it was pushed.",
        )

    def _fetch_id(self, commit: str, *, depth: int) -> str:
        if depth == 1 and self._git("cat-file", "-e", f"{commit}^{{tree}}").code == 0:
            return self._commit(commit)
        goal = f"refs/holdfast/commits/{commit}"
        fetched = self._git(*_fetch(depth), self._url, f"+{commit}:{goal}", remote=True)
        if fetched.code != 0:
            # Some hosts only give what a branch or tag has.
            branches = ("+refs/heads/*:refs/holdfast/heads/*", "+refs/tags/*:refs/holdfast/tags/*")
            everything = self._git(*_fetch(_DEPTHS[-1]), self._url, *branches, remote=True)
            if everything.code != 0:
                raise self._error(f"commit {commit[:12]} cannot be fetched", everything)
        return self._commit(commit)

    def _fetch_history(self, commit: str, base: str) -> None:
        for depth in _DEPTHS:
            if self._git("merge-base", commit, base).code == 0:
                return
            for tip in (commit, base):
                self._fetch_id(tip, depth=depth)
        if self._git("merge-base", commit, base).code != 0:
            raise UsageError(
                "HF-SRC-4",
                f"the commits {commit[:12]} and {base[:12]} of {self._url} have no common history",
                hint="Compare with a commit of the same history.",
            )

    def _commit(self, reference: str) -> str:
        answer = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
        commit = answer.out.decode().strip()
        if answer.code != 0 or (_ID.fullmatch(reference) and commit != reference):
            raise UsageError(
                "HF-SRC-4",
                f"{self._url} has no commit {reference.rpartition('/')[2]}",
                hint="Check its id, and that it was pushed.",
            )
        return commit


def _fetch(depth: int) -> tuple[str, ...]:
    return ("fetch", "--quiet", f"--depth={depth}", "--no-tags", "--no-write-fetch-head", "--force")
