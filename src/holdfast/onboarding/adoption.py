"""What to mend in a repository before and after Holdfast moves in, in the order to do it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from holdfast.onboarding.scan import RepositoryScan, ScannedModule
from holdfast.onboarding.starter_entries import StackDraft, StackEntry
from holdfast.onboarding.starter_state import StateChoice, missing_settings

_PLACES: Final = (
    *("bucket", "key", "prefix", "region", "profile", "role_arn", "dynamodb_table", "kms_key_id"),
    *("storage_account_name", "container_name", "resource_group_name", "subscription_id", "tenant_id"),
    *("address", "conn_str", "path", "organization", "hostname", "secret_suffix", "namespace"),
)


class AdoptionStep(Struct, frozen=True, kw_only=True):
    """One thing to do: what kind of thing, where, and one sentence."""

    title: str
    file: str | None
    line: int | None = None
    what: str


def adoption_steps(
    look: RepositoryScan, entries: Sequence[StackEntry], homes: Mapping[str, StateChoice], lost: Iterable[str]
) -> tuple[AdoptionStep, ...]:
    """First what keeps plans from being true, then states, then locks and habits."""
    stacks = [stack for entry in entries for stack in entry.stacks]
    held = {stack.name for entry in entries if entry.held is not None for stack in entry.stacks}
    active = [stack for stack in stacks if stack.name not in held]
    used = {stack.module: look.modules[stack.module] for stack in stacks}
    own = [used[folder] for folder in sorted(used)]
    return (
        *_unreadable(look),
        *_terragrunt(look),
        *_held(entries, look),
        *_guessed(active, homes, look),
        *_states(own, stacks),
        *_in_git(look),
        *_open(active, homes, look),
        *_backends(own),
        *_without_values(active, look),
        *_glue(look),
        *_lost(look, lost),
    )


def _unreadable(look: RepositoryScan) -> Iterator[AdoptionStep]:
    title = "Files that cannot be read"
    problems = [problem for module in look.modules.values() for problem in module.problems]
    problems += [problem for file in look.variables_files.values() for problem in file.problems]
    for problem in problems:
        place = problem.place
        yield AdoptionStep(
            title=title,
            file=place.file if place else None,
            line=place.line if place else None,
            what=f"{problem.message}: mend it first, what Holdfast reads from the file may be wrong.",
        )
    for path in look.odd:
        yield AdoptionStep(
            title=title, file=path, what="Its name is not plain text: rename it, nothing can refer to it."
        )


def _terragrunt(look: RepositoryScan) -> Iterator[AdoptionStep]:
    if not look.terragrunt:
        return
    yield AdoptionStep(
        title="Terragrunt",
        file=look.terragrunt[0],
        what="Holdfast runs plain Terraform or OpenTofu. Units get backend, providers and inputs from "
        "Terragrunt and are no root modules by themselves: one unit at a time, write its generated backend "
        "(with the same key) and providers into its code, its inputs into a .tfvars file, its dependencies "
        "as depends_on, until `terraform plan` shows no changes without Terragrunt; "
        "then run holdfast init --force.",
    )


def _held(entries: Sequence[StackEntry], look: RepositoryScan) -> Iterator[AdoptionStep]:
    for entry in entries:
        if entry.held is None:
            continue
        place = look.modules[entry.stacks[0].module].backend_place
        first = entry.stacks[0].name
        many = f" and {len(entry.stacks) - 1} more" if len(entry.stacks) > 1 else ""
        yield AdoptionStep(
            title="Stacks held back until you say where their state is",
            file=place.file if place else entry.stacks[0].module,
            line=place.line if place else None,
            what=f"{first}{many}: {entry.held}. Give each its own key or workspace in holdfast.yaml.",
        )


def _guessed(
    stacks: Sequence[StackDraft], homes: Mapping[str, StateChoice], look: RepositoryScan
) -> Iterator[AdoptionStep]:
    seen: set[tuple[str, str]] = set()
    for stack in stacks:
        guess = homes[stack.name].guessed
        if guess is None or (stack.module, guess) in seen:
            continue
        seen.add((stack.module, guess))
        place = look.modules[stack.module].backend_place
        yield AdoptionStep(
            title="Compare with where the states are today, before the first apply",
            file=place.file if place else stack.module,
            line=place.line if place else None,
            what=f"{guess[0].upper()}{guess[1:]}. "
            "A plan that wants to create what exists means the place is wrong.",
        )


def _states(modules: Iterable[ScannedModule], stacks: Sequence[StackDraft]) -> Iterator[AdoptionStep]:
    for module in modules:
        names = [stack.name for stack in stacks if stack.module == module.folder]
        for path in module.states if module.backend is None else ():
            workspace = path.split("/")[-2] if "terraform.tfstate.d/" in path else None
            name = (
                names[0]
                if len(names) == 1
                else next((one for one in names if workspace in one.split("/")), "STACK")
            )
            option = f" --workspace {workspace}" if workspace else ""
            yield AdoptionStep(
                title="States beside the code: take them over",
                file=path,
                what=f"holdfast state adopt {name}{option} (it is copied and renamed, never deleted); "
                "until then a plan is refused.",
            )


def _in_git(look: RepositoryScan) -> Iterator[AdoptionStep]:
    for path in look.secrets_in_git:
        kind = "A plan" if "plan" in posixpath.basename(path) else "A state"
        yield AdoptionStep(
            title="State and plan files in Git",
            file=path,
            what=f"{kind} holds secrets in clear: once the state has its own place, git rm --cached it, "
            "ignore it, and change the secrets that were in it.",
        )


def _open(
    stacks: Sequence[StackDraft], homes: Mapping[str, StateChoice], look: RepositoryScan
) -> Iterator[AdoptionStep]:
    for folder in sorted({stack.module for stack in stacks}):
        module = look.modules[folder]
        given = [homes[stack.name].settings for stack in stacks if stack.module == folder]
        lacks = [
            name
            for name in missing_settings(module.backend)
            if any(name not in settings for settings in given)
        ]
        if lacks and module.backend_place is not None:
            yield AdoptionStep(
                title="Backend settings that nothing gives",
                file=module.backend_place.file,
                line=module.backend_place.line,
                what=f"Say {', '.join(lacks)} under `backend: {{ settings: … }}` as they are today; "
                "until then a plan fails and nothing happens.",
            )


def _backends(modules: Sequence[ScannedModule]) -> Iterator[AdoptionStep]:
    """Where states are kept: from the most fragile place to what only needs a better lock."""
    for module in modules:
        place = module.backend_place
        if module.backend is not None and module.backend.type == "local" and place is not None:
            yield AdoptionStep(
                title="Local backends",
                file=place.file,
                line=place.line,
                what="The state is a file on one machine, which colleagues and CI do not see: "
                "name a shared backend.",
            )
    for module in modules:
        if module.backend is None:
            yield AdoptionStep(
                title="No backend in the code",
                file=module.folder,
                what="Holdfast keeps the state in .holdfast/ on this machine: "
                "for a team, name a shared backend.",
            )
    for module in modules:
        place = module.backend_place
        if module.backend is not None and "dynamodb_table" in module.backend.settings and place is not None:
            yield AdoptionStep(
                title="DynamoDB locks",
                file=place.file,
                line=place.line,
                what="Add use_lockfile = true beside dynamodb_table; "
                "when everybody has it, take the table away.",
            )
    for module in modules:
        place = module.backend_place
        if module.backend is None or place is None or module.backend.type == "local":
            continue
        fixed = [name for name in _PLACES if name in module.backend.settings]
        if fixed:
            yield AdoptionStep(
                title="Backends written into the code",
                file=place.file,
                line=place.line,
                what=f"{', '.join(fixed)}: works as it is. To make it configuration, copy it to `backend: "
                "{ settings: … }`, see a plan without changes, then empty the block.",
            )


def _without_values(stacks: Sequence[StackDraft], look: RepositoryScan) -> Iterator[AdoptionStep]:
    seen: set[tuple[str, str | None]] = set()
    for stack in stacks:
        files = [*stack.shared, *((stack.file,) if stack.file else ())]
        given = {
            name for path in files if path in look.variables_files for name in look.variables_files[path].sets
        }
        lacks = [name for name in look.modules[stack.module].required if name not in given]
        key = (stack.module, stack.file)
        if lacks and key not in seen:
            seen.add(key)
            more = f" and {len(lacks) - 4} more" if len(lacks) > 4 else ""  # noqa: PLR2004 - as many as fit a line
            yield AdoptionStep(
                title="Variables without a value",
                file=stack.file or stack.module,
                what=f"{', '.join(lacks[:4])}{more}: give them in a variables file, under `variables:`, "
                "or as TF_VAR_… in `env:`.",
            )


def _glue(look: RepositoryScan) -> Iterator[AdoptionStep]:
    for glue in look.glue:
        yield AdoptionStep(
            title="Glue that Terraform runs on its own machine",
            file=glue.place.file,
            line=glue.place.line,
            what=f"{glue.what} depends on what is installed there, and a plan cannot show what it does: "
            "find a provider for it, or a step after apply.",
        )


def _lost(look: RepositoryScan, lost: Iterable[str]) -> Iterator[AdoptionStep]:
    for sentence in lost:
        yield AdoptionStep(
            title="What of Atlantis was not carried over",
            file=look.atlantis.path if look.atlantis is not None else None,
            what=sentence,
        )
