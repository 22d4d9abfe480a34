"""`holdfast plan`: what would change, and whether it may."""

from __future__ import annotations

from typing import Annotated

from holdfast.cli.frame import Group, Invocation, Option, command
from holdfast.cli.parameters import (
    CI_WAIT,
    Changed,
    Destroy,
    Out,
    RefreshOnly,
    Replace,
    Since,
    Stacks,
    Targets,
)
from holdfast.kernel.errors import Exit, UsageError


def register(app: Group) -> None:
    command(app, "plan")(plan)


def plan(
    invocation: Invocation,
    stacks: Stacks = None,
    changed: Changed = None,
    since: Since = None,
    destroy: Destroy = False,
    target: Targets = None,
    replace: Replace = None,
    refresh_only: RefreshOnly = False,
    out: Out = None,
    detailed_exitcode: Annotated[
        bool, Option("--detailed-exitcode", help="Exit 2 when there are changes.")
    ] = False,
    lockfile: Annotated[
        str | None,
        Option("--lockfile", metavar="update", help="`update` writes changed lock files back."),
    ] = None,
) -> Exit:
    """Plan stacks: all, the named ones, or those that a change touches."""
    from holdfast.cli.change import Change, plan_options

    if lockfile not in (None, "update"):
        raise UsageError(
            "HF-USE-2",
            f"--lockfile {lockfile}: only `update` is known",
            hint="Without it, lock files are used as they are and changes are only reported.",
        )
    options = plan_options(destroy=destroy, targets=target, replace=replace, refresh_only=refresh_only)
    wait = CI_WAIT if invocation.environment.ci else 0.0
    change = Change(invocation, stacks, changed, since, wait=wait)
    return change.plan(options, out=out, detailed=detailed_exitcode, update_lock_files=lockfile == "update")
