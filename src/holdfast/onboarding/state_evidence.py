"""Decides whether a state may exist that the code does not show.

Holdfast manages a state only if nothing suggests that there is one elsewhere: with a fresh state, the first
apply would create every resource a second time.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from holdfast.checks.backends.backend_types import BACKEND_TYPES
from holdfast.kernel.text import first_names
from holdfast.onboarding.scan import RepositoryScan, ScannedModule
from holdfast.onboarding.scan_settings import BackendFile
from holdfast.onboarding.scan_signs import Sign, SignKind, Signs
from holdfast.onboarding.scan_workspaces import AS_VARIABLES_FILE
from holdfast.stacks.backend import CodeBackend
from holdfast.stacks.backend_types import BACKEND_TYPES as STATE_SETTINGS
from holdfast.stacks.listing import join_path

NO_STATE: Final = "If it was never applied, uncomment the entry as it is."
"""Holdfast then manages the state."""
ADOPT: Final = (
    "Copy that terraform.tfstate (or terraform.tfstate.d) next to the code, uncomment the entry, then run "
    "`holdfast state adopt STACK`."
)
NAME_WORKSPACE: Final = (
    "Replace `{WORKSPACE}` with the name that `terraform workspace list` shows. If there are several, write "
    'one entry with `matrix: { workspace: [dev, prod] }`, a `name` and `workspace: "{workspace}"`.'
)
WITHOUT_WORKSPACES: Final = ("http", "cloud", "remote")
_PIPELINES: Final = (".yml", ".yaml", "Jenkinsfile")
"""What runs there leaves no state on a person's machine."""
_AZURE_TASK: Final = {
    "backendAzureRmStorageAccountName": "storage_account_name",
    "backendAzureRmContainerName": "container_name",
    "backendAzureRmKey": "key",
}
_ANY: Final = "$"
_FILLED_IN: Final = re.compile(
    r"<%|\{\{|#\{|\$\(|\$\w|@@|%\w+%|__\w+__|<[\w -]+>|\bYOUR[-_]"
    r"|\b(?:UPDATE|CHANGE|REPLACE|FILL|INSERT)[-_]?[A-Z_]*\b"
)


class HeldBack(Struct, frozen=True, kw_only=True):
    """Why an entry is only written as a comment, and what to do before it is used."""

    reason: str
    next_step: str
    missing: tuple[str, ...] = ()
    """Settings of the backend, or `workspace`, that the entry leaves open."""


