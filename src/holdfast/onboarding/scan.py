"""What a repository looks like to someone who sees it for the first time. Reads, and changes nothing."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from holdfast.hcl.eval.code import Code, ModuleCode, is_auto_loaded, is_code
from holdfast.hcl.eval.values import known
from holdfast.hcl.nodes import Expression, Literal, Template
from holdfast.hcl.reader import constant, read, values
from holdfast.kernel.errors import HoldfastError, Place, Problem
from holdfast.onboarding.scan_atlantis import FILE_NAMES, Atlantis, read_atlantis
from holdfast.onboarding.scan_scripts import (
    LARGEST,
    BackendConfigOption,
    backend_config_options,
    generated_backend,
    is_script,
)
from holdfast.stacks.backend import CodeBackend, code_backend
from holdfast.stacks.listing import ROOT, FolderTree, Tree, join_path
from holdfast.stacks.scope import ENVIRONMENT_VARIABLES
from holdfast.stacks.variables import ReadValues, plain_text, variables_reader

_HIDDEN_BUT_TOLD: Final = (".github", ".circleci")
_STATE: Final = re.compile(r"\.tfstate(?:\.backup|\.\d+\.backup)?$|(?:^|/)terraform\.tfstate\.d/")
_PLAN: Final = re.compile(r"\.tfplan(?:\.json)?$|(?:^|/)tfplan$")
_BACKEND_FILE: Final = re.compile(r"\.tfbackend$|(?:^|/)[^/]*backend[^/]*\.(?:hcl|conf|config|tfvars)$")
_TERRAGRUNT: Final = re.compile(r"(?:^|/)(?:terragrunt(?:\.stack)?\.hcl(?:\.json)?|root\.hcl)$")
_MADE: Final = ("resource", "data", "module", "provider", "import", "removed", "ephemeral", "output")
_ASIDE: Final = frozenset(("examples", "example", "tests", "testdata", "fixtures", "samples"))
_WORKSPACE: Final = re.compile(r"^(?!\s*(?:#|//)).*\bterraform\.workspace\b", re.MULTILINE)


class ScannedModule(Struct, frozen=True, kw_only=True):
    """A folder with code."""

    folder: str
    backend: CodeBackend | None = None
    backend_place: Place | None = None
    called: bool = False
    """Another module of the repository has it as its `source`."""
    aside: bool = False
    """It lies among examples or tests."""
    terragrunt: bool = False
    """A unit of Terragrunt, or the code of one: not complete by itself."""
    providers: bool = False
    makes: bool = True
    """It has more than variables and locals."""
    required: tuple[str, ...] = ()
    """Variables without a default that no file beside the code sets."""
    asks_workspace: bool = False
    """The code reads `terraform.workspace`."""
    states: tuple[str, ...] = ()
    """State files that lie beside it."""
    problems: tuple[Problem, ...] = ()

    @property
    def workspaces(self) -> tuple[str, ...]:
        """Names of the local workspaces that have a state here."""
        return tuple(path.split("/")[-2] for path in self.states if "terraform.tfstate.d/" in path)


class VariablesFile(Struct, frozen=True, kw_only=True):
    path: str
    sets: frozenset[str] = frozenset()
    environment: str | None = None
    problems: tuple[Problem, ...] = ()


class BackendFile(Struct, frozen=True, kw_only=True):
    """Settings meant for `-backend-config`."""

    path: str
    settings: Mapping[str, object] = field(default_factory=dict)


class LocalProgram(Struct, frozen=True, kw_only=True):
    """Something that Terraform runs on the machine it stands on."""

    what: str
    place: Place


class RepositoryScan(Struct, frozen=True, kw_only=True):
    """Paths are relative to the root and use `/`; the root itself is `.`."""

    name: str
    """What the repository's folder is called."""
    files: frozenset[str] = frozenset()
    """Code and variables files: what patterns can find."""
    modules: Mapping[str, ScannedModule] = field(default_factory=dict)
    variables_files: Mapping[str, VariablesFile] = field(default_factory=dict)
    backend_files: tuple[BackendFile, ...] = ()
    passed: tuple[BackendConfigOption, ...] = ()
    """What scripts hand to `init`."""
    written: tuple[Place, ...] = ()
    """Where scripts write a backend into the code."""
    atlantis: Atlantis | None = None
    terragrunt: tuple[str, ...] = ()
    secrets_in_git: tuple[str, ...] = ()
    """State and plan files that Git keeps."""
    glue: tuple[LocalProgram, ...] = ()
    odd: tuple[str, ...] = ()
    """Paths that are not text: nothing can name them."""


