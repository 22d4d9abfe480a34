"""Decides whether a state may exist that the code does not show.

Holdfast manages a state only if nothing suggests that there is one elsewhere: with a fresh state, the first
apply would create every resource a second time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from holdfast.checks.backends.backend_types import BACKEND_TYPES
from holdfast.kernel.text import first_names
from holdfast.onboarding.scan import RepositoryScan, ScannedModule
from holdfast.onboarding.scan_signs import Sign, SignKind, Signs
from holdfast.stacks.backend import CodeBackend

NO_STATE: Final = "If it was never applied, uncomment the entry as it is."
"""Holdfast then manages the state."""
WITHOUT_WORKSPACES: Final = ("http", "cloud", "remote")
_FILLED_IN: Final = re.compile(
    r"<%|\{\{|#\{|\$\(|\$\w|@@|%\w+%|__\w+__|<[\w -]+>|\bYOUR[-_]"
    r"|\b(?:UPDATE|CHANGE|REPLACE|FILL|INSERT)[-_]?[A-Z_]*\b"
)


class HeldBack(Struct, frozen=True, kw_only=True):
    """Why an entry is only written as a comment, and what to do before it is used."""

    reason: str
    next_step: str


class StateEvidence:
    """What the whole repository says about states, asked once per module."""

    def __init__(self, scan: RepositoryScan) -> None:
        self._signs = Signs(scan.signs)
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
        kinds = (SignKind.TEMPLATE, SignKind.OPTION, SignKind.TOOL)
        sign = module.initialised or module.commented or self._signs.of(module.folder, *kinds)
        sign = sign or self._signs.near(module.folder, SignKind.RUN, SignKind.WORKSPACE)
        if sign is not None:
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
        elif module.locked:
            why = "the code was initialised before, but it has no backend and its state is not here"
        elif missing:
            names = first_names(missing, most=3)
            why = f"the code has no backend, and no file sets {names} of {module.folder}"
        backend = self._others.backend.type if self._others is not None and self._others.backend else None
        return HeldBack(reason=why, next_step=f"{write_backend(backend)} {NO_STATE}") if why else None

    def settings(self, folder: str) -> Sign | None:
        """What supplies the backend settings that the code leaves open."""
        return self._signs.of(folder, SignKind.OPTION, SignKind.TEMPLATE, SignKind.TOOL)

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
        elif module.workspaces:
            why = "there are states in terraform.tfstate.d"
        if not why:
            return None
        return HeldBack(
            reason=f"each workspace has its own state: {why}",
            next_step="Write an entry by name with `matrix: { workspace: [dev, prod] }` and "
            '`workspace: "{workspace}"`, with the names that `terraform workspace list` shows.',
        )


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
