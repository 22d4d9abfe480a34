"""Chooses the backend settings and workspace of each stack for the starter.

A location for an existing state is never guessed silently: if the location is unknown, the entry is held
back, that is, written as a comment.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.placeholders import escape, parse
from holdfast.config.stack_rules import Backend, RuleKind
from holdfast.kernel.errors import Place
from holdfast.kernel.text import first_names
from holdfast.onboarding.scan import RepositoryScan, ScannedModule
from holdfast.onboarding.scan_settings import BackendFile
from holdfast.onboarding.starter_entries import (
    StackDraft,
    StackEntry,
    listed_entry,
    narrowed_entry,
    single_entry,
)
from holdfast.onboarding.state_evidence import (
    HeldBack,
    StateEvidence,
    filled_in,
    held_for_both,
    hosted_elsewhere,
    missing_settings,
)
from holdfast.stacks.backend import HOSTED, named_state, state_location
from holdfast.stacks.stack import Stack

_GENERIC: Final = frozenset(
    (
        *("backend", "backends", "config", "configs", "conf", "configuration", "cfg", "ini", "partial"),
        *("state", "states", "tfstate", "remote", "s3", "azurerm", "gcs", "tf", "terraform"),
        *("tfbackend", "tfbackends", "hcl", "tfvars", "json", "vars"),
        *("env", "envs", "environment", "environments"),
    )
)
"""Words in a path that say nothing about the stack."""


class StateChoice(Struct, frozen=True, kw_only=True):
    """The backend settings and workspace of one stack, or why it is held back."""

    file: BackendFile | None = None
    workspace: str | None = None
    held_back: HeldBack | None = None
    guessed: str | None = None
    """A sentence, if the location is only likely."""

    @property
    def given(self) -> dict[str, object]:
        """The settings that the entry adds to those in the code."""
        return dict(self.file.settings) if self.file is not None else {}


def state_choices(entries: Iterable[StackEntry], scan: RepositoryScan) -> dict[str, StateChoice]:
    """By stack name. No two stacks share a state, except those held back."""
    evidence = StateEvidence(scan)
    entries = list(entries)
    stacks = [stack for entry in entries for stack in entry.stacks]
    choices = {
        stack.name: StateChoice(workspace=stack.workspace)
        if entry.backend
        else _known_choice(stack, scan, evidence)
        for entry in entries
        for stack in entry.stacks
    }
    for entry in entries:
        choices.update(_without_backend(entry, choices, scan))
    for sharing in _sharing(stacks, choices, scan):
        choices.update(_separate(sharing, choices, scan, evidence))
    for sharing in _sharing(stacks, choices, scan):
        choices.update(_hold_back(sharing, "it would share a state with another stack"))
    for stack in stacks:
        choice = choices[stack.name]
        if choice.workspace is None and (choice.held_back is None or choice.held_back.missing):
            held_back = evidence.workspace(scan.modules[stack.module], by_file=choice.file is not None)
            choices[stack.name] = replace(choice, held_back=held_for_both(choice.held_back, held_back))
    return choices


def _without_backend(
    entry: StackEntry, choices: Mapping[str, StateChoice], scan: RepositoryScan
) -> dict[str, StateChoice]:
    """What shows that the state of one stack is elsewhere also counts for the other stacks of its entry."""
    open_ = [
        stack
        for stack in entry.stacks
        if scan.modules[stack.module].backend is None and not scan.modules[stack.module].states
    ]
    held_back = next((why for stack in open_ if (why := choices[stack.name].held_back) is not None), None)
    return {stack.name: replace(choices[stack.name], held_back=held_back) for stack in open_}


def _known_choice(stack: StackDraft, scan: RepositoryScan, evidence: StateEvidence) -> StateChoice:
    """What the code says, or the `-backend-config` file that is clearly the stack's own."""
    module = scan.modules[stack.module]
    choice = StateChoice(workspace=stack.workspace)
    if module.backend is None:
        held_back = evidence.without_backend(module, missing_variables(stack, scan))
        return replace(choice, held_back=held_back)
    if (setting := filled_in(module.backend)) is not None:
        why = f"another tool replaces the backend's `{setting}`"
        return _held(choice, why, (setting.partition(" ")[0],))
    workspace = stack.workspace or "default"
    hosted = module.backend.type in HOSTED
    if hosted and named_state(_as_stack(stack, choice), "remote", module.backend.settings, workspace) is None:
        return replace(choice, held_back=hosted_elsewhere(module.backend))
    best = _backend_files(stack, scan) if missing_settings(module.backend) else []
    if len(best) == 1:
        choice = replace(choice, file=best[0])
    missing = missing_settings(module.backend, choice.given)
    passed = evidence.passed(module.backend, choice.given)
    if missing:
        why = _why_unknown(module, choice, missing, best, scan, evidence)
        return _held(choice, why, tuple(dict.fromkeys((*missing, *passed))))
    if not passed:
        return replace(choice, held_back=evidence.local(module))
    sign = next(iter(passed.values()))
    names = ", ".join(f"`{name}`" for name in passed)
    return _held(choice, f"the backend's {names}: {sign.place} {sign.what}", tuple(passed))