def scan_repository(root: Path, *, tracked: Iterable[str] = ()) -> RepositoryScan:
    """`tracked`: the paths that Git keeps. Raises only where a folder cannot be read."""
    paths, odd = _paths(FolderTree(root))
    code = Code(root)
    read_values = variables_reader(root)
    backend_files = tuple(found for path in paths if (found := _backend_file(root, path)) is not None)
    settings_only = {file.path for file in backend_files}
    variables_files = {
        path: _variables_file(read_values, path)
        for path in paths
        if path.endswith((".tfvars", ".tfvars.json")) and path not in settings_only
    }
    terragrunt = tuple(path for path in paths if _TERRAGRUNT.search(path))
    modules = _modules(root, code, paths, variables_files, terragrunt)
    scripts = [(path, _text(root / path)) for path in paths if is_script(path)]
    return RepositoryScan(
        name=root.resolve().name,
        files=frozenset(path for path in paths if is_code(posixpath.basename(path)) or ".tfvars" in path),
        modules=modules,
        variables_files=variables_files,
        backend_files=backend_files,
        passed=tuple(one for path, text in scripts for one in backend_config_options(text, path)),
        written=tuple(
            place for path, text in scripts if (place := generated_backend(text, path)) is not None
        ),
        atlantis=next(
            (read_atlantis(_text(root / name), name) for name in FILE_NAMES if (root / name).is_file()), None
        ),
        terragrunt=terragrunt,
        secrets_in_git=tuple(sorted(path for path in tracked if _STATE.search(path) or _PLAN.search(path))),
        glue=tuple(_glue(code, (one for one in modules.values() if not one.aside))),
        odd=odd,
    )


