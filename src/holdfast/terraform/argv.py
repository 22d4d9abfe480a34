"""Every Terraform command line that Holdfast uses, built here and run elsewhere.

The engine adds the program and `-chdir`: these start with the subcommand.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.kernel.secret import masked_repr

PLAN_FILE = "holdfast.tfplan"
BACKEND_FILE = "holdfast.tfbackend.json"
INLINE_FILE = "holdfast.inline.tfvars.json"
"""Values of variables that no file of the repository has."""
UNSAVED_FILE = "errored.tfstate"
"""Where Terraform leaves a state that it could not save."""

Argv = tuple[str, ...]

VALIDATE: Argv = ("validate", "-json", "-no-color")
SHOW_PLAN: Argv = ("show", "-json", "-no-color", PLAN_FILE)
OUTPUT: Argv = ("output", "-json", "-no-color")
STATE_PULL: Argv = ("state", "pull")
VERSION: Argv = ("version", "-json")


class VariableOption(NamedTuple):
    """One `-var` or `-var-file` of the command line. `text` is the value, or the content of the file."""

    name: str
    """Of the variable, or of the file as the user wrote it."""
    text: str
    is_file: bool = False

    def __repr__(self) -> str:
        return masked_repr(self)

    def __str__(self) -> str:
        """Without the value."""
        return f"-var-file {self.name}" if self.is_file else f"-var {self.name}"


class PlanOptions(NamedTuple):
    """The user's options for a plan. A saved plan has them too, to be planned again with."""

    destroy: bool = False
    targets: tuple[str, ...] = ()
    replace: tuple[str, ...] = ()
    refresh_only: bool = False
    not_a_rename: bool = False
    """The user says that a new stack is not one that is gone. Terraform does not see this one."""
    variables: tuple[VariableOption, ...] = ()
    """In the order of the command line. Terraform gets them in a private file: `plans.variables`."""
    imports: tuple[tuple[str, str], ...] = ()
    """Addresses and ids of resources to import, for which the plan gets `import` blocks."""
    excludes: tuple[str, ...] = ()
    """Only with OpenTofu."""
    refresh: bool = True
    """False: the code is compared with the state as it is. Nothing that is planned so is applied."""

    @property
    def shown(self) -> str:
        """The arguments of `holdfast plan` that repeat it, without the values of variables."""
        words = ["--destroy"] * self.destroy + ["--refresh-only"] * self.refresh_only
        words += [f"--target {address}" for address in self.targets]
        words += [f"--exclude {address}" for address in self.excludes]
        words += [f"--replace {address}" for address in self.replace]
        words += [str(option) if option.is_file else f"{option}=…" for option in self.variables]
        return " ".join(words)


def init(*, backend_file: bool, json: bool, reconfigure: bool = True, backend: bool = True) -> Argv:
    """`-reconfigure`: a work directory is reused, and changed settings are not a migration.

    A `cloud` block does not support the option. Without `backend` only providers and modules are installed:
    enough for commands that need no state.
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


def plan(
    options: PlanOptions,
    *,
    variables_files: tuple[str, ...],
    lock_seconds: float = 0.0,
    lock: bool = True,
    parallelism: int | None = None,
) -> Argv:
    """Without `lock` for a managed state: its versions never change, and a plan writes none."""
    argv = ["plan", "-json", "-input=false", "-detailed-exitcode", f"-out={PLAN_FILE}"]
    argv += _lock_timeout(lock_seconds) if lock else ["-lock=false"]
    argv += _parallelism(parallelism)
    if options.destroy:
        argv.append("-destroy")
    if options.refresh_only:
        argv.append("-refresh-only")
    if not options.refresh:
        argv.append("-refresh=false")
    argv += [f"-target={address}" for address in options.targets]
    argv += [f"-exclude={address}" for address in options.excludes]
    argv += [f"-replace={address}" for address in options.replace]
    argv += [f"-var-file={file}" for file in variables_files]
    return tuple(argv)


def _lock_timeout(seconds: float) -> list[str]:
    return [f"-lock-timeout={seconds:.0f}s"] if seconds > 0 else []


def _parallelism(most: int | None) -> list[str]:
    return [f"-parallelism={most}"] if most is not None else []


def apply(
    *, variables_files: tuple[str, ...] = (), lock_seconds: float = 0.0, parallelism: int | None = None
) -> Argv:
    """Apply the saved plan. Files are passed again only for ephemeral variables, which no plan contains."""
    return (
        "apply",
        "-json",
        "-input=false",
        "-auto-approve",
        *_lock_timeout(lock_seconds),
        *_parallelism(parallelism),
        *(f"-var-file={file}" for file in variables_files),
        PLAN_FILE,
    )


_WITH_SUBCOMMAND = frozenset({"state", "workspace"})
_TAKES_VARIABLES = frozenset({"init", "validate", "show", "apply", "output", *_WITH_SUBCOMMAND})


def with_variables(argv: Argv, variables_files: tuple[str, ...]) -> Argv:
    """For OpenTofu, where every command evaluates backend and encryption from variables."""
    if argv[0] not in _TAKES_VARIABLES or any(argument.startswith("-var-file=") for argument in argv):
        return argv
    at = 2 if argv[0] in _WITH_SUBCOMMAND else 1
    return (*argv[:at], *(f"-var-file={file}" for file in variables_files), *argv[at:])


def state_push(file: str) -> Argv:
    return ("state", "push", file)


def state_mv(state: str, source: str, target: str, *, into: str | None = None) -> Argv:
    """In a state file, or from it into another one. What Terraform backs up is named like a state."""
    other = (f"-state-out={into}", "-backup-out=backup-out.tfstate") if into is not None else ()
    return ("state", "mv", "-no-color", f"-state={state}", "-backup=backup.tfstate", *other, source, target)


def state_rm(state: str, addresses: tuple[str, ...]) -> Argv:
    return ("state", "rm", "-no-color", f"-state={state}", "-backup=backup.tfstate", *addresses)


def force_unlock(lock: str) -> Argv:
    return ("force-unlock", "-force", lock)