def _why_unknown(
    module: ScannedModule,
    choice: StateChoice,
    missing: Sequence[str],
    best: Sequence[BackendFile],
    scan: RepositoryScan,
    evidence: StateEvidence,
) -> str:
    """Why these settings are not known."""
    names = ", ".join(f"`{name}`" for name in missing)
    if (sign := module.initialised or evidence.settings(module.folder)) is not None:
        return f"the backend's {names}: {sign.place} {sign.what}"
    if choice.file is not None:
        return f"neither the code nor {choice.file.path} sets the backend's {names}"
    if scan.backend_files:
        files = first_names([file.path for file in best or scan.backend_files], most=3)
        why = "several files fit this stack" if best else "it is not clear which file belongs to this stack"
        return f"the backend's {names}: {why} ({files})"
    return f"the code does not set the backend's {names}"


def _held(choice: StateChoice, reason: str, missing: Sequence[str]) -> StateChoice:
    """Each missing setting is a placeholder without a value: the entry works only once all are replaced."""
    names = " and ".join(f"`{name}`" for name in _open_settings(missing).values())
    next_step = f"Replace {names} with the {'value' if len(missing) == 1 else 'values'} in use."
    held_back = HeldBack(reason=reason, next_step=next_step, missing=tuple(missing))
    return replace(choice, held_back=held_back)


def _open_settings(missing: Iterable[str]) -> dict[str, str]:
    return {name: f"{{{name.upper()}}}" for name in missing}


def missing_variables(stack: StackDraft, scan: RepositoryScan) -> list[str]:
    """Variables of a stack that no file sets."""
    files = (scan.variables_files.get(path) for path in (*stack.shared, stack.file or ""))
    assigned = frozenset(name for file in files if file is not None for name in file.sets)
    return [name for name in scan.modules[stack.module].required if name not in assigned]


def _words(path: str) -> frozenset[str]:
    return frozenset(re.split(r"[-_./]", path.lower())) - _GENERIC - {""}


def _backend_files(stack: StackDraft, scan: RepositoryScan) -> list[BackendFile]:
    """The settings files whose path has only words of this stack, and most of them."""
    if stack.backend_file is not None:
        return [file for file in scan.backend_files if file.path == stack.backend_file]
    values = " ".join((stack.module, stack.path, stack.workspace or "", *stack.captured.values()))
    own = _words(values.replace(" ", "/"))
    required = _words(stack.captured.get("environment", "") or (stack.label if stack.file else ""))
    best: list[BackendFile] = []
    most = -1
    for file in scan.backend_files:
        words = _words(file.path)
        if file.module not in (None, stack.module) or not words <= own or not required <= words:
            continue
        if len(words) > most:
            best, most = [], len(words)
        if len(words) == most:
            best.append(file)
    return best