def _paths(tree: Tree) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Every file in the open, and those in the hidden folders where pipelines stand."""
    found: list[str] = []
    odd: list[str] = []
    waiting = [ROOT]
    while waiting:
        folder = waiting.pop()
        listing = tree.listing(folder)
        if listing is None:
            continue
        for name in listing.folders:
            if name == "node_modules" or (name.startswith(".") and name not in _HIDDEN_BUT_TOLD):
                continue
            waiting.append(join_path(folder, name))
        for name in listing.files:
            path = join_path(folder, name)
            (found if path.isprintable() else odd).append(path)
    shown = (path.encode("utf-8", "backslashreplace").decode() for path in odd if ".tf" in path)
    return tuple(sorted(found)), tuple(sorted(shown))


def _text(path: Path) -> str:
    """Of a script or a pipeline: what cannot be read says nothing."""
    try:
        with path.open("rb") as handle:
            return handle.read(LARGEST).decode(errors="replace")
    except OSError:
        return ""


def _backend_file(root: Path, path: str) -> BackendFile | None:
    if not _BACKEND_FILE.search(path) or _TERRAGRUNT.search(path):
        return None
    file = read(_text(root / path), "settings.hcl")
    settings = {name: value for name, value in values(file).items() if known(value)}
    if file.problems or file.body.blocks or not settings:
        return None
    return BackendFile(path=path, settings=settings)


def _variables_file(read_values: ReadValues, path: str) -> VariablesFile:
    try:
        found = read_values(path)
    except HoldfastError as error:
        return VariablesFile(path=path, problems=error.problems)
    environment = next(
        (text for name in ENVIRONMENT_VARIABLES if (text := plain_text(found.get(name)))), None
    )
    return VariablesFile(path=path, sets=frozenset(found), environment=environment)


def _modules(
    root: Path,
    code: Code,
    paths: tuple[str, ...],
    variables_files: Mapping[str, VariablesFile],
    terragrunt: tuple[str, ...],
) -> dict[str, ScannedModule]:
    folders = sorted({posixpath.dirname(path) or ROOT for path in paths if is_code(posixpath.basename(path))})
    states: defaultdict[str, list[str]] = defaultdict(list)
    for path in paths:
        owner = _owner_of_state(path)
        if owner is not None:
            states[owner].append(path)
    called = _called(code, folders)
    units = {posixpath.dirname(path) or ROOT for path in terragrunt}
    sources = {name for path in terragrunt for name in _terragrunt_source(code, path)}
    beside: defaultdict[str, set[str]] = defaultdict(set)
    for path, file in variables_files.items():
        if is_auto_loaded(posixpath.basename(path)):
            beside[posixpath.dirname(path) or ROOT] |= file.sets
    found: dict[str, ScannedModule] = {}
    for folder in folders:
        module = code.module(folder)
        place = module.backend.place if module.backend is not None else module.cloud
        found[folder] = ScannedModule(
            folder=folder,
            backend=code_backend(code, folder),
            backend_place=place,
            called=folder in called,
            aside=_is_aside(folder, folders),
            terragrunt=folder in units or posixpath.basename(folder) in sources,
            providers=any(True for _ in module.blocks("provider")),
            makes=any(True for _ in module.blocks(*_MADE)) or place is not None,
            required=tuple(
                sorted(
                    name
                    for name, variable in module.variables.items()
                    if variable.default is None and name not in beside[folder]
                )
            ),
            asks_workspace=any(_WORKSPACE.search(_text(root / file.path)) for file in module.files),
            states=tuple(states[folder]),
            problems=module.problems,
        )
    return found


def _owner_of_state(path: str) -> str | None:
    """The module beside which a state lies, in Terraform's own places for it."""
    parts = path.split("/")
    if parts[-1] != "terraform.tfstate":
        return None
    if len(parts) > 2 and parts[-3] == "terraform.tfstate.d":  # noqa: PLR2004 - folder, workspace, file
        parts = parts[:-2]
    return "/".join(parts[:-1]) or ROOT


def _is_aside(folder: str, folders: list[str]) -> bool:
    """`test` at the top is where tests live, unless it stands among environments."""
    parts = folder.split("/")
    if _ASIDE & set(parts):
        return True
    tops = {one.split("/")[0] for one in folders}
    return parts[0] == "test" and not tops & {"dev", "prod", "production", "staging", "stage", "qa"}


def _called(code: Code, folders: list[str]) -> set[str]:
    found: set[str] = set()
    for folder in folders:
        for call in code.module(folder).calls:
            source = constant(call.source) if call.source is not None else None
            if isinstance(source, str) and source.startswith(("./", "../")):
                inside = code.tree.inside(folder, source)
                if inside is not None and inside != folder:
                    found.add(inside)
    return found


def _terragrunt_source(code: Code, path: str) -> Iterator[str]:
    """The last part of where a unit's code comes from: enough to leave that code alone."""
    file = code.file(path)
    if file is None:
        return
    for block in file.body.blocks_of("terraform", "unit", "stack"):
        source = block.body.attribute("source")
        text = _said(source.expression) if source is not None else ""
        name = posixpath.basename(text.partition("?")[0].rstrip("/"))
        if name:
            yield name


def _said(expression: Expression) -> str:
    match expression:
        case Literal(value=str() as text):
            return text
        case Template():
            return "".join(_said(piece) for piece in expression.pieces)
        case _:
            return ""


def _glue(code: Code, modules: Iterable[ScannedModule]) -> Iterator[LocalProgram]:
    for module in modules:
        found: ModuleCode = code.module(module.folder)
        for block in found.blocks("resource"):
            for inner in block.body.blocks_of("provisioner"):
                if inner.labels and inner.labels[0] in ("local-exec", "remote-exec"):
                    yield LocalProgram(what=inner.labels[0], place=inner.place)
        for block in found.blocks("data"):
            if block.labels and block.labels[0] == "external":
                yield LocalProgram(what="external", place=block.place)
