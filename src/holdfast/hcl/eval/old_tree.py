"""The files of a repository with another version of some: before a change, or with generated files."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Container, Mapping
from pathlib import Path

from holdfast.hcl.eval.worktree import PathKind, Worktree

OldFiles = Mapping[str, bytes | None]
"""By path: the old content of a file; None if the path did not exist."""


class OldTree(Worktree):
    """`old` has the changed paths; a link among them has the content of its target.

    `unreadable` are paths whose old version is not available, such as a submodule. They look like broken
    links, so that code that needs them reports them.
    """

    def __init__(
        self,
        root: Path,
        old: OldFiles,
        unreadable: frozenset[str] = frozenset(),
        forbidden: Container[os.stat_result] = (),
    ) -> None:
        super().__init__(root, forbidden)
        self.old = old
        self.unreadable = unreadable
        self._new = frozenset(path for path, content in old.items() if content is None)
        self._with_new = frozenset(folder for path in self._new for folder in _above(path))
        self._old_names: dict[str, set[str]] = {}
        for path in (*(path for path, content in old.items() if content is not None), *unreadable):
            for folder, name in map(posixpath.split, (path, *_above(path))):
                if name != ".":
                    self._old_names.setdefault(folder or ".", set()).add(name)

    def read_bytes(self, path: str, limit: int = -1) -> bytes:
        place = self._place(path)
        if self._is_unreadable(place):
            raise OSError(errno.EIO, "its old version is not available")
        content = self.old.get(place)
        if content is not None:
            return content
        if self._is_new(place):
            raise FileNotFoundError(errno.ENOENT, "it did not exist", path)
        return super().read_bytes(path, limit)

    def _place(self, path: str) -> str:
        """Where links on disk lead: the old version is under that path."""
        return self.real(path) or path

    def _is_new(self, path: str) -> bool:
        """Whether the path, or a folder above it, is new: its content on disk does not count."""
        return path in self._new or any(folder in self._new for folder in _above(path))

    def _is_unreadable(self, path: str) -> bool:
        return path in self.unreadable or any(folder in self.unreadable for folder in _above(path))

    def _names(self, folder: str) -> tuple[str, ...]:
        place = self._place(folder)
        if self._is_unreadable(folder) or self._is_unreadable(place):
            return ()
        now = () if self._is_new(place) else super()._names(folder)
        if place in self._with_new:
            now = tuple(name for name in now if self._existed(self.join(place, name)))
        old = self._old_names.get(place)
        return tuple(sorted(old.union(now))) if old is not None else now

    def _existed(self, path: str) -> bool:
        """Of a path on disk. A folder of which every file is new is new: Git has no empty folders."""
        if path in self._new or path not in self._with_new:
            return path not in self._new
        inside = ((folder, name) for folder, _, names in os.walk(self.root / path) for name in names)
        return any(os.path.relpath(f"{folder}/{name}", self.root) not in self._new for folder, name in inside)

    def _kind(self, path: str) -> PathKind:
        place = self._place(path)
        if self._is_unreadable(path) or self._is_unreadable(place):
            return PathKind.MISSING
        if self.old.get(place) is not None:
            return PathKind.FILE
        if place in self._old_names:
            return PathKind.FOLDER
        return PathKind.MISSING if self._is_new(place) else super()._kind(path)

    def _real(self, path: str) -> str | None:
        """A new link is not followed: it did not exist."""
        known = self.old.get(path) is not None or path in self._old_names or path in self._new
        return path if known or path in self.unreadable else super()._real(path)


def _above(path: str) -> tuple[str, ...]:
    """The folders above a path, down from the root."""
    parts = path.split("/")
    return (".", *("/".join(parts[:count]) for count in range(1, len(parts))))
