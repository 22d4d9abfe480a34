"""Builds the starter from a scan: the text of holdfast.yaml, what was guessed, what to fix."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.placeholders import parse
from holdfast.config.stack_rules import RuleKind
from holdfast.kernel.text import first_names, plural
from holdfast.onboarding.adoption import AdoptionStep, adoption_steps
from holdfast.onboarding.layout import Layout, layout_from_scan
from holdfast.onboarding.naming import ends_with_environment, environment_word, environments_for
from holdfast.onboarding.scan import RepositoryScan
from holdfast.onboarding.scan_atlantis import Atlantis
from holdfast.onboarding.starter_atlantis import convert_projects
from holdfast.onboarding.starter_entries import StackDraft, StackEntry
from holdfast.onboarding.starter_state import StateChoice, entries_with_states, state_choices
from holdfast.onboarding.starter_text import render_config
from holdfast.onboarding.translators.translation import Translation, share_keys

_listed = functools.partial(first_names, most=3)


class Starter(Struct, frozen=True, kw_only=True):
    text: str
    stacks: tuple[str, ...]
    """Exactly the names that discovery must find with this text."""
    held_back: tuple[str, ...]
    """Stacks that are only written as comments."""
    found: tuple[str, ...]
    """A summary of the repository, in sentences."""
    guesses: tuple[str, ...]
    steps: tuple[AdoptionStep, ...]
    translation: Translation | None = None
    """Which part of another tool's files became which key."""


def starter_from_scan(scan: RepositoryScan) -> Starter:
    """Pure: the same scan gives the same starter."""
    layout = layout_from_scan(scan)
    converted = None
    summary = tuple(_summary(entry) for entry in layout.entries)
    layout_guesses = _layout_guesses(layout, scan)
    translation = scan.translation
    if translation is not None:
        summary = (translation.found, *summary)
    elif scan.atlantis is not None and scan.atlantis.projects:
        converted = convert_projects(scan.atlantis, scan)
        summary = (converted.translation.found,)
        layout_guesses = _atlantis_guesses(scan.atlantis, layout.entries, converted.entries)
    drafts = [_with_environment(entry) for entry in (converted or layout).entries]
    choices = state_choices(drafts, scan)
    own = entries_with_states(drafts, choices)
    if translation is not None and not own:
        translation = share_keys(translation)
    entries = [*own, *(translation.entries if translation is not None else ())]
    held_back = {stack.name for entry in entries if entry.held_back is not None for stack in entry.stacks}
    names = sorted(stack.name for entry in entries for stack in entry.stacks)
    active = tuple(name for name in names if name not in held_back)
    by_stack = {
        stack.name: _environment_values(stack, entry, scan) for entry in entries for stack in entry.stacks
    }
    unsure = {value for entry in drafts for value in _unsure_values(entry)}
    environments, unmatched = environments_for(
        value for values in by_stack.values() for value in values if value not in unsure
    )
    without = [name for name in active if not by_stack[name]]
    guesses = (
        *layout_guesses,
        *(translation.notes if translation is not None else ()),
        *_environment_guesses((*unmatched, *sorted(unsure)), without),
        *_state_guesses(own, choices),
    )
    defaults = translation.defaults if translation is not None else {}
    return Starter(
        text=render_config(entries, environments, active=frozenset(active), defaults=defaults),
        stacks=active,
        held_back=tuple(sorted(held_back)),
        found=summary or ("no Terraform root modules",),
        guesses=tuple(dict.fromkeys(guesses)),
        steps=adoption_steps(
            scan,
            own,
            choices,
            converted.not_converted if converted else (),
            translation.entries if translation is not None else (),
        ),
        translation=translation if converted is None else converted.translation,
    )


def _with_environment(entry: StackEntry) -> StackEntry:
    """Without an environment in the pattern, use the placeholder that most often contains one.

    If only a few of the values do, these must end with it; the other stacks count as production.
    """
    if not entry.placeholders or entry.environment or {"environment", "account"} & set(entry.placeholders):
        return entry
    best = max(reversed(entry.placeholders), key=lambda name: len(_naming_environments(entry, name)))
    naming = _naming_environments(entry, best)
    clear = 2 * len(naming) >= len(entry.stacks) or any(map(ends_with_environment, naming))
    return replace(entry, environment=f"{{{best}}}") if naming and clear else entry


def _naming_environments(entry: StackEntry, placeholder: str) -> list[str]:
    values = (stack.captured.get(placeholder, "") for stack in entry.stacks)
    return [value for value in values if environment_word(value) is not None]


