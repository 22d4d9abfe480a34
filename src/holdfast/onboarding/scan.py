"""Scans a repository for Terraform code, variables files, backends and other tools. Read-only."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.hcl.eval.code import (
    LOCK_FILE,
    OPENTOFU_VERSION,
    TERRAFORM_VERSION,
    Code,
    ModuleCode,
    is_auto_loaded,
    is_code,
)
from holdfast.hcl.reader import constant
from holdfast.kernel.errors import HoldfastError, Place, Problem
from holdfast.kernel.text import plain_text
from holdfast.onboarding.scan_atlantis import FILE_NAMES, Atlantis, read_atlantis
from holdfast.onboarding.scan_settings import (
    BackendFile,
    backend_file,
    initialised,
    is_backend_file,
    other_variables,
)
from holdfast.onboarding.scan_signs import (
    EXAMPLES,
    LARGEST,
    Sign,
    SignKind,
    commented_backend,
    find_signs,
    is_old_terragrunt,
    old_terragrunt,
    stray_state,
)
from holdfast.onboarding.scan_workspaces import names_in_code, reads_workspace
from holdfast.onboarding.translators.translate import translate
from holdfast.onboarding.translators.translation import Translation, hold_back_workspaces
from holdfast.stacks.backend import CodeBackend, code_backend
from holdfast.stacks.listing import ROOT, FolderTree, Tree, join_path
from holdfast.stacks.scope import ENVIRONMENT_VARIABLES, ReadValues, variables_reader

_CI_FOLDERS: Final = (".github", ".circleci", ".buildkite", ".azuredevops", ".spacelift")
_STATE: Final = re.compile(r"\.tfstate(?:\.backup|\.\d+\.backup)?$|(?:^|/)terraform\.tfstate\.d/")
_PLAN: Final = re.compile(r"\.tfplan(?:\.json)?$|(?:^|/)tfplan$")
_VERSION_FILES: Final = (TERRAFORM_VERSION, OPENTOFU_VERSION)
_CONTENT_BLOCKS: Final = (
    *("resource", "data", "module", "provider", "import", "removed", "ephemeral", "output"),
)
_EXAMPLES: Final = EXAMPLES - {"test", "docs"}


class ScannedModule(Struct, frozen=True, kw_only=True):
    folder: str
    backend: CodeBackend | None = None
    backend_place: Place | None = None
    called: bool = False
    """Another module of the repository has it as its `source`."""
    is_example: bool = False
    """It is in a folder of examples or tests."""
    translated: bool = False
    """Another tool's files say which stacks it is the code of."""
    providers: bool = False
    has_resources: bool = True
    """It has more than variables and locals, for example resources or outputs."""
    required: tuple[str, ...] = ()
    """Variables without a default that no auto-loaded file sets."""
    uses_workspace: bool = False
    """The code reads `terraform.workspace`, or a module that it calls does."""
    workspace_names: frozenset[str] = frozenset()
    """What the code suggests that its workspaces are called."""
    variables: frozenset[str] = frozenset()
    """Every variable that it declares."""
    states: tuple[str, ...] = ()
    locked: bool = False
    """It has a dependency lock file: somebody initialised it."""
    pinned: bool = False
    """It has a version file of its own or encrypts its state: only root modules do."""
    initialised: Sign | None = None
    """Terraform's own record of the backend it was initialised with on this machine."""
    selected_workspace: str = "default"
    """The workspace that was last selected on this machine."""
    commented: Sign | None = None
    """A backend block that is not part of the code."""
    problems: tuple[Problem, ...] = ()

    @property
    def workspaces(self) -> tuple[str, ...]:
        """Names of the local workspaces with a state."""
        return tuple(path.split("/")[-2] for path in self.states if "terraform.tfstate.d/" in path)


class VariablesFile(Struct, frozen=True, kw_only=True):
    path: str
    sets: frozenset[str] = frozenset()
    environment: str | None = None
    problems: tuple[Problem, ...] = ()


class LocalProgram(Struct, frozen=True, kw_only=True):
    """A program that Terraform runs on the local machine."""

    what: str
    place: Place


class RepositoryScan(Struct, frozen=True, kw_only=True):
    """Paths are relative to the root and use `/`; the root itself is `.`."""

    name: str
    files: frozenset[str] = frozenset()
    """Code and variables files, which patterns can match."""
    modules: Mapping[str, ScannedModule] = field(default_factory=dict)
    variables_files: Mapping[str, VariablesFile] = field(default_factory=dict)
    backend_files: tuple[BackendFile, ...] = ()
    signs: tuple[Sign, ...] = ()
    """What shows that other tools, templates or scripts supply backends."""
    old_terragrunt: tuple[str, ...] = ()
    """Variables files that are units of Terragrunt before 0.19."""
    atlantis: Atlantis | None = None
    translation: Translation | None = None
    """Of the files of another tool, as entries."""
    secrets_in_git: tuple[str, ...] = ()
    """State and plan files that are committed to Git."""
    programs: tuple[LocalProgram, ...] = ()
    unprintable: tuple[str, ...] = ()
    """Paths with unprintable characters, which a configuration cannot name."""


