"""Where the state of a stack is stored: two stacks with one state would destroy each other's resources."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct, field

from holdfast.config.secret_refs import SecretRef
from holdfast.hcl.eval.code import Code
from holdfast.hcl.eval.values import known
from holdfast.stacks.stack import Stack

DEFAULT_WORKSPACE: Final = "default"


class CodeBackend(Struct, frozen=True, kw_only=True):
    """The `backend` (or `cloud`) block of a root module."""

    type: str
    settings: Mapping[str, object] = field(default_factory=dict)
    """The constant ones: strings, numbers, bools, lists and maps of these."""
    computed: tuple[str, ...] = ()
    """Names of settings whose value is computed (OpenTofu allows that) and therefore unknown."""


ReadBackend = Callable[[str], CodeBackend | None]
"""From a module's folder to the backend in its code; None if there is none."""


def code_backend(code: Code, module: str) -> CodeBackend | None:
    """The backend in a module's code, or None; a `cloud` block is a backend of type `cloud`."""
    module_code = code.module(module)
    if module_code.backend is None:
        return CodeBackend(type="cloud") if module_code.cloud is not None else None
    settings = module_code.backend.settings
    constants = {name: value for name, value in settings.items() if known(value)}
    computed = tuple(name for name in settings if name not in constants)
    return CodeBackend(type=module_code.backend.type, settings=constants, computed=computed)


class _BackendType(Struct, frozen=True, kw_only=True):
    """The settings that determine where a backend of this type stores the state."""

    needs: tuple[str, ...]
    may: tuple[str, ...] = ()
    in_workspaces: tuple[str, ...] = ()
    """Only relevant outside the default workspace."""
    variables: tuple[str, ...] = ()
    """Prefixes of environment variables that matter too."""


_KINDS: Final[Mapping[str, _BackendType]] = {
    "s3": _BackendType(
        needs=("bucket", "key"),
        may=("endpoint", "endpoints"),
        in_workspaces=("workspace_key_prefix",),
        variables=("AWS_ENDPOINT_URL", "AWS_S3_ENDPOINT"),
    ),
    "azurerm": _BackendType(needs=("storage_account_name", "container_name", "key"), may=("environment",)),
    "gcs": _BackendType(needs=("bucket",), may=("prefix",)),
    "http": _BackendType(needs=("address",), variables=("TF_HTTP_ADDRESS",)),
    "pg": _BackendType(needs=("conn_str",), may=("schema_name", "table_name"), variables=("PG",)),
    "consul": _BackendType(needs=("path",), may=("address", "datacenter"), variables=("CONSUL_",)),
    "kubernetes": _BackendType(
        needs=("secret_suffix",),
        may=("namespace", "host", "config_path", "config_paths", "config_context"),
        variables=("KUBE",),
    ),
    "cos": _BackendType(needs=("bucket",), may=("prefix", "key", "region")),
    "oss": _BackendType(needs=("bucket",), may=("prefix", "key", "endpoint")),
    "oci": _BackendType(needs=("bucket", "namespace"), may=("key", "region")),
}
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
    kind = _KINDS.get(backend_type, _BackendType(needs=(), may=tuple(settings)))
    deciding = [*kind.needs, *kind.may]
    if stack.workspace != DEFAULT_WORKSPACE:
        deciding += kind.in_workspaces
    if computed & set(deciding) or (backend_type not in _KINDS and computed):
        return None
    decided = tuple((name, _canonical(settings[name])) for name in sorted(deciding) if name in settings)
    variables = tuple(
        (name, _canonical(value))
        for name, value in sorted(stack.env.items())
        if name.startswith(kind.variables or ("\0",))
    )
    complete = bool(decided) and all(name in settings for name in kind.needs)
    where = () if complete else (stack.module,)
    shown = ", ".join(f"{name} {settings[name]}" for name in _SHOWN if isinstance(settings.get(name), str))
    if backend_type == "http" and isinstance(settings.get("address"), str):
        shown = f"address {_without_secrets(str(settings['address']))}"
    workspace = "" if stack.workspace == DEFAULT_WORKSPACE else f", workspace {stack.workspace}"
    return StateLocation(
        identity=(backend_type, stack.workspace, decided, variables, where),
        shown=f"{backend_type} backend{': ' if shown else ' of ' + stack.module}{shown}{workspace}",
    )


def state_key(stack: Stack, code: CodeBackend | None) -> str | None:
    """Names the state of a stack; None if Holdfast manages it, or if its location is unknown before init.

    Coarser than `StateLocation.identity`: settings that only say how to reach a state are left out, so that
    adding one does not make the state look like another.
    """
    location = state_location(stack, code)
    if location is None:
        return None
    type_ = str(location.identity[0])
    kind = _KINDS.get(type_)
    if kind is None:
        return repr(location.identity)
    settings = {
        **(code.settings if code is not None else {}),
        **(stack.backend.settings if stack.backend else {}),
    }
    needed = {name: _canonical(settings[name]) for name in kind.needs if name in settings}
    workspace = stack.workspace
    if type_ == "s3" and "key" in needed:
        if workspace != DEFAULT_WORKSPACE:
            needed["key"] = f"{settings.get('workspace_key_prefix', 'env:')}/{workspace}/{needed['key']}"
        needed["key"], workspace = posixpath.normpath(needed["key"]), DEFAULT_WORKSPACE
    where = "" if len(needed) == len(kind.needs) else stack.module
    return repr((type_, workspace, sorted(needed.items()), where))


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


def _canonical(value: object) -> str:
    """The same text for the same value, whether it comes from the code or from the configuration."""
    if isinstance(value, SecretRef):
        return f"secret {value}"
    if isinstance(value, Mapping):
        return repr(sorted((str(key), _canonical(inner)) for key, inner in value.items()))
    if isinstance(value, list | tuple):
        return repr([_canonical(inner) for inner in value])
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def type_mismatch(stack: Stack, code: CodeBackend | None) -> str | None:
    """The backend type in the code, if the configuration has another one."""
    configured = stack.backend.type if stack.backend is not None else None
    return None if code is None or configured in (None, code.type) else code.type
