"""Decides which folders and variables files are stacks, and finds the patterns that match them."""

from __future__ import annotations

import posixpath
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.placeholders import MalformedError, escape
from holdfast.config.stack_rules import RuleKind
from holdfast.hcl.eval.code import is_auto_loaded
from holdfast.kernel.text import plural
from holdfast.onboarding.layout_matrix import matrix_entries
from holdfast.onboarding.naming import is_environment, is_hint, is_region, path_pattern
from holdfast.onboarding.scan import RepositoryScan, ScannedModule, folders_above
from holdfast.onboarding.starter_entries import (
    VARIABLES,
    StackDraft,
    StackEntry,
    listed_entry,
    name_entries,
    root_entry,
    single_entry,
)
from holdfast.stacks.listing import ROOT, ListedTree, has_root_module, join_path
from holdfast.stacks.pattern import compile_pattern, matching_paths
from holdfast.stacks.stack import name_from_path

_SHARED: Final = frozenset(
    ("common", "shared", "global", "globals", "default", "defaults", "base", "all", "_common", "_shared")
)
_LEVELS: Final = frozenset(
    ("account", "env", "environment", "organization", "project", "region", "stage", "tenant")
)
"""Names of files that hold what everything in a folder has in common."""
SAMPLES: Final = frozenset(("example", "sample", "template", "examples", "dist"))
_LIBRARIES: Final = frozenset(("modules", "module", "_modules", "tf-modules", "terraform-modules", "vendor"))
_MANY_TOPS: Final = 3


class _Candidate(Struct, frozen=True, kw_only=True):
    """A possible stack, before its pattern is known. `up`: how many parts of its path lead to its module."""

    path: str
    module: str
    shared: tuple[str, ...] = ()
    up: int | None = None
    parent: str = ROOT
    part: int = 0

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(name_from_path(self.path).split("/"))


class Layout(Struct, frozen=True, kw_only=True):
    entries: tuple[StackEntry, ...]
    library: tuple[str, ...]
    """Modules that no other module calls but that are still treated as shared modules."""
    examples: tuple[str, ...]
    """Root modules in examples and tests."""


def _root_modules(scan: RepositoryScan) -> set[str]:
    """Folders that look like root modules. Among shared modules, code without any sign of one is none."""
    with_values = {folder for path in scan.variables_files for folder in folders_above(path)}
    roots: set[str] = set()
    possible: set[str] = set()
    shared = 0
    for folder, module in scan.modules.items():
        if module.is_example or module.translated or not module.has_resources:
            continue
        if scan.translation is not None:
            alone = module.providers and not module.called
            complete = module.backend is not None and bool(module.backend.settings)
        else:
            alone = not module.called and not _LIBRARIES & set(folder.split("/"))
            complete = module.backend is not None
        if complete or (
            alone
            and (module.providers or module.states or module.locked or module.pinned or folder in with_values)
        ):
            roots.add(folder)
        elif alone and not module.required:
            possible.add(folder)
        else:
            shared += alone
    return roots | possible if len(possible) >= shared else roots


def layout_from_scan(scan: RepositoryScan) -> Layout:
    roots = _root_modules(scan)
    from_files = _candidates_from_files(scan, roots)
    tree = ListedTree(scan.files)
    entries: list[StackEntry] = []
    for group in _groups(from_files.items):
        entries += _entries(group, tree, RuleKind.VARIABLES)
    free = roots - {item.module for item in from_files.items}
    crossed = matrix_entries(scan, free - from_files.shared_only.keys(), from_files.without_module)
    entries += crossed
    plain = sorted(free - {stack.module for entry in crossed for stack in entry.stacks})
    alone = [folder for folder in plain if folder == ROOT or folder in from_files.shared_only]
    folders = [
        _folder(scan.modules[folder], scan, from_files.shared) for folder in plain if folder not in alone
    ]
    for group in _groups(folders):
        entries += _entries(group, tree, RuleKind.FOLDER)
    for folder in alone:
        entries.append(root_entry(folder, scan.name, tuple(from_files.shared_only.get(folder, ()))))
    used = {stack.module for entry in entries for stack in entry.stacks}
    taken = frozenset(stack.name for stack in scan.translation.stacks) if scan.translation else frozenset()
    return Layout(
        entries=tuple(name_entries(entries, taken)),
        library=tuple(
            folder
            for folder, module in sorted(scan.modules.items())
            if folder not in used and _is_own_module(module) and module.has_resources
        ),
        examples=tuple(folder for folder, module in sorted(scan.modules.items()) if module.is_example),
    )


