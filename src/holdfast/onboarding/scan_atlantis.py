"""Reads the projects of an `atlantis.yaml`, as far as Holdfast supports them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import yaml
from msgspec import Struct

from holdfast.kernel.text import plural

FILE_NAMES: Final = ("atlantis.yaml", "atlantis.yml")
DEFAULT_WORKSPACE: Final = "default"

_UNSUPPORTED: Final = {
    "workflow": "a custom workflow",
    "branch": "a branch filter",
    **{name: name for name in ("plan_requirements", "apply_requirements", "import_requirements")},
    **{name: name for name in ("repo_locks", "repo_locking", "custom_policy_check", "policy_check")},
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
    unsupported: tuple[str, ...] = ()
    """Settings that Holdfast does not support, as shown to users."""


class Atlantis(Struct, frozen=True, kw_only=True):
    path: str
    projects: tuple[Project, ...] = ()
    problem: str | None = None
    """Why the file, or part of it, cannot be used."""


def read_atlantis(text: str, path: str) -> Atlantis:
    """Never raises: an invalid file has no projects and a problem."""
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        return Atlantis(path=path, problem=f"it is not valid YAML ({type(error).__name__})")
    listed = document.get("projects") if isinstance(document, Mapping) else None
    if listed is None:
        return Atlantis(path=path)
    if not isinstance(listed, list):
        return Atlantis(path=path, problem="its `projects` is not a list")
    projects = tuple(project for item in listed if (project := _project(item)) is not None)
    invalid = len(listed) - len(projects)
    problem = f"{plural(invalid, 'project')} without a valid `dir`" if invalid else None
    return Atlantis(path=path, projects=projects, problem=problem)


def _project(item: Any) -> Project | None:
    if not isinstance(item, Mapping) or not isinstance(item.get("dir"), str):
        return None
    parts = [part for part in item["dir"].split("/") if part not in ("", ".")]
    if ".." in parts:
        return None
    group = item.get("execution_order_group")
    depends_on = item.get("depends_on")
    return Project(
        folder="/".join(parts) or ".",
        name=_text(item.get("name")),
        workspace=_text(item.get("workspace")) or DEFAULT_WORKSPACE,
        version=(_text(item.get("terraform_version")) or "").removeprefix("v") or None,
        tofu=item.get("terraform_distribution") == "opentofu",
        group=group if isinstance(group, int) else 0,
        depends_on=tuple(map(str, depends_on)) if isinstance(depends_on, list) else (),
        unsupported=tuple(text for key, text in _UNSUPPORTED.items() if item.get(key)),
    )


def _text(value: Any) -> str | None:
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
