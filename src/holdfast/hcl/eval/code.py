"""The code of a module: variables, locals, module calls, backend, versions.

A `Code` reads each folder and each file once, however many stacks share them. It never raises because of a
file's content: what could not be read is in `problems`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from holdfast.hcl.eval.worktree import PathKind, Worktree
from holdfast.hcl.nodes import Attribute, Block, Body, Expression, File
from holdfast.hcl.reader import constant, read
from holdfast.kernel.errors import Place, Problem

T = TypeVar("T")

_CODE = re.compile(r"\.(?:tf|tofu)(?:\.json)?$")
_TOFU = re.compile(r"\.tofu(?:\.json)?$")
_OVERRIDE = re.compile(r"(?:^|_)override\.(?:tf|tofu)(?:\.json)?$")
_AUTO = re.compile(r"\.auto\.tfvars(?:\.json)?$")
_META = frozenset(("source", "version", "for_each", "count", "providers", "depends_on", "enabled"))

TERRAFORM_VERSION = ".terraform-version"
OPENTOFU_VERSION = ".opentofu-version"
LOCK_FILE = ".terraform.lock.hcl"


def is_code(name: str) -> bool:
    """A file that Terraform or OpenTofu reads as code, by its name; editor backups are ignored as they do."""
    return bool(_CODE.search(name)) and not (name.startswith((".", "#")) or name.endswith("~"))


def is_override(name: str) -> bool:
    """A file whose blocks override those of the other files."""
    return bool(_OVERRIDE.search(name))


def is_auto_loaded(name: str) -> bool:
    """A variables file that Terraform loads by itself when it is in the root module's folder."""
    return name in ("terraform.tfvars", "terraform.tfvars.json") or bool(_AUTO.search(name))


class Variable(Struct, frozen=True, kw_only=True):
    name: str
    place: Place
    type: Expression | None = None
    default: Expression | None = None
    nullable: bool = True


class ModuleCall(Struct, frozen=True, kw_only=True):
    name: str
    place: Place
    source: Expression | None
    arguments: Mapping[str, Expression]
    block: Block
    """The block itself, for `for_each` and `count`."""


class BackendCode(Struct, frozen=True, kw_only=True):
    """The `backend` block: `settings` are constants, or `UNKNOWN` for what is computed."""

    type: str
    settings: Mapping[str, object]
    place: Place


class Pin(Struct, frozen=True, kw_only=True):
    """A version required by a file such as `.terraform-version`."""

    version: str
    path: str


class ModuleCode(Struct, frozen=True, kw_only=True):
    folder: str
    exists: bool
    files: tuple[File, ...]
    variables: Mapping[str, Variable]
    locals: Mapping[str, Expression]
    calls: tuple[ModuleCall, ...]
    required_versions: tuple[str, ...]
    required_providers: Mapping[str, object]
    """Name to `{source, version}` (or a version), as constants."""
    backend: BackendCode | None
    cloud: Place | None
    tofu: tuple[str, ...]
    """Why only OpenTofu can run this code; empty if Terraform may run it."""
    terraform_version: Pin | None
    opentofu_version: Pin | None

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for file in self.files for problem in file.problems)

    def blocks(self, *types: str) -> Iterator[Block]:
        return (block for file in self.files for block in file.body.blocks_of(*types))


class Code:
    """The code of one repository, read on demand and cached. Paths are relative to `root`, with `/`."""

    def __init__(self, root: Path) -> None:
        self.tree = Worktree(root)
        self._files: dict[str, File | None] = {}
        self._contents: dict[str, bytes | OSError | None] = {}
        self._modules: dict[str, ModuleCode] = {}
        self._kept: dict[Hashable, object] = {}

    def file(self, path: str) -> File | None:
        """A parsed HCL or JSON file; None if it does not exist."""
        if path not in self._files:
            self._files[path] = self._read(path)
        return self._files[path]

    def content(self, path: str) -> bytes | None:
        """The bytes of a file, read once; None if it does not exist or cannot be read."""
        content = self._content(path)
        return None if isinstance(content, OSError) else content

    def _content(self, path: str) -> bytes | OSError | None:
        if path not in self._contents:
            self._contents[path] = self._read_bytes(path)
        return self._contents[path]

    def _read_bytes(self, path: str) -> bytes | OSError | None:
        if self.tree.kind(path) is PathKind.OTHER:
            # Reading a pipe or a device may never end.
            return OSError(errno.EINVAL, "not a regular file")
        place = self.tree.root / path
        try:
            return place.read_bytes()
        except ValueError:
            return None  # code may contain a path with characters that no file name can have
        except (FileNotFoundError, NotADirectoryError):
            return OSError(errno.ENOENT, "broken symbolic link") if place.is_symlink() else None
        except OSError as error:
            return error

    def _read(self, path: str) -> File | None:
        content = self._content(path)
        if isinstance(content, OSError):
            problem = Problem(
                code="HF-HCL-5",
                message=f"cannot read the file: {content.strerror}",
                hint="Check that it is a regular file and that you may read it.",
                place=Place(file=path),
            )
            return File(path=path, body=Body(), problems=(problem,))
        return None if content is None else read(content, path)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Compute something from the code once and cache it; the key names what it is."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]  # type: ignore[return-value] # each key is used by one caller, with one type

    def module(self, folder: str) -> ModuleCode:
        """The code of a folder; an empty module with `exists` false if there is no such folder."""
        if folder not in self._modules:
            self._modules[folder] = self._module(folder)
        return self._modules[folder]

    def _module(self, folder: str) -> ModuleCode:
        names = sorted(
            name
            for name in self.tree.names(folder)
            if is_code(name) and not self.tree.is_folder(self.tree.join(folder, name))
        )
        # Later files win below: OpenTofu prefers main.tofu to main.tf, and override files come last.
        names.sort(key=lambda name: (bool(_OVERRIDE.search(name)), bool(_TOFU.search(name)), name))
        read_ = [self.file(self.tree.join(folder, name)) for name in names]
        files = tuple(file for file in read_ if file is not None)
        settings = _settings(files)
        pins = {name: self._pin(folder, name) for name in (TERRAFORM_VERSION, OPENTOFU_VERSION)}
        return ModuleCode(
            folder=folder,
            exists=self.tree.is_folder(folder),
            files=files,
            variables=_variables(files),
            locals=_locals(files),
            calls=_calls(files),
            required_versions=settings.versions,
            required_providers=settings.providers,
            backend=settings.backend,
            cloud=settings.cloud,
            tofu=_tofu(files, settings, pins[OPENTOFU_VERSION]),
            terraform_version=pins[TERRAFORM_VERSION],
            opentofu_version=pins[OPENTOFU_VERSION],
        )

    def _pin(self, folder: str, name: str) -> Pin | None:
        """The nearest one, looking upwards from the folder as version managers do."""
        for place in pin_paths(folder, name):
            if self.tree.kind(place) is not PathKind.FILE:
                continue
            try:
                text = (self.tree.root / place).read_text(errors="replace")
            except (OSError, ValueError):
                continue
            lines = [line.strip() for line in text.splitlines() if line.strip()[:1] not in ("", "#")]
            if lines:
                return Pin(version=lines[0], path=place)
        return None


