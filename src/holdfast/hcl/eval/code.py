"""The code of a module: variables, locals, module calls, backend, versions.

A `Code` reads each folder and each file once, however many stacks share them. It never raises because of a
file's content: what could not be read is in `problems`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from holdfast.hcl.eval.old_tree import OldTree
from holdfast.hcl.eval.worktree import PathKind, Worktree
from holdfast.hcl.nodes import Attribute, Block, Body, Expression, File
from holdfast.hcl.reader import constant, encrypted, read
from holdfast.kernel.errors import Place, Problem
from holdfast.kernel.patterns import pattern

T = TypeVar("T")

_CODE = pattern(r"\.(?:tf|tofu)(?:\.json)?$")
_TOFU = pattern(r"\.tofu(?:\.json)?$")
_OVERRIDE = pattern(r"(?:^|_)override\.(?:tf|tofu)(?:\.json)?$")
_FIRST_LOADED = ("terraform.tfvars", "terraform.tfvars.json")
_AUTO = pattern(r"\.auto\.tfvars(?:\.json)?$")
_META = frozenset(("source", "version", "for_each", "count", "providers", "depends_on", "enabled"))

LARGEST = 16 * 1024 * 1024
CANNOT_OPEN: Final = "HF-HCL-5"
_NOT_REGULAR = "not a regular file"
_TOO_LARGE = f"it is larger than {LARGEST // 1024 // 1024} MiB"

TERRAFORM_VERSION = ".terraform-version"
OPENTOFU_VERSION = ".opentofu-version"
LOCK_FILE = ".terraform.lock.hcl"


def is_code(name: str) -> bool:
    """A file that Terraform or OpenTofu reads as code, by its name; editor backups are ignored as they do."""
    return bool(_CODE.search(name)) and not (name.startswith((".", "#")) or name.endswith("~"))


def is_downloaded(folder: str) -> bool:
    """Whether init creates this folder of a module: `./.terraform/modules/NAME` is a source like others."""
    return "/.terraform/modules/" in f"/{folder}/"


def is_override(name: str) -> bool:
    """A file whose blocks override those of the other files."""
    return bool(_OVERRIDE.search(name))


def _counterpart(name: str) -> str:
    """The file that OpenTofu ignores because of this one: `main.tf` next to `main.tofu`."""
    return _TOFU.sub(lambda ending: ending[0].replace("tofu", "tf"), name)


def is_auto_loaded(name: str) -> bool:
    """A variables file that Terraform loads by itself when it is in the root module's folder."""
    return name in _FIRST_LOADED or bool(_AUTO.search(name))


def auto_loaded(names: Iterable[str]) -> list[str]:
    """The variables files among the names in a root module's folder, in the order Terraform loads them."""
    return sorted(filter(is_auto_loaded, names), key=lambda name: (name not in _FIRST_LOADED, name))


def code_names(names: Iterable[str], *, tofu: bool) -> set[str]:
    """Of all files of a module, those that OpenTofu reads as code, or Terraform."""
    code = set(filter(is_code, names))
    only_tofu = set(filter(_TOFU.search, code))
    return code - (set(map(_counterpart, only_tofu)) if tofu else only_tofu)


def read_by_tofu(files: Sequence[File]) -> tuple[File, ...]:
    """Of all code files of a module, those that OpenTofu reads."""
    replaced = {_counterpart(file.path) for file in files if _TOFU.search(file.path)}
    return tuple(file for file in files if file.path not in replaced)


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
    encryption: Place | None
    """The `encryption` block of OpenTofu."""
    tofu: tuple[str, ...]
    """Why only OpenTofu can run this code; empty if Terraform may run it."""
    terraform_version: Pin | None
    opentofu_version: Pin | None

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for file in self.files for problem in file.problems)

    @property
    def only_tofu_reads(self) -> str | None:
        """A file of a called module that Terraform ignores and that has no counterpart for it."""
        paths = {file.path for file in self.files}
        files = (path for path in sorted(paths) if _TOFU.search(path))
        return next((path for path in files if _counterpart(path) not in paths), None)

    def blocks(self, *types: str) -> Iterator[Block]:
        return (block for file in self.files for block in file.body.blocks_of(*types))


