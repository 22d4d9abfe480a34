"""Runs git and reads its machine-readable output."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from holdfast.kernel.errors import UsageError
from holdfast.kernel.patterns import pattern
from holdfast.kernel.values import MaskedStruct
from holdfast.system import processes

_FETCHABLE = pattern(r"(?!HEAD\b)\w[\w./-]*")
_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
_HISTORY_SECONDS = 600.0
_BATCH_BYTES = 32_000_000
_FILE = "100"
"""The prefix of file modes; links and submodules have others."""
_LINK = "120"
_SUBMODULE = "160"
_BOT = pattern(r"\[bot\]|\0no-?reply@|renovate bot|-(?:updater|bot)(?:[@\0]|$)")
_SHARED_ACCOUNTS = frozenset(
    ("admin", "contact", "dev", "git", "github", "hello", "hi", "info", "mail", "me", "root")
)
"""The first part of the addresses of many people."""
_AMBIGUOUS = b"is ambiguous"
"""In a warning of `git rev-parse`."""


class Added(Struct, frozen=True, kw_only=True):
    """The paths that a commit added, and the blobs of its files."""

    commit: str
    date: str
    paths: tuple[str, ...]
    blobs: tuple[tuple[str, str], ...] = ()
    """Path and object id of every file that it added or changed."""


class Blob(NamedTuple):
    """The content is None if it is too large or not in this clone; `why_not` says which."""

    id: str
    content: bytes | None
    why_not: str | None = None


class OldVersion(NamedTuple):
    """A path at a commit: a file, a link or a submodule."""

    mode: str
    id: str

    @property
    def is_link(self) -> bool:
        return self.mode.startswith(_LINK)

    @property
    def is_submodule(self) -> bool:
        return self.mode.startswith(_SUBMODULE)


class Git(MaskedStruct, frozen=True, kw_only=True):
    """A working tree. `top` is its root; every path in and out is relative to that root."""

    top: Path
    environment: Mapping[str, str]

    def _run(self, *arguments: str, seconds: float = 60.0) -> processes.Finished:
        return processes.run(
            ("git", "-c", "core.quotePath=false", *arguments),
            folder=self.top,
            environment={**self.environment, **_QUIET},
            seconds=seconds,
        )

    def commit(self, reference: str) -> str:
        """The commit that a reference names, or an error that says what to fetch.

        A name that several references have is refused: Git prefers a tag, which anyone who can push may
        create, to the branch of the same name.
        """
        known = self._run(
            *("-c", "core.warnAmbiguousRefs=true", "rev-parse", "--verify", "--end-of-options"),
            f"{reference}^{{commit}}",
        )
        if known.code != 0:
            raise UsageError(
                "HF-GIT-2",
                f"{reference or 'an empty name'} is not a commit in this clone",
                hint=_missing_hint(reference),
            )
        commit = known.out.decode().strip()
        if commit != reference and _AMBIGUOUS in known.err:
            raise UsageError(
                "HF-GIT-7",
                f"{reference} names several references in this clone, such as a tag and a branch",
                hint=f"List them: git show-ref {reference}. Write the whole name of the one that you mean: "
                f"refs/heads/{reference} or refs/remotes/{reference}",
            )
        return commit

    def merge_base(self, commit: str, reference: str) -> str:
        """The merge base of a commit and HEAD; `reference` is its name in the error."""
        base = self._run("merge-base", commit, "HEAD")
        if base.code != 0:
            raise UsageError(
                "HF-GIT-3",
                f"{reference} and HEAD have no common commit in this clone",
                hint="A shallow clone cuts history off: git fetch --unshallow (in Actions: fetch-depth: 0).",
            )
        return base.out.decode().strip()

    def changed_since(self, commit: str) -> Mapping[str, OldVersion | None]:
        """Every path that differs between a commit and the working tree, including untracked files.

        With its version at the commit; None if it did not exist then. A rename has both names.
        """
        tracked = self._run(
            *("diff", "--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=none", "-z", commit)
        )
        untracked = self._run("ls-files", "--others", "--exclude-standard", "-z")
        for answer in (tracked, untracked):
            if answer.code != 0:
                raise UsageError(
                    "HF-GIT-4",
                    f"git cannot list the changed files: {answer.err.decode(errors='replace').strip()}",
                    hint="Run git status in the repository and fix what it reports.",
                )
        parts = tracked.out.decode(errors="surrogateescape").split("\0")
        names = untracked.out.decode(errors="surrogateescape").split("\0")
        changed: dict[str, OldVersion | None] = dict.fromkeys(name for name in names if name)
        for change, name in zip(parts[::2], parts[1::2], strict=False):
            mode, _, id_, *_ = change.removeprefix(":").split(" ")
            changed[name] = OldVersion(mode, id_) if mode.strip("0") else None
        return dict(sorted(changed.items()))

    def is_moved(self, root: Path, old: str, new: str) -> bool:
        """Whether git detects that a file or folder was renamed, in the commit that removed it or since HEAD.

        Both paths are relative to `root`. False where git cannot tell, as in a shallow clone.
        """
        prefix = root.resolve().relative_to(self.top.resolve()).as_posix()
        before, after = (posixpath.normpath(posixpath.join(prefix, path)) for path in (old, new))
        removed = self._run("log", "-1", "--no-renames", "--diff-filter=D", "--format=%H", "--", before)
        commit = removed.out.decode().strip()
        ranges = [("HEAD",), *([(f"{commit}^", commit)] if commit else [])]
        return any(
            _is_in(source, before) and _is_in(target, after)
            for range_ in ranges
            for source, target in self._renames(*range_)
        )

    def _renames(self, *range_: str) -> Iterator[tuple[str, str]]:
        answer = self._run("diff", "-M", "--diff-filter=R", "--name-status", "-z", *range_)
        parts = answer.out.decode(errors="surrogateescape").split("\0") if answer.code == 0 else []
        for at in range(0, len(parts) - 2, 3):
            yield parts[at + 1], parts[at + 2]

    def content(self, commit: str, path: str) -> bytes | None:
        """A file at a commit, or None if it did not exist."""
        answer = self._run("cat-file", "blob", f"{commit}:{path}")
        return answer.out if answer.code == 0 else None

    def blob(self, id_: str) -> bytes | None:
        """The content of an object, or None. A partial clone fetches it."""
        answer = self._run("cat-file", "blob", id_)
        return answer.out if answer.code == 0 else None

    def tracked(self) -> tuple[str, ...]:
        """Every path in the index; empty if git fails."""
        return self._list_files()

    def authors(self) -> int | None:
        """How many people the latest commits have, as far as this clone has them; None if git fails."""
        answer = self._run("log", "-500", "--format=%aN%x00%aE")
        if answer.code != 0:
            return None
        people: list[set[str]] = []
        lines = set(answer.out.decode(errors="replace").casefold().split("\n")) - {""}
        for line in filter(lambda line: not _BOT.search(line), lines):
            name, _, mail = line.partition("\0")
            account = _spelling(mail.partition("@")[0].rpartition("+")[2])
            same = {_spelling(name), mail, *(() if account in _SHARED_ACCOUNTS else (account,))}
            known = [person for person in people if person & same]
            people = [person for person in people if person not in known] + [same.union(*known)]
        return len(people) or None

    def untracked(self) -> tuple[str, ...]:
        """Every path that git would add; empty if git fails."""
        return self._list_files("--others", "--exclude-standard")

    def ignored(self) -> tuple[str, ...]:
        """Every path that git ignores, a folder that it ignores as a whole as one."""
        return self._list_files("--others", "--ignored", "--exclude-standard", "--directory")

    def would_ignore(self, path: Path) -> bool:
        """Whether Git ignores a path, which need not exist; also one outside the working tree."""
        if not path.resolve().is_relative_to(self.top.resolve()):
            return True
        tracked = self._run("ls-files", "--error-unmatch", "--", str(path))
        return tracked.code != 0 and self._run("check-ignore", "--quiet", "--", str(path)).code == 0

    def _list_files(self, *options: str) -> tuple[str, ...]:
        answer = self._run("ls-files", *options, "-z")
        names = answer.out.decode(errors="surrogateescape").split("\0") if answer.code == 0 else []
        return tuple(name for name in names if name)

    def remotes(self) -> tuple[str, ...]:
        """The addresses of all remotes, from the configuration of this clone; empty if git fails."""
        answer = self._run("config", "--local", "--null", "--get-regexp", r"^remote\..*\.url$")
        entries = answer.out.decode(errors="replace").split("\0") if answer.code == 0 else []
        return tuple(entry.partition("\n")[2] for entry in entries if entry)

    def shallow(self) -> bool:
        return self._run("rev-parse", "--is-shallow-repository").out.strip() == b"true"

    def added(self) -> tuple[Added, ...]:
        """Every commit of every branch and tag that added or changed files, the newest first."""
        answer = self._run(
            *("log", "--all", "-c", "--no-renames", "--diff-filter=AMT", "--raw", "--no-abbrev", "-z"),
            "--format=%x01%H%x02%cI",
            seconds=_HISTORY_SECONDS,
        )
        if answer.code != 0:
            raise UsageError(
                "HF-GIT-5",
                f"git cannot read the history: {answer.err.decode(errors='replace').strip()}",
                hint="Run git log in the repository and fix what it reports.",
            )
        return tuple(_added(answer.out.decode(errors="surrogateescape")))

    def blobs(self, ids: Sequence[str], *, largest: int) -> Iterator[Blob]:
        """Contents by object id. Ids without content come before the others of their batch."""
        sizes: dict[str, int] = {}
        for line in self._cat_file("--batch-check", ids).decode(errors="replace").splitlines():
            parts = line.split(" ")
            if parts[1:2] == ["blob"]:
                sizes[parts[0]] = int(parts[2])
        batch: list[str] = []
        size = 0
        for id_ in ids:
            if id_ not in sizes:
                yield Blob(id_, None, "it is not in this clone")
            elif sizes[id_] > largest:
                yield Blob(id_, None, f"it is larger than {largest // 1_000_000} MB")
            else:
                batch.append(id_)
                size += sizes[id_]
            if size > _BATCH_BYTES:
                yield from self._contents(batch)
                batch, size = [], 0
        yield from self._contents(batch)

    def _cat_file(self, option: str, ids: Sequence[str]) -> bytes:
        """Does not fetch what a partial clone left out: that would be one request per object."""
        answer = processes.run(
            ("git", "cat-file", option),
            folder=self.top,
            environment={**self.environment, **_QUIET, "GIT_NO_LAZY_FETCH": "1"},
            seconds=_HISTORY_SECONDS,
            stdin="".join(f"{id_}\n" for id_ in ids).encode(),
        )
        return answer.out

    def _contents(self, ids: Sequence[str]) -> Iterator[Blob]:
        """For each id git prints a line with the size, the content, and a line break."""
        out = self._cat_file("--batch", ids)
        at = 0
        for id_ in ids:
            end = out.find(b"\n", at)
            head = out[at:end].split(b" ") if end >= 0 else []
            if head[1:2] != [b"blob"]:
                yield Blob(id_, None, "git cannot read it")
                at = end + 1 if end >= 0 else len(out)
                continue
            begin, size = end + 1, int(head[2])
            yield Blob(id_, out[begin : begin + size])
            at = begin + size + 1

    def head(self) -> str | None:
        answer = self._run("rev-parse", "--verify", "--quiet", "HEAD")
        return answer.out.decode().strip() if answer.code == 0 else None


def _spelling(name: str) -> str:
    """Without accents, dots, spaces and hyphens: `ida.ek` and `Ida Ek` are the same person."""
    import unicodedata  # noqa: PLC0415 - only needed here

    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", name))) or name


def _missing_hint(reference: str) -> str:
    name = reference.removeprefix("origin/")
    if _FETCHABLE.fullmatch(name):
        return f"Check the name. If it is right, fetch it first: git fetch origin {name}"
    if reference.startswith("-") or not reference:
        return "Give the name of a branch, a tag or a commit, such as origin/main."
    return "Check the name. If the history of this clone is cut off, fetch it first: git fetch --unshallow"


def _is_in(path: str, file_or_folder: str) -> bool:
    return path == file_or_folder or path.startswith(f"{file_or_folder}/")


def _added(text: str) -> Iterator[Added]:
    """From `log --raw -z`: a line for the commit, then pairs of a change and its path.

    A change is `:mode mode id id A`; for a merge, with one more of each per parent.
    """
    commit, date = "", ""
    change: list[str] = []
    paths: list[str] = []
    blobs: list[tuple[str, str]] = []
    # The end is like the start of another commit.
    for part in (*text.split("\0"), "\x01"):
        item = part.removeprefix("\n")
        if change:
            if set(change[-1]) == {"A"}:
                paths.append(item)
            if change[len(change) // 2 - 1].startswith(_FILE):
                blobs.append((item, change[-2]))
            change = []
        elif item.startswith("\x01"):
            if commit:
                yield Added(commit=commit, date=date, paths=tuple(paths), blobs=tuple(blobs))
            commit, _, date = item[1:].partition("\x02")
            paths, blobs = [], []
        elif item.startswith(":"):
            change = item.lstrip(":").split(" ")


def find(folder: Path, environment: Mapping[str, str]) -> Git | None:
    """The working tree around this folder, if there is one and git is installed."""
    answer = processes.run(
        ("git", "rev-parse", "--show-toplevel"), folder=folder, environment={**environment, **_QUIET}
    )
    if answer.code != 0:
        return None
    return Git(top=Path(answer.out.decode().rstrip("\n")), environment=environment)
