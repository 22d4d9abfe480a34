"""`holdfast apply`: plan, show, ask, and apply exactly that."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from holdfast.cli.frame import Group, Invocation, Option, command
from holdfast.cli.parameters import CI_WAIT, Changed, Replace, Since, Stacks, Targets
from holdfast.kernel.errors import Exit, UsageError


def register(app: Group) -> None:
    command(app, "apply")(apply)


def apply(
    invocation: Invocation,
    stacks: Stacks = None,
    changed: Changed = None,
    since: Since = None,
    plan: Annotated[
        Path | None, Option("--plan", metavar="DIR", help="Apply the bundles in this folder.")
    ] = None,
    target: Targets = None,
    replace: Replace = None,
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
    wait: Annotated[
        str | None,
        Option(
            "--wait",
            metavar="DURATION",
            help="How long to wait for a lane or lock that somebody else holds; 30m in CI, else not at all.",
        ),
    ] = None,
) -> Exit:
    """Plan stacks, show what would change, ask, and apply exactly those plans, in dependency order."""
    from holdfast.cli.change import Change, plan_options

    if plan is not None and (stacks or changed or since or target or replace):
        raise UsageError(
            "HF-USE-3",
            "--plan applies what is in the bundle: no stacks, --changed, --since, --target or --replace",
            hint="Give --plan DIR/<stack> to apply one of its stacks.",
        )
    seconds = _seconds(wait, ci=invocation.environment.ci)
    if plan is not None:
        return Change(invocation, wait=seconds).apply_bundles(plan)
    options = plan_options(destroy=False, targets=target, replace=replace, refresh_only=False)
    return Change(invocation, stacks, changed, since, wait=seconds).apply(options, yes=yes)


def _seconds(wait: str | None, *, ci: bool) -> float:
    """Nobody sits before a CI job to try again, so there it waits by itself."""
    from holdfast.config.quantities import seconds

    if wait is None:
        return CI_WAIT if ci else 0.0
    found = seconds(wait)
    if found is None:
        raise UsageError("HF-USE-12", f"--wait {wait}: not a duration", hint="Write it as 30m, 90s or 1h30m.")
    return found