class Code:
    """The code of one repository, read on demand and cached. Paths are relative to `root`, with `/`."""

    def __init__(self, root: Path | Worktree) -> None:
        self.tree = root if isinstance(root, Worktree) else Worktree(root)
        self.file: Callable[[str], File | None] = cache(self._file)
        self.module: Callable[[str], ModuleCode] = cache(self._module)
        self._content: Callable[[str], bytes | OSError | None] = cache(self._read_bytes)
        self._cached: dict[Hashable, object] = {}

    def with_files(self, files: Mapping[str, str]) -> Code:
        """The same code with more files: everything else is read from this one, and only once."""
        if not files:
            return self
        return self.once(("with files", frozenset(files.items())), lambda: _CodeWithFiles(self, files))

    def content(self, path: str) -> bytes | None:
        """The bytes of a file, read once; None if it does not exist or cannot be read."""
        content = self._content(path)
        return None if isinstance(content, OSError) else content

    def content_or_problem(self, path: str) -> bytes | Problem | None:
        """The same, with the reason if it exists and cannot be read."""
        content = self._content(path)
        if isinstance(content, OSError):
            return _cannot_read(path, content)
        return content if content is None else encrypted(content, path) or content

    def _read_bytes(self, path: str) -> bytes | OSError | None:
        if self.tree.kind(path) is PathKind.OTHER:
            # Reading a pipe or a device may never end.
            return OSError(errno.EINVAL, _NOT_REGULAR)
        try:
            content = self.tree.read_bytes(path, LARGEST + 1)
            return content if len(content) <= LARGEST else OSError(errno.EFBIG, _TOO_LARGE)
        except ValueError:
            return None  # code may contain a path with characters that no file name can have
        except (FileNotFoundError, NotADirectoryError):
            linked = (self.tree.root / path).is_symlink()
            return OSError(errno.ENOENT, "broken symbolic link") if linked else None
        except OSError as error:
            return error

    def _file(self, path: str) -> File | None:
        """A parsed HCL or JSON file; None if it does not exist."""
        content = self._content(path)
        if isinstance(content, OSError):
            return File(path=path, body=Body(), problems=(_cannot_read(path, content),))
        return None if content is None else read(content, path)

    def unreadable(self, path: str, largest: int = LARGEST) -> Problem | None:
        """Why an existing file cannot be read, without reading all of it."""
        kind = self.tree.kind(path)
        if kind is PathKind.OTHER:
            return _cannot_read(path, OSError(errno.EINVAL, _NOT_REGULAR))
        if kind is not PathKind.FILE:
            return None
        try:
            size, head = self.tree.root.joinpath(path).stat().st_size, self.tree.read_bytes(path, 64)
        except OSError as error:
            return _cannot_read(path, error)
        if size > largest:
            return _cannot_read(path, OSError(errno.EFBIG, _TOO_LARGE))
        return encrypted(head, path)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Compute something from the code once and cache it; the key names what it is."""
        if key not in self._cached:
            self._cached[key] = make()
        return self._cached[key]  # type: ignore[return-value] # each key is used by one caller, with one type

    def _module(self, folder: str) -> ModuleCode:
        """The code of a folder; an empty module with `exists` false if there is no such folder."""
        names = sorted(
            name
            for name in self.tree.names(folder)
            if is_code(name) and not self.tree.is_folder(self.tree.join(folder, name))
        )
        # Later files win below.
        names.sort(key=lambda name: (is_override(name), name))
        read_ = [self.file(self.tree.join(folder, name)) for name in names]
        files = tuple(file for file in read_ if file is not None)
        by_tofu = read_by_tofu(files)
        by_terraform: tuple[File, ...] = ()
        calls = _calls(by_tofu)
        if len(by_tofu) < len(files):
            # Terraform reads the other ones if it runs a stack that calls this module.
            by_terraform = tuple(file for file in files if not _TOFU.search(file.path))
            calls += tuple(call for call in _calls(by_terraform) if call not in calls)
        settings = _Settings(_blocks(by_tofu, "terraform"))
        tofu_pin = self._pin(folder, OPENTOFU_VERSION)
        locals_ = (
            local for block in _blocks((*by_terraform, *by_tofu), "locals") for local in block.body.attributes
        )
        return ModuleCode(
            folder=folder,
            exists=self.tree.is_folder(folder),
            files=files,
            variables={**_variables(by_terraform), **_variables(by_tofu)},
            locals={local.name: local.expression for local in locals_},
            calls=calls,
            required_versions=tuple(settings.versions),
            required_providers=settings.providers,
            backend=settings.backend,
            cloud=settings.cloud,
            encryption=settings.encryption,
            tofu=tuple(_tofu_reasons(files, settings.encryption, tofu_pin)),
            terraform_version=self._pin(folder, TERRAFORM_VERSION),
            opentofu_version=tofu_pin,
        )

    def _pin(self, folder: str, name: str) -> Pin | None:
        """The nearest one, looking upwards from the folder as version managers do."""
        for place in pin_paths(folder, name):
            if self.tree.kind(place) is not PathKind.FILE:
                continue
            try:
                text = self.tree.read_bytes(place).decode(errors="replace")
            except (OSError, ValueError):
                continue
            lines = [line.strip() for line in text.splitlines() if line.strip()[:1] not in ("", "#")]
            if lines:
                return Pin(version=lines[0], path=place)
        return None


def _cannot_read(path: str, error: OSError) -> Problem:
    return Problem(
        code=CANNOT_OPEN,
        message=f"cannot read the file: {error.strerror or error}",
        hint="Check that it is a regular file and that you may read it.",
        place=Place(file=path),
    )


class _CodeWithFiles(Code):
    def __init__(self, base: Code, files: Mapping[str, str]) -> None:
        tree = base.tree
        before = (tree.old, tree.unreadable) if isinstance(tree, OldTree) else ({}, frozenset())
        contents = {path: text.encode() for path, text in files.items()}
        super().__init__(OldTree(tree.root, {**before[0], **contents}, before[1], tree.forbidden))
        self._base = base
        self._given = files
        self._folders = {path.rpartition("/")[0] or "." for path in files}

    def with_files(self, files: Mapping[str, str]) -> Code:
        return self if files == self._given else super().with_files(files)

    def _file(self, path: str) -> File | None:
        return super()._file(path) if path in self._given else self._base.file(path)

    def _read_bytes(self, path: str) -> bytes | OSError | None:
        return super()._read_bytes(path) if path in self._given else self._base._content(path)  # noqa: SLF001 - the same class

    def _module(self, folder: str) -> ModuleCode:
        return super()._module(folder) if folder in self._folders else self._base.module(folder)


def pin_paths(folder: str, name: str) -> tuple[str, ...]:
    """Where a version file applies: in the root module's folder or in any folder above it."""
    parts = [] if folder == "." else folder.split("/")
    return tuple("/".join((*parts[:depth], name)) for depth in range(len(parts), -1, -1))


