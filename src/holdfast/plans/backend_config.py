"""Where a stack's state lives, and how Terraform is told so. Pure.

Code holds the backend's type; the settings come from the configuration, by a private file or, for secrets,
by environment where the backend can read one. A stack whose code names no backend has a state of its own,
kept by Holdfast.
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
"""Settings that a backend, and nobody but it, reads from its environment: given so, a secret stays out of
`.terraform` and plans. What a provider reads too (`AWS_ACCESS_KEY_ID`, `KUBE_TOKEN`) goes by file instead:
by environment, the backend's identity would silently become the provider's, and resources another account's.
"""


class StateHome(MaskedStruct, frozen=True, kw_only=True):
    type: str
    kept: bool = False
    """By Holdfast, because the code names no backend."""
    override: str | None = None
    """The text of a file that gives the code a backend it does not name."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """For the backend's own private file."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Secrets, by environment."""
    secret_on_disk: bool = False
    """A secret had to go by file: what init remembers of it must not stay."""
    file: Path | None = None
    """The state itself, where it is a file of this machine."""
    place: str = ""
    """Names the place, without secrets: the same text is the same state."""


def state_home(
    stack: Stack,
    code: CodeBackend | None,
    settings: Mapping[str, object],
    *,
    root: Path,
) -> StateHome:
    """`settings` are the configured ones with secrets resolved to `Secret`."""
    configured = stack.backend.type if stack.backend is not None else None
    if code is None and configured is None:
        return _kept(stack, settings)
    if code is not None and configured is not None and code.type != configured:
        raise UsageError(
            "HF-BACK-1",
            f'{stack.name}: the code says backend "{code.type}", the configuration says {configured}',
            hint="Change one of them; a backend's type must be the same in both.",
            place=stack.place,
        )
    kind = code.type if code is not None else str(configured)
    if stack.workspace != "default" and kind in WITHOUT_WORKSPACES:
        raise UsageError(
            "HF-BACK-5",
            f"{stack.name}: the {kind} backend has no workspaces, so no `workspace: {stack.workspace}`",
            hint="Give the stack a state address of its own instead.",
            place=stack.place,
        )
    if kind == "cloud" and settings:
        raise UsageError(
            "HF-BACK-6",
            f"{stack.name}: the code has a `cloud` block, which takes no backend settings",
            hint="Take `backend:` out of this entry, or use a backend block in the code.",
            place=stack.place,
        )
    override = f'terraform {{\n  backend "{kind}" {{}}\n}}\n' if code is None else None
    if kind == "local":
        literal = dict(code.settings) if code is not None else {}
        literal.update(dict.fromkeys(code.computed if code is not None else (), None))
        return _local(stack, literal, settings, root, override)
    return _remote(stack, kind, code, settings, override)


def unasked_home(stack: Stack, code: CodeBackend | None) -> StateHome:
    """For commands that need no state: only which kind of backend it is. Without any, Terraform's own."""
    configured = stack.backend.type if stack.backend is not None else None
    return StateHome(type=(code.type if code is not None else configured) or "local")


def _kept(stack: Stack, settings: Mapping[str, object]) -> StateHome:
    """Behind the state door: its address comes by environment, so that nothing of it is in code or plan."""
    if settings:
        raise UsageError(
            "HF-BACK-3",
            f"{stack.name}: the configuration has backend settings, but nothing says which backend",
            hint='Write `backend "s3" {}` (or another type) into the code, or `type:` beside the settings.',
            place=stack.place,
        )
    if stack.workspace != "default":
        raise UsageError(
            "HF-BACK-2",
            f"{stack.name}: `workspace: {stack.workspace}` needs a backend in the code",
            hint="A stack without a backend has a state of its own already: take `workspace` out, "
            "or name a backend that has workspaces.",
            place=stack.place,
        )
    return StateHome(
        type="http",
        kept=True,
        override='terraform {\n  backend "http" {}\n}\n',
        place=kept_place(stack.name),
    )


def kept_place(stack: str) -> str:
    return f"kept by Holdfast for {stack}"


def _local(
    stack: Stack,
    literal: Mapping[str, object],
    settings: Mapping[str, object],
    root: Path,
    override: str | None,
) -> StateHome:
    """Absolute paths, seen from the module's place in the source: no state lies in a work directory."""
    merged = {**literal, **{key: reveal_all(value) for key, value in settings.items()}}
    for key in ("path", "workspace_dir"):
        if key in merged and not isinstance(merged[key], str):
            raise UsageError(
                "HF-BACK-4",
                f"{stack.name}: the local backend's `{key}` is computed and cannot be read from the code",
                hint=f"Name it in the configuration: backend: {{settings: {{{key}: …}}}}.",
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
    stack: Stack,
    kind: str,
    code: CodeBackend | None,
    settings: Mapping[str, object],
    override: str | None,
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
    """Words for people and a digest of what decides the place: equal text, equal state, no secret in it."""
    place = state_location(stack, code)
    if place is None:
        return f"{kind} backend of {stack.module}, workspace {stack.workspace}"
    return f"{place.shown} [{hashlib.sha256(repr(place.identity).encode()).hexdigest()[:12]}]"


def _holds_secret(value: object) -> bool:
    match value:
        case Secret():
            return True
        case Mapping():
            return any(_holds_secret(one) for one in value.values())
        case tuple() | list():
            return any(_holds_secret(one) for one in value)
        case _:
            return False


def leftovers(module: Path) -> tuple[Path, ...]:
    """States that lie beside a module without a backend: somebody ran Terraform there by hand."""
    beside = module / "terraform.tfstate"
    found = [beside] if beside.is_file() else []
    workspaces = module / "terraform.tfstate.d"
    if workspaces.is_dir():
        found += sorted(workspaces.glob("*/terraform.tfstate"))
    return tuple(found)
