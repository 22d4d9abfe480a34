"""Which settings of a backend, and which workspace, tell its states apart. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from holdfast.config.secret_refs import SecretRef

DEFAULT_WORKSPACE: Final = "default"
_STATE: Final = "terraform.tfstate"
_CONTAINERS: Final = ("bucket", "namespace", "storage_account_name", "container_name")


class BackendType(Struct, frozen=True, kw_only=True):
    """The settings that determine where a backend of this type stores the state."""

    needs: tuple[str, ...]
    parts: tuple[str, ...] = ()
    """Optional; they tell the states in one bucket or database apart."""
    may: tuple[str, ...] = ()
    """Optional; they say how to reach the state."""
    in_workspaces: tuple[str, ...] = ()
    """Only relevant outside the default workspace."""
    variables: tuple[str, ...] = ()
    """Prefixes of environment variables that matter too."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Of `parts` and `in_workspaces`, as Terraform has them."""
    path: tuple[str, str] | None = None
    """The path of the state in the default workspace and in others, if the workspace is a part of it."""


_IN_PREFIX: Final = ("{key}", "{workspace_key_prefix}/{workspace}/{key}")
_BELOW_PREFIX: Final = ("{prefix}/{key}", "{prefix}/{workspace}/{key}")
BACKEND_TYPES: Final[Mapping[str, BackendType]] = {
    "s3": BackendType(
        needs=("bucket", "key"),
        may=("endpoint", "endpoints"),
        in_workspaces=("workspace_key_prefix",),
        variables=("AWS_ENDPOINT_URL", "AWS_S3_ENDPOINT"),
        defaults={"workspace_key_prefix": "env:"},
        path=_IN_PREFIX,
    ),
    "azurerm": BackendType(
        needs=("storage_account_name", "container_name", "key"),
        may=("environment",),
        path=("{key}", "{key}env:{workspace}"),
    ),
    "gcs": BackendType(
        needs=("bucket",),
        parts=("prefix",),
        defaults={"prefix": ""},
        path=("{prefix}/default.tfstate", "{prefix}/{workspace}.tfstate"),
    ),
    "http": BackendType(needs=("address",), variables=("TF_HTTP_ADDRESS",), path=("{address}", "{address}")),
    "pg": BackendType(
        needs=("conn_str",),
        parts=("schema_name", "table_name"),
        variables=("PG",),
        defaults={"schema_name": "terraform_remote_state", "table_name": "states"},
    ),
    "consul": BackendType(
        needs=("path",),
        may=("address", "datacenter"),
        variables=("CONSUL_",),
        path=("{path}", "{path}-env:{workspace}"),
    ),
    "kubernetes": BackendType(
        needs=("secret_suffix",),
        parts=("namespace",),
        may=("host", "config_path", "config_paths", "config_context"),
        variables=("KUBE",),
        defaults={"namespace": "default"},
    ),
    "cos": BackendType(
        needs=("bucket",),
        parts=("prefix", "key"),
        may=("region",),
        defaults={"prefix": "", "key": _STATE},
        path=_BELOW_PREFIX,
    ),
    "oss": BackendType(
        needs=("bucket",),
        parts=("prefix", "key"),
        may=("endpoint",),
        defaults={"prefix": "env:", "key": _STATE},
        path=_BELOW_PREFIX,
    ),
    "oci": BackendType(
        needs=("bucket", "namespace"),
        parts=("key",),
        may=("region",),
        in_workspaces=("workspace_key_prefix",),
        defaults={"key": _STATE, "workspace_key_prefix": "env:"},
        path=_IN_PREFIX,
    ),
}


def state_parts(
    kind: BackendType, settings: Mapping[str, object], workspace: str
) -> tuple[dict[str, str], str]:
    """What tells a state apart, and the workspace.

    Where the workspace is a part of the state's path, that path takes the place of both: a key in the default
    workspace may be the path that another key has in another workspace.
    """
    names = (*kind.needs, *kind.parts, *kind.in_workspaces)
    parts = {name: canonical(settings[name]) for name in names if name in settings}
    if all(name in parts for name in kind.needs):
        parts = {**kind.defaults, **parts}
        if kind.path is not None:
            path = kind.path[workspace != DEFAULT_WORKSPACE].format(**parts, workspace=workspace)
            if "prefix" in kind.parts:
                path = posixpath.normpath(path).lstrip("/")
            kept = {name: parts[name] for name in kind.needs if name in _CONTAINERS}
            return {**kept, "path": path}, DEFAULT_WORKSPACE
    return {name: value for name, value in parts.items() if name not in kind.in_workspaces}, workspace


def canonical(value: object) -> str:
    """The same text for the same value, whether it comes from the code or from the configuration."""
    if isinstance(value, SecretRef):
        return f"secret {value}"
    if isinstance(value, Mapping):
        return repr(sorted((str(key), canonical(inner)) for key, inner in value.items()))
    if isinstance(value, list | tuple):
        return repr([canonical(inner) for inner in value])
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
