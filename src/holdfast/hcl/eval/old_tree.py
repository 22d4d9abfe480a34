"""The files of a repository before a change: the current tree, with the old version of every changed path."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Mapping
from pathlib import Path

from holdfast.hcl.eval.worktree import PathKind, Worktree

OldFiles = Mapping[str, bytes | None]
"""By path: the old content of a file; None if the path did not exist."""


class OldTree(Worktree):
    """`old` has the changed paths; a link among them has the content of its target.

    `unreadable` are paths whose old version is not available, such as a submodule. They look like broken
    links, so that code that needs them reports them.
    """

    def __init__(self, root: Path, old: OldFiles, unreadable: frozenset[str] = frozenset()) -> None:
        super().__init__(root)
        self.old = old
        self.unreadable = unreadable
        self._new = frozenset(path for path, content in old.items() if content is None)
        self._with_new = frozenset(folder for path in self._new for folder in _above(path))
        self._old_names: dict[str, set[str]] = {}
        for path in (*(path for path, content in old.items() if content is not None), *unreadable):
            for folder, name in map(posixpath.split, (path, *_above(path))):
                if name != ".":
                    self._old_names.setdefault(folder or ".", set()).add(name)

    def read_bytes(self, path: str) -> bytes:
        if self._is_unreadable(path):
            raise OSError(errno.EIO, "its old version is not in this clone")
        content = self.old.get(path)
        if content is not None:
            return content
        if self._is_new(path):
            raise FileNotFoundError(errno.ENOENT, "it did not exist", path)
        return super().read_bytes(path)

    def _is_new(self, path: str) -> bool:
        """Whether the path, or a folder above it, is new: what is on disk then says nothing about the past."""
        return path in self._new or any(folder in self._new for folder in _above(path))

    def _is_unreadable(self, path: str) -> bool:
        return path in self.unreadable or any(folder in self.unreadable for folder in _above(path))

    def _names(self, folder: str) -> tuple[str, ...]:
        if self._is_unreadable(folder):
            return ()
        now = () if self._is_new(folder) else super()._names(folder)
        if folder in self._with_new:
            now = tuple(name for name in now if self._existed(self.join(folder, name)))
        old = self._old_names.get(folder)
        return tuple(sorted(old.union(now))) if old is not None else now

    def _existed(self, path: str) -> bool:
        """Of a path on disk. A folder of which every file is new is new: Git has no empty folders."""
        return path not in self._new and (path not in self._with_new or bool(self.names(path)))

    def _kind(self, path: str) -> PathKind:
        if self._is_unreadable(path):
            return PathKind.MISSING
        if self.old.get(path) is not None:
            return PathKind.FILE
        if path in self._old_names:
            return PathKind.FOLDER
        return PathKind.MISSING if self._is_new(path) else super()._kind(path)

    def _real(self, path: str) -> str | None:
        known = self.old.get(path) is not None or path in self._old_names
        return path if known else super()._real(path)


def _above(path: str) -> tuple[str, ...]:
    """The folders above a path, down from the root."""
    parts = path.split("/")
    return (".", *("/".join(parts[:count]) for count in range(1, len(parts))))
