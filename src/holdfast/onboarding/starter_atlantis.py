"""From Atlantis projects to entries: each becomes a stack with a name, and what is lost is said."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.placeholders import escape
from holdfast.config.stack_rules import RuleKind
from holdfast.onboarding.naming import environment_word, is_environment
from holdfast.onboarding.scan import RepositoryScan
from holdfast.onboarding.scan_atlantis import DEFAULT_WORKSPACE, Atlantis, Project
from holdfast.onboarding.starter_entries import StackDraft, StackEntry, single_entry, valid_name
from holdfast.stacks.listing import ROOT, join_path


class ConvertedProjects(Struct, frozen=True, kw_only=True):
    entries: tuple[StackEntry, ...]
    lost: tuple[str, ...]
    """What of the file has no place here, in sentences."""


def convert_projects(atlantis: Atlantis, look: RepositoryScan) -> ConvertedProjects:
    """One entry for each project whose folder holds code."""
    there = [project for project in atlantis.projects if project.folder in look.modules]
    called = _names(there, look.name)
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for project, name in zip(there, called, strict=True):
        groups[project.group].append(name)
    known = {project.name or "": name for project, name in zip(there, called, strict=True)}
    entries = [
        _entry(project, name, look, _needs(project, known, groups))
        for project, name in zip(there, called, strict=True)
    ]
    return ConvertedProjects(entries=tuple(entries), lost=tuple(_lost(atlantis, look, known)))


def _names(projects: list[Project], repository: str) -> list[str]:
    """The project's own name, else its folder, with the workspace where the folder alone is not enough."""
    folders = Counter(project.folder for project in projects if project.name is None)
    found: list[str] = []
    for project in projects:
        name = project.name or (repository if project.folder == ROOT else project.folder)
        if project.name is None and (folders[project.folder] > 1 and project.workspace != DEFAULT_WORKSPACE):
            name = f"{name}/{project.workspace}"
        plain = valid_name(name)
        tries = (plain, *(f"{plain}-{count}" for count in range(2, len(projects) + 2)))
        found.append(next(one for one in tries if one not in found))
    return found


def _needs(project: Project, known: Mapping[str, str], groups: Mapping[int, list[str]]) -> tuple[str, ...]:
    """Its dependencies by name, else everything of the group before its own."""
    if project.depends_on:
        return tuple(known[name] for name in project.depends_on if name in known)
    lower = [group for group in groups if group < project.group]
    return tuple(groups[max(lower)]) if lower else ()


def _entry(project: Project, name: str, look: RepositoryScan, needs: tuple[str, ...]) -> StackEntry:
    by_workspace = join_path(project.folder, f"env/{project.workspace}.tfvars")
    shared = (by_workspace,) if by_workspace in look.variables_files else ()
    environment = next((one for one in (project.workspace, name) if environment_word(one) is not None), None)
    if environment is None:
        environment = next((part for part in project.folder.split("/") if is_environment(part)), None)
    base = single_entry(project.folder, project.folder, shared, RuleKind.FOLDER)
    workspace = project.workspace if project.workspace != DEFAULT_WORKSPACE else None
    module = look.modules[project.folder]
    held = None
    if module.backend is None and workspace is not None:
        if module.asks_workspace:
            held = (
                f"its code reads terraform.workspace ({workspace}) and names no backend that has workspaces"
            )
        workspace = None
    stack = StackDraft(
        name=name,
        module=project.folder,
        shared=shared,
        captured={"environment": environment} if environment else {},
        workspace=workspace,
        depends_on=needs,
        version=project.version,
        tofu=project.tofu,
    )
    return replace(
        base,
        name=escape(name),
        stacks=(stack,),
        environment=escape(environment) if environment else None,
        held=held,
        why=f"project {project.name or project.folder} of Atlantis",
    )


def _lost(atlantis: Atlantis, look: RepositoryScan, known: Mapping[str, str]) -> list[str]:
    lost: list[str] = []
    if atlantis.problem is not None:
        lost.append(f"{atlantis.path}: {atlantis.problem}.")
    for project in atlantis.projects:
        title = project.name or project.folder
        if project.folder not in look.modules:
            lost.append(f"Project {title}: its folder {project.folder} holds no Terraform code.")
        unknown = [name for name in project.depends_on if name not in known]
        if unknown:
            lost.append(f"Project {title} depends on {', '.join(unknown)}, which was not found.")
    words = Counter(word for project in atlantis.projects for word in project.left_behind)
    lost += [
        f"{count} of the projects set {word}: Holdfast has no place for it." for word, count in words.items()
    ]
    return lost
