"""`holdfast plan`: what would change, and whether it may."""

from __future__ import annotations

from typing import Annotated

from holdfast.cli.command import Group, Invocation, Option, command
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
from holdfast.kernel.errors import Exit, HoldfastError, UsageError


def register(app: Group) -> None:
    command(app, "plan")(plan)


def plan(  # noqa: PLR0917 - one for each option that people know from Terraform, and ours
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
    github: Annotated[
        bool, Option("--github", help="In GitHub Actions: comment, job summary, annotations, outputs.")
    ] = False,
    format_: Annotated[
        str | None, Option("--format", metavar="text|markdown", help="How the plan is shown.")
    ] = None,
) -> Exit:
    """Plan stacks: all, the named ones, or those that a change touches."""
    from holdfast.cli.commands.change import Change, plan_options

    if lockfile not in (None, "update"):
        raise UsageError(
            "HF-USE-2",
            f"--lockfile {lockfile}: only `update` is known",
            hint="Without it, lock files are used as they are and changes are only reported.",
        )
    if format_ not in (None, "text", "markdown"):
        raise UsageError(
            "HF-USE-22", f"--format {format_}: only `text` and `markdown` are known", hint="Or use --json."
        )
    options = plan_options(destroy=destroy, targets=target, replace=replace, refresh_only=refresh_only)
    wait = CI_WAIT if invocation.environment.ci else 0.0
    if format_ == "markdown":
        invocation.console.reserve_output()
    try:
        change = Change(invocation, stacks, changed, since, wait=wait)
        return change.plan(
            options,
            out=out,
            detailed=detailed_exitcode,
            update_lock_files=lockfile == "update",
            github=github,
            as_markdown=format_ == "markdown",
        )
    except HoldfastError as error:
        if github:
            from pathlib import Path

            from holdfast.cli.views.github_report import tell_github_failure

            root = invocation.config.parent if invocation.config is not None else Path.cwd()
            tell_github_failure(invocation, error, operation="plan", root=root)
        raise
