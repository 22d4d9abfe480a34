"""Which repository a folder belongs to: two repositories must not change each other's states."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holdfast.kernel.patterns import pattern
from holdfast.system import processes

NOT_SOURCE = frozenset((".git", ".terraform", ".holdfast"))
"""Folders that never belong to a repository's content."""
_SECTION = pattern(r"\s*\[\s*(?P<name>[^\]]*?)\s*\]")
_URL_LINE = pattern(r'\s*url\s*=\s*"?(?P<url>[^"#;\s]+)')
_URL = pattern(r"(?:https?|ssh|git)://(?:[^/]*@)?(?P<host>[^/:]+)(?::\d+)?/+(?P<path>.+)")
_SCP = pattern(r"(?:[^@/:]+@)?(?P<host>[^/:]{2,}):(?P<path>[^:]+)")
_ONLY_IN_SOME = frozenset(("_git", "scm", "v3"))
"""Parts of the path that hosts have in the address of one protocol only."""


def repository_of(folder: Path, environment: Mapping[str, str]) -> str:
    """`host/path` of its origin without credentials, or the id of its first commit; empty: not known.

    The origin is read from the file of Git, which is much faster than a process. The origin is the same for
    all clones, however they were made; a path on this machine is not.
    """
    git = _git_folder(folder.resolve())
    if git is None:
        return ""
    try:
        origin = _origin((git / "config").read_text(errors="replace"))
    except OSError:
        return ""
    if origin or (git / "shallow").exists():
        return origin
    own = {name: value for name, value in environment.items() if not name.startswith("GIT_")}
    answer = processes.run(("git", "rev-list", "--max-parents=0", "HEAD"), folder=folder, environment=own)
    return min(answer.out.decode().split(), default="") if answer.code == 0 else ""


def _git_folder(folder: Path) -> Path | None:
    """The one with the configuration: a worktree shares it with its repository."""
    git = next((path for at in (folder, *folder.parents) if (path := at / ".git").exists()), None)
    if git is None or git.is_dir():
        return git
    try:
        git = git.parent / git.read_text().removeprefix("gitdir:").strip()
        common = git / "commondir"
        return git / common.read_text().strip() if common.exists() else git
    except OSError:
        return None


# Pure


def _origin(config: str) -> str:
    section = ""
    for line in config.splitlines():
        if header := _SECTION.match(line):
            section = header["name"]
        elif section == 'remote "origin"' and (entry := _URL_LINE.match(line)):
            return normal_address(entry["url"])
    return ""


def normal_address(url: str) -> str:
    """The same for HTTPS and SSH; empty for a path on this machine."""
    match = _URL.fullmatch(url) or _SCP.fullmatch(url)
    if match is None or url.startswith("file:"):
        return ""
    parts = match["path"].strip("/").removesuffix(".git").lower().split("/")
    return "/".join((match["host"].lower(), *(part for part in parts if part and part not in _ONLY_IN_SOME)))


def is_other(last: str, now: str) -> bool:
    """Whether both are known and differ. The host does not count: it may be an alias of SSH, or a mirror."""
    if not last or not now or ("/" in last) != ("/" in now):
        return False
    return last.partition("/")[2] != now.partition("/")[2] if "/" in last else last != now


def shown(repository: str) -> str:
    return repository if "/" in repository else f"the repository with the first commit {repository[:12]}"
