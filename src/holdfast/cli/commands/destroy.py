"""`holdfast destroy`: the end of everything in a stack, in the order that hurts nobody else."""

from __future__ import annotations

import sys
from typing import Annotated

from holdfast.cli.command import Argument, Group, Invocation, Option, command
from holdfast.cli.commands.apply import seconds_of
from holdfast.kernel.errors import Exit, UsageError


def register(app: Group) -> None:
    command(app, "destroy")(destroy)


def destroy(
    invocation: Invocation,
    stacks: Annotated[
        list[str] | None, Argument(metavar="STACK", help="Names, globs or filters; there is no default.")
    ] = None,
    yes_destroy: Annotated[
        list[str] | None,
        Option("--yes-destroy", metavar="NAME", help="Destroy this stack without asking; repeatable."),
    ] = None,
    wait: Annotated[
        str | None,
        Option("--wait", metavar="DURATION", help="How long to wait for a lane or lock; 30m in CI."),
    ] = None,
) -> Exit:
    """Destroy what Terraform made in stacks, those that need others first, after the name was typed.

    What the guard refuses goes the long way: plan --destroy --out DIR, then apply --plan DIR --override.
    """
    from holdfast.cli.commands.change import Change

    if not stacks:
        raise UsageError(
            "HF-USE-23", "which stacks? destroy has no default", hint="holdfast stacks shows the names."
        )
    seconds = seconds_of(wait, ci=invocation.environment.ci)
    change = Change(invocation, stacks, wait=seconds)
    agreed = frozenset(yes_destroy or ())
    selected = change.names
    if strange := sorted(agreed - selected):
        raise UsageError(
            "HF-USE-24",
            f"--yes-destroy {strange[0]}: that is not one of the selected stacks",
            hint=f"Selected: {', '.join(sorted(selected)) or 'none'}. Give each name in full.",
        )
    if selected - agreed and not sys.stdin.isatty():
        raise UsageError(
            "HF-USE-24",
            f"there is no terminal to type a name on, and {min(selected - agreed)} is not agreed to",
            hint="Say --yes-destroy NAME for each stack.",
        )
    return change.destroy(agreed)
