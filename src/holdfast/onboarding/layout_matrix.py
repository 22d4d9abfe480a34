"""Finds root modules that are run once per environment, as entries with a matrix."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from holdfast.config.placeholders import escape
from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.text import plural
from holdfast.onboarding.naming import common_affixes, environment_word
from holdfast.onboarding.scan import RepositoryScan, ScannedModule
from holdfast.onboarding.starter_entries import StackDraft, StackEntry
from holdfast.onboarding.state_evidence import missing_settings, without_workspaces
from holdfast.stacks.listing import ROOT, join_path
from holdfast.stacks.stack import name_from_path, name_problem


def matrix_entries(scan: RepositoryScan, folders: Iterable[str], files: Iterable[str]) -> list[StackEntry]:
    """`folders`: root modules without variables files; `files`: variables files without a module."""
    left = sorted(folders)
    entries = _by_variables(scan, left, files)
    used = {stack.module for entry in entries for stack in entry.stacks}
    for folder in left:
        module = scan.modules[folder]
        files = _backend_files(scan, module)
        names = module.workspaces or tuple(files)
        if folder not in used and len(names) > 1 and not any(map(name_problem, names)):
            entries.append(_by_name(module, names, files))
    return entries


def _backend_files(scan: RepositoryScan, module: ScannedModule) -> dict[str, str]:
    """The module's own `-backend-config` files by the part of their path that differs."""
    missing = missing_settings(module.backend)
    paths = [
        file.path
        for file in scan.backend_files
        if file.module == module.folder and missing and not missing_settings(module.backend, file.settings)
    ]
    prefix, suffix = common_affixes(paths)
    return {path[len(prefix) : len(path) - len(suffix)]: path for path in paths}


def _by_name(module: ScannedModule, names: Sequence[str], files: Mapping[str, str]) -> StackEntry:
    """One stack per workspace with a local state, or per backend file."""
    prefix = "" if module.folder == ROOT else f"{module.folder}/"
    in_workspaces = bool(module.workspaces) and module.backend is not None
    stacks = tuple(
        StackDraft(
            name=f"{prefix}{name}",
            module=module.folder,
            captured={"environment": name},
            backend_file=files.get(name),
            workspace=name if in_workspaces else None,
        )
        for name in names
    )
    what = "workspace" if module.workspaces else "-backend-config file"
    return StackEntry(
        kind=RuleKind.NAMED,
        stacks=stacks,
        why=f"{plural(len(names), what)}, one stack each",
        name=f"{escape(prefix)}{{environment}}",
        module=escape(module.folder),
        matrix={"environment": tuple(names)},
        held_back=without_workspaces(module) if module.workspaces else None,
    )


def _by_variables(scan: RepositoryScan, folders: Sequence[str], files: Iterable[str]) -> list[StackEntry]:
    """Modules that all take their values from the same files, one per environment."""
    by_folder: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for path in files:
        stem = name_from_path(path)
        by_folder[posixpath.dirname(path), path[len(stem) :]].append(path)
    entries: list[StackEntry] = []
    taken: set[str] = set()
    for (folder, suffix), paths in sorted(by_folder.items()):
        stems = [posixpath.basename(path).removesuffix(suffix) for path in paths]
        if not all(map(environment_word, stems)) or any(map(name_problem, stems)):
            continue
        sets = [scan.variables_files[path].sets for path in paths]
        parents: defaultdict[str, list[str]] = defaultdict(list)
        for module in folders:
            if module not in taken and _takes_values(scan.modules[module], sets):
                parents[posixpath.dirname(module)].append(module)
                taken.add(module)
        template = join_path(escape(folder) or ROOT, f"{{environment}}{suffix}")
        pairs = list(zip(stems, paths, strict=True))
        entries += [_crossed(parent, same, pairs, template) for parent, same in sorted(parents.items())]
    return entries


def _takes_values(module: ScannedModule, files: Sequence[frozenset[str]]) -> bool:
    return all(sets & module.variables and sets.issuperset(module.required) for sets in files)


def _crossed(
    parent: str, modules: Sequence[str], files: Sequence[tuple[str, str]], template: str
) -> StackEntry:
    """Every module with every file."""
    components = tuple(posixpath.basename(module) for module in modules)
    stacks = tuple(
        StackDraft(
            name=f"{module}/{stem}",
            module=module,
            shared=(path,),
            captured={"environment": stem, **({"component": component} if len(modules) > 1 else {})},
        )
        for stem, path in files
        for module, component in zip(modules, components, strict=True)
    )
    folder = join_path(escape(parent) or ROOT, "{component}") if len(modules) > 1 else escape(modules[0])
    axes = {"environment": tuple(stem for stem, _ in files)}
    return StackEntry(
        kind=RuleKind.NAMED,
        stacks=stacks,
        why=f"{plural(len(modules), 'root module')} with each of {plural(len(files), 'variables file')}",
        name=f"{folder}/{{environment}}",
        module=folder,
        shared=(template,),
        matrix={**axes, "component": components} if len(modules) > 1 else axes,
    )
