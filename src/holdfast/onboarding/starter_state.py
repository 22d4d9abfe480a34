"""Where each stack's state is, and what a starter may say about it.

Nothing here guesses a place for a state that exists elsewhere without saying so: where the place cannot be
told, the entry is held back, that is, written as a comment.
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
    """What the configuration says about one stack's state."""

    settings: Mapping[str, object] = field(default_factory=dict)
    workspace: str | None = None
    held: str | None = None
    guessed: str | None = None
    """A sentence, where the place is only likely."""


def state_choices(entries: Iterable[StackEntry], look: RepositoryScan) -> dict[str, StateChoice]:
    """By the stack's name: no two stacks that are not held back have one state."""
    stacks = [stack for entry in entries for stack in entry.stacks]
    by_module: defaultdict[str, list[StackDraft]] = defaultdict(list)
    for stack in stacks:
        by_module[stack.module].append(stack)
    found = {stack.name: _told(stack, look, by_module[stack.module]) for stack in stacks}
    for sharing in _sharing(stacks, found, look):
        found.update(_apart(sharing, look))
    for sharing in _sharing(stacks, found, look):
        found.update(_hold(sharing, "would share one state with another stack"))
    return found


def missing_settings(backend: CodeBackend | None) -> tuple[str, ...]:
    """Settings without which nobody knows where the state is, and which the code leaves open."""
    if backend is None:
        return ()
    given = {*backend.settings, *backend.computed}
    return tuple(name for name in NEEDS.get(backend.type, ()) if name not in given)


def _told(stack: StackDraft, look: RepositoryScan, siblings: Sequence[StackDraft]) -> StateChoice:
    """What files for `-backend-config`, or the scripts that use them, say."""
    module = look.modules[stack.module]
    home = StateChoice(workspace=stack.workspace)
    if module.backend is None:
        return replace(home, held=_kept_elsewhere(look))
    if not missing_settings(module.backend):
        return home
    file = _backend_file(stack, look, alone=len(siblings) == 1)
    if file is not None:
        return replace(home, settings=dict(file.settings))
    return _from_scripts(stack, look, home) if look.passed else home


def _from_scripts(stack: StackDraft, look: RepositoryScan, home: StateChoice) -> StateChoice:
    first = look.passed[0]
    where = f"{first.path}:{first.line}"
    passed = consistent_settings(look.passed)
    if passed is None:
        return replace(home, held=f"the backend settings come from {where}, which could not be followed")
    settings: dict[str, object] = {}
    for name, one in passed.items():
        template = as_template(one.value, stack.captured)
        if template is None:
            place = f"{one.path}:{one.line}"
            return replace(
                home, held=f"the backend's `{name}` comes from {place}, which could not be followed"
            )
        settings[name] = parse(template).fill(lambda key: stack.captured[key])
    return replace(home, settings=settings, guessed=f"the backend settings are those of {where}")


def _kept_elsewhere(look: RepositoryScan) -> str | None:
    """A sign that the backend only comes to the code when a script runs."""
    if look.written:
        return f"the code names no backend, but {look.written[0]} writes one"
    if look.passed and not any(missing_settings(module.backend) for module in look.modules.values()):
        first = look.passed[0]
        return f"the code names no backend, but {first.path}:{first.line} hands settings of one to init"
    return None


def _backend_file(stack: StackDraft, look: RepositoryScan, *, alone: bool) -> BackendFile | None:
    """The one file of settings that its name or its folder gives to this stack."""
    folder = posixpath.dirname(stack.file) if stack.file else stack.module
    label = frozenset(re.split(r"[-_.]", stack.label.lower()))
    named: list[BackendFile] = []
    beside: list[BackendFile] = []
    for file in look.backend_files:
        place, name = posixpath.split(file.path)
        words = frozenset(re.split(r"[-_.]", name.lower())) - _GENERIC
        near = stack.module == "." or file.path.startswith(f"{stack.module}/") or place == folder
        if near and (
            words == label or (not words and posixpath.basename(place).lower() == stack.label.lower())
        ):
            named.append(file)
        elif not words and alone and place in (folder, stack.module):
            beside.append(file)
    best = named or beside
    return best[0] if len(best) == 1 else None


def as_stack(stack: StackDraft, home: StateChoice) -> Stack:
    return Stack(
        name=stack.name,
        kind=RuleKind.NAMED,
        place=Place(file="holdfast.yaml"),
        module=stack.module,
        backend=Backend(settings=dict(home.settings)) if home.settings else None,  # type: ignore[arg-type] # plain values
        workspace=home.workspace or "default",
    )


def _sharing(
    stacks: Sequence[StackDraft], found: Mapping[str, StateChoice], look: RepositoryScan
) -> list[list[StackDraft]]:
    states: defaultdict[object, list[StackDraft]] = defaultdict(list)
    for stack in stacks:
        home = found[stack.name]
        place = state_location(as_stack(stack, home), look.modules[stack.module].backend)
        if place is not None and home.held is None:
            states[place.identity].append(stack)
    return [sharing for sharing in states.values() if len(sharing) > 1]