def _unsure_values(entry: StackEntry) -> list[str]:
    """Values such as `dev-portal` among others that end with an environment."""
    placeholder = (entry.environment or "").strip("{}")
    if placeholder not in entry.placeholders:
        return []
    naming = _naming_environments(entry, placeholder)
    if not any(map(ends_with_environment, naming)):
        return []
    return [value for value in naming if not ends_with_environment(value)]


def _environment_values(stack: StackDraft, entry: StackEntry, scan: RepositoryScan) -> tuple[str, ...]:
    """The values of a stack that are matched against the environments."""
    value = stack.captured.get("environment")
    if entry.environment is not None:
        value = parse(entry.environment).fill(lambda name: stack.captured.get(name, ""))
    if value is not None:
        return (value,)
    file = scan.variables_files.get(stack.file or "")
    values = (stack.captured.get("account"), file.environment if file else None)
    known = tuple(value for value in values if value)
    # An account that names no environment does not matter if the variables name one.
    return tuple(value for value in known if environment_word(value)) or known


def _summary(entry: StackEntry) -> str:
    number = len(entry.stacks)
    match entry.kind:
        case RuleKind.VARIABLES:
            return f"{plural(number, 'variables file')} matching {entry.pattern}, for module {entry.module}"
        case RuleKind.FOLDER:
            return f"{plural(number, 'root module')} matching {entry.pattern}"
        case RuleKind.NAMED if entry.matrix:
            modules = list(dict.fromkeys(stack.module for stack in entry.stacks))
            where = f"in {first_names(modules, 3)}" if len(modules) > 1 else f"of module {entry.module}"
            return f"{entry.why}, {where}"
        case RuleKind.NAMED:
            folder = entry.stacks[0].module
            return "a root module at the top" if folder == "." else f"a root module in {folder}"


def _layout_guesses(layout: Layout, scan: RepositoryScan) -> Iterator[str]:
    for entry in layout.entries:
        if entry.pattern is not None and entry.placeholders:
            values = ", ".join(f"{{{name}}} ({_listed(_values(entry, name))})" for name in entry.placeholders)
            yield f"Placeholders of {entry.pattern}: {values}."
        if entry.shared and not entry.matrix:
            verb = "is" if len(entry.shared) == 1 else "are"
            yield f"{_listed(entry.shared)} {verb} shared: read before the stack's own variables file."
    if layout.library:
        yield f"{_listed(layout.library)}: treated as shared modules, not as stacks."
    if layout.examples and not all(scan.modules[folder].called for folder in layout.examples):
        yield f"{_listed(layout.examples)}: examples or tests, skipped."


def _values(entry: StackEntry, name: str) -> list[str]:
    return sorted({stack.captured[name] for stack in entry.stacks if name in stack.captured})


def _atlantis_guesses(
    atlantis: Atlantis, entries: Sequence[StackEntry], converted: Sequence[StackEntry]
) -> Iterator[str]:
    used = {stack.module for entry in converted for stack in entry.stacks}
    unused = sorted({stack.module for entry in entries for stack in entry.stacks} - used)
    yield "Each project is a stack. The code, not when_modified, determines which files affect it."
    if any(project.group and not project.depends_on for project in atlantis.projects):
        yield "execution_order_group became depends_on: a stack depends on the whole previous group."
    if any(project.version for project in atlantis.projects):
        yield "terraform_version became the engine version of the stack."
    if unused:
        yield f"{_listed(unused)}: possible stacks without a project, skipped."


def _environment_guesses(unmatched: Sequence[str], without: Sequence[str]) -> Iterator[str]:
    if unmatched:
        verb = (
            "is not a known environment name. It counts"
            if len(unmatched) == 1
            else ("are not known environment names. They count")
        )
        yield f"{_listed(unmatched)} {verb} as production."
    if without:
        verb = "has no environment and counts" if len(without) == 1 else "have no environment and count"
        yield f"{_listed(without)} {verb} as production."


def _state_guesses(entries: Sequence[StackEntry], choices: Mapping[str, StateChoice]) -> Iterator[str]:
    seen: set[str] = set()
    for entry in entries:
        choice = choices[entry.stacks[0].name]
        if choice.guessed is not None and choice.guessed not in seen:
            seen.add(choice.guessed)
            yield f"States of {_listed([stack.name for stack in entry.stacks])}: {choice.guessed}."
        elif choice.file is not None and "files" not in seen:
            seen.add("files")
            yield "Backend settings come from the -backend-config files that match the stacks' names."
