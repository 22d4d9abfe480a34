"""From a look at a repository to a starter: the text of holdfast.yaml, what was guessed, what to mend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.placeholders import parse
from holdfast.config.stack_rules import RuleKind
from holdfast.onboarding.adoption import AdoptionStep, adoption_steps
from holdfast.onboarding.layout import Layout, layout_from_scan
from holdfast.onboarding.naming import environment_word, environments_for
from holdfast.onboarding.scan import RepositoryScan
from holdfast.onboarding.starter_atlantis import convert_projects
from holdfast.onboarding.starter_entries import StackDraft, StackEntry
from holdfast.onboarding.starter_state import StateChoice, entries_with_states, state_choices
from holdfast.onboarding.starter_text import render_config

_SHOWN = 3


class Starter(Struct, frozen=True, kw_only=True):
    text: str
    stacks: tuple[str, ...]
    """The names that discovery must find with this text: no more, no fewer."""
    held: tuple[str, ...]
    """Stacks that are only written as comments."""
    found: tuple[str, ...]
    """What the repository is, in sentences."""
    guesses: tuple[str, ...]
    mend: tuple[AdoptionStep, ...]


def starter_from_scan(look: RepositoryScan) -> Starter:
    """Pure: the same look, the same starter."""
    view = _view(look)
    drafts = [_with_environment(entry) for entry in view.entries]
    places = state_choices(drafts, look)
    entries = entries_with_states(drafts, places)
    held = {stack.name for entry in entries if entry.held is not None for stack in entry.stacks}
    names = sorted(stack.name for entry in entries for stack in entry.stacks)
    active = tuple(name for name in names if name not in held)
    values = {stack.name: said for entry in entries for stack, said in _environment_values(entry, look)}
    environments, unmatched = environments_for(value for said in values.values() for value in said)
    untold = [name for name in active if not values[name]]
    return Starter(
        text=render_config(entries, environments, active=frozenset(active)),
        stacks=active,
        held=tuple(sorted(held)),
        found=(*_terragrunt(look), *view.found) or ("no Terraform code that could be a stack",),
        guesses=tuple(
            dict.fromkeys(
                (*view.guesses, *_about_environments(unmatched, untold), *_about_states(entries, places))
            )
        ),
        mend=adoption_steps(look, entries, places, view.lost),
    )


class _Structure(Struct, frozen=True, kw_only=True):
    """What the repository is taken for, before its states are looked at."""

    entries: tuple[StackEntry, ...]
    found: tuple[str, ...]
    guesses: tuple[str, ...]
    lost: tuple[str, ...] = ()


def _view(look: RepositoryScan) -> _Structure:
    plan = layout_from_scan(look)
    if look.atlantis is None or not look.atlantis.projects:
        return _Structure(
            entries=plan.entries, found=tuple(_found(plan)), guesses=tuple(_about_layout(plan, look))
        )
    own = convert_projects(look.atlantis, look)
    taken = {stack.module for entry in own.entries for stack in entry.stacks}
    others = {stack.module for entry in plan.entries for stack in entry.stacks} - taken
    return _Structure(
        entries=own.entries,
        found=(f"{look.atlantis.path} with {_count(len(look.atlantis.projects), 'project')}",),
        guesses=tuple(_about_atlantis(look, sorted(others))),
        lost=own.lost,
    )


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _with_environment(entry: StackEntry) -> StackEntry:
    """Where the path has no part for it, the part that speaks of environments most."""
    if entry.pattern is None or entry.environment or {"environment", "account"} & set(entry.placeholders):
        return entry
    counted = [
        (sum(1 for stack in entry.stacks if environment_word(stack.captured.get(name, ""))), name)
        for name in reversed(entry.placeholders)
    ]
    best = max(counted, key=lambda pair: pair[0], default=(0, ""))
    return replace(entry, environment=f"{{{best[1]}}}") if 2 * best[0] >= len(entry.stacks) > 0 else entry


def _environment_values(
    entry: StackEntry, look: RepositoryScan
) -> Iterator[tuple[StackDraft, tuple[str, ...]]]:
    """For each stack the values that will be matched against the environments."""
    for stack in entry.stacks:
        captured = stack.captured
        file = look.variables_files.get(stack.file or "")
        said = captured.get("environment")
        if entry.environment is not None:
            said = _filled(entry.environment, captured)
        if said is not None:
            yield stack, (said,)
            continue
        values = (captured.get("account"), file.environment if file else None)
        known = tuple(value for value in values if value)
        # An account that says nothing is no loss where the variables say it.
        yield stack, tuple(value for value in known if environment_word(value)) or known


def _filled(text: str, captured: Mapping[str, str]) -> str:
    return parse(text).fill(lambda name: captured.get(name, ""))


def _terragrunt(look: RepositoryScan) -> Iterator[str]:
    if look.terragrunt:
        files = _count(len(look.terragrunt), "file")
        yield f"Terragrunt ({files}): Holdfast runs plain Terraform and OpenTofu"


def _found(plan: Layout) -> Iterator[str]:
    for entry in plan.entries:
        number = len(entry.stacks)
        match entry.kind:
            case RuleKind.VARIABLES:
                yield f"{_count(number, 'variables file')} as {entry.pattern}, for the module {entry.module}"
            case RuleKind.FOLDER:
                yield f"{_count(number, 'folder')} with a root module, as {entry.pattern}"
            case RuleKind.NAMED:
                folder = entry.stacks[0].module
                yield "a root module at the top" if folder == "." else f"a root module in {folder}"


def _about_layout(plan: Layout, look: RepositoryScan) -> Iterator[str]:
    for entry in plan.entries:
        if entry.placeholders:
            meant = ", ".join(f"{{{name}}} ({_listed(_values(entry, name))})" for name in entry.placeholders)
            yield f"In {entry.pattern} the open parts are {meant}."
        if entry.shared:
            yield f"{_listed(entry.shared)} is shared: it is read before the stack's own variables file."
    if plan.library:
        yield f"{_listed(plan.library)}: taken for building blocks, not for stacks."
    if plan.aside and not all(look.modules[folder].called for folder in plan.aside):
        yield f"{_listed(plan.aside)}: examples or tests, left out."
    if plan.homeless:
        yield f"{_listed(plan.homeless)}: variables for which no root module was found."


def _values(entry: StackEntry, name: str) -> list[str]:
    return sorted({stack.captured[name] for stack in entry.stacks if name in stack.captured})


def _about_atlantis(look: RepositoryScan, others: Sequence[str]) -> Iterator[str]:
    projects = look.atlantis.projects if look.atlantis is not None else ()
    yield "Each project is a stack; which files touch it is read from the code, not from when_modified."
    if any(project.group and not project.depends_on for project in projects):
        yield "execution_order_group became depends_on: a stack waits for all of the group before its own."
    if any(project.version for project in projects):
        yield "terraform_version became the engine's version of the stack."
    if others:
        yield f"{_listed(others)}: could be planned too, but no project names it, so it was left out."


def _about_environments(unmatched: Sequence[str], untold: Sequence[str]) -> Iterator[str]:
    if unmatched:
        which = "It counts" if len(unmatched) == 1 else "They count"
        yield f"{_listed(unmatched)}: no known word for an environment. {which} as production."
    if untold:
        which = "its environment: it counts" if len(untold) == 1 else "their environment: they count"
        yield f"{_listed(untold)}: nothing says {which} as production."


def _about_states(entries: Sequence[StackEntry], places: dict[str, StateChoice]) -> Iterator[str]:
    told: set[str] = set()
    for entry in entries:
        home = places[entry.stacks[0].name]
        if home.guessed is not None and home.guessed not in told:
            told.add(home.guessed)
            yield f"States of {_listed([stack.name for stack in entry.stacks])}: {home.guessed}."
        elif home.settings and not home.guessed and "files" not in told:
            told.add("files")
            yield "Backend settings are taken from the files for -backend-config that fit the stacks' names."
