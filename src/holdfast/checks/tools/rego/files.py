"""Finds the policy files below `policy/`.

The folder is often a Git submodule, a link, or written by CI. All of its files count, also those that Git
ignores. A missing file must be noticed: a submodule that was not fetched is an empty folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.checks.tools.rego.policies import FOLDER, is_policy
from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.worktree import NOT_SOURCE, PathKind, Worktree

_SUBMODULE: Final = r"(?m)^\s*path\s*=\s*(\S+)"


class PolicyFiles(NamedTuple):
    paths: tuple[str, ...] = ()
    """Policies and their tests."""
    empty: tuple[str, ...] = ()
    """`policy/` itself or a submodule, if empty. Git does not track empty folders."""
    broken_links: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.paths or self.empty or self.broken_links)


def policy_files(code: Code) -> PolicyFiles:
    tree = code.tree
    if FOLDER not in tree.names("."):
        return PolicyFiles()
    paths: list[str] = []
    empty: list[str] = []
    broken_links: list[str] = []
    submodules = re.findall(_SUBMODULE, (code.content(".gitmodules") or b"").decode(errors="replace"))
    for path, kind in _entries(tree):
        if kind is PathKind.FOLDER:
            if path == FOLDER or path in submodules:
                empty.append(path)
        elif kind is PathKind.MISSING:
            broken_links.append(path)
        elif is_policy(path):
            paths.append(path)
    return PolicyFiles(tuple(paths), tuple(empty), tuple(broken_links))


def _entries(tree: Worktree) -> Iterator[tuple[str, PathKind]]:
    """Files, empty folders and broken links, in order. A folder with several links to it counts once."""
    waiting = [(FOLDER, tree.root / FOLDER)]
    seen: set[Path] = set()
    while waiting:
        path, place = waiting.pop()
        kind = tree.kind(path)
        if kind is not PathKind.FOLDER:
            yield path, kind
            continue
        real = place.resolve() if place.is_symlink() else place
        if real in seen:
            continue
        seen.add(real)
        names = tree.names(path)
        if not names:
            yield path, kind
        inside = (name for name in reversed(names) if name not in NOT_SOURCE)
        waiting.extend((tree.join(path, name), real / name) for name in inside)
