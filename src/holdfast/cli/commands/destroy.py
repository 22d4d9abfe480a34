"""`holdfast destroy`: destroy every resource of stacks, dependents first."""

from __future__ import annotations

import sys
from typing import Annotated

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import Detach, Reason, Server, Wait, require_server, wait_from
from holdfast.kernel.errors import Exit, UsageError


def destroy(
    invocation: Invocation,
    stacks: Annotated[
        list[str] | None, Argument(metavar="STACK", help="Names, globs or filters; there is no default.")
    ] = None,
    yes_destroy: Annotated[
        list[str] | None,
        Option("--yes-destroy", metavar="NAME", help="Destroy this stack without asking; repeatable."),
    ] = None,
    wait: Wait = None,
    server: Server = None,
    detach: Detach = False,
    reason: Reason = None,
) -> Exit:
    """Destroy every resource of stacks, dependents first. You confirm by typing each stack's name.

    If the guard refuses: plan --destroy --out DIR, then apply --plan DIR --override DIGEST --reason TEXT.
    """
    if server is None:
        from holdfast.terraform.engine.worker_start import start_spares

        start_spares()
    from holdfast.cli.changes.change import Change

    if not stacks:
        raise UsageError(
            "HF-USE-23", "destroy needs the names of stacks", hint="List them with: holdfast stacks"
        )
    change: Change | ServerChange
    if server is not None:
        from holdfast.cli.server.change import ServerChange, refuse_options

        refuse_options(wait=wait)
        change = ServerChange(invocation, server, stacks, detach=detach)
    else:
        require_server(detach=detach, reason=reason)
        change = Change(invocation, stacks, wait=wait_from(wait, ci=invocation.environment.ci))
    confirmed, names = frozenset(yes_destroy or ()), frozenset(change.names)
    if unknown := sorted(confirmed - names):
        raise UsageError(
            "HF-USE-24",
            f"--yes-destroy {unknown[0]}: not one of the selected stacks",
            hint=f"Selected: {', '.join(sorted(names)) or 'none'}. Give each name in full.",
        )
    if (unconfirmed := names - confirmed) and not sys.stdin.isatty():
        raise UsageError(
            "HF-USE-24",
            f"cannot ask for confirmation without a terminal: {min(unconfirmed)} is not confirmed",
            hint="Add --yes-destroy NAME for each stack.",
        )
    return change.destroy(confirmed) if isinstance(change, Change) else change.destroy(confirmed, reason)
