"""Which policies there are: what lies below `policy/`, whoever keeps it there.

A folder of policies is often somebody else's: a submodule of Git, a link, something that CI puts there. All
of it counts, also where Git ignores it. What should be there and is not must be noticed: a submodule that
nobody fetched is an empty folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.checks.tools.rego_policies import FOLDER, is_policy
from holdfast.stacks.code import Code
from holdfast.stacks.worktree import NOT_SOURCE, Kind, Worktree

_SUBMODULE: Final = r"(?m)^\s*path\s*=\s*(\S+)"


class PolicyFiles(NamedTuple):
    paths: tuple[str, ...] = ()
    """Policies and their tests."""
    empty: tuple[str, ...] = ()
    """`policy/` itself, or a submodule, without anything in it. Git keeps no such folders."""
    lost: tuple[str, ...] = ()
    """Links that lead to nothing."""

    @property
    def any(self) -> bool:
        return bool(self.paths or self.empty or self.lost)


def policy_files(code: Code) -> PolicyFiles:
    tree = code.tree
    if FOLDER not in tree.names("."):
        return PolicyFiles()
    found = PolicyFiles()
    submodules = re.findall(_SUBMODULE, (code.content(".gitmodules") or b"").decode(errors="replace"))
    for path, kind in _below(tree, FOLDER, ()):
        if kind is Kind.FOLDER:
            if path != FOLDER and path not in submodules:
                continue
            found = found._replace(empty=(*found.empty, path))
        elif kind is Kind.MISSING:
            found = found._replace(lost=(*found.lost, path))
        elif is_policy(path):
            found = found._replace(paths=(*found.paths, path))
    return found


def _below(tree: Worktree, path: str, above: tuple[Path, ...]) -> Iterator[tuple[str, Kind]]:
    """Files, empty folders and lost links, in order; a link that leads back up is not followed twice."""
    kind = tree.kind(path)
    if kind is not Kind.FOLDER:
        yield path, kind
        return
    real = (tree.root / path).resolve()
    if real in above:
        return
    names = tree.names(path)
    if not names:
        yield path, kind
    for name in names:
        if name not in NOT_SOURCE:
            yield from _below(tree, tree.join(path, name), (*above, real))
