"""`holdfast state adopt`, `rename` and `retire`: which stack a state belongs to."""

from __future__ import annotations

from typing import Annotated

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import OneStack, Reason, Yes
from holdfast.kernel.errors import Exit, UsageError

AcceptLoss = Annotated[
    str | None,
    Option(
        "--override",
        metavar="DIGEST",
        help="Override the guard's denial of exactly this change of the state. Needs --reason.",
    ),
]


def adopt(
    invocation: Invocation,
    name: OneStack,
    workspace: Annotated[
        str | None, Option("--workspace", metavar="NAME", help="A workspace in terraform.tfstate.d.")
    ] = None,
    start_empty: Annotated[
        bool,
        Option(
            "--start-empty", help="Start without a state: the old one is not this stack's, or stays behind."
        ),
    ] = False,
    accept_older: Annotated[
        bool,
        Option(
            "--accept-older",
            help="Accept the current state although it is older than the recorded one, or another one.",
        ),
    ] = False,
    yes: Yes = False,
    override: AcceptLoss = None,
    reason: Reason = None,
) -> Exit:
    """Take over the local state file of a module as its managed state. The file is renamed, never deleted."""
    from holdfast.cli.states import changes

    if accept_older:
        if start_empty or override or not (reason or "").strip():
            raise UsageError(
                "HF-USE-19",
                "--accept-older needs --reason, and neither --start-empty nor --override",
                hint="The reason is recorded in the audit log.",
            )
        return changes.run_accept_older(invocation, name, workspace=workspace, reason=str(reason))
    accepted = changes.override_from(override, reason)
    if start_empty:
        return changes.run_start_empty(invocation, name, override=accepted, yes=yes)
    if accepted is not None:
        raise UsageError(
            "HF-USE-19",
            "--override needs --start-empty",
            hint="Adopting a file removes nothing from a state.",
        )
    return changes.run_adopt(invocation, name, workspace=workspace)


def rename(
    invocation: Invocation,
    old: Annotated[str, Argument(metavar="OLD", help="The name that the stack had.")],
    new: Annotated[str, Argument(metavar="NEW", help="The name that it has now.")],
) -> Exit:
    """Move the state, versions and backups of a stack to its new name."""
    from holdfast.cli.states.changes import run_rename

    return run_rename(invocation, old, new)


def retire(
    invocation: Invocation,
    old: Annotated[str, Argument(metavar="OLD", help="The name of a stack that is no longer in the code.")],
    reason: Reason = None,
) -> Exit:
    """Stop comparing new stacks with the state of a stack that is gone. Its resources stay as they are."""
    from holdfast.cli.states.changes import run_retire

    if not (reason or "").strip():
        raise UsageError(
            "HF-USE-19", "state retire needs --reason", hint="The reason is recorded in the audit log."
        )
    return run_retire(invocation, old, str(reason))
