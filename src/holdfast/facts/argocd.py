"""Whether Argo CD could read the facts where they are published.

Argo CD renders an Application from several sources, but refuses two revisions of one repository: "cannot
reference a different revision of the same repository". Facts on a branch of the repository that it deploys
from, at another revision, would break every such Application.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct

from holdfast.config.publishing import Facts
from holdfast.kernel.errors import Refused
from holdfast.plans.context import Project
from holdfast.system import git
from holdfast.system.git_branch import GitBranch

_KINDS: Final = frozenset(("Application", "ApplicationSet"))
_MARK: Final = b"argoproj.io/"
_LARGEST: Final = 2_000_000
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_SCP: Final = re.compile(r"(?:ssh://)?(?:[^@/]+@)?([^:/]+)[:/](.+)")


class Source(Struct, frozen=True, kw_only=True):
    """Where an Application takes manifests or values from."""

    file: str
    application: str
    repository: str
    revision: str


def refuse_second_revision(project: Project, settings: Facts, branch: GitBranch) -> tuple[str, ...]:
    """Raises Refused, with the reason; otherwise returns what could not be checked."""
    tree = git.find(project.root, project.environment.variables)
    if tree is None:
        return ("Argo CD's Applications were not looked for: this is not a Git working tree",)
    unreadable: list[str] = []
    repository = normal_address(settings.repository)
    paths = dict.fromkeys((*tree.tracked(), *tree.untracked()))
    for source in sources_in(tree.top, paths, unreadable.append):
        if normal_address(source.repository) != repository:
            continue
        revision = source.revision
        if revision in {"", "HEAD"}:
            revision = branch.default_branch() or settings.branch
        if revision.removeprefix("refs/heads/") != settings.branch:
            raise Refused(
                "HF-FACT-6",
                f"facts on the branch {settings.branch} of {settings.repository} cannot be read by Argo CD: "
                f"{source.application} ({source.file}) deploys from the same repository at "
                f"{source.revision or 'HEAD'}, and Argo CD refuses two revisions of one repository in an "
                "Application",
                hint="Publish the facts to a repository of their own (`facts.repository`), or to the branch "
                "that Argo CD deploys from.",
            )
    if not unreadable:
        return ()
    names = ", ".join(unreadable[:3]) + (f" and {len(unreadable) - 3} more" if len(unreadable) > 3 else "")  # noqa: PLR2004
    return (f"Argo CD's Applications could not be read in {names} (templates?)",)


def sources_in(top: Path, paths: Mapping[str, None], unreadable: Callable[[str], None]) -> Iterator[Source]:
    """Of every Application and ApplicationSet in these files."""
    for path in paths:
        file = top / path
        if not path.endswith(_SUFFIXES) or file.is_symlink() or not file.is_file():
            continue
        if file.stat().st_size > _LARGEST or _MARK not in (content := file.read_bytes()):
            continue
        try:
            documents = list(yaml.safe_load_all(content))
        except (yaml.YAMLError, ValueError, RecursionError):
            unreadable(path)
            continue
        for document in documents:
            yield from _sources(path, document)


def _sources(file: str, document: object) -> Iterator[Source]:
    if not isinstance(document, dict) or document.get("kind") not in _KINDS:
        return
    spec = _mapping(document.get("spec"))
    if document["kind"] == "ApplicationSet":
        spec = _mapping(_mapping(spec.get("template")).get("spec"))
    several = spec.get("sources")
    for source in several if isinstance(several, list) and several else (spec.get("source"),):
        entry = _mapping(source)
        if "chart" not in entry and isinstance(entry.get("repoURL"), str):
            yield Source(
                file=file,
                application=str(_mapping(document.get("metadata")).get("name", "an Application")),
                repository=entry["repoURL"],
                revision=str(entry.get("targetRevision") or ""),
            )


def normal_address(url: str) -> str:
    """As Argo CD compares addresses: without `.git`, in lower case, SSH in both of its forms alike."""
    text = url.strip().lower().rstrip("/").removesuffix(".git")
    if "://" in text and not text.startswith("ssh://"):
        return text
    match = _SCP.fullmatch(text)
    return f"ssh {match[1]}/{match[2].lstrip('/')}" if match is not None else text


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