def pin_paths(folder: str, name: str) -> tuple[str, ...]:
    """Where a version file applies: in the root module's folder or in any folder above it."""
    parts = [] if folder == "." else folder.split("/")
    return tuple("/".join((*parts[:depth], name)) for depth in range(len(parts), -1, -1))


class _Settings(Struct, frozen=True, kw_only=True):
    versions: tuple[str, ...]
    providers: Mapping[str, object]
    backend: BackendCode | None
    cloud: Place | None
    encryption: Place | None


def _settings(files: tuple[File, ...]) -> _Settings:
    versions: list[str] = []
    providers: dict[str, object] = {}
    backend: BackendCode | None = None
    cloud: Place | None = None
    encryption: Place | None = None
    for block in (block for file in files for block in file.body.blocks_of("terraform")):
        version = block.body.attribute("required_version")
        if version is not None and isinstance(required := constant(version.expression), str):
            versions.append(required)
        for inner in block.body.blocks:
            match inner.type:
                case "required_providers":
                    providers.update(_constants(inner.body.attributes))
                case "backend":
                    backend, cloud = _backend(inner), None
                case "cloud":
                    backend, cloud = None, inner.place
                case "encryption":
                    encryption = inner.place
                case _:
                    pass
    return _Settings(
        versions=tuple(versions), providers=providers, backend=backend, cloud=cloud, encryption=encryption
    )


def _constants(attributes: tuple[Attribute, ...]) -> dict[str, object]:
    return {attribute.name: constant(attribute.expression) for attribute in attributes}


def _backend(block: Block) -> BackendCode:
    settings: dict[str, object] = _constants(block.body.attributes)
    for inner in block.body.blocks:
        settings[inner.type] = _constants(inner.body.attributes)
    return BackendCode(type=block.labels[0] if block.labels else "", settings=settings, place=block.place)


def _tofu(files: tuple[File, ...], settings: _Settings, pin: Pin | None) -> tuple[str, ...]:
    reasons = [f"{file.path} is an OpenTofu file" for file in files if _TOFU.search(file.path)]
    if pin is not None:
        reasons.append(f"{pin.path} requires OpenTofu {pin.version}")
    if settings.encryption is not None:
        reasons.append(f"{settings.encryption.file}:{settings.encryption.line} encrypts the state")
    return tuple(reasons)


def _variables(files: tuple[File, ...]) -> dict[str, Variable]:
    variables: dict[str, Variable] = {}
    for block in (block for file in files for block in file.body.blocks_of("variable")):
        name = block.labels[0] if block.labels else ""
        before = variables.get(name) or Variable(name=name, place=block.place)
        attributes = {item.name: item.expression for item in block.body.attributes}
        nullable = attributes.get("nullable")
        variables[name] = Variable(
            name=name,
            place=block.place,
            type=attributes.get("type", before.type),
            default=attributes.get("default", before.default),
            nullable=before.nullable if nullable is None else constant(nullable) is not False,
        )
    return variables


def _locals(files: tuple[File, ...]) -> dict[str, Expression]:
    blocks = (block for file in files for block in file.body.blocks_of("locals"))
    return {item.name: item.expression for block in blocks for item in block.body.attributes}


def _calls(files: tuple[File, ...]) -> tuple[ModuleCall, ...]:
    calls: dict[str, ModuleCall] = {}
    for block in (block for file in files for block in file.body.blocks_of("module")):
        name = block.labels[0] if block.labels else ""
        before = calls.get(name)
        attributes = {item.name: item.expression for item in block.body.attributes}
        arguments = {key: value for key, value in attributes.items() if key not in _META}
        calls[name] = ModuleCall(
            name=name,
            place=block.place,
            source=attributes.get("source", before.source if before else None),
            arguments={**(before.arguments if before else {}), **arguments},
            block=before.block if before and not {"for_each", "count"} & attributes.keys() else block,
        )
    return tuple(calls.values())
