"""`holdfast apply`: plan, show, ask, and apply exactly that."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from holdfast.cli.command import Group, Invocation, Option, command
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
    override: Annotated[
        list[str] | None,
        Option(
            "--override",
            metavar="DIGEST",
            help="With --plan: lift what the guard denied for this one plan, for 24 hours; repeatable.",
        ),
    ] = None,
    reason: Annotated[
        str | None, Option("--reason", metavar="TEXT", help="Why it is overridden; kept in the record.")
    ] = None,
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
    from holdfast.cli.commands.change import Change, plan_options

    if plan is not None and (stacks or changed or since or target or replace):
        raise UsageError(
            "HF-USE-3",
            "--plan applies what is in the bundle: no stacks, --changed, --since, --target or --replace",
            hint="Give --plan DIR/<stack> to apply one of its stacks.",
        )
    require_reason(override, reason, plan)
    seconds = seconds_of(wait, ci=invocation.environment.ci)
    if plan is not None:
        change = Change(invocation, wait=seconds)
        return change.apply_bundles(plan, override=tuple(override or ()), reason=reason or "")
    options = plan_options(destroy=False, targets=target, replace=replace, refresh_only=False)
    return Change(invocation, stacks, changed, since, wait=seconds).apply(options, yes=yes)


def require_reason(override: list[str] | None, reason: str | None, plan: Path | None) -> None:
    """An override is for one saved plan, by a person who says why."""
    if override and plan is None:
        raise UsageError(
            "HF-USE-18",
            "--override goes with --plan: it lifts what was denied for one saved plan",
            hint="Save it with: holdfast plan STACK --out DIR",
        )
    if override and not (reason or "").strip():
        raise UsageError("HF-USE-19", "--override without --reason", hint="Say why: it stays in the record.")
    if reason is not None and not override:
        raise UsageError(
            "HF-USE-19", "--reason without --override", hint="Name the digest that it is a reason for."
        )


def seconds_of(wait: str | None, *, ci: bool) -> float:
    """Nobody sits before a CI job to try again, so there it waits by itself."""
    from holdfast.config.quantities import seconds

    if wait is None:
        return CI_WAIT if ci else 0.0
    found = seconds(wait)
    if found is None:
        raise UsageError("HF-USE-12", f"--wait {wait}: not a duration", hint="Write it as 30m, 90s or 1h30m.")
    return found
