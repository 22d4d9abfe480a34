"""Git, asked through its own program with machine-readable output only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holdfast.doors import processes
from holdfast.kernel.errors import UsageError
from holdfast.kernel.values import dataclass, field

_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


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
