"""The folders of a repository and the names in them, as far as discovery needs them."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from holdfast.hcl.eval.worktree import PathKind, Worktree
from holdfast.kernel.errors import Failed

ROOT = "."


class Listing(Struct, frozen=True, kw_only=True):
    """The names in one folder."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()


class Tree(Protocol):
    """Paths are relative to the root and use `/`; the root itself is `.`."""

    def listing(self, folder: str, /) -> Listing | None:
        """The names in the folder, or None if it does not exist."""


def has_file(tree: Tree, path: str) -> bool:
    folder, name = posixpath.split(path)
    listing = tree.listing(folder or ROOT)
    return listing is not None and name in listing.files


def join_path(folder: str, name: str) -> str:
    return name if folder == ROOT else f"{folder}/{name}"


class ListedTree:
    """A tree built from a list of paths, such as the files of a commit."""

    def __init__(self, files: Iterable[str]) -> None:
        names: dict[str, tuple[set[str], set[str]]] = {ROOT: (set(), set())}
        for path in files:
            folder, name = posixpath.split(path)
            names.setdefault(folder or ROOT, (set(), set()))[0].add(name)
            while folder:
                parent, name = posixpath.split(folder)
                names.setdefault(parent or ROOT, (set(), set()))[1].add(name)
                folder = parent
        listings = {
            folder: Listing(files=frozenset(inside), folders=frozenset(below))
            for folder, (inside, below) in names.items()
        }
        self.listing: Callable[[str], Listing | None] = listings.get


class OldListing:
    """The folders of a tree that is not as it is on disk."""

    def __init__(self, tree: Worktree) -> None:
        self._tree = tree
        self.listing: Callable[[str], Listing | None] = cache(self._read)

    def _read(self, folder: str) -> Listing | None:
        tree = self._tree
        if not tree.is_folder(folder) or tree.leads_outside(folder):
            return None
        kinds = {name: tree.kind(join_path(folder, name)) for name in tree.names(folder)}
        folders = (name for name, kind in kinds.items() if kind is PathKind.FOLDER)
        return Listing(
            files=frozenset(name for name, kind in kinds.items() if kind is PathKind.FILE),
            folders=frozenset(name for name in folders if self._follows(folder, join_path(folder, name))),
        )

    def _follows(self, folder: str, path: str) -> bool:
        """As `FolderTree`: a link is not followed to a folder that contains it."""
        real = self._tree.real(path)
        return real not in (None, ROOT) and not f"{folder}/".startswith(f"{real}/")


class FolderTree:
    """A folder on disk, read on demand and only once.

    A link to a folder is followed, but not out of the root and not to a folder that contains it.
    """

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self.listing: Callable[[str], Listing | None] = cache(self._read)

    def _read(self, folder: str) -> Listing | None:
        files: set[str] = set()
        folders: set[str] = set()
        path = os.path.join(self._root, folder)  # noqa: PTH118 - scandir's own entries are text: 3 times faster
        if not self._inside(os.path.realpath(path)):
            return None
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.is_symlink() and _is_circular(entry):
                        continue
                    if entry.is_dir():
                        if not entry.is_symlink() or self._follows(folder, entry.path):
                            folders.add(entry.name)
                    elif entry.is_file():
                        files.add(entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Failed(
                "HF-STACK-12",
                f"cannot read the folder {folder}: {error.strerror}",
                hint="It may contain stacks: give this user permission to read it.",
            ) from None
        return Listing(files=frozenset(files), folders=frozenset(folders))

    def _inside(self, real: str) -> bool:
        return real == self._root or real.startswith(self._root.rstrip("/") + "/")

    def _follows(self, folder: str, link: str) -> bool:
        real = os.path.realpath(link)
        if not self._inside(real):
            return False
        parts = [] if folder == ROOT else folder.split("/")
        above = (
            os.path.realpath(os.path.join(self._root, *parts[:count]))  # noqa: PTH118 - as above
            for count in range(len(parts) + 1)
        )
        return real not in above


def _is_circular(link: os.DirEntry[str]) -> bool:
    """Whether a link only leads to itself, so that there is nothing behind it."""
    try:
        link.is_dir()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return True
        raise
    return False


def has_root_module(listing: Listing | None) -> bool:
    return listing is not None and any(
        name.endswith((".tf", ".tofu", ".tf.json", ".tofu.json")) and not name.startswith((".", "#"))
        for name in listing.files
    )