def _apart(sharing: list[StackDraft], look: RepositoryScan) -> dict[str, StateChoice]:
    """Several stacks that the code puts on one state, each given its own where that is safe."""
    module = look.modules[sharing[0].module]
    backend = module.backend
    if backend is None or len({stack.module for stack in sharing}) > 1:
        others = ", ".join(sorted({stack.module for stack in sharing})[:3])
        return _hold(sharing, f"the code of {others} names one and the same state")
    labels = {stack.label for stack in sharing}
    if len(labels) == len(sharing) and _has_workspaces(module, labels):
        why = "the code reads terraform.workspace, so each has the workspace of its own name"
        if not module.asks_workspace:
            why = "their states lie in terraform.tfstate.d, each in the workspace of its own name"
        return {stack.name: StateChoice(workspace=stack.label, guessed=why) for stack in sharing}
    key = _KEY.get(backend.type)
    if key is not None and missing_settings(backend):
        return {
            stack.name: StateChoice(
                workspace=stack.workspace,
                settings={key: own_key(backend.type, stack)},
                guessed=f"the code leaves the backend's `{key}` open, so each gets one of its own name",
            )
            for stack in sharing
        }
    if backend.type == "local" and not module.states and "path" not in backend.settings:
        return {
            stack.name: StateChoice(
                settings={"path": f"terraform.tfstate.d/{stack.label}/terraform.tfstate"},
                guessed="no local state was found, so each gets a file of its own",
            )
            for stack in sharing
            if len(labels) == len(sharing)
        } or _hold(sharing, "the code puts all of them on one local state")
    return _one_of(sharing, backend)


def own_key(kind: str, stack: StackDraft) -> str:
    return _OWN_PLACE[kind].format(stack.name)


def _has_workspaces(module: ScannedModule, labels: set[str]) -> bool:
    if module.backend is None or module.backend.type in ("http", "cloud"):
        return False
    if module.backend.type == "local":
        return labels <= set(module.workspaces)
    return module.asks_workspace


def _one_of(sharing: list[StackDraft], backend: CodeBackend) -> dict[str, StateChoice]:
    """The code names one state for all: it can belong to one of them at most."""
    text = " ".join(str(value) for value in backend.settings.values() if isinstance(value, str))
    words = set(re.split(r"[^A-Za-z0-9]+", text))
    meant = [stack for stack in sharing if stack.label in words]
    where = backend.settings.get(_KEY.get(backend.type, ""), backend.type)
    held = _hold(sharing, f"the code names one state ({where}) for {len(sharing)} stacks")
    if len(meant) == 1:
        held[meant[0].name] = StateChoice(
            guessed=f"the state that the code names ({where}) speaks of {meant[0].label}"
        )
    return held


def _hold(stacks: Iterable[StackDraft], why: str) -> dict[str, StateChoice]:
    return {stack.name: StateChoice(held=why, workspace=stack.workspace) for stack in stacks}


def entries_with_states(entries: Iterable[StackEntry], found: Mapping[str, StateChoice]) -> list[StackEntry]:
    """Entries that say what `homes` found; one whose stacks differ in it is taken apart."""
    made: list[StackEntry] = []
    for entry in entries:
        own = [found[stack.name] for stack in entry.stacks]
        whole = _together(entry, own)
        if whole is not None:
            made.append(whole)
            continue
        for stack, home in zip(entry.stacks, own, strict=True):
            made.append(_single(entry, stack, home))
    return made


def _together(entry: StackEntry, own: Sequence[StateChoice]) -> StackEntry | None:
    captured = [stack.captured for stack in entry.stacks]
    helds = {home.held for home in own}
    keys = {tuple(sorted(home.settings)) for home in own}
    if len(helds) > 1 or len(keys) > 1:
        return None
    name = entry.name or name_from_path(entry.pattern or "")
    likely = [text.format(name) for text in dict.fromkeys(_OWN_PLACE.values())]
    settings: dict[str, object] = {}
    for key in own[0].settings:
        template = _template([home.settings[key] for home in own], captured, likely)
        if template is None:
            return None
        settings[key] = template
    workspaces = [home.workspace for home in own]
    workspace = None
    if any(workspaces):
        template = _template(workspaces, captured)
        if not isinstance(template, str):
            return None
        workspace = template
    return replace(entry, settings=settings, workspace=workspace, held=own[0].held or entry.held)


def _single(entry: StackEntry, stack: StackDraft, home: StateChoice) -> StackEntry:
    """One stack of an entry, written out with everything its pattern said."""
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
    return _together(own, [home]) or replace(own, held=home.held or entry.held)


def _template(
    values: Sequence[object], captured: Sequence[Mapping[str, str]], likely: Sequence[str] = ()
) -> object:
    """One text with placeholders that gives each stack its value; None when there is none."""
    first = values[0]
    if all(value == first for value in values):
        return escape(first) if isinstance(first, str) else first
    if not all(isinstance(value, str) for value in values):
        return None
    # The stack whose parts differ most leaves the least doubt about which part stands where.
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
    """The text with each whole word that is a value replaced by its placeholder, the first pair first."""
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
