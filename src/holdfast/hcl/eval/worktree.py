"""The files of a repository: what exists, where links lead, what a folder contains.

Results are cached: the tree is assumed not to change while stacks are selected. Paths are relative to the
root and use `/`; the root itself is `.`. A link that leads out of the Git repository is not followed.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Callable, Container, Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import BinaryIO

from holdfast.system.repository import NOT_SOURCE

_DEEPEST = 60
_NOT_READ = "it leads out of the repository, or to a key"


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW)


class PathKind(Enum):
    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"
    MISSING = "missing"


class LinkBoundary:
    """Where links may lead: anywhere in the Git repository of a folder, or in the folder if it has none.

    Not into `.git`: its files may hold the credentials of the checkout.
    """

    def __init__(self, root: Path) -> None:
        above = (folder for folder in (root, *root.parents) if os.path.lexists(folder / ".git"))
        self._top = next(above, root).as_posix()

    def holds(self, resolved: str) -> bool:
        """Whether a link may lead to this absolute path, in which every link is followed."""
        if resolved != self._top and not resolved.startswith(f"{self._top}/"):
            return False
        return ".git" not in resolved[len(self._top) :].split("/")


class Worktree:
    def __init__(self, root: Path, forbidden: Container[os.stat_result] = ()) -> None:
        """`forbidden` files are not read: Holdfast's own keys may be below the root."""
        self.root = root.resolve()
        self.forbidden = forbidden
        self._top = self.root.as_posix()
        self._boundary = LinkBoundary(self.root)
        self.kind: Callable[[str], PathKind] = cache(self._kind)
        self.names: Callable[[str], tuple[str, ...]] = cache(self._names)
        self.real: Callable[[str], str | None] = cache(self._real)
        self.links_out: Callable[[str], tuple[str, ...]] = cache(self._links_out)
        self._resolved: Callable[[str], str] = cache(self._follow_links)
        self.walk: Callable[[str], tuple[str, ...]] = cache(self._walk)
        self.has_folder_links: Callable[[str], bool] = cache(self._has_folder_links)
        self._known: Callable[[str], frozenset[str]] = cache(self._known_names)

    @staticmethod
    def join(folder: str, name: str) -> str:
        return name if folder == "." else f"{folder}/{name}"

    def inside(self, folder: str, path: str) -> str | None:
        """A path as written, resolved against a folder; relative to the root, None if it is outside."""
        if path.startswith("/"):
            whole = posixpath.normpath(path)
            if whole != self._top and not whole.startswith(f"{self._top}/"):
                return None
            return whole[len(self._top) + 1 :] or "."
        joined = posixpath.normpath(f"{folder}/{path}")
        return None if joined == ".." or joined.startswith("../") else joined

    def read_bytes(self, path: str, limit: int = -1) -> bytes:
        """At most `limit` of them. Raises OSError, and ValueError for a path that no file can have.

        What a link out of the repository leads to is not the author's to show: Holdfast's own environment,
        for example.
        """
        with self._open(path) as opened:
            if os.fstat(opened.fileno()) in self.forbidden:
                raise PermissionError(errno.EACCES, _NOT_READ, path)
            return opened.read(limit)

    def _open(self, path: str) -> BinaryIO:
        """Most files are no links and in no linked folder: opened as such, they need no other check."""
        whole, folder = f"{self._top}/{path}", path.rpartition("/")[0]
        if self._resolved(folder or ".") == (f"{self._top}/{folder}" if folder else self._top):
            try:
                return open(whole, "rb", opener=_open_no_link)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
        if self.leads_outside(path):
            raise PermissionError(errno.EACCES, _NOT_READ, path)
        return open(whole, "rb")  # noqa: PTH123 - the caller closes it

    def _kind(self, path: str) -> PathKind:
        """What the path points to, after following links."""
        folder, _, name = path.rpartition("/")
        if path != "." and name not in self._known(folder or "."):
            return PathKind.MISSING
        try:
            mode = os.stat(f"{self._top}/{path}").st_mode  # noqa: PTH116 - called for every string in the code
        except (OSError, ValueError):
            return PathKind.MISSING
        if stat.S_ISREG(mode):
            return PathKind.FILE
        return PathKind.FOLDER if stat.S_ISDIR(mode) else PathKind.OTHER

    def _known_names(self, folder: str) -> frozenset[str]:
        """The names in an existing folder. Most strings name no file, and this finds out cheaply."""
        return frozenset(self.names(folder)) if folder == "." or self.is_folder(folder) else frozenset()

    def is_folder(self, path: str) -> bool:
        return self.kind(path) is PathKind.FOLDER

    def _names(self, folder: str) -> tuple[str, ...]:
        """The names in a folder, sorted; empty if it does not exist or cannot be read."""
        try:
            return tuple(sorted(os.listdir(f"{self._top}/{folder}")))  # noqa: PTH208 - names only
        except (OSError, ValueError):
            return ()

    def _real(self, path: str) -> str | None:
        """The path with every link followed, whether it exists or not; None if it is outside the root."""
        return self.inside(".", self._resolved(path))

    def _follow_links(self, path: str) -> str:
        """The absolute path with every link followed, whether it exists or not."""
        if path == ".":
            return self._top
        folder, _, name = path.rpartition("/")
        parent = self._resolved(folder or ".")
        whole = f"{parent}/{name}"
        known = self.inside(".", parent)
        if known is not None and name not in self._known(known):
            return whole
        linked = os.path.islink(whole)  # noqa: PTH114 - called for every string in the code
        return os.path.realpath(whole) if linked else whole

    def aliases(self, path: str) -> tuple[str, ...]:
        """The path, and its target if that is another path inside the root."""
        real = self.real(path)
        return (path,) if real is None or real == path else (path, real)

    def leads_outside(self, path: str) -> bool:
        """Whether links of this path lead out of the repository."""
        resolved = self._resolved(path)
        return resolved != f"{self._top}/{path}" and path != "." and not self._boundary.holds(resolved)

    def _walk(self, folder: str) -> tuple[str, ...]:
        """Every file below a folder; a file behind a link is listed under both paths."""
        return tuple(sorted(path for path in self._files_below(folder, ()) if not self.leads_outside(path)))

    def _links_out(self, folder: str) -> tuple[str, ...]:
        """Links below a folder that lead out of the repository."""
        linked = (path for path in self._files_below(folder, ()) if self.leads_outside(path))
        return tuple(sorted({folder} if self.leads_outside(folder) else {*linked}))

    def _files_below(self, folder: str, above: tuple[str, ...]) -> Iterator[str]:
        """Every file, and every link that leads out of the repository."""
        here = self._resolved(folder)
        if here in above or len(above) > _DEEPEST or self.leads_outside(folder):
            return
        for name in self.names(folder):
            if name in NOT_SOURCE:
                continue
            path = self.join(folder, name)
            match self.kind(path):
                case PathKind.FOLDER if not self.leads_outside(path):
                    for alias in self.aliases(path):
                        yield from self._files_below(alias, (*above, here))
                case PathKind.FILE:
                    yield from self.aliases(path)
                case PathKind.FOLDER | PathKind.OTHER if self.leads_outside(path):
                    yield path
                case _:
                    pass

    def _has_folder_links(self, folder: str) -> bool:
        """Whether a link to a folder exists below: then the matches of `fileset` are not certain."""
        return any(
            self.real(path) != path
            for above in self._folders_below(folder)
            for name in self.names(above)
            if self.is_folder(path := self.join(above, name))
        )

    def _folders_below(self, folder: str) -> Iterator[str]:
        waiting = [self.real(folder) or folder]
        while waiting:
            here = waiting.pop()
            yield here
            for name in self.names(here):
                path = self.join(here, name)
                if name not in NOT_SOURCE and self.is_folder(path) and self.real(path) == path:
                    waiting.append(path)
