"""Git, asked through its own program with machine-readable output only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holdfast.doors import processes
from holdfast.kernel.errors import UsageError
from holdfast.kernel.values import dataclass, field

_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """The paths that a commit added."""

    commit: str
    date: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Git:
    """A working tree. `top` is its root; every path in and out is relative to that root."""

    top: Path
    environment: Mapping[str, str] = field(repr=False)

    def _ask(self, *arguments: str) -> processes.Finished:
        return processes.run(
            ("git", "-c", "core.quotePath=false", *arguments),
            folder=self.top,
            environment={**self.environment, **_QUIET},
        )

    def merge_base(self, reference: str) -> str:
        """The commit that REF and HEAD share, or an error that says what to fetch."""
        known = self._ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}")
        if known.code != 0:
            raise UsageError(
                "HF-GIT-2",
                f"{reference} is not a commit that this clone knows",
                hint=f"Fetch it first: git fetch origin {reference}",
            )
        base = self._ask("merge-base", known.out.decode().strip(), "HEAD")
        if base.code != 0:
            raise UsageError(
                "HF-GIT-3",
                f"{reference} and HEAD have no common commit in this clone",
                hint="A shallow clone cuts history off: git fetch --unshallow (in Actions: fetch-depth: 0).",
            )
        return base.out.decode().strip()

    def changed_since(self, commit: str) -> tuple[str, ...]:
        """Every path that differs between a commit and the working tree, untracked files included.

        A rename counts as both its names; a deleted path is listed too.
        """
        tracked = self._ask("diff", "--name-only", "--no-renames", "--ignore-submodules=none", "-z", commit)
        untracked = self._ask("ls-files", "--others", "--exclude-standard", "-z")
        for answer in (tracked, untracked):
            if answer.code != 0:
                raise UsageError(
                    "HF-GIT-4",
                    f"git could not list what changed: {answer.err.decode(errors='replace').strip()}",
                    hint="Run git status in the repository and mend what it says.",
                )
        names = (tracked.out + untracked.out).decode(errors="surrogateescape").split("\0")
        return tuple(sorted({name for name in names if name}))

    def content(self, commit: str, path: str) -> bytes | None:
        """A file as it was at a commit, or None if it was not there."""
        answer = self._ask("cat-file", "blob", f"{commit}:{path}")
        return answer.out if answer.code == 0 else None

    def tracked(self) -> tuple[str, ...]:
        """Every path that Git keeps, as the index has it; none when Git cannot say."""
        answer = self._ask("ls-files", "-z")
        names = answer.out.decode(errors="surrogateescape").split("\0") if answer.code == 0 else []
        return tuple(name for name in names if name)

    def untracked(self) -> tuple[str, ...]:
        """Every path that Git would keep and does not yet; none when Git cannot say."""
        answer = self._ask("ls-files", "--others", "--exclude-standard", "-z")
        names = answer.out.decode(errors="surrogateescape").split("\0") if answer.code == 0 else []
        return tuple(name for name in names if name)

    def shallow(self) -> bool:
        """Whether history is cut off in this clone."""
        return self._ask("rev-parse", "--is-shallow-repository").out.strip() == b"true"

    def added(self) -> tuple[Added, ...]:
        """Every commit of every branch and tag that added paths, the newest first."""
        answer = self._ask(
            "log",
            "--all",
            "-c",
            "--no-renames",
            "--diff-filter=A",
            "--name-only",
            "-z",
            "--format=%x01%H%x02%cI",
        )
        if answer.code != 0:
            raise UsageError(
                "HF-GIT-5",
                f"git could not read the history: {answer.err.decode(errors='replace').strip()}",
                hint="Run git log in the repository and mend what it says.",
            )
        found: list[tuple[str, str, list[str]]] = []
        for part in answer.out.decode(errors="surrogateescape").split("\0"):
            word = part.removeprefix("\n")
            if word.startswith("\x01"):
                commit, _, date = word[1:].partition("\x02")
                found.append((commit, date, []))
            elif word and found:
                found[-1][2].append(word)
        return tuple(Added(commit=commit, date=date, paths=tuple(paths)) for commit, date, paths in found)

    def head(self) -> str | None:
        answer = self._ask("rev-parse", "--verify", "--quiet", "HEAD")
        return answer.out.decode().strip() if answer.code == 0 else None


def find(folder: Path, environment: Mapping[str, str]) -> Git | None:
    """The working tree that holds this folder, if there is one and Git is installed."""
    answer = processes.run(
        ("git", "rev-parse", "--show-toplevel"), folder=folder, environment={**environment, **_QUIET}
    )
    if answer.code != 0:
        return None
    return Git(top=Path(answer.out.decode().rstrip("\n")), environment=environment)
