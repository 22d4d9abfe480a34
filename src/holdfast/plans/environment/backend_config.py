"""Where a stack's state is, and how Terraform gets the backend settings. Pure.

The code names the backend type; the settings come from the configuration, in a private file or, for
secrets, by environment where the backend reads a variable. A stack without a backend in its code has a
managed state.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import field

from holdfast.kernel.errors import UsageError
from holdfast.kernel.secret import Secret, reveal_all
from holdfast.kernel.values import MaskedStruct
from holdfast.stacks.backend import CodeBackend, state_location
from holdfast.stacks.stack import Stack

OVERRIDE_FILE = "zz_holdfast_override.tf"

WITHOUT_WORKSPACES = frozenset({"http", "cloud"})

SECRET_VARIABLES: Mapping[str, Mapping[str, str]] = {
    "http": {"username": "TF_HTTP_USERNAME", "password": "TF_HTTP_PASSWORD"},
    "pg": {"conn_str": "PG_CONN_STR"},
    "azurerm": {"access_key": "ARM_ACCESS_KEY", "sas_token": "ARM_SAS_TOKEN"},
    "gcs": {"credentials": "GOOGLE_BACKEND_CREDENTIALS", "encryption_key": "GOOGLE_ENCRYPTION_KEY"},
}
"""Settings that only the backend reads from its environment: passed so, a secret stays out of `.terraform`
and plans. What a provider reads too (`AWS_ACCESS_KEY_ID`, `KUBE_TOKEN`) is passed in a file instead: by
environment, the backend's credentials would silently become the provider's, and resources would go to
another account.
"""


class StateHome(MaskedStruct, frozen=True, kw_only=True):
    type: str
    managed: bool = False
    """Holdfast stores the state, because the code names no backend."""
    override: str | None = None
    """The content of an override file that adds the backend block."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """For the private backend file."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Secrets, by environment."""
    secret_on_disk: bool = False
    """A secret had to be passed in the file: what init stored of it must be removed."""
    file: Path | None = None
    """The state file, where it is on this machine."""
    place: str = ""
    """Identifies the state without secrets: the same text is the same state."""


def state_home(
    stack: Stack, code: CodeBackend | None, settings: Mapping[str, object], *, root: Path
) -> StateHome:
    """`settings` are the configured ones, with secrets resolved to `Secret`."""
    configured = stack.backend.type if stack.backend is not None else None
    if code is None and configured is None:
        return _managed_home(stack, settings)
    if code is not None and configured is not None and code.type != configured:
        raise UsageError(
            "HF-BACK-1",
            f'{stack.name}: the code has backend "{code.type}", the configuration has {configured}',
            hint="Change one of them: the backend type must be the same in both.",
            place=stack.place,
        )
    kind = code.type if code is not None else str(configured)
    if stack.workspace != "default" and kind in WITHOUT_WORKSPACES:
        raise UsageError(
            "HF-BACK-5",
            f"{stack.name}: the {kind} backend does not support `workspace: {stack.workspace}`",
            hint="Use a separate state address for the stack instead.",
            place=stack.place,
        )
    if kind == "cloud" and settings:
        raise UsageError(
            "HF-BACK-6",
            f"{stack.name}: the code has a `cloud` block, which takes no backend settings",
            hint="Remove `backend:` from this entry, or use a backend block in the code.",
            place=stack.place,
        )
    override = f'terraform {{\n  backend "{kind}" {{}}\n}}\n' if code is None else None
    if kind == "local":
        literal = dict(code.settings) if code is not None else {}
        literal.update(dict.fromkeys(code.computed if code is not None else (), None))
        return _local(stack, literal, settings, root, override)
    return _remote(stack, kind, code, settings, override)


def stateless_home(stack: Stack, code: CodeBackend | None) -> StateHome:
    """For commands that need no state: only the backend type, by default `local`."""
    configured = stack.backend.type if stack.backend is not None else None
    return StateHome(type=(code.type if code is not None else configured) or "local")