def scan_repository(
    root: Path, *, tracked: Iterable[str] = (), tool: str | None = None, code: Code | None = None
) -> RepositoryScan:
    """`tracked`: the paths in Git. `tool`: whose files to translate, instead of the first that is found.

    Raises only if a folder cannot be read.
    """
    paths, unprintable = _paths(FolderTree(root))
    code = code or Code(root)
    read_values = variables_reader(code.tree)
    signs = find_signs(paths, lambda path: _text(root / path))
    named = {
        posixpath.basename(option)
        for sign in signs
        if sign.kind is SignKind.OPTION
        for option in sign.options
    }
    backend_files = tuple(
        file
        for path in paths
        if is_backend_file(path, named) and (file := backend_file(path, _text(root / path))) is not None
    )
    settings_only = {file.path for file in backend_files}
    variables_files = {
        path: _variables_file(read_values, path)
        for path in paths
        if path.endswith((".tfvars", ".tfvars.json")) and path not in settings_only
    }
    old_units = tuple(path for path in variables_files if is_old_terragrunt(path, code.content(path) or b""))
    variables_files |= {path: VariablesFile(path=path) for path in old_units}
    if any(sign.kind is SignKind.TOOL and "Terraspace" in sign.what for sign in signs):
        templates = [path for path in variables_files if b"<%" in (code.content(path) or b"")]
        variables_files |= {path: VariablesFile(path=path) for path in templates}
    signs += tuple(map(old_terragrunt, old_units))
    translation = translate(code, paths, tool=tool)
    if translation is not None:
        translation = hold_back_workspaces(translation, signs)
    modules = _modules(root, code, paths, variables_files)
    for folder in translation.folders if translation is not None else ():
        if folder in modules:
            modules[folder] = replace(modules[folder], translated=True)
    backend_files = tuple(
        replace(file, module=next((folder for folder in folders_above(file.path) if folder in modules), None))
        for file in backend_files
    )
    owned = {path for module in modules.values() for path in module.states}
    signs += tuple(stray_state(path) for path in paths if path.endswith(".tfstate") and path not in owned)
    passed = {option for sign in signs if sign.kind is SignKind.RUN for option in sign.options}
    others = [
        path for path in paths if not (is_code(path) or path in settings_only or path in variables_files)
    ]
    declared = {folder: module.variables for folder, module in modules.items()}
    found = other_variables(others, lambda path: _text(root / path), declared, passed)
    variables_files |= {path: VariablesFile(path=path, sets=names) for path, names in found.items()}
    return RepositoryScan(
        name=root.resolve().name,
        files=frozenset(
            path
            for path in paths
            if is_code(posixpath.basename(path)) or ".tfvars" in path or path in variables_files
        ),
        modules=modules,
        variables_files=variables_files,
        backend_files=backend_files,
        signs=signs,
        old_terragrunt=old_units,
        atlantis=next(
            (read_atlantis(_text(root / name), name) for name in FILE_NAMES if (root / name).is_file()), None
        ),
        translation=translation,
        secrets_in_git=tuple(sorted(path for path in tracked if _STATE.search(path) or _PLAN.search(path))),
        programs=tuple(_programs(code, (module for module in modules.values() if not module.is_example))),
        unprintable=unprintable,
    )