class _FromFiles(Struct, frozen=True, kw_only=True):
    items: list[_Candidate]
    """Stacks that a variables file defines."""
    shared: Mapping[str, list[str]]
    """Shared files by folder."""
    shared_only: Mapping[str, list[str]]
    """The same for root modules that have no others."""
    without_module: tuple[str, ...]


def _candidates_from_files(scan: RepositoryScan, roots: set[str]) -> _FromFiles:
    items: list[_Candidate] = []
    shared: defaultdict[str, list[str]] = defaultdict(list)
    unplaced: list[str] = []
    for path in sorted(scan.variables_files):
        name = posixpath.basename(path)
        stem = name_from_path(name).lower()
        folder = posixpath.dirname(path) or ROOT
        module_here = scan.modules.get(folder)
        own = is_auto_loaded(name) and module_here is not None
        if own or SAMPLES & set(stem.split(".")) or (module_here is not None and module_here.is_example):
            continue
        if stem in _SHARED or (stem in _LEVELS and folder not in scan.modules):
            shared[folder].append(path)
            continue
        module = _module_above(folder, scan, roots)
        if module is None:
            unplaced.append(path)
        elif module in roots:
            items.append(
                _Candidate(path=path, module=module, up=0 if module == ROOT else module.count("/") + 1)
            )
    for group in _group_by_top(unplaced):
        items += _candidates_by_name(group, scan, roots)
    placed = {item.path for item in items}
    with_shared = [replace(item, shared=_shared_for(item, shared)) for item in items]
    modules = {item.module for item in items}
    assigned = {path for item in with_shared for path in item.shared}
    shared_only = {
        folder: [path for path in paths if path not in assigned]
        for folder, paths in shared.items()
        if folder in roots and folder not in modules
    }
    without_module = tuple(path for path in unplaced if path not in placed)
    return _FromFiles(
        items=with_shared,
        shared=shared,
        shared_only={folder: paths for folder, paths in shared_only.items() if paths},
        without_module=without_module,
    )


def _module_above(folder: str, scan: RepositoryScan, roots: set[str]) -> str | None:
    """The nearest folder with code, except the top; it need not be a root module."""
    here = folder
    while here and here != ROOT:
        if here in scan.modules:
            return here
        here = posixpath.dirname(here)
    return ROOT if folder == ROOT and ROOT in roots else None


def _group_by_top(paths: Iterable[str]) -> list[list[str]]:
    groups: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for path in paths:
        parts = path.split("/")
        top = "" if is_environment(parts[0]) or is_region(parts[0]) else parts[0]
        groups[top, len(parts)].append(path)
    return list(groups.values())


def _candidates_by_name(paths: list[str], scan: RepositoryScan, roots: set[str]) -> list[_Candidate]:
    """Files whose path names their module (`services/{service}`), else those of the top module."""
    split = [name_from_path(path).split("/") for path in paths]
    parents = sorted({posixpath.dirname(folder) or ROOT for folder in scan.modules if folder != ROOT})
    for part in reversed(range(len(split[0]))):
        for parent in parents:
            if all(_is_own_module(scan.modules.get(join_path(parent, parts[part]))) for parts in split):
                return [
                    _Candidate(path=path, module=join_path(parent, parts[part]), parent=parent, part=part)
                    for path, parts in zip(paths, split, strict=True)
                ]
    return [_Candidate(path=path, module=ROOT, up=0) for path in paths] if ROOT in roots else []


def _is_own_module(module: ScannedModule | None) -> bool:
    return module is not None and not (module.called or module.is_example or module.translated)


def _shared_for(item: _Candidate, shared: Mapping[str, list[str]]) -> tuple[str, ...]:
    """Shared files, from the top down to the stack's folder, so that the nearest one wins."""
    folders = [ROOT, *("/".join(item.parts[:count]) for count in range(1, len(item.parts)))]
    return tuple(path for folder in folders for path in shared.get(folder, ()))


def _folder(module: ScannedModule, scan: RepositoryScan, shared: Mapping[str, list[str]]) -> _Candidate:
    """A root module by its folder, with the shared files above it that set its variables."""
    item = _Candidate(path=module.folder, module=module.folder)
    layers = (
        path for path in _shared_for(item, shared) if scan.variables_files[path].sets & module.variables
    )
    return replace(item, shared=tuple(layers))


