"""One branch of a remote repository: read its files, and publish new contents of some of them.

Commits are made from objects, without a working tree. A push changes the branch only if it is still where it
was read, in one transaction; otherwise nothing changes, and the caller starts again from the new tip.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from holdfast.kernel.errors import Failed
from holdfast.kernel.secret import Secret
from holdfast.system.git_remote import GitRemote

_NONE: Final = "0" * 40
_GOAL: Final = "refs/holdfast/tip"
_FILE: Final = "100644"
_FIELD: Final = "\x1f"
_RECORD: Final = "\x1e"


class Commit(NamedTuple):
    id: str
    author: str
    """`Ada <ada@acme.example>`."""
    date: str
    subject: str


class Author(NamedTuple):
    name: str
    email: str


class GitBranch(GitRemote):
    check_hint: ClassVar[str] = "Check the address and the branch in holdfast.yaml, and the network."
    missing_hint: ClassVar[str] = "Add `credentials: { secret: … }` beside `repository` in holdfast.yaml."
    wrong_hint: ClassVar[str] = "Check the secret of `credentials` in holdfast.yaml"
    given: ClassVar[str] = "configured"

    def __init__(
        self,
        folder: Path,
        url: str,
        branch: str,
        variables: Mapping[str, str],
        *,
        credentials: Secret | None = None,
    ) -> None:
        """`folder` is new, or was used for this repository before."""
        super().__init__(folder, url, variables, credentials=credentials)
        self.branch = branch

    def tip(self) -> str | None:
        """The newest commit, fetched without its history; None if the branch does not exist yet."""
        return self._fetch("--depth=1")

    def full_tip(self) -> str | None:
        """The newest commit, fetched with its whole history."""
        # Git refuses `--unshallow` where nothing is shallow.
        return self._fetch(f"--depth={2**31 - 1}")

    def default_branch(self) -> str | None:
        """What HEAD names; None if the repository is empty."""
        self._create()
        answer = self._git("ls-remote", "--symref", self._url, "HEAD", remote=True)
        if answer.code != 0:
            raise self._error("its branches cannot be listed", answer)
        for line in answer.out.decode().splitlines():
            left, _, right = line.partition("\t")
            if right == "HEAD" and left.startswith("ref: refs/heads/"):
                return left.removeprefix("ref: refs/heads/")
        return None

    def read(self, commit: str | None, path: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        if commit is None or self._git("cat-file", "-e", f"{commit}:{path}").code != 0:
            return None
        answer = self._git("cat-file", "blob", f"{commit}:{path}")
        if answer.code != 0:
            raise self._error(f"{path} cannot be read", answer)
        return answer.out

    def files(self, commit: str | None) -> tuple[str, ...]:
        if commit is None:
            return ()
        answer = self._git("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
        if answer.code != 0:
            raise self._error("its files cannot be listed", answer)
        return tuple(answer.out.decode("utf-8", "surrogateescape").split("\0")[:-1])

    def commits(self, commit: str, path: str) -> Iterator[Commit]:
        """Those that changed a file, the newest first."""
        form = f"--format=%H{_FIELD}%an <%ae>{_FIELD}%aI{_FIELD}%s{_RECORD}"
        answer = self._git("log", form, "--end-of-options", commit, "--", path)
        if answer.code != 0:
            raise self._error(f"the history of {path} cannot be read", answer)
        for record in answer.out.decode(errors="replace").split(_RECORD):
            fields = record.strip("\n").split(_FIELD)
            if len(fields) == len(Commit._fields):
                yield Commit(*fields)

    def commit(
        self, parent: str | None, contents: Mapping[str, bytes | None], message: str, author: Author
    ) -> str:
        """A new commit with these files changed; those without content are removed. Nothing is pushed."""
        index = {"GIT_INDEX_FILE": str(self._folder / "holdfast-index")}
        with contextlib.suppress(FileNotFoundError):
            Path(index["GIT_INDEX_FILE"]).unlink()
        self._made("read-tree", *((parent,) if parent is not None else ("--empty",)), variables=index)
        entries = "".join(
            f"{'0' if content is None else _FILE} {self._blob(content)}\t{path}\0"
            for path, content in contents.items()
        )
        self._made("update-index", "-z", "--index-info", stdin=entries.encode(), variables=index)
        tree = self._made("write-tree", variables=index)
        parents = ("-p", parent) if parent is not None else ()
        people = {
            f"GIT_{role}_{field}": value
            for role in ("AUTHOR", "COMMITTER")
            for field, value in zip(("NAME", "EMAIL"), author, strict=True)
        }
        return self._made("commit-tree", *parents, tree, stdin=message.encode(), variables=people)

    def push(self, commit: str, *, expected: str | None) -> str | None:
        """None if the branch now has the commit; otherwise why not, and then nothing changed.

        The branch must be where it was read: `expected`, or absent.
        """
        goal = f"refs/heads/{self.branch}"
        pushed = self._git(
            *("push", "--quiet", "--porcelain", "--atomic", "--no-verify"),
            f"--force-with-lease={goal}:{expected or ''}",
            self._url,
            f"{commit}:{goal}",
            remote=True,
        )
        if pushed.code == 0 or self._remote_tip() == commit:
            # The answer to a push that succeeded may be lost.
            return None
        lines = pushed.out.decode(errors="replace").splitlines()
        refused = next((line for line in lines if line.startswith("!")), None)
        if refused is None:
            raise self._error("it cannot be pushed to", pushed)
        return refused.rpartition("\t")[2] or "the host refused it"

    def _remote_tip(self) -> str | None:
        answer = self._git("ls-remote", self._url, f"refs/heads/{self.branch}", remote=True)
        if answer.code != 0:
            raise self._error("its branch cannot be read", answer)
        return answer.out.decode().partition("\t")[0] or None

    def _fetch(self, depth: str) -> str | None:
        self._create()
        tip = self._remote_tip()
        if tip is None:
            return None
        options = ("--quiet", depth, "--no-tags", "--no-write-fetch-head", "--force")
        refs = f"+refs/heads/{self.branch}:{_GOAL}"
        fetched = self._git("fetch", *options, self._url, refs, remote=True)
        if fetched.code != 0:
            raise self._error(f"the branch {self.branch} cannot be fetched", fetched)
        return self._made("rev-parse", "--verify", f"{_GOAL}^{{commit}}")

    def _blob(self, content: bytes | None) -> str:
        return _NONE if content is None else self._made("hash-object", "-w", "--stdin", stdin=content)

    def _made(
        self, *arguments: str, stdin: bytes | None = None, variables: Mapping[str, str] | None = None
    ) -> str:
        answer = self._git(*arguments, stdin=stdin, variables=variables or {})
        if answer.code != 0:
            reason = answer.err.decode(errors="replace").strip().splitlines()
            raise Failed(
                "HF-SRC-7",
                f"{self._url}: a commit cannot be made: {reason[-1] if reason else 'git gave no reason'}",
                hint="Check the free disk space and the version of git (2.30 or newer).",
            )
        return answer.out.decode().strip()