def _paths(tree: Tree) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Every file that is not hidden, and those in the hidden folders of CI pipelines."""
    printable: list[str] = []
    unprintable: list[str] = []
    waiting = [ROOT]
    while waiting:
        folder = waiting.pop()
        listing = tree.listing(folder)
        if listing is None:
            continue
        for name in listing.folders:
            if name == "node_modules" or (name.startswith(".") and name not in _CI_FOLDERS):
                continue
            waiting.append(join_path(folder, name))
        for name in listing.files:
            path = join_path(folder, name)
            (printable if path.isprintable() else unprintable).append(path)
    shown = (path.encode("utf-8", "backslashreplace").decode() for path in unprintable if ".tf" in path)
    return tuple(sorted(printable)), tuple(sorted(shown))


def folders_above(path: str) -> Iterator[str]:
    """The folder of a file and every folder above it, up to the root."""
    while path:
        path = posixpath.dirname(path)
        yield path or ROOT


def _text(path: Path) -> str:
    """The text of a script or pipeline; empty if it cannot be read."""
    try:
        with path.open("rb") as handle:
            return handle.read(LARGEST).decode(errors="replace")
    except OSError:
        return ""


def _variables_file(read_values: ReadValues, path: str) -> VariablesFile:
    try:
        variables = read_values(path)
    except HoldfastError as error:
        return VariablesFile(path=path, problems=error.problems)
    environment = next(
        (text for name in ENVIRONMENT_VARIABLES if (text := plain_text(variables.get(name)))), None
    )
    return VariablesFile(path=path, sets=frozenset(variables), environment=environment)


def _modules(
    root: Path,
    code: Code,
    paths: tuple[str, ...],
    variables_files: Mapping[str, VariablesFile],
) -> dict[str, ScannedModule]:
    folders = sorted({posixpath.dirname(path) or ROOT for path in paths if is_code(posixpath.basename(path))})
    states: defaultdict[str, list[str]] = defaultdict(list)
    for path in paths:
        owner = _owner_of_state(path)
        if owner is not None:
            states[owner].append(path)
    calls = _calls(code, folders)
    called = set().union(*calls.values())
    auto_loaded: defaultdict[str, set[str]] = defaultdict(set)
    for path, file in variables_files.items():
        if is_auto_loaded(posixpath.basename(path)):
            auto_loaded[posixpath.dirname(path) or ROOT] |= file.sets
    locked = {posixpath.dirname(path) or ROOT for path in paths if posixpath.basename(path) == LOCK_FILE}
    # A version file at the root of the repository says nothing about single folders.
    pinned = {posixpath.dirname(path) for path in paths if posixpath.basename(path) in _VERSION_FILES}
    beside_test = {folder.split("/")[0] for folder in folders}
    modules: dict[str, ScannedModule] = {}
    for folder in folders:
        module = code.module(folder)
        backend = code_backend(code, folder)
        record = join_path(folder, ".terraform/terraform.tfstate")
        texts = [
            (file.path, (code.content(file.path) or b"").decode(errors="replace")) for file in module.files
        ]
        place = module.backend.place if module.backend is not None else module.cloud
        modules[folder] = ScannedModule(
            folder=folder,
            backend=backend,
            backend_place=place,
            called=folder in called,
            is_example=_is_example(folder, beside_test) and not _is_remote(module),
            providers=any(True for _ in module.blocks("provider")),
            has_resources=any(True for _ in module.blocks(*_CONTENT_BLOCKS)) or place is not None,
            required=tuple(
                sorted(
                    name
                    for name, variable in module.variables.items()
                    if variable.default is None and name not in auto_loaded[folder]
                )
            ),
            uses_workspace=any(reads_workspace(text) for _, text in texts),
            workspace_names=names_in_code("\n".join(text for _, text in texts)),
            variables=frozenset(module.variables),
            states=(*states[folder], *_local_state(root, folder, backend)),
            locked=folder in locked,
            pinned=folder in pinned or module.encryption is not None,
            initialised=initialised(record, _text(root / record)),
            selected_workspace=_text(root / folder / ".terraform/environment").strip() or "default",
            commented=next(
                (sign for path, text in texts if (sign := commented_backend(text, path)) is not None), None
            )
            if place is None
            else None,
            problems=module.problems,
        )
    for folder in _callers({module.folder for module in modules.values() if module.uses_workspace}, calls):
        modules[folder] = replace(modules[folder], uses_workspace=True)
    return modules


def _owner_of_state(path: str) -> str | None:
    """The folder of the module that a local state file belongs to, or None."""
    parts = path.split("/")
    if parts[-1] != "terraform.tfstate":
        return None
    if len(parts) > 2 and parts[-3] == "terraform.tfstate.d":  # noqa: PLR2004 - folder, workspace, file
        parts = parts[:-2]
    return "/".join(parts[:-1]) or ROOT


def _local_state(root: Path, folder: str, backend: CodeBackend | None) -> Iterator[str]:
    """The state of a local backend under another name."""
    path = backend.settings.get("path") if backend is not None and backend.type == "local" else None
    if isinstance(path, str) and posixpath.basename(path) != "terraform.tfstate":
        file = posixpath.normpath(posixpath.join(folder, path))
        if (root / file).is_file():
            yield file


def _is_remote(module: ModuleCode) -> bool:
    return module.cloud is not None or (module.backend is not None and module.backend.type != "local")


def _is_example(folder: str, tops: set[str]) -> bool:
    """A top-level `test` folder contains tests, unless it is next to other environments."""
    parts = folder.split("/")
    if _EXAMPLES & set(parts):
        return True
    return parts[0] == "test" and not tops & {"dev", "prod", "production", "staging", "stage", "qa"}


def _calls(code: Code, folders: list[str]) -> dict[str, set[str]]:
    """The modules of the repository that each module calls."""
    calls: dict[str, set[str]] = {folder: set() for folder in folders}
    for folder in folders:
        for call in code.module(folder).calls:
            source = constant(call.source) if call.source is not None else None
            if isinstance(source, str) and source.startswith(("./", "../")):
                inside = code.tree.inside(folder, source)
                if inside is not None and inside != folder:
                    calls[folder].add(inside)
    return calls


def _callers(folders: set[str], calls: Mapping[str, set[str]]) -> set[str]:
    """These modules and all that call them, also through others."""
    found = set(folders)
    while new := {folder for folder, called in calls.items() if called & found} - found:
        found |= new
    return found


def _programs(code: Code, modules: Iterable[ScannedModule]) -> Iterator[LocalProgram]:
    for module in modules:
        module_code = code.module(module.folder)
        for block in module_code.blocks("resource"):
            for inner in block.body.blocks_of("provisioner"):
                if inner.labels and inner.labels[0] in ("local-exec", "remote-exec"):
                    yield LocalProgram(what=inner.labels[0], place=inner.place)
        for block in module_code.blocks("data"):
            if block.labels and block.labels[0] == "external":
                yield LocalProgram(what="external", place=block.place)
