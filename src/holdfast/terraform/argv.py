"""Every command line that Holdfast gives to Terraform, built here and run elsewhere.

The program's own name and `-chdir` are the engine's business: these start with the sub-command.
"""

from __future__ import annotations

from typing import NamedTuple

PLAN_FILE = "holdfast.tfplan"
BACKEND_FILE = "holdfast.tfbackend.json"
UNSAVED_FILE = "errored.tfstate"
"""Where Terraform leaves a state that it could not save."""

Argv = tuple[str, ...]


class PlanOptions(NamedTuple):
    """What the user asked of a plan, beside the stack itself."""

    destroy: bool = False
    targets: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    refresh_only: bool = False


def init(*, backend_file: bool, json: bool, reconfigure: bool = True, backend: bool = True) -> Argv:
    """`-reconfigure`: a work directory is reused, and settings that changed are not a migration.

    A `cloud` block has no such settings, and does not know the option. Without `backend` only providers and
    modules are made ready: enough for commands that need no state.
    """
    argv = ["init", "-input=false", "-no-color"]
    if not backend:
        argv.append("-backend=false")
    elif reconfigure:
        argv.append("-reconfigure")
    if json:
        argv.append("-json")
    if backend_file and backend:
        argv.append(f"-backend-config={BACKEND_FILE}")
    return tuple(argv)


def select_workspace(name: str) -> Argv:
    return ("workspace", "select", "-or-create=true", name)


def validate() -> Argv:
    return ("validate", "-json", "-no-color")


def plan(
    options: PlanOptions,
    *,
    variables_files: tuple[str, ...],
    lock_seconds: float = 0.0,
    lock: bool = True,
) -> Argv:
    """Without `lock` for a state that Holdfast keeps: its versions never change, and a plan writes none."""
    argv = ["plan", "-json", "-input=false", "-detailed-exitcode", f"-out={PLAN_FILE}"]
    argv += _lock_timeout(lock_seconds) if lock else ["-lock=false"]
    if options.destroy:
        argv.append("-destroy")
    if options.refresh_only:
        argv.append("-refresh-only")
    argv += [f"-target={address}" for address in options.targets]
    argv += [f"-replace={address}" for address in options.replace]
    argv += [f"-var-file={file}" for file in variables_files]
    return tuple(argv)


def show_plan() -> Argv:
    return ("show", "-json", "-no-color", PLAN_FILE)


def _lock_timeout(seconds: float) -> list[str]:
    return [f"-lock-timeout={seconds:.0f}s"] if seconds > 0 else []


def apply(*, variables_files: tuple[str, ...] = (), lock_seconds: float = 0.0) -> Argv:
    """Apply the saved plan. Files are given again only for ephemeral variables, which no plan holds."""
    return (
        "apply",
        "-json",
        "-input=false",
        "-auto-approve",
        *_lock_timeout(lock_seconds),
        *(f"-var-file={file}" for file in variables_files),
        PLAN_FILE,
    )


def output() -> Argv:
    return ("output", "-json", "-no-color")


_TWO_WORDS = frozenset({"state", "workspace"})
_TAKES_VARIABLES = frozenset({"init", "validate", "show", "apply", "output", *_TWO_WORDS})


def with_variables(words: Argv, variables_files: tuple[str, ...]) -> Argv:
    """For OpenTofu, whose every command computes backend and encryption from variables anew."""
    if words[0] not in _TAKES_VARIABLES or any(word.startswith("-var-file=") for word in words):
        return words
    at = 2 if words[0] in _TWO_WORDS else 1
    return (*words[:at], *(f"-var-file={file}" for file in variables_files), *words[at:])


def state_pull() -> Argv:
    return ("state", "pull")


def state_push(file: str) -> Argv:
    return ("state", "push", file)


def force_unlock(lock: str) -> Argv:
    return ("force-unlock", "-force", lock)


def version() -> Argv:
    return ("version", "-json")
