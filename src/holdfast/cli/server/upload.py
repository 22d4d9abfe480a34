"""Which files of a repository are uploaded: what Git has or would add, never what it ignores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.cli.console import Console
from holdfast.kernel.text import first_names, plural
from holdfast.system import git as git_repository
from holdfast.system.access_rules import ForbiddenFiles
from holdfast.system.environment import Environment
from holdfast.system.git import Git
from holdfast.system.repository import NOT_SOURCE
from holdfast.system.source_archive import all_names, pack

_SHOWN = 3
_VARIABLES = (".tfvars", ".tfvars.json")


def pack_repository(root: Path, environment: Environment, console: Console) -> bytes:
    """Without Git, everything but `.git`, `.terraform` and `.holdfast`."""
    git = git_repository.find(root, environment.variables)
    names = list(_git_names(git, root) if git is not None else all_names(root))
    packed = pack(root, names, forbidden=ForbiddenFiles(environment))
    if packed.left_out:
        shown = first_names(packed.left_out, _SHOWN)
        console.warn(f"Not uploaded, because they lead out of the repository or are keys: {shown}")
    ignored = [name for name in git.ignored() if name.endswith(_VARIABLES)] if git is not None else []
    if ignored:
        shown = first_names(ignored, _SHOWN)
        console.warn(
            f"Not uploaded, because Git ignores them: {shown}. If a stack needs them: -var-file FILE"
        )
    size = f"{len(packed.content) / 1_000_000:.1f} MB"
    console.say(f" Uploading {plural(packed.files, 'file')} ({size}, compressed)")
    return packed.content


def _git_names(git: Git, root: Path) -> Iterator[str]:
    """Relative to the root. The files of a submodule are those of its own repository."""
    for name in (*git.tracked(), *git.untracked()):
        path = git.top / name
        if path.is_dir() and not path.is_symlink():
            inner = Git(top=path, environment=git.environment) if (path / ".git").exists() else None
            yield from _git_names(inner, root) if inner is not None else ()
        elif path.is_relative_to(root) and NOT_SOURCE.isdisjoint(name.split("/")):
            yield path.relative_to(root).as_posix()
