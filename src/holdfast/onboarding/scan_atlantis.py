"""What an `atlantis.yaml` says about a repository's projects, as far as Holdfast can use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml
from msgspec import Struct

FILE_NAMES: Final = ("atlantis.yaml", "atlantis.yml")
DEFAULT_WORKSPACE: Final = "default"

_NOT_CARRIED: Final = {
    "workflow": "its custom workflow",
    "plan_requirements": "plan_requirements",
    "apply_requirements": "apply_requirements",
    "import_requirements": "import_requirements",
    "branch": "its branch filter",
    "repo_locks": "repo_locks",
    "repo_locking": "repo_locking",
    "custom_policy_check": "custom_policy_check",
    "policy_check": "policy_check",
    "silence_pr_comments": "silence_pr_comments",
}


class Project(Struct, frozen=True, kw_only=True):
    folder: str
    name: str | None = None
    workspace: str = DEFAULT_WORKSPACE
    version: str | None = None
    tofu: bool = False
    group: int = 0
    depends_on: tuple[str, ...] = ()
    autoplan: bool = False
    """It says itself what touches it; Holdfast reads that from the code."""
    left_behind: tuple[str, ...] = ()
    """What Holdfast has no place for, in words."""


class Atlantis(Struct, frozen=True, kw_only=True):
    path: str
    projects: tuple[Project, ...] = ()
    problem: str | None = None
    """Why the file, or a part of it, could not be used."""


def read_atlantis(text: str, path: str) -> Atlantis:
    """Never raises: a file that is no Atlantis file has no projects and a problem."""
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return Atlantis(path=path, problem=f"it is not valid YAML ({type(error).__name__})")
    listed = document.get("projects") if isinstance(document, Mapping) else None
    if listed is None:
        return Atlantis(path=path)
    if not isinstance(listed, list):
        return Atlantis(path=path, problem="its `projects` is not a list")
    projects = [_project(one) for one in listed]
    wrong = sum(1 for one in projects if one is None)
    return Atlantis(
        path=path,
        projects=tuple(one for one in projects if one is not None),
        problem=f"{wrong} of its projects name no folder" if wrong else None,
    )


def _project(given: Any) -> Project | None:
    if not isinstance(given, Mapping) or not isinstance(given.get("dir"), str):
        return None
    parts = [part for part in given["dir"].split("/") if part not in ("", ".")]
    if ".." in parts:
        return None
    autoplan = given.get("autoplan")
    group = given.get("execution_order_group")
    depends_on = given.get("depends_on")
    return Project(
        folder="/".join(parts) or ".",
        name=_text(given.get("name")),
        workspace=_text(given.get("workspace")) or DEFAULT_WORKSPACE,
        version=(_text(given.get("terraform_version")) or "").removeprefix("v") or None,
        tofu=given.get("terraform_distribution") == "opentofu",
        group=group if isinstance(group, int) else 0,
        depends_on=tuple(map(str, depends_on)) if isinstance(depends_on, list) else (),
        autoplan=isinstance(autoplan, Mapping) and "when_modified" in autoplan,
        left_behind=tuple(words for key, words in _NOT_CARRIED.items() if given.get(key)),
    )


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
