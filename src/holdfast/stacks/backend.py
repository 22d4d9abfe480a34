"""Where the state of a stack is stored: two stacks with one state would destroy each other's resources."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.config.problems import Problems
from holdfast.config.secret_refs import Value
from holdfast.hcl.eval.code import Code, ModuleCode, read_by_tofu
from holdfast.hcl.eval.values import known
from holdfast.hcl.nodes import Block
from holdfast.hcl.reader import constant
from holdfast.kernel.errors import Place
from holdfast.stacks.backend_types import (
    BACKEND_TYPES,
    DEFAULT_WORKSPACE,
    BackendType,
    canonical,
    state_parts,
)
from holdfast.stacks.listing import Tree, has_file
from holdfast.stacks.stack import Stack

_HOST: Final = "app.terraform.io"


class CodeBackend(Struct, frozen=True, kw_only=True):
    """The `backend` (or `cloud`) block of a root module."""

    type: str
    settings: Mapping[str, object] = field(default_factory=dict)
    """The constant ones: strings, numbers, bools, lists and maps of these."""
    computed: tuple[str, ...] = ()
    """Names of settings whose value is computed (OpenTofu allows that) and therefore unknown."""


def settings_in_files(
    files: Iterable[str],
    tree: Tree,
    read: Callable[[str], Mapping[str, object]],
    problems: Problems,
    *,
    place: Place,
) -> dict[str, Value]:
    """Of all `backend.files`, the last one winning. Only constants, as for `-backend-config=FILE`."""
    settings: dict[str, object] = {}
    for path in files:
        if not has_file(tree, path):
            message, hint = f"the backend file {path} does not exist", "Paths are relative to holdfast.yaml."
            problems.add("HF-STACK-16", message, place=place, hint=hint)
            continue
        own = read(path)
        settings.update(own)
        if computed := sorted(name for name, value in own.items() if not known(value)):
            problems.add(
                "HF-STACK-16",
                f"`{computed[0]}` in the backend file {path} is not a constant",
                place=Place(file=path),
                hint="Write the value itself: backend settings cannot be computed.",
            )
    return settings  # type: ignore[return-value] # constants of HCL are values of the configuration


ReadBackend = Callable[[Stack], CodeBackend | None]
"""The backend in a stack's code; None if there is none."""


def code_backend(code: Code, module: str) -> CodeBackend | None:
    """The backend in a module's code, or None; a `cloud` block is a backend of type `cloud`."""
    module_code = code.module(module)
    if module_code.backend is None:
        if module_code.cloud is None:
            return None
        return CodeBackend(type="cloud", settings=cloud_settings(backend_block(module_code)))
    settings = module_code.backend.settings
    constants = {name: value for name, value in settings.items() if known(value)}
    computed = tuple(name for name in settings if name not in constants)
    return CodeBackend(type=module_code.backend.type, settings=constants, computed=computed)


def backend_block(module: ModuleCode) -> Block | None:
    """The effective `backend` or `cloud` block: the last one, as with override files."""
    last: Block | None = None
    for file in read_by_tofu(module.files):
        for block in file.body.blocks_of("terraform"):
            for inner in block.body.blocks_of("backend", "cloud"):
                last = inner
    return last


def cloud_settings(block: Block | None) -> dict[str, object]:
    """The settings of a `cloud` block, named as in the `remote` backend."""
    if block is None:
        return {}
    settings: dict[str, object] = {
        attribute.name: constant(attribute.expression) for attribute in block.body.attributes
    }
    for inner in block.body.blocks_of("workspaces"):
        settings["workspaces"] = {
            attribute.name: constant(attribute.expression) for attribute in inner.body.attributes
        }
    return settings


HOSTED: Final = ("cloud", "remote")
_SHOWN: Final = ("bucket", "storage_account_name", "container_name", "prefix", "key", "path", "secret_suffix")

StateIdentity = tuple[object, ...]


class StateLocation(Struct, frozen=True, kw_only=True):
    """Equal `identity` means the same state. `shown` is for users and contains no secret."""

    identity: StateIdentity
    shown: str


def state_location(stack: Stack, code: CodeBackend | None) -> StateLocation | None:
    """None if Holdfast manages the state, or if the location is unknown before init."""
    configured = stack.backend
    backend_type = code.type if code is not None else configured.type if configured is not None else None
    if backend_type is None:
        return None
    settings: dict[str, object] = dict(code.settings) if code is not None else {}
    if configured is not None:
        settings.update(configured.settings)
    computed = set(code.computed if code is not None else ()) - set(settings)
    if backend_type == "local":
        return None if computed else _local(stack, settings)
    if backend_type in HOSTED and (hosted := _hosted_workspace(settings, stack.workspace)) is not None:
        return hosted.location
    kind = BACKEND_TYPES.get(backend_type, BackendType(needs=(), may=tuple(settings)))
    deciding = [*kind.needs, *kind.parts, *kind.may]
    if stack.workspace != DEFAULT_WORKSPACE:
        deciding += kind.in_workspaces
    if computed & set(deciding) or (backend_type not in BACKEND_TYPES and computed):
        return None
    parts, workspace = state_parts(kind, settings, stack.workspace)
    parts.update((name, canonical(settings[name])) for name in kind.may if name in settings)
    variables = tuple(
        (name, canonical(value))
        for name, value in sorted(stack.env.items())
        if name.startswith(kind.variables or ("\0",))
    )
    complete = bool(parts) and all(name in settings for name in kind.needs)
    where = () if complete else (stack.module,)
    shown = ", ".join(f"{name} {settings[name]}" for name in _SHOWN if isinstance(settings.get(name), str))
    if backend_type == "http" and isinstance(settings.get("address"), str):
        shown = f"address {_without_secrets(str(settings['address']))}"
    outside_default = "" if stack.workspace == DEFAULT_WORKSPACE else f", workspace {stack.workspace}"
    return StateLocation(
        identity=(backend_type, workspace, tuple(sorted(parts.items())), variables, where),
        shown=f"{backend_type} backend{': ' if shown else ' of ' + stack.module}{shown}{outside_default}",
    )


