"""Converts Atlantis projects to entries, one named stack each, and lists what was not converted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.placeholders import escape
from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.text import plural
from holdfast.onboarding.naming import environment_word, is_environment
from holdfast.onboarding.scan import RepositoryScan
from holdfast.onboarding.scan_atlantis import DEFAULT_WORKSPACE, Atlantis, Project
from holdfast.onboarding.starter_entries import StackDraft, StackEntry, single_entry, unused_name, valid_name
from holdfast.onboarding.state_evidence import without_workspaces
from holdfast.onboarding.translators.translation import Part, TranslatedStack, Translation
from holdfast.stacks.listing import ROOT, join_path


class ConvertedProjects(Struct, frozen=True, kw_only=True):
    entries: tuple[StackEntry, ...]
    not_converted: tuple[str, ...]
    """Sentences about settings that Holdfast does not support."""
    translation: Translation


def convert_projects(atlantis: Atlantis, scan: RepositoryScan) -> ConvertedProjects:
    """One entry for each project whose folder contains code."""
    projects = [project for project in atlantis.projects if project.folder in scan.modules]
    named = list(zip(projects, _names(projects, scan.name), strict=True))
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for project, name in named:
        groups[project.group].append(name)
    known = {project.name or "": name for project, name in named}
    needs = {name: _dependencies(project, known, groups) for project, name in named}
    return ConvertedProjects(
        entries=tuple(_entry(project, name, scan, needs[name]) for project, name in named),
        not_converted=tuple(_not_converted(atlantis, scan, known)),
        translation=Translation(
            tool="Atlantis",
            found=f"{atlantis.path} with {plural(len(atlantis.projects), 'project')}",
            stacks=tuple(_translated(atlantis.path, project, name, needs[name]) for project, name in named),
        ),
    )


def _translated(path: str, project: Project, name: str, needs: tuple[str, ...]) -> TranslatedStack:
    parts = [(f"dir: {project.folder}", f"module: {project.folder}")]
    if project.workspace != DEFAULT_WORKSPACE:
        parts.append((f"workspace: {project.workspace}", f"workspace: {project.workspace}"))
    if project.version:
        parts.append((f"terraform_version: {project.version}", f"engine: {{ version: {project.version} }}"))
    if needs:
        order = "depends_on" if project.depends_on else "execution_order_group"
        parts.append((order, f"depends_on: [{', '.join(needs)}]"))
    return TranslatedStack(
        original=path,
        name=name,
        module=project.folder,
        keys={},
        parts=tuple(Part(original=original, keys=keys) for original, keys in parts),
    )


def _names(projects: list[Project], repository: str) -> list[str]:
    """The project's name, else its folder, with the workspace if the folder is not unique."""
    folders = Counter(project.folder for project in projects if project.name is None)
    names: list[str] = []
    for project in projects:
        name = project.name or (repository if project.folder == ROOT else project.folder)
        if project.name is None and (folders[project.folder] > 1 and project.workspace != DEFAULT_WORKSPACE):
            name = f"{name}/{project.workspace}"
        names.append(unused_name(valid_name(name), names))
    return names


def _dependencies(
    project: Project, known: Mapping[str, str], groups: Mapping[int, list[str]]
) -> tuple[str, ...]:
    """Its dependencies by name, else the whole previous group."""
    if project.depends_on:
        return tuple(known[name] for name in project.depends_on if name in known)
    lower = [group for group in groups if group < project.group]
    return tuple(groups[max(lower)]) if lower else ()


def _entry(project: Project, name: str, scan: RepositoryScan, needs: tuple[str, ...]) -> StackEntry:
    by_workspace = join_path(project.folder, f"env/{project.workspace}.tfvars")
    shared = (by_workspace,) if by_workspace in scan.variables_files else ()
    environment = next((text for text in (project.workspace, name) if environment_word(text)), None)
    if environment is None:
        environment = next((part for part in project.folder.split("/") if is_environment(part)), None)
    base = single_entry(project.folder, project.folder, shared, RuleKind.FOLDER)
    workspace = project.workspace if project.workspace != DEFAULT_WORKSPACE else None
    module = scan.modules[project.folder]
    held_back = None
    if module.backend is None and workspace is not None:
        held_back, workspace = without_workspaces(module), None
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
        held_back=held_back,
        why=f"Atlantis project {project.name or project.folder}",
    )


def _not_converted(atlantis: Atlantis, scan: RepositoryScan, known: Mapping[str, str]) -> Iterator[str]:
    if atlantis.problem is not None:
        yield f"{atlantis.path}: {atlantis.problem}."
    for project in atlantis.projects:
        title = project.name or project.folder
        if project.folder not in scan.modules:
            yield f"Project {title}: its folder {project.folder} contains no Terraform code."
        unknown = [name for name in project.depends_on if name not in known]
        if unknown:
            verb = "does" if len(unknown) == 1 else "do"
            yield f"Project {title} depends on {', '.join(unknown)}, which {verb} not exist."
    settings = Counter(setting for project in atlantis.projects for setting in project.unsupported)
    for setting, count in settings.items():
        verb = "sets" if count == 1 else "set"
        yield f"{plural(count, 'project')} {verb} {setting}, which Holdfast does not support."
