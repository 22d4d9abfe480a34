"""Options and arguments that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Option, options_in_order
from holdfast.kernel.errors import UsageError

if TYPE_CHECKING:
    from holdfast.system.environment import Environment
    from holdfast.terraform.argv import VariableOption

CI_WAIT = 1800.0
"""Seconds. No user is there to retry a CI job, so it waits for locks."""
DEFAULT_LIMIT = 20

Stacks = Annotated[
    list[str] | None,
    Argument(
        metavar="STACK",
        help="Names or globs, or env:, account:, region:, target: filters. Default: all stacks.",
    ),
]
OneStack = Annotated[str, Argument(metavar="STACK", help="Name of the stack.")]
OneRun = Annotated[str, Argument(metavar="RUN", help="The run's id, or its first characters.")]
Changed = Annotated[
    list[str] | None,
    Option(
        "--changed",
        metavar="FILE",
        help="Only stacks affected by this file; repeatable; `-` reads a list from standard input.",
    ),
]
Since = Annotated[
    str | None,
    Option("--since", metavar="REF", help="Only stacks affected by changes since the merge-base with REF."),
]
Dependents = Annotated[
    bool, Option("--dependents", help="Also the stacks that depend on these, directly or through others.")
]
Dependencies = Annotated[
    bool, Option("--dependencies", help="Also the stacks that these depend on, directly or through others.")
]
Targets = Annotated[
    list[str] | None, Option("--target", metavar="ADDR", help="Only this resource address; repeatable.")
]
Excludes = Annotated[
    list[str] | None,
    Option("--exclude", metavar="ADDR", help="Without this resource address (OpenTofu); repeatable."),
]
Replace = Annotated[
    list[str] | None, Option("--replace", metavar="ADDR", help="Replace this resource; repeatable.")
]
NotARename = Annotated[
    bool,
    Option("--not-a-rename", help="A new stack that looks like one that is gone is another one; remembered."),
]
Var = Annotated[
    list[str] | None,
    Option("-var", "--var", metavar="NAME=VALUE", help="Set a variable of the code; repeatable."),
]
VarFile = Annotated[
    list[str] | None,
    Option("-var-file", "--var-file", metavar="FILE", help="Set variables from this file; repeatable."),
]
Yes = Annotated[bool, Option("--yes", help="Do not ask for confirmation.")]
Wait = Annotated[
    str | None,
    Option(
        "--wait",
        metavar="DURATION",
        help="How long to wait for a busy lane, lock or stack. Default: 30m in CI, otherwise no wait.",
    ),
]
Server = Annotated[
    str | None,
    Option(
        "--server",
        metavar="URL",
        optional=True,
        sign="://",
        help="Run on this server. Default: HOLDFAST_URL, or where you are logged in.",
    ),
]
Detach = Annotated[
    bool, Option("--detach", help="With --server: print the ids of the runs and do not wait for them.")
]
Reason = Annotated[str | None, Option("--reason", metavar="TEXT", help="Why; recorded in the audit log.")]
Limit = Annotated[
    str | None, Option("--limit", metavar="N", help=f"Show at most N. Default: {DEFAULT_LIMIT}.")
]


def require_server(*, detach: bool, reason: str | None = None) -> None:
    """For options that only a server understands."""
    for option, value in (("--detach", detach), ("--reason", reason)):
        if value:
            raise UsageError(
                "HF-USE-4", f"{option} needs --server", hint=f"Leave {option} out, or add --server."
            )


def limit_from(text: str | None) -> int:
    if text is None:
        return DEFAULT_LIMIT
    if not text.isascii() or not text.isdigit() or not int(text):
        raise UsageError("HF-USE-20", f"--limit {text}: not a positive number", hint="Write --limit 50.")
    return int(text)


def wait_from(text: str | None, *, ci: bool) -> float:
    """Seconds."""
    from holdfast.config.shapes import seconds

    if text is None:
        return CI_WAIT if ci else 0.0
    duration = seconds(text)
    if duration is None:
        raise UsageError("HF-USE-12", f"--wait {text}: not a duration", hint="Write it as 30m, 90s or 1h30m.")
    return duration


def variables_from(
    environment: Environment, var: list[str] | None, var_file: list[str] | None
) -> tuple[VariableOption, ...]:
    """As in Terraform, the order of the command line decides which value wins."""
    values = {"var": iter(var or ()), "var_file": iter(var_file or ())}
    return tuple(
        _variable(next(values[name])) if name == "var" else _variables_file(environment, next(values[name]))
        for name in options_in_order("var", "var_file")
    )


def _variable(text: str) -> VariableOption:
    from holdfast.terraform.argv import VariableOption

    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise UsageError("HF-USE-28", "-var needs NAME=VALUE", hint="Write it as -var size=3.")
    return VariableOption(name.strip(), value)


def _variables_file(environment: Environment, name: str) -> VariableOption:
    """Read here and now, relative to the current folder. Code in a plan must not get Holdfast's keys."""
    import os
    from pathlib import Path

    from holdfast.system.access_rules import ForbiddenFiles
    from holdfast.terraform.argv import VariableOption

    try:
        with Path(name).open("rb") as file:
            if os.fstat(file.fileno()) in ForbiddenFiles(environment):
                raise PermissionError(13, "it is not a file for stacks")
            return VariableOption(name, file.read().decode(), is_file=True)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise UsageError(
            "HF-USE-28",
            f"cannot read -var-file {name}: {why}",
            hint="The path is relative to the current folder.",
        ) from None


_MOST = 1000


def count(option: str, text: str | None, *, default: int, least: int) -> int:
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= _MOST:
        hint = f"Write a number from {least} to {_MOST}."
        raise UsageError("HF-USE-46", f"{option} {text}: not a number that it can be", hint=hint)
    return int(text)