def _as_stack(stack: StackDraft, choice: StateChoice) -> Stack:
    return Stack(
        name=stack.name,
        kind=RuleKind.NAMED,
        place=Place(file="holdfast.yaml"),
        module=stack.module,
        backend=Backend(settings=choice.given) if choice.given else None,  # type: ignore[arg-type] # plain values
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


def _separate(
    sharing: list[StackDraft],
    choices: Mapping[str, StateChoice],
    scan: RepositoryScan,
    evidence: StateEvidence,
) -> dict[str, StateChoice]:
    """Give each of several stacks that share a state its own, where that is safe."""
    module = scan.modules[sharing[0].module]
    backend = module.backend
    held_back = evidence.workspace(module)
    if backend is None or len({stack.module for stack in sharing}) > 1:
        others = ", ".join(sorted({stack.module for stack in sharing})[:3])
        return _hold_back(sharing, held_back or f"the code in {others} uses the same state")
    labels = {stack.label for stack in sharing}
    if backend.type == "local" and not labels <= set(module.workspaces):
        return _hold_back(sharing, "the code puts all of them in one local state")
    if len(labels) == len(sharing) and held_back is not None:
        named = evidence.names_workspaces(module, labels)
        choice = StateChoice(
            held_back=None if named else _like_files(held_back),
            guessed=f"{held_back.reason}; each stack uses the workspace with its name" if named else None,
        )
        return {
            stack.name: replace(choice, file=choices[stack.name].file, workspace=stack.label)
            for stack in sharing
        }
    where = backend.settings.get("key") or backend.settings.get("prefix") or backend.type
    return _hold_back(sharing, f"the code uses one state ({where}) for {len(sharing)} stacks")


def _like_files(held_back: HeldBack) -> HeldBack:
    reason = f"{held_back.reason}, and nothing shows that the workspaces are called as in this entry"
    next_step = "If `terraform workspace list` shows these names, uncomment the entry as it is."
    return HeldBack(reason=reason, next_step=next_step)


def _hold_back(stacks: Iterable[StackDraft], why: str | HeldBack) -> dict[str, StateChoice]:
    held_back = why
    if isinstance(held_back, str):
        held_back = HeldBack(reason=held_back, next_step="Set a `key` or `workspace` for each stack.")
    return {stack.name: StateChoice(held_back=held_back, workspace=stack.workspace) for stack in stacks}


def entries_with_states(
    entries: Iterable[StackEntry], choices: Mapping[str, StateChoice]
) -> list[StackEntry]:
    """Entries with their state choices; an entry whose stacks differ is split into single stacks."""
    completed: list[StackEntry] = []
    for entry in entries:
        whole = _together(entry, [choices[stack.name] for stack in entry.stacks])
        if whole is not None:
            completed.append(whole)
            continue
        alike: defaultdict[object, list[StackDraft]] = defaultdict(list)
        for stack in entry.stacks:
            choice = choices[stack.name]
            alike[choice.held_back, choice.file is None].append(stack)
        for stacks in alike.values():
            listed = narrowed_entry(entry, stacks) or listed_entry(entry, stacks)
            part = _together(listed, [choices[stack.name] for stack in stacks]) if listed else None
            completed += [part] if part else [_single(entry, stack, choices[stack.name]) for stack in stacks]
    return completed


def _together(entry: StackEntry, own: Sequence[StateChoice]) -> StackEntry | None:
    captured = [stack.captured for stack in entry.stacks]
    reasons = list(dict.fromkeys(choice.held_back for choice in own))
    open_ = {(why.missing, why.next_step) for why in reasons if why is not None}
    if None not in reasons and len(reasons) > 1 and len(open_) == 1 and reasons[0] is not None:
        similar = f"{reasons[0].reason} (and similar for other stacks of this entry)"
        reasons = [replace(reasons[0], reason=similar)]
        own = [replace(choice, held_back=reasons[0], file=None) for choice in own]
    if len(reasons) > 1 or len({choice.file is None for choice in own}) > 1:
        return None
    settings = _open_settings(reasons[0].missing) if reasons[0] is not None else {}
    workspace = settings.pop("workspace", None)
    backend: Mapping[str, object] = {"settings": settings} if settings else {}
    if files := [choice.file.path for choice in own if choice.file is not None]:
        file = _template(files, captured)
        if file is None:
            return None
        backend = {"files": [file], **backend}
    workspaces = [choice.workspace for choice in own]
    if any(workspaces):
        workspace = _template(workspaces, captured)
        if workspace is None:
            return None
    held_back = own[0].held_back
    if held_back is not None and len(entry.stacks) == 1:
        named = held_back.next_step.replace(" STACK`", f" {entry.stacks[0].name}`")
        held_back = replace(held_back, next_step=named)
    return replace(
        entry,
        backend=backend or entry.backend,
        workspace=workspace,
        held_back=held_back.reason if held_back else entry.held_back,
        next_step=held_back.next_step if held_back else entry.next_step,
    )


def _single(entry: StackEntry, stack: StackDraft, choice: StateChoice) -> StackEntry:
    """One stack of an entry, with all values of its pattern."""
    base = single_entry(stack.path, stack.module, stack.shared, stack.kind)
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
        why=entry.why if len(entry.stacks) == 1 else "",
    )
    return _together(own, [choice]) or own


def _template(values: Sequence[str | None], captured: Sequence[Mapping[str, str]]) -> str | None:
    """One text with placeholders that gives each stack its value, or None."""
    if None in values:
        return None
    if len(set(values)) == 1:
        return escape(str(values[0]))
    # The stack whose values differ most shows best which placeholder is where.
    base = max(range(len(values)), key=lambda index: len(set(captured[index].values())))
    names = {value: name for name, value in captured[base].items() if value}
    words = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    pieces = re.split(rf"(?<![A-Za-z0-9])({words})(?![A-Za-z0-9])", str(values[base])) if words else ()
    text = "".join(f"{{{names[piece]}}}" if piece in names else escape(piece) for piece in pieces)
    same = all(_fill(text, own) == value for value, own in zip(values, captured, strict=True))
    return text if same else None


def _fill(text: str, captured: Mapping[str, str]) -> str | None:
    template = parse(text)
    if any(name not in captured for name in template.names):
        return None
    return template.fill(lambda name: captured[name])
