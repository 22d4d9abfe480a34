"""The folders in which a worker has the code of changes: unpacked uploads, and commits of repositories."""

from __future__ import annotations

import shutil
import threading
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Final

from msgspec import Struct

from holdfast.kernel.secret import Secret
from holdfast.system import clock, files
from holdfast.system.git_mirror import GitMirror
from holdfast.system.source_archive import unpack

_KEPT_SECONDS: Final = 3600.0


class Commit(Struct, frozen=True, kw_only=True):
    """What to check out of a registered repository."""

    repository: str
    """Its id."""
    url: str
    revision: str
    """A branch, a tag, or the id of a commit."""
    base: str | None = None
    """A commit to compare with: it and the common history are fetched, too."""
    credentials: Secret | None = None


class SourceFolders:
    """Of one worker. Copies of repositories are shared by all workers of a host."""

    def __init__(self, folder: Path, repositories: Path, variables: Mapping[str, str]) -> None:
        """`variables` name a proxy, certificates and an SSH agent."""
        self._folder = folder
        self._repositories = repositories
        self._variables = variables
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._commits: dict[str, str] = {}
        self._used: dict[str, float] = {}
        shutil.rmtree(folder, ignore_errors=True)  # Those of a worker that was killed.
        files.private_folder(folder)
        files.private_folder(repositories)  # Before the rules of programs are made, which name what exists.

    def open_upload(self, source: str, content: bytes) -> Path:
        with self._opening(source) as folder:
            if not folder.exists():
                unpack(BytesIO(content), folder)
            return folder

    def open_commit(self, source: str, wanted: Commit) -> tuple[Path, str]:
        """With the full id of the commit: a branch is looked up only once for a source."""
        with self._opening(source) as folder:
            if source not in self._commits:
                mirror = GitMirror(
                    *(self._repositories / f"{wanted.repository}.git", wanted.url, self._variables),
                    credentials=wanted.credentials,
                )
                commit = mirror.fetch(wanted.revision, base=wanted.base)
                mirror.check_out(commit, folder)
                self._commits[source] = commit
            return folder, self._commits[source]

    def remove_unused(self, in_use: Container[str] = (), *, seconds: float = _KEPT_SECONDS) -> None:
        """What no change opened for a while. `in_use` are the sources of running changes."""
        for source, used in list(self._used.items()):
            if source in in_use or clock.monotonic() - used < seconds:
                continue
            with self._locks[source]:
                shutil.rmtree(self._folder / source, ignore_errors=True)
                self._commits.pop(source, None)
                del self._used[source]

    @contextmanager
    def _opening(self, source: str) -> Iterator[Path]:
        with self._locks[source]:
            self._used[source] = clock.monotonic()
            yield self._folder / source
