"""Files with settings besides code: for `-backend-config`, and Terraform's own record of a backend."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from holdfast.checks.backends.backend_types import BACKEND_TYPES
from holdfast.hcl.eval.values import known
from holdfast.hcl.reader import read, values
from holdfast.kernel.errors import Place
from holdfast.onboarding.naming import environment_word
from holdfast.onboarding.scan_signs import Sign, SignKind
from holdfast.stacks.listing import ROOT

_BACKEND_FILE: Final = re.compile(
    r"\.(?:tfbackend|backend)$|(?:backend|tfstate|remote[-_]?state|state[-_]?config)[^/]*(?:/[^/]+)?"
    r"\.(?:hcl|conf|config|cfg|properties|tfvars|tfvars\.json|json|ini|env)$"
)
"""Names that suggest a file for `-backend-config`; its content decides."""
_LOCATIONS: Final = frozenset(name for backend in BACKEND_TYPES.values() for name in backend.places)
_SETTINGS: Final = _LOCATIONS.union(
    *((*backend.needs, *backend.secrets, *backend.identities) for backend in BACKEND_TYPES.values()),
    ("acl", "encrypt", "snapshot", "lock", "lock_table", "environment", "workspaces", "metadata_host"),
    ("assume_role", "assume_role_with_web_identity", "lock_method", "unlock_method", "update_method"),
)
_SWITCH: Final = re.compile(r"(?:use|skip|force|in)_\w+|retry_\w+|max_retries")
_SHOWN: Final = ("bucket", "key", "prefix", "storage_account_name", "container_name", "path")


class BackendFile(Struct, frozen=True, kw_only=True):
    """A file for `-backend-config`."""

    path: str
    settings: Mapping[str, object] = field(default_factory=dict)
    module: str | None = None
    """The module whose folder, or a folder below it, contains the file."""


def is_backend_file(path: str, named: Collection[str]) -> bool:
    """By its name. `named`: the names of the files that scripts pass to `init`."""
    return bool(_BACKEND_FILE.search(path)) or posixpath.basename(path) in named


def backend_file(path: str, text: str) -> BackendFile | None:
    """None unless it contains only settings of backends, at least one of them part of a location."""
    file = read(text, "settings.json" if path.endswith(".json") else "settings.hcl")
    settings = {name: value for name, value in values(file).items() if known(value)}
    if file.problems or file.body.blocks or not _LOCATIONS & settings.keys():
        return None
    if not path.endswith("backend") and not all(n in _SETTINGS or _SWITCH.fullmatch(n) for n in settings):
        return None  # variables of a module called `backend`, for example
    return BackendFile(path=path, settings=settings)


def _settings_in(path: str, text: str) -> frozenset[str]:
    """The names that a file in JSON or HCL sets; none in anything else."""
    if not path.endswith(".json"):
        file = read(text, "settings.hcl")
        return frozenset(() if file.problems or file.body.blocks else values(file))
    try:
        return frozenset(msgspec.json.decode(text, type=dict[str, Any]))
    except msgspec.DecodeError:
        return frozenset()


def other_variables(
    paths: Iterable[str],
    text_of: Callable[[str], str],
    declared: Mapping[str, Collection[str]],
    passed: Collection[str],
) -> dict[str, frozenset[str]]:
    """Files next to a module or right below it that set only its variables, with the names that they set.

    These are JSON files of an environment, and what scripts pass as `-var-file` (`passed`). `declared`: the
    variables of each module.
    """
    ends = (posixpath.splitext(option)[1] if "$" in option else f"/{option}" for option in passed)
    named = tuple(end for end in ends if end)
    files: dict[str, frozenset[str]] = {}
    for path in paths:
        is_json = path.endswith(".json") and environment_word(posixpath.basename(path)) is not None
        if not is_json and not f"/{path}".endswith(named):
            continue
        folder = posixpath.dirname(path) or ROOT
        variables = declared.get(folder, ()) or declared.get(posixpath.dirname(folder) or ROOT, ())
        names = _settings_in(path, text_of(path)) if variables else frozenset()
        if names and names.issubset(variables):
            files[path] = names
    return files


class _Initialised(Struct):
    """`.terraform/terraform.tfstate`: Terraform's record of the backend."""

    class Backend(Struct):
        type: str = ""
        config: dict[str, Any] | None = None

    backend: Backend | None = None


def initialised(path: str, text: str) -> Sign | None:
    """The backend in `.terraform/terraform.tfstate`, as far as it may be shown."""
    try:
        backend = msgspec.json.decode(text, type=_Initialised).backend
    except msgspec.DecodeError:
        return None
    if backend is None or not backend.type:
        return None
    config = backend.config or {}
    shown = ", ".join(f"{name} {config[name]}" for name in _SHOWN if isinstance(config.get(name), str))
    what = f"records a backend of type {backend.type}{f' ({shown})' if shown else ''}"
    return Sign(kind=SignKind.TEMPLATE, place=Place(file=path), what=what, backend=backend.type)