def state_key(stack: Stack, code: CodeBackend | None) -> str | None:
    """Names the state of a stack; None if Holdfast manages it, or if its location is unknown before init.

    Coarser than `StateLocation.identity`: settings that only say how to reach a state are left out, so that
    adding one does not make the state look like another, and another spelling of a setting changes nothing.
    """
    location = state_location(stack, code)
    if location is None:
        return None
    type_ = str(location.identity[0])
    kind = BACKEND_TYPES.get(type_)
    if kind is None:
        return repr(location.identity)
    settings = {
        **(code.settings if code is not None else {}),
        **(stack.backend.settings if stack.backend else {}),
    }
    plain = {name: normalize(name, value) for name, value in settings.items()}
    parts, workspace = state_parts(kind, plain, stack.workspace)
    if type_ == "s3" and "path" in parts:
        parts["path"] = posixpath.normpath(parts["path"])
    where = "" if all(name in settings for name in kind.needs) else stack.module
    return repr((type_, workspace, sorted(parts.items()), where))


class NamedState(Struct, frozen=True, kw_only=True):
    """A state, however its settings are written: in a backend, or where code reads it."""

    location: StateLocation
    key: str
    """As `state_key`."""


def named_state(
    stack: Stack, type_: str, settings: Mapping[str, object], workspace: str
) -> NamedState | None:
    """The state that these settings refer to, relative to the stack's root module; None if not known."""
    if type_ in HOSTED:
        return _hosted_workspace(settings, workspace)
    kind = BACKEND_TYPES.get(type_)
    if kind is not None and any(name not in settings for name in kind.needs):
        return None
    plain = {name: normalize(name, value) for name, value in settings.items() if value is not None}
    constants = {name: value for name, value in plain.items() if known(value)}
    computed = tuple(name for name in plain if name not in constants)
    bare = replace(stack, backend=None, workspace=workspace)
    code = CodeBackend(type=type_, settings=constants, computed=computed)
    location, key = state_location(bare, code), state_key(bare, code)
    return NamedState(location=location, key=key) if location is not None and key is not None else None


def _hosted_workspace(settings: Mapping[str, object], workspace: str) -> NamedState | None:
    """By name, or by prefix or tags and a workspace that is not the default one."""
    match settings:
        case {"organization": str() as organization, "workspaces": {"name": str() as name}}:
            pass
        case {"organization": str() as organization, "workspaces": Mapping() as chosen}:
            prefix = chosen.get("prefix", "")
            name = (
                f"{prefix}{workspace}" if isinstance(prefix, str) and workspace != DEFAULT_WORKSPACE else ""
            )
        case _:
            return None
    host = settings.get("hostname") or _HOST
    if not name or not isinstance(host, str):
        return None
    identity = ("remote", host.lower(), organization, name)
    shown = f"workspace {name} of {organization}"
    return NamedState(location=StateLocation(identity=identity, shown=shown), key=repr(identity))


def state_of_stack(code: Code, stack: Stack) -> NamedState | None:
    """None if Holdfast manages the state, or if its location is unknown before init."""
    module, configured = code.module(stack.module), stack.backend
    if module.cloud is not None:
        return named_state(stack, "cloud", cloud_settings(backend_block(module)), stack.workspace)
    in_code = module.backend
    type_ = in_code.type if in_code is not None else configured.type if configured is not None else None
    if type_ is None:
        return None
    settings = {
        **(in_code.settings if in_code is not None else {}),
        **(configured.settings if configured is not None else {}),
    }
    return named_state(stack, type_, settings, stack.workspace)


def normalize(name: str, value: object) -> object:
    """One spelling for values of a setting that mean the same place."""
    if not isinstance(value, str):
        return value
    if name in ("key", "prefix", "path") and not value.startswith(("/", ".")):
        return value.rstrip("/")
    if name == "storage_account_name":
        return value.lower()
    if name == "address" and (parts := parse_address(value)) is not None:
        port = f":{parts.port}" if parts.port else ""
        query = f"?{parts.query}" if parts.query else ""
        return f"{parts.scheme.lower()}://{parts.hostname}{port}{parts.path.rstrip('/')}{query}"
    return value


def parse_address(text: str) -> SplitResult | None:
    """The parts of an address with a scheme; None otherwise."""
    try:
        parts = urlsplit(text)
        _ = parts.hostname, parts.port
    except ValueError:
        return None
    return parts if parts.scheme and parts.netloc else None


def _local(stack: Stack, settings: Mapping[str, object]) -> StateLocation:
    """The path is relative to the module; each workspace has its own folder."""
    if stack.workspace == DEFAULT_WORKSPACE:
        path = str(settings.get("path") or "terraform.tfstate")
    else:
        folder = str(settings.get("workspace_dir") or "terraform.tfstate.d")
        path = posixpath.join(folder, stack.workspace, "terraform.tfstate")
    file = posixpath.normpath(posixpath.join(stack.module, path))
    return StateLocation(identity=("local", file), shown=f"local backend: {file}")


def _without_secrets(address: str) -> str:
    """Scheme, host and path only: the rest may contain credentials."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "(not a valid URL)"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def type_mismatch(stack: Stack, code: CodeBackend | None) -> str | None:
    """The backend type in the code, if the configuration has another one."""
    configured = stack.backend.type if stack.backend is not None else None
    return None if code is None or configured in (None, code.type) else code.type