class _Settings:
    """What the `terraform` blocks of a module set. Of `backend` and `cloud`, the last block counts."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self.versions: list[str] = []
        self.providers: dict[str, object] = {}
        self.backend: BackendCode | None = None
        self.cloud: Place | None = None
        self.encryption: Place | None = None
        for block in blocks:
            version = block.body.attribute("required_version")
            if version is not None and isinstance(required := constant(version.expression), str):
                self.versions.append(required)
            for inner in block.body.blocks:
                match inner.type:
                    case "required_providers":
                        self.providers.update(_constants(inner.body.attributes))
                    case "backend":
                        self.backend, self.cloud = _backend(inner), None
                    case "cloud":
                        self.backend, self.cloud = None, inner.place
                    case "encryption":
                        self.encryption = inner.place
                    case _:
                        pass


def _blocks(files: tuple[File, ...], type_: str) -> Iterator[Block]:
    return (block for file in files for block in file.body.blocks_of(type_))


def _constants(attributes: tuple[Attribute, ...]) -> dict[str, object]:
    return {attribute.name: constant(attribute.expression) for attribute in attributes}


def _backend(block: Block) -> BackendCode:
    settings: dict[str, object] = _constants(block.body.attributes)
    for inner in block.body.blocks:
        settings[inner.type] = _constants(inner.body.attributes)
    return BackendCode(type=block.labels[0] if block.labels else "", settings=settings, place=block.place)


def _tofu_reasons(files: tuple[File, ...], encryption: Place | None, pin: Pin | None) -> Iterator[str]:
    yield from (f"{file.path} is an OpenTofu file" for file in files if _TOFU.search(file.path))
    if pin is not None:
        yield f"{pin.path} requires OpenTofu {pin.version}"
    if encryption is not None:
        yield f"{encryption.file}:{encryption.line} encrypts the state"


def _variables(files: tuple[File, ...]) -> dict[str, Variable]:
    variables: dict[str, Variable] = {}
    for block in _blocks(files, "variable"):
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


def _calls(files: tuple[File, ...]) -> tuple[ModuleCall, ...]:
    calls: dict[str, ModuleCall] = {}
    for block in _blocks(files, "module"):
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
