"""The steps to adopt Holdfast in a repository: what to fix, in order."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from holdfast.kernel.errors import Place
from holdfast.onboarding.scan import RepositoryScan, ScannedModule
from holdfast.onboarding.starter_entries import StackDraft, StackEntry
from holdfast.onboarding.starter_state import StateChoice, missing_settings

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


def adoption_steps(
    scan: RepositoryScan,
    entries: Sequence[StackEntry],
    choices: Mapping[str, StateChoice],
    not_converted: Iterable[str],
) -> tuple[AdoptionStep, ...]:
    """First what makes plans wrong, then states, then locks and conventions."""
    stacks = [stack for entry in entries for stack in entry.stacks]
    held_back = {stack.name for entry in entries if entry.held_back is not None for stack in entry.stacks}
    active = [stack for stack in stacks if stack.name not in held_back]
    modules = [scan.modules[folder] for folder in sorted({stack.module for stack in stacks})]
    return (
        *_unreadable_files(scan),
        *_terragrunt(scan),
        *_held_back_stacks(entries, scan),
        *_guessed_states(active, choices, scan),
        *_local_states(modules, stacks),
        *_secrets_in_git(scan),
        *_missing_settings(active, choices, scan),
        *_backends(modules),
        *_missing_variables(active, scan),
        *_programs(scan),
        *_not_converted(scan, not_converted),
    )


def _step(title: str, place: Place | None, what: str, *, folder: str | None = None) -> AdoptionStep:
    """A step at a place in the code, else for a folder."""
    file, line = (place.file, place.line) if place is not None else (folder, None)
    return AdoptionStep(title=title, file=file, line=line, what=what)


def _unreadable_files(scan: RepositoryScan) -> Iterator[AdoptionStep]:
    title = "Unreadable files"
    in_modules = (problem for module in scan.modules.values() for problem in module.problems)
    in_variables = (problem for file in scan.variables_files.values() for problem in file.problems)
    for problem in (*in_modules, *in_variables):
        what = f"Fix this first: {problem.message}. Holdfast cannot rely on the rest of the file."
        yield _step(title, problem.place, what)
    for path in scan.unprintable:
        what = "The file name contains unprintable characters. Rename it: a pattern cannot refer to it."
        yield AdoptionStep(title=title, file=path, what=what)


def _terragrunt(scan: RepositoryScan) -> Iterator[AdoptionStep]:
    if scan.terragrunt:
        yield AdoptionStep(
            title="Terragrunt",
            file=scan.terragrunt[0],
            what="Holdfast runs plain Terraform or OpenTofu. A unit gets its backend, providers and inputs "
            "from Terragrunt and is not a complete root module. Convert one unit at a time: write the "
            "generated backend (with the same key) and providers into its code, its inputs into a .tfvars "
            "file and its dependencies into depends_on, until `terraform plan` without Terragrunt shows no "
            "changes. Then run: holdfast init --force",
        )


def _held_back_stacks(entries: Sequence[StackEntry], scan: RepositoryScan) -> Iterator[AdoptionStep]:
    for entry in entries:
        if entry.held_back is not None:
            first, *others = entry.stacks
            more = f" and {len(others)} more" if others else ""
            yield _step(
                "Stacks held back: their state location is unknown",
                scan.modules[first.module].backend_place,
                f"{first.name}{more}: {entry.held_back}. "
                "Set a key or workspace for each stack in holdfast.yaml.",
                folder=first.module,
            )


def _guessed_states(
    stacks: Sequence[StackDraft], choices: Mapping[str, StateChoice], scan: RepositoryScan
) -> Iterator[AdoptionStep]:
    seen: set[tuple[str, str]] = set()
    for stack in stacks:
        guess = choices[stack.name].guessed
        if guess is not None and (stack.module, guess) not in seen:
            seen.add((stack.module, guess))
            yield _step(
                "Guessed state locations: check them before the first apply",
                scan.modules[stack.module].backend_place,
                f"{guess[0].upper()}{guess[1:]}. "
                "If a plan creates resources that already exist, the location is wrong.",
                folder=stack.module,
            )


def _local_states(modules: Iterable[ScannedModule], stacks: Sequence[StackDraft]) -> Iterator[AdoptionStep]:
    for module in modules:
        names = [stack.name for stack in stacks if stack.module == module.folder]
        for path in module.states if module.backend is None else ():
            workspace = path.split("/")[-2] if "terraform.tfstate.d/" in path else None
            name = (
                names[0]
                if len(names) == 1
                else next((name for name in names if workspace in name.split("/")), "STACK")
            )
            option = f" --workspace {workspace}" if workspace else ""
            yield AdoptionStep(
                title="State files in the repository: adopt them",
                file=path,
                what=f"Run: holdfast state adopt {name}{option}. It copies and renames the file, and never "
                "deletes it. Until then Holdfast refuses to plan.",
            )


def _secrets_in_git(scan: RepositoryScan) -> Iterator[AdoptionStep]:
    for path in scan.secrets_in_git:
        kind = "Plan" if "plan" in posixpath.basename(path) else "State"
        yield AdoptionStep(
            title="State and plan files in Git",
            file=path,
            what=f"{kind} files contain secrets in plain text. After you moved the state: git rm --cached, "
            "add the file to .gitignore, and rotate the secrets.",
        )


def _missing_settings(
    stacks: Sequence[StackDraft], choices: Mapping[str, StateChoice], scan: RepositoryScan
) -> Iterator[AdoptionStep]:
    for folder in sorted({stack.module for stack in stacks}):
        module = scan.modules[folder]
        known = [choices[stack.name].settings for stack in stacks if stack.module == folder]
        missing = [name for name in missing_settings(module.backend) if any(name not in one for one in known)]
        if missing and module.backend_place is not None:
            yield _step(
                "Incomplete backend settings",
                module.backend_place,
                f"Set {', '.join(missing)} under `backend: {{ settings: … }}` to their current values. "
                "Until then plans fail; nothing is changed.",
            )


def _backends(modules: Sequence[ScannedModule]) -> Iterator[AdoptionStep]:
    """From the most fragile location to what only needs a better lock."""
    for module in modules:
        if module.backend is not None and module.backend.type == "local":
            yield _step(
                "Local backends",
                module.backend_place,
                "The state is a file on one machine that colleagues and CI cannot see. Use a shared backend.",
            )
    for module in modules:
        if module.backend is None:
            yield AdoptionStep(
                title="No backend in the code",
                file=module.folder,
                what="Holdfast manages the state in .holdfast/ on this machine. "
                "For a team, use a shared backend.",
            )
    for module in modules:
        if module.backend is not None and "dynamodb_table" in module.backend.settings:
            yield _step(
                "DynamoDB locks",
                module.backend_place,
                "Add use_lockfile = true next to dynamodb_table. "
                "Once everyone uses it, remove dynamodb_table.",
            )
    for module in modules:
        if module.backend is None or module.backend.type == "local":
            continue
        fixed = [name for name in _LOCATION_SETTINGS if name in module.backend.settings]
        if fixed:
            yield _step(
                "Backends hard-coded in the code",
                module.backend_place,
                f"{', '.join(fixed)}: this works. To configure it instead, copy the settings to `backend: "
                "{ settings: … }`, check that a plan shows no changes, then empty the block.",
            )


def _missing_variables(stacks: Sequence[StackDraft], scan: RepositoryScan) -> Iterator[AdoptionStep]:
    seen: set[tuple[str, str | None]] = set()
    for stack in stacks:
        files = [*stack.shared, *((stack.file,) if stack.file else ())]
        assigned = {
            name for path in files if path in scan.variables_files for name in scan.variables_files[path].sets
        }
        missing = [name for name in scan.modules[stack.module].required if name not in assigned]
        key = (stack.module, stack.file)
        if missing and key not in seen:
            seen.add(key)
            hidden = len(missing) - _SHOWN_VARIABLES
            more = f" and {hidden} more" if hidden > 0 else ""
            yield AdoptionStep(
                title="Variables without a value",
                file=stack.file or stack.module,
                what=f"{', '.join(missing[:_SHOWN_VARIABLES])}{more}: set them in a variables file, under "
                "`variables:`, or as TF_VAR_… in `env:`.",
            )


def _programs(scan: RepositoryScan) -> Iterator[AdoptionStep]:
    for program in scan.programs:
        yield _step(
            "Programs that Terraform runs locally",
            program.place,
            f"{program.what} depends on what is installed, and a plan cannot show what it does. "
            "Use a provider instead, or a step after apply.",
        )


def _not_converted(scan: RepositoryScan, sentences: Iterable[str]) -> Iterator[AdoptionStep]:
    file = scan.atlantis.path if scan.atlantis is not None else None
    for sentence in sentences:
        yield AdoptionStep(title="Atlantis settings that were not converted", file=file, what=sentence)
