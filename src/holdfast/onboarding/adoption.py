"""The steps to adopt Holdfast in a repository: what to fix, in order."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from holdfast.hcl.eval.code import is_auto_loaded
from holdfast.kernel.errors import Place, Problem
from holdfast.kernel.text import first_names
from holdfast.onboarding.layout import SAMPLES
from holdfast.onboarding.scan import RepositoryScan, ScannedModule, folders_above
from holdfast.onboarding.starter_entries import StackDraft, StackEntry
from holdfast.onboarding.starter_state import StateChoice, missing_variables
from holdfast.stacks.listing import ROOT

_LOCATION_SETTINGS: Final = (
    *("bucket", "key", "prefix", "region", "profile", "role_arn", "dynamodb_table", "kms_key_id"),
    *("storage_account_name", "container_name", "resource_group_name", "subscription_id", "tenant_id"),
    *("address", "conn_str", "path", "organization", "hostname", "secret_suffix", "namespace"),
)
_SHOWN_VARIABLES: Final = 4


class AdoptionStep(Struct, frozen=True, kw_only=True):
    """One thing to fix: the kind of problem, where it is, and what to do."""

    title: str
    file: str | None
    line: int | None = None
    what: str


Found = Iterator[tuple[Place | str | None, str]]
"""Where something is to be fixed, a place in the code or a path, and what to do."""


def adoption_steps(
    scan: RepositoryScan,
    entries: Sequence[StackEntry],
    choices: Mapping[str, StateChoice],
    not_converted: Iterable[str],
    translated: Sequence[StackEntry] = (),
) -> tuple[AdoptionStep, ...]:
    """First what makes plans wrong, then states, then locks and conventions.

    `translated`: entries from another tool's files, which only matter for the files they use.
    """
    stacks = [stack for entry in entries for stack in entry.stacks]
    held_back = {stack.name for entry in entries if entry.held_back is not None for stack in entry.stacks}
    active = [stack for stack in stacks if stack.name not in held_back]
    modules = [scan.modules[folder] for folder in sorted({stack.module for stack in active})]
    found: tuple[tuple[str, Found], ...] = (
        ("Unreadable files", _unreadable_files(scan)),
        ("Terragrunt before 0.19", _old_terragrunt(scan)),
        ("Stacks held back: complete their entries in holdfast.yaml", _translated(scan)),
        ("Stacks held back: their state location is unknown", _held_back_stacks(entries, scan)),
        (
            "Guessed state locations: check them before the first apply",
            _guessed_states(active, choices, scan),
        ),
        ("State files in the repository: adopt them", _local_states(modules, active)),
        ("State and plan files in Git", _secrets_in_git(scan)),
        ("Local backends", _local_backends(modules)),
        ("No backend in the code", _missing_backends(modules)),
        ("DynamoDB locks", _dynamodb_locks(modules)),
        ("Backends hard-coded in the code", _hard_coded_backends(modules)),
        ("Variables without a value", _missing_variables(active, scan)),
        ("Variables files that no stack uses", _unused_files((*entries, *translated), scan)),
        ("Programs that Terraform runs locally", _programs(scan)),
        ("Atlantis settings that were not converted", _not_converted(scan, not_converted)),
    )
    return tuple(_step(title, where, what) for title, steps in found for where, what in steps)


def _step(title: str, where: Place | str | None, what: str) -> AdoptionStep:
    file, line = (where.file, where.line) if isinstance(where, Place) else (where, None)
    return AdoptionStep(title=title, file=file, line=line, what=what)


def _unreadable_files(scan: RepositoryScan) -> Found:
    in_modules = (problem for module in scan.modules.values() for problem in module.problems)
    in_variables = (problem for file in scan.variables_files.values() for problem in file.problems)
    first: dict[str | None, Problem] = {}
    for problem in (*in_modules, *in_variables):
        first.setdefault(problem.place.file if problem.place is not None else None, problem)
    for problem in first.values():
        what = f"Fix this first: {problem.message}. Holdfast cannot rely on the rest of the file."
        yield problem.place, what
    for path in scan.unprintable:
        yield path, "The file name contains unprintable characters. Rename it: a pattern cannot refer to it."


def _old_terragrunt(scan: RepositoryScan) -> Found:
    if scan.old_terragrunt:
        what = (
            "These are files of Terragrunt before 0.19; convert them first, then run "
            f"`holdfast init --force`: {first_names(scan.old_terragrunt, 3)}."
        )
        yield None, what


def _translated(scan: RepositoryScan) -> Found:
    for stack in scan.translation.stacks if scan.translation is not None else ():
        if stack.reasons:
            yield stack.original, f"{stack.name}: {' '.join(stack.reasons)}"


def _held_back_stacks(entries: Sequence[StackEntry], scan: RepositoryScan) -> Found:
    for entry in entries:
        if entry.held_back is not None:
            first, *others = entry.stacks
            more = f" and {len(others)} more" if others else ""
            what = f"{first.name}{more}: {entry.held_back}. {entry.next_step or ''}".rstrip()
            yield scan.modules[first.module].backend_place or first.module, what


def _guessed_states(
    stacks: Sequence[StackDraft], choices: Mapping[str, StateChoice], scan: RepositoryScan
) -> Found:
    guesses = dict.fromkeys((stack.module, choices[stack.name].guessed) for stack in stacks)
    for module, guess in guesses:
        if guess is not None:
            what = (
                f"{guess[0].upper()}{guess[1:]}. "
                "If a plan creates resources that already exist, the location is wrong."
            )
            yield scan.modules[module].backend_place or module, what


def _local_states(modules: Iterable[ScannedModule], stacks: Sequence[StackDraft]) -> Found:
    for module in modules:
        names = [stack.name for stack in stacks if stack.module == module.folder]
        for path in module.states if module.backend is None else ():
            workspace = path.split("/")[-2] if "terraform.tfstate.d/" in path else None
            matching = names if len(names) == 1 else [name for name in names if workspace in name.split("/")]
            option = f" --workspace {workspace}" if workspace else ""
            what = (
                f"Run: holdfast state adopt {matching[0] if matching else 'STACK'}{option}. It copies and "
                "renames the file, and never deletes it. Until then, Holdfast does not plan the stack."
            )
            yield path, what


def _secrets_in_git(scan: RepositoryScan) -> Found:
    for path in scan.secrets_in_git:
        kind = "Plan" if "plan" in posixpath.basename(path) else "State"
        what = (
            f"{kind} files contain secrets in plain text. Move the state to a backend, run "
            "git rm --cached on the file, add it to .gitignore, and rotate the secrets."
        )
        yield path, what


def _local_backends(modules: Sequence[ScannedModule]) -> Found:
    what = "The state is a file on one machine that colleagues and CI cannot see. Use a shared backend."
    for module in modules:
        if module.backend is not None and module.backend.type == "local":
            yield module.backend_place, what


def _missing_backends(modules: Sequence[ScannedModule]) -> Found:
    what = "Holdfast manages the state in .holdfast/ on this machine. For a team, use a shared backend."
    return ((module.folder, what) for module in modules if module.backend is None)


def _dynamodb_locks(modules: Sequence[ScannedModule]) -> Found:
    what = "Add use_lockfile = true next to dynamodb_table. Once everyone uses it, remove dynamodb_table."
    for module in modules:
        if module.backend is not None and "dynamodb_table" in module.backend.settings:
            yield module.backend_place, what


def _hard_coded_backends(modules: Sequence[ScannedModule]) -> Found:
    for module in modules:
        if module.backend is None or module.backend.type == "local":
            continue
        if fixed := [name for name in _LOCATION_SETTINGS if name in module.backend.settings]:
            what = (
                f"{', '.join(fixed)}: this works. To configure it instead, copy the settings to `backend: "
                "{ settings: … }`, check that a plan shows no changes, then empty the block."
            )
            yield module.backend_place, what


def _missing_variables(stacks: Sequence[StackDraft], scan: RepositoryScan) -> Found:
    seen: set[tuple[str, str | None]] = set()
    for stack in stacks:
        missing = missing_variables(stack, scan)
        if missing and (stack.module, stack.file) not in seen:
            seen.add((stack.module, stack.file))
            what = (
                f"{first_names(missing, _SHOWN_VARIABLES)}: set {'it' if len(missing) == 1 else 'them'} "
                "in a variables file, under `variables:`, or as TF_VAR_… in `env:`."
            )
            yield stack.file or stack.module, what


def _unused_files(entries: Sequence[StackEntry], scan: RepositoryScan) -> Found:
    stacks = [stack for entry in entries for stack in entry.stacks]
    layers = [layer for entry in entries for layer in entry.keys.get("variables_files", ())]  # type: ignore[attr-defined] # a list
    used = {path for stack in stacks for path in (*stack.shared, stack.file)}
    used |= {layer["file"] if isinstance(layer, Mapping) else layer for layer in layers}
    modules = {stack.module for stack in stacks}
    for path in sorted(scan.variables_files.keys() - used - set(scan.old_terragrunt)):
        folder, name = posixpath.split(path)
        if is_auto_loaded(name) and (folder or ROOT) in modules:
            continue
        module = next((scan.modules[above] for above in folders_above(path) if above in scan.modules), None)
        if SAMPLES & set(name.lower().split(".")):
            yield path, "It is an example."
        elif module is not None and module.is_example:
            yield path, f"{module.folder} is an example or a test."
        elif module is not None and module.folder not in modules:
            yield (
                path,
                f"{module.folder} is not a stack: other code calls it, or nothing shows that it is run.",
            )
        else:
            yield path, "Add it to `variables_files` of the stacks that read it, or remove it."


def _programs(scan: RepositoryScan) -> Found:
    for program in scan.programs:
        what = (
            f"{program.what} depends on what is installed, and a plan cannot show what it does. "
            "Use a provider instead, or a step after apply."
        )
        yield program.place, what


def _not_converted(scan: RepositoryScan, sentences: Iterable[str]) -> Found:
    file = scan.atlantis.path if scan.atlantis is not None else None
    return ((file, sentence) for sentence in sentences)