class StateEvidence:
    """What the whole repository says about states, asked once per module."""

    def __init__(self, scan: RepositoryScan) -> None:
        self._signs = Signs(scan.signs, scan.modules)
        backends = [module.backend for module in scan.modules.values() if module.backend is not None]
        self._left_open = {name for backend in backends for name in _location(backend) - _set_in(backend)}
        self._incomplete = any(map(missing_settings, backends))
        self._passed: dict[str, dict[str | None, Sign]] = {}
        for sign in scan.signs:
            if sign.kind is SignKind.OPTION and sign.is_general:
                for name, value in _passed_settings(sign, scan.backend_files):
                    self._passed.setdefault(name, {}).setdefault(value, sign)
        self._backend_files = scan.backend_files
        self._others = next(
            (
                module
                for module in scan.modules.values()
                if module.backend is not None and module.backend.type != "local" and not module.is_example
            ),
            None,
        )

    def without_backend(self, module: ScannedModule, missing: Sequence[str] = ()) -> HeldBack | None:
        """For code without a backend: None if nothing shows that its state is elsewhere.

        `missing`: its variables without a value.
        """
        if module.states:
            return None  # it is adopted, and Holdfast plans nothing before that
        kinds = (SignKind.STATE, SignKind.TEMPLATE, SignKind.OPTION, SignKind.TOOL)
        sign = module.initialised or module.commented or self._signs.of(module.folder, *kinds)
        by_hand = self._by_hand(module) if sign is None else None
        sign = sign or self._signs.near(module.folder, SignKind.RUN, SignKind.WORKSPACE)
        if sign is not None and by_hand is None:
            reason = f"the code has no backend, but {sign.place} {sign.what}"
            return HeldBack(
                reason=reason, next_step=f"{sign.next_step or write_backend(sign.backend)} {NO_STATE}"
            )
        why = None
        if module.problems:
            why = f"the code cannot be read completely ({module.problems[0].place}) and may have a backend"
        elif self._backend_files:
            why = f"the code has no backend, but {self._backend_files[0].path} has settings for one"
        elif self._others is not None:
            why = f"the code has no backend, but other code here has one ({self._others.backend_place})"
        elif by_hand is not None:
            return HeldBack(reason=f"the code has no backend, {by_hand}", next_step=f"{ADOPT} {NO_STATE}")
        elif module.locked:
            why = "the code was initialised before, but it has no backend and its state is not here"
        elif missing:
            names = first_names(missing, most=3)
            why = f"the code has no backend, and no file sets {names} of {module.folder}"
        backend = self._others.backend.type if self._others is not None and self._others.backend else None
        return HeldBack(reason=why, next_step=f"{write_backend(backend)} {NO_STATE}") if why else None

    def local(self, module: ScannedModule) -> HeldBack | None:
        """For a local backend: its state may be on another machine."""
        if module.backend is None or module.backend.type != "local" or module.states:
            return None
        by_hand = self._by_hand(module)
        if not module.locked and by_hand is None:
            return None
        reason = "the code was initialised before, but its local state is not here"
        if by_hand is not None:
            reason = f"the code has a local backend, {by_hand}"
        return HeldBack(reason=reason, next_step=f"Copy the state file here. {NO_STATE}")

    def _by_hand(self, module: ScannedModule) -> str | None:
        """Signs of a local state that is not in Git, but on the machine of whoever applied it."""
        sign = self._signs.near(module.folder, SignKind.RUN, SignKind.BY_HAND)
        ignored = self._signs.near(module.folder, SignKind.IGNORED_STATE)
        if sign is None or ignored is None or sign.place.file.endswith(_PIPELINES):
            return None
        return (
            f"{sign.place} {sign.what}, and {ignored.place} {ignored.what}: "
            "its local state is probably on the machine of whoever applied it"
        )

    def settings(self, folder: str) -> Sign | None:
        """What supplies the backend settings that the code leaves open."""
        return self._signs.of(folder, SignKind.OPTION, SignKind.TEMPLATE, SignKind.TOOL)

    def passed(self, backend: CodeBackend, given: Collection[str]) -> dict[str, Sign]:
        """Settings of the location that a script passes to `init`, though the code is complete without them.

        If other code leaves the setting open, the script passes it to that code. `given`: settings that the
        entry adds.
        """
        passed: dict[str, Sign] = {}
        for name in sorted(_location(backend) - set(given)):
            if name in _set_in(backend) and name in self._left_open:
                continue
            own = backend.settings.get(name, "")
            passed_as = dict(self._passed.get(name, {}))
            if not self._incomplete and name in _set_in(backend):
                passed_as |= self._passed.get(_ANY, {})
            sign = next((sign for value, sign in passed_as.items() if value != own), None)
            if sign is not None:
                passed[name] = sign
        return passed

    def workspace(self, module: ScannedModule, *, by_file: bool = False) -> HeldBack | None:
        """For code with a backend: why the default workspace is probably not the one with the state.

        `by_file`: the stack has its own `-backend-config` file, so a script's workspaces are for others.
        """
        if module.backend is None or module.backend.type in WITHOUT_WORKSPACES:
            return None
        if module.backend.type == "local" and not module.workspaces:
            return None
        sign = None if by_file else self._signs.near(module.folder, SignKind.WORKSPACE)
        why = f"{sign.place} {sign.what}" if sign is not None else ""
        if module.uses_workspace:
            why = "the code reads terraform.workspace"
        elif module.selected_workspace != "default" and not by_file:
            why = f"{join_path(module.folder, '.terraform')} has {module.selected_workspace} selected"
        elif module.workspaces:
            why = "there are states in terraform.tfstate.d"
        if not why:
            return None
        return HeldBack(
            reason=f"each workspace has its own state: {why}",
            next_step=NAME_WORKSPACE,
            missing=("workspace",),
        )

    def names_workspaces(self, module: ScannedModule, names: Collection[str]) -> bool:
        """Whether the repository shows that the workspaces of this code have these names."""
        sign = self._signs.near(module.folder, SignKind.WORKSPACE)
        selected = sign.options if sign is not None else ()
        shown = {*module.workspaces, *module.workspace_names, *selected}
        return AS_VARIABLES_FILE in selected or shown.issuperset(names)