def _groups(items: Sequence[_Candidate]) -> list[list[_Candidate]]:
    """Candidates that may share a pattern: same depth and module, below one top folder."""
    groups: defaultdict[tuple[object, ...], list[_Candidate]] = defaultdict(list)
    for item in items:
        suffix = item.path[len(name_from_path(item.path)) :]
        groups[len(item.parts), item.up, item.parent, item.part, suffix].append(item)
    found: list[list[_Candidate]] = []
    for group in groups.values():
        tops: defaultdict[str, list[_Candidate]] = defaultdict(list)
        for item in group:
            tops["" if is_environment(item.parts[0]) or is_region(item.parts[0]) else item.parts[0]].append(
                item
            )
        many = len(tops) >= _MANY_TOPS or bool(group[0].up)
        alike = len(group[0].parts) == 1 or (many and not any(map(is_hint, tops)))
        found += [group] if alike else list(tops.values())
    return sorted(found, key=lambda group: group[0].path)


def _entries(
    items: list[_Candidate],
    tree: ListedTree,
    kind: RuleKind,
    captured: Mapping[str, Mapping[str, str]] | None = None,
) -> list[StackEntry]:
    """One entry if a pattern matches exactly these; otherwise the group is split until that is the case.

    `captured`: the values of each path by the pattern of the whole group.
    """
    if not items:
        return []
    component = items[0].up - 1 if items[0].up else None
    leaf = "name" if kind is RuleKind.VARIABLES else "component"
    parts = path_pattern([item.parts for item in items], leaf=leaf, component=component)
    entry = _entry(items, parts, kind)
    by_pattern = kind is RuleKind.FOLDER or items[0].path.endswith(VARIABLES)
    if entry is not None and by_pattern and _matches(entry, tree) == {item.path for item in items}:
        return [entry]
    listed = listed_entry(entry, entry.stacks) if entry is not None else None
    if listed is not None:
        return [listed]
    if captured is None:
        captured = {} if entry is None else {stack.path: stack.captured for stack in entry.stacks}
    if len(items) == 1:
        item = items[0]
        return [single_entry(item.path, item.module, item.shared, kind, captured.get(item.path))]
    column = next(
        index for index in range(len(items[0].parts)) if len({item.parts[index] for item in items}) > 1
    )
    split: defaultdict[str, list[_Candidate]] = defaultdict(list)
    for item in items:
        split[item.parts[column]].append(item)
    return [entry for group in split.values() for entry in _entries(group, tree, kind, captured)]


def _entry(items: list[_Candidate], parts: tuple[str, ...], kind: RuleKind) -> StackEntry | None:
    first = items[0]
    suffix = first.path[len("/".join(first.parts)) :]
    pattern = "/".join(parts) + suffix
    if "{" not in pattern or any(set(item.path) & set("{}*?[]\\") for item in items):
        return None
    try:
        captured = [compile_pattern(pattern).match(item.path) for item in items]
    except MalformedError:
        return None
    module = None
    if kind is RuleKind.VARIABLES:
        module = (
            join_path(escape(first.parent), parts[first.part])
            if first.up is None
            else "/".join(parts[: first.up]) or ROOT
        )
    layers = _layers(items, parts)
    what = "variables file" if kind is RuleKind.VARIABLES else "root module"
    return StackEntry(
        kind=kind,
        pattern=pattern,
        module=module,
        shared=tuple(layers),
        optional=frozenset(file for file, count in layers.items() if count < len(items)),
        why=f"{plural(len(items), what)}, one stack each" if len(items) > 1 else f"one {what}",
        stacks=tuple(
            StackDraft(
                name=name_from_path(item.path),
                module=item.module,
                file=item.path if kind is RuleKind.VARIABLES else None,
                shared=item.shared,
                captured=values or {},
            )
            for item, values in zip(items, captured, strict=True)
        ),
    )


def _layers(items: Sequence[_Candidate], parts: tuple[str, ...]) -> dict[str, int]:
    """The shared files of a pattern, from the top down, and how many of the candidates have each."""
    found = Counter((path.count("/"), posixpath.basename(path)) for item in items for path in item.shared)
    return {"/".join((*parts[:depth], name)): found[depth, name] for depth, name in sorted(found)}


def _matches(entry: StackEntry, tree: ListedTree) -> set[str]:
    folders = entry.kind is RuleKind.FOLDER
    paths = matching_paths(compile_pattern(entry.pattern or ""), tree, folders=folders)
    return {path for path, _ in paths if not folders or has_root_module(tree.listing(path))}
