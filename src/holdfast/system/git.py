"""Git, asked through its own program with machine-readable output only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from holdfast.kernel.errors import UsageError
from holdfast.kernel.values import MaskedStruct
from holdfast.system import processes

_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


_LONG = 600.0
"""Seconds that a look through a whole history may take."""
_AT_ONCE = 32_000_000
"""Bytes of old contents that are held at a time."""
_FILE = "100"
"""How the modes of files begin; links and submodules are none."""


class Added(Struct, frozen=True, kw_only=True):
    """The paths that a commit added, and the contents that it brought."""

    commit: str
    date: str
    paths: tuple[str, ...]
    blobs: tuple[tuple[str, str], ...] = ()
    """Path and object id of every file that it added or changed."""


class Blob(NamedTuple):
    """An old content; None where it is too large or not in this clone, and `why_not` says which."""

    id: str
    content: bytes | None
    why_not: str | None = None


class Git(MaskedStruct, frozen=True, kw_only=True):
    """A working tree. `top` is its root; every path in and out is relative to that root."""

    top: Path
    environment: Mapping[str, str]

    def _ask(self, *arguments: str, seconds: float = 60.0) -> processes.Finished:
        return processes.run(
            ("git", "-c", "core.quotePath=false", *arguments),
            folder=self.top,
            environment={**self.environment, **_QUIET},
            seconds=seconds,
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
        """Every commit of every branch and tag that added or changed files, the newest first."""
        answer = self._ask(
            "log",
            "--all",
            "-c",
            "--no-renames",
            "--diff-filter=AMT",
            "--raw",
            "--no-abbrev",
            "-z",
            "--format=%x01%H%x02%cI",
            seconds=_LONG,
        )
        if answer.code != 0:
            raise UsageError(
                "HF-GIT-5",
                f"git could not read the history: {answer.err.decode(errors='replace').strip()}",
                hint="Run git log in the repository and mend what it says.",
            )
        return tuple(_added(answer.out.decode(errors="surrogateescape")))

    def blobs(self, ids: Sequence[str], *, largest: int) -> Iterator[Blob]:
        """Contents by their object ids, in the order given; what is not to be had is said before."""
        sizes: dict[str, int] = {}
        for line in self._objects("--batch-check", ids).decode(errors="replace").splitlines():
            words = line.split(" ")
            if words[1:2] == ["blob"]:
                sizes[words[0]] = int(words[2])
        waiting: list[str] = []
        weight = 0
        for one in ids:
            if one not in sizes:
                yield Blob(one, None, "it is not in this clone")
            elif sizes[one] > largest:
                yield Blob(one, None, f"it is larger than {largest // 1_000_000} MB")
            else:
                waiting.append(one)
                weight += sizes[one]
            if weight > _AT_ONCE:
                yield from self._contents(waiting)
                waiting, weight = [], 0
        yield from self._contents(waiting)

    def _objects(self, how: str, ids: Sequence[str]) -> bytes:
        """What `cat-file` says of them. What a partial clone left behind is not fetched now, one by one."""
        answer = processes.run(
            ("git", "cat-file", how),
            folder=self.top,
            environment={**self.environment, **_QUIET, "GIT_NO_LAZY_FETCH": "1"},
            seconds=_LONG,
            given="".join(f"{one}\n" for one in ids).encode(),
        )
        return answer.out

    def _contents(self, ids: Sequence[str]) -> Iterator[Blob]:
        """Git answers each id with a line that tells the size, the bytes, and a line end."""
        out = self._objects("--batch", ids)
        at = 0
        for one in ids:
            end = out.find(b"\n", at)
            head = out[at:end].split(b" ") if end >= 0 else []
            if head[1:2] != [b"blob"]:
                yield Blob(one, None, "git could not read it")
                at = end + 1 if end >= 0 else len(out)
                continue
            begin, size = end + 1, int(head[2])
            yield Blob(one, out[begin : begin + size])
            at = begin + size + 1

    def head(self) -> str | None:
        answer = self._ask("rev-parse", "--verify", "--quiet", "HEAD")
        return answer.out.decode().strip() if answer.code == 0 else None


def _added(text: str) -> Iterator[Added]:
    """From `log --raw -z`: a line for the commit, then pairs of what happened and the path.

    What happened is `:mode mode id id A`; of a merge, with one more of each for every parent.
    """
    commit: tuple[str, str] | None = None
    happened: list[str] = []
    paths: list[str] = []
    blobs: list[tuple[str, str]] = []
    for part in text.split("\0"):
        word = part.removeprefix("\n")
        if happened:
            if set(happened[-1]) == {"A"}:
                paths.append(word)
            if happened[len(happened) // 2 - 1].startswith(_FILE):
                blobs.append((word, happened[-2]))
            happened = []
        elif word.startswith("\x01"):
            if commit is not None:
                yield Added(commit=commit[0], date=commit[1], paths=tuple(paths), blobs=tuple(blobs))
            id_, _, date = word[1:].partition("\x02")
            commit, paths, blobs = (id_, date), [], []
        elif word.startswith(":"):
            happened = word.lstrip(":").split(" ")
    if commit is not None:
        yield Added(commit=commit[0], date=commit[1], paths=tuple(paths), blobs=tuple(blobs))


def find(folder: Path, environment: Mapping[str, str]) -> Git | None:
    """The working tree that holds this folder, if there is one and Git is installed."""
    answer = processes.run(
        ("git", "rev-parse", "--show-toplevel"), folder=folder, environment={**environment, **_QUIET}
    )
    if answer.code != 0:
        return None
    return Git(top=Path(answer.out.decode().rstrip("\n")), environment=environment)