def _managed_home(stack: Stack, settings: Mapping[str, object]) -> StateHome:
    """Served by the local state backend: its address is passed by environment, not in code or plan."""
    if settings:
        raise UsageError(
            "HF-BACK-3",
            f"{stack.name}: the configuration has backend settings, but no backend type",
            hint='Add `backend "s3" {}` (or another type) to the code, or `type:` to the settings.',
            place=stack.place,
        )
    if stack.workspace != "default":
        raise UsageError(
            "HF-BACK-2",
            f"{stack.name}: `workspace: {stack.workspace}` needs a backend in the code",
            hint="A stack without a backend has a state of its own: remove `workspace`, "
            "or add a backend that supports workspaces.",
            place=stack.place,
        )
    return StateHome(
        type="http",
        managed=True,
        override='terraform {\n  backend "http" {}\n}\n',
        place=managed_place(stack.name),
    )


def managed_place(stack: str) -> str:
    return f"managed state of {stack}"


def _local(
    stack: Stack,
    literal: Mapping[str, object],
    settings: Mapping[str, object],
    root: Path,
    override: str | None,
) -> StateHome:
    """Absolute paths, relative to the module in the source: no state is stored in a work directory."""
    merged = {**literal, **{key: reveal_all(value) for key, value in settings.items()}}
    for key in ("path", "workspace_dir"):
        if key in merged and not isinstance(merged[key], str):
            raise UsageError(
                "HF-BACK-4",
                f"{stack.name}: `{key}` of the local backend is computed, and its value is not known",
                hint=f"Set it in the configuration: backend: {{settings: {{{key}: …}}}}.",
                place=stack.place,
            )
    module = root / stack.module

    def absolute(key: str, default: str) -> Path:
        return Path(os.path.normpath(module / str(merged.get(key) or default)))

    path, folder = absolute("path", "terraform.tfstate"), absolute("workspace_dir", "terraform.tfstate.d")
    file = path if stack.workspace == "default" else folder / stack.workspace / "terraform.tfstate"
    return StateHome(
        type="local",
        override=override,
        settings={"path": str(path), "workspace_dir": str(folder)},
        file=file,
        place=f"local:{os.path.relpath(file, root)}",
    )


def _remote(
    stack: Stack, kind: str, code: CodeBackend | None, settings: Mapping[str, object], override: str | None
) -> StateHome:
    by_environment = SECRET_VARIABLES.get(kind, {})
    plain: dict[str, object] = {}
    variables: dict[str, str] = {}
    secret_on_disk = False
    for key, value in settings.items():
        if isinstance(value, Secret) and key in by_environment:
            variables[by_environment[key]] = value.reveal()
        else:
            secret_on_disk = secret_on_disk or _holds_secret(value)
            plain[key] = reveal_all(value)
    return StateHome(
        type=kind,
        override=override,
        settings=plain,
        variables=variables,
        secret_on_disk=secret_on_disk,
        place=_place(stack, kind, code),
    )


def _place(stack: Stack, kind: str, code: CodeBackend | None) -> str:
    """A readable name and a digest of what identifies the state: equal text, equal state, no secret."""
    place = state_location(stack, code)
    if place is None:
        return f"{kind} backend of {stack.module}, workspace {stack.workspace}"
    return f"{place.shown} [{hashlib.sha256(repr(place.identity).encode()).hexdigest()[:12]}]"


def _holds_secret(value: object) -> bool:
    match value:
        case Secret():
            return True
        case Mapping():
            return any(map(_holds_secret, value.values()))
        case tuple() | list():
            return any(map(_holds_secret, value))
        case _:
            return False


def states_beside(module: Path) -> tuple[Path, ...]:
    """States beside a module without a backend, left by Terraform runs outside of Holdfast."""
    beside = module / "terraform.tfstate"
    states = [beside] if beside.is_file() else []
    workspaces = module / "terraform.tfstate.d"
    if workspaces.is_dir():
        states += sorted(workspaces.glob("*/terraform.tfstate"))
    return tuple(states)
