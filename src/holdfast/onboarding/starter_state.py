"""Chooses the backend settings and workspace of each stack for the starter.

A location for an existing state is never guessed silently: if the location is unknown, the entry is held
back, that is, written as a comment.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.config.placeholders import escape, parse
from holdfast.config.stack_rules import Backend, RuleKind
from holdfast.kernel.errors import Place
from holdfast.onboarding.scan import BackendFile, RepositoryScan, ScannedModule
from holdfast.onboarding.scan_scripts import as_template, consistent_settings
from holdfast.onboarding.starter_entries import StackDraft, StackEntry, single_entry
from holdfast.stacks.backend import CodeBackend, state_location
from holdfast.stacks.stack import Stack, name_from_path

NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": ("bucket", "key"),
    "azurerm": ("storage_account_name", "container_name", "key"),
    "gcs": ("bucket",),
    "http": ("address",),
    "consul": ("path",),
    "kubernetes": ("secret_suffix",),
}
_OWN_PLACE: Final[Mapping[str, str]] = {
    "s3": "{}/terraform.tfstate",
    "azurerm": "{}/terraform.tfstate",
    "gcs": "{}",
}
_KEY: Final = {"s3": "key", "azurerm": "key", "gcs": "prefix"}
_GENERIC: Final = frozenset(
    ("", "backend", "config", "conf", "state", "s3", "azurerm", "gcs", "tfbackend", "hcl", "tfvars", "remote")
)
_MOST_PLACEHOLDERS: Final = 5


class StateChoice(Struct, frozen=True, kw_only=True):
    """The backend settings and workspace of one stack, or why it is held back."""

    settings: Mapping[str, object] = field(default_factory=dict)
    workspace: str | None = None
    held_back: str | None = None
    guessed: str | None = None
    """A sentence, if the location is only likely."""


def state_choices(entries: Iterable[StackEntry], scan: RepositoryScan) -> dict[str, StateChoice]:
    """By stack name. No two stacks share a state, except those held back."""
    stacks = [stack for entry in entries for stack in entry.stacks]
    by_module: defaultdict[str, list[StackDraft]] = defaultdict(list)
    for stack in stacks:
        by_module[stack.module].append(stack)
    choices = {stack.name: _known_choice(stack, scan, by_module[stack.module]) for stack in stacks}
    for sharing in _sharing(stacks, choices, scan):
        choices.update(_separate(sharing, scan))
    for sharing in _sharing(stacks, choices, scan):
        choices.update(_hold_back(sharing, "it would share a state with another stack"))
    return choices


def missing_settings(backend: CodeBackend | None) -> tuple[str, ...]:
    """Settings that determine where the state is and that the code does not set."""
    if backend is None:
        return ()
    present = {*backend.settings, *backend.computed}
    return tuple(name for name in NEEDS.get(backend.type, ()) if name not in present)


def _known_choice(stack: StackDraft, scan: RepositoryScan, siblings: Sequence[StackDraft]) -> StateChoice:
    """The settings in `-backend-config` files, or in the scripts that use them."""
    module = scan.modules[stack.module]
    choice = StateChoice(workspace=stack.workspace)
    if module.backend is None:
        return replace(choice, held_back=_backend_from_script(scan))
    if not missing_settings(module.backend):
        return choice
    file = _backend_file(stack, scan, alone=len(siblings) == 1)
    if file is not None:
        return replace(choice, settings=dict(file.settings))
    return _from_scripts(stack, scan, choice) if scan.backend_options else choice


def _from_scripts(stack: StackDraft, scan: RepositoryScan, choice: StateChoice) -> StateChoice:
    first = scan.backend_options[0]
    where = f"{first.path}:{first.line}"
    backend_options = consistent_settings(scan.backend_options)
    if backend_options is None:
        return replace(
            choice, held_back=f"the backend settings come from {where}, which Holdfast cannot evaluate"
        )
    settings: dict[str, object] = {}
    for name, option in backend_options.items():
        template = as_template(option.value, stack.captured)
        if template is None:
            place = f"{option.path}:{option.line}"
            return replace(
                choice, held_back=f"the backend's `{name}` comes from {place}, which Holdfast cannot evaluate"
            )
        settings[name] = parse(template).fill(lambda key: stack.captured[key])
    return replace(choice, settings=settings, guessed=f"the backend settings come from {where}")


def _backend_from_script(scan: RepositoryScan) -> str | None:
    """A sign that a script adds the backend to the code."""
    if scan.generated_backends:
        return f"the code has no backend, but {scan.generated_backends[0]} writes one"
    if scan.backend_options and not any(missing_settings(module.backend) for module in scan.modules.values()):
        first = scan.backend_options[0]
        return f"the code has no backend, but {first.path}:{first.line} passes backend settings to init"
    return None


def _backend_file(stack: StackDraft, scan: RepositoryScan, *, alone: bool) -> BackendFile | None:
    """The only settings file whose name or folder matches this stack."""
    folder = posixpath.dirname(stack.file) if stack.file else stack.module
    label = frozenset(re.split(r"[-_.]", stack.label.lower()))
    by_name: list[BackendFile] = []
    by_folder: list[BackendFile] = []
    for file in scan.backend_files:
        place, name = posixpath.split(file.path)
        words = frozenset(re.split(r"[-_.]", name.lower())) - _GENERIC
        near = stack.module == "." or file.path.startswith(f"{stack.module}/") or place == folder
        if near and (
            words == label or (not words and posixpath.basename(place).lower() == stack.label.lower())
        ):
            by_name.append(file)
        elif not words and alone and place in (folder, stack.module):
            by_folder.append(file)
    best = by_name or by_folder
    return best[0] if len(best) == 1 else None


def _as_stack(stack: StackDraft, choice: StateChoice) -> Stack:
    return Stack(
        name=stack.name,
        kind=RuleKind.NAMED,
        place=Place(file="holdfast.yaml"),
        module=stack.module,
        backend=Backend(settings=dict(choice.settings)) if choice.settings else None,  # type: ignore[arg-type] # plain values
        workspace=choice.workspace or "default",
    )


def _sharing(
    stacks: Sequence[StackDraft], choices: Mapping[str, StateChoice], scan: RepositoryScan
) -> list[list[StackDraft]]:
    """Groups of stacks that share a state."""
    states: defaultdict[object, list[StackDraft]] = defaultdict(list)
    for stack in stacks:
        choice = choices[stack.name]
        location = state_location(_as_stack(stack, choice), scan.modules[stack.module].backend)
        if location is not None and choice.held_back is None:
            states[location.identity].append(stack)
    return [sharing for sharing in states.values() if len(sharing) > 1]


def _separate(sharing: list[StackDraft], scan: RepositoryScan) -> dict[str, StateChoice]:
    """Give each of several stacks that share a state its own, where that is safe."""
    module = scan.modules[sharing[0].module]
    backend = module.backend
    if backend is None or len({stack.module for stack in sharing}) > 1:
        others = ", ".join(sorted({stack.module for stack in sharing})[:3])
        return _hold_back(sharing, f"the code in {others} uses the same state")
    labels = {stack.label for stack in sharing}
    if len(labels) == len(sharing) and _has_workspaces(module, labels):
        why = "the code reads terraform.workspace, so each stack uses the workspace with its name"
        if not module.uses_workspace:
            why = "their states are in terraform.tfstate.d, each in the workspace with its name"
        return {stack.name: StateChoice(workspace=stack.label, guessed=why) for stack in sharing}
    key = _KEY.get(backend.type)
    if key is not None and missing_settings(backend):
        return {
            stack.name: StateChoice(
                workspace=stack.workspace,
                settings={key: _OWN_PLACE[backend.type].format(stack.name)},
                guessed=f"the code does not set the backend's `{key}`, so each stack gets its own",
            )
            for stack in sharing
        }
    if backend.type == "local" and not module.states and "path" not in backend.settings:
        return {
            stack.name: StateChoice(
                settings={"path": f"terraform.tfstate.d/{stack.label}/terraform.tfstate"},
                guessed="there is no local state yet, so each stack gets its own file",
            )
            for stack in sharing
            if len(labels) == len(sharing)
        } or _hold_back(sharing, "the code puts all of them in one local state")
    return _one_of(sharing, backend)


def _has_workspaces(module: ScannedModule, labels: set[str]) -> bool:
    if module.backend is None or module.backend.type in ("http", "cloud"):
        return False
    if module.backend.type == "local":
        return labels <= set(module.workspaces)
    return module.uses_workspace


def _one_of(sharing: list[StackDraft], backend: CodeBackend) -> dict[str, StateChoice]:
    """The code uses one state for all stacks: it belongs to at most one of them."""
    text = " ".join(str(value) for value in backend.settings.values() if isinstance(value, str))
    words = set(re.split(r"[^A-Za-z0-9]+", text))
    owners = [stack for stack in sharing if stack.label in words]
    where = backend.settings.get(_KEY.get(backend.type, ""), backend.type)
    choices = _hold_back(sharing, f"the code uses one state ({where}) for {len(sharing)} stacks")
    if len(owners) == 1:
        choices[owners[0].name] = StateChoice(
            guessed=f"the state in the code ({where}) is named after {owners[0].label}"
        )
    return choices


def _hold_back(stacks: Iterable[StackDraft], why: str) -> dict[str, StateChoice]:
    return {stack.name: StateChoice(held_back=why, workspace=stack.workspace) for stack in stacks}


def entries_with_states(
    entries: Iterable[StackEntry], choices: Mapping[str, StateChoice]
) -> list[StackEntry]:
    """Entries with their state choices; an entry whose stacks differ is split into single stacks."""
    completed: list[StackEntry] = []
    for entry in entries:
        own = [choices[stack.name] for stack in entry.stacks]
        whole = _together(entry, own)
        if whole is not None:
            completed.append(whole)
            continue
        for stack, choice in zip(entry.stacks, own, strict=True):
            completed.append(_single(entry, stack, choice))
    return completed


def _together(entry: StackEntry, own: Sequence[StateChoice]) -> StackEntry | None:
    captured = [stack.captured for stack in entry.stacks]
    reasons = {choice.held_back for choice in own}
    keys = {tuple(sorted(choice.settings)) for choice in own}
    if len(reasons) > 1 or len(keys) > 1:
        return None
    name = entry.name or name_from_path(entry.pattern or "")
    likely = [text.format(name) for text in dict.fromkeys(_OWN_PLACE.values())]
    settings: dict[str, object] = {}
    for key in own[0].settings:
        template = _template([choice.settings[key] for choice in own], captured, likely)
        if template is None:
            return None
        settings[key] = template
    workspaces = [choice.workspace for choice in own]
    workspace = None
    if any(workspaces):
        template = _template(workspaces, captured)
        if not isinstance(template, str):
            return None
        workspace = template
    return replace(
        entry,
        backend={"settings": settings} if settings else entry.backend,
        workspace=workspace,
        held_back=own[0].held_back or entry.held_back,
    )


def _single(entry: StackEntry, stack: StackDraft, choice: StateChoice) -> StackEntry:
    """One stack of an entry, with all values of its pattern."""
    kind = RuleKind.VARIABLES if stack.file else RuleKind.FOLDER
    base = single_entry(stack.file or stack.module, stack.module, stack.shared, kind)
    environment = entry.environment
    if environment is not None and stack.captured:
        environment = parse(environment).fill(lambda key: stack.captured[key])
    own = replace(
        base,
        name=escape(stack.name),
        stacks=(stack,),
        environment=stack.captured.get("environment", environment) or base.environment,
        account=stack.captured.get("account"),
        region=stack.captured.get("region") or base.region,
        why=entry.why if len(entry.stacks) == 1 else f"{stack.name} by itself",
    )
    return _together(own, [choice]) or replace(own, held_back=choice.held_back or entry.held_back)


def _template(
    values: Sequence[object], captured: Sequence[Mapping[str, str]], likely: Sequence[str] = ()
) -> object:
    """One text with placeholders that gives each stack its value, or None."""
    first = values[0]
    if all(value == first for value in values):
        return escape(first) if isinstance(first, str) else first
    if not all(isinstance(value, str) for value in values):
        return None
    # The stack whose values differ most shows best which placeholder is where.
    base = max(range(len(values)), key=lambda index: len(set(captured[index].values())))
    usable = [name for name, value in captured[base].items() if value][:_MOST_PLACEHOLDERS]
    marked = (
        _marked(str(values[base]), [(captured[base][name], name) for name in order])
        for order in itertools.permutations(usable)
    )
    for text in (*likely, *marked):
        if all(_fill(text, own) == value for value, own in zip(values, captured, strict=True)):
            return text
    return None


def _marked(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    """The text with each value that is a whole word replaced by its placeholder, in the order of `pairs`."""
    if not pairs:
        return escape(text)
    (value, name), *rest = pairs
    pieces = re.split(rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])", text)
    return f"{{{name}}}".join(_marked(piece, rest) for piece in pieces)


def _fill(text: str, captured: Mapping[str, str]) -> str | None:
    template = parse(text)
    if any(name not in captured for name in template.names):
        return None
    return template.fill(lambda name: captured[name])