def _location(backend: CodeBackend) -> frozenset[str]:
    """The settings that decide which state it is, except an address that contains a password."""
    kind = STATE_SETTINGS.get(backend.type)
    names = (*kind.needs, *kind.parts, *kind.in_workspaces) if kind is not None else ()
    return frozenset(names or (("path",) if backend.type == "local" else ())) - {"conn_str"}


def _set_in(backend: CodeBackend) -> set[str]:
    return {*backend.settings, *backend.computed}


def _same_name(path: str, option: str) -> bool:
    return posixpath.basename(path) == posixpath.basename(option)


def _passed_settings(sign: Sign, files: Sequence[BackendFile]) -> Iterator[tuple[str, str | None]]:
    """Names and values; no value if it depends on the script, or on which of several files it passes.

    `_ANY` if the script computes the names as well.
    """
    for option in sign.options:
        name, is_setting, value = option.partition("=")
        if is_setting:
            yield name, None if "$" in value else value
        elif "$" in option and not files:
            yield _ANY, None
        if (setting := _AZURE_TASK.get(option)) is not None:
            yield setting, None
        for file in files:
            if not is_setting and ("$" in option or _same_name(file.path, option)):
                yield from ((name, None) for name in file.settings)


def held_for_both(settings: HeldBack | None, workspace: HeldBack | None) -> HeldBack | None:
    """The settings of the backend and the workspace are unknown, or one of them, or none."""
    if settings is None or workspace is None:
        return settings or workspace
    return HeldBack(
        reason=f"{settings.reason}; {workspace.reason}",
        next_step=f"{settings.next_step} {workspace.next_step}",
        missing=tuple(dict.fromkeys((*settings.missing, *workspace.missing))),
    )


def without_workspaces(module: ScannedModule) -> str | None:
    """Why code that has to run in workspaces is held back."""
    if module.backend is not None or not module.uses_workspace:
        return None
    return "the code reads terraform.workspace but has no backend with workspaces"


def hosted_elsewhere(backend: CodeBackend) -> HeldBack:
    """For a `cloud` or `remote` block that does not name one workspace."""
    if "organization" not in backend.settings:
        reason = "the code does not name an organization and a workspace"
        return HeldBack(reason=reason, next_step=f"Write both in the `{backend.type}` block.")
    reason = "the code does not name one workspace, but a prefix, tags or a project"
    return HeldBack(reason=reason, next_step=NAME_WORKSPACE, missing=("workspace",))


def write_backend(type_: str | None) -> str:
    """What to write where a backend is missing."""
    needs = BACKEND_TYPES[type_].needs if type_ is not None and type_ in BACKEND_TYPES else ()
    settings = ", ".join(f"{name}: …" for name in needs) or "…"
    return f"Add `backend: {{ type: {type_ or '…'}, settings: {{ {settings} }} }}` with the values in use."


def missing_settings(
    backend: CodeBackend | None, given: Mapping[str, object] | None = None
) -> tuple[str, ...]:
    """Settings that determine where the state is and that neither the code nor `given` has."""
    if backend is None or backend.type not in BACKEND_TYPES or backend.type == "pg":
        return ()  # the address of a database comes from the environment, because it contains a password
    present = {*backend.settings, *backend.computed, *(given or {})}
    return tuple(name for name in BACKEND_TYPES[backend.type].needs if name not in present)


def filled_in(backend: CodeBackend) -> str | None:
    """A setting of the location that another tool replaces before Terraform reads it."""
    places = BACKEND_TYPES[backend.type].places if backend.type in BACKEND_TYPES else ()
    texts = ((name, value) for name in places if isinstance(value := backend.settings.get(name), str))
    return next((f'{name} = "{value}"' for name, value in texts if _FILLED_IN.search(value)), None)
