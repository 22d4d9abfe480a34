"""`holdfast plan`: what would change, and whether the guard allows it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from holdfast.cli.command import Invocation, Option
from holdfast.cli.parameters import (
    Changed,
    Dependencies,
    Dependents,
    Detach,
    Excludes,
    NotARename,
    Reason,
    Replace,
    Server,
    Since,
    Stacks,
    Targets,
    Var,
    VarFile,
    require_server,
    variables_from,
    wait_from,
)
from holdfast.kernel.errors import Exit, HoldfastError, UsageError


def plan(  # noqa: PLR0917 - one parameter per option
    invocation: Invocation,
    stacks: Stacks = None,
    changed: Changed = None,
    since: Since = None,
    dependents: Dependents = False,
    dependencies: Dependencies = False,
    destroy: Annotated[
        bool, Option("--destroy", help="Plan the destruction of every resource in the stack.")
    ] = False,
    target: Targets = None,
    exclude: Excludes = None,
    replace: Replace = None,
    var: Var = None,
    var_file: VarFile = None,
    refresh_only: Annotated[
        bool, Option("--refresh-only", help="Only update the state to match the real resources.")
    ] = False,
    not_a_rename: NotARename = False,
    out: Annotated[
        Path | None,
        Option("--out", metavar="DIR", help="Save the plans as an encrypted bundle, to apply later."),
    ] = None,
    detailed_exitcode: Annotated[
        bool, Option("--detailed-exitcode", help="Exit 2 if there are changes.")
    ] = False,
    full: Annotated[bool, Option("--full", help="Show every changed attribute, without limits.")] = False,
    lockfile: Annotated[
        str | None,
        Option("--lockfile", metavar="update", help="Write changed lock files to the repository."),
    ] = None,
    pull_request: Annotated[
        str | None,
        Option(
            "--pull-request",
            metavar="auto|github|gitlab|azure",
            help="In a job of this code host: write the report as a comment on the pull request.",
        ),
    ] = None,
    github: Annotated[bool, Option("--github", help="Short for --pull-request github.")] = False,
    format_: Annotated[str | None, Option("--format", metavar="text|markdown", help="Output format.")] = None,
    server: Server = None,
    detach: Detach = False,
    reason: Reason = None,
) -> Exit:
    """Plan stacks: all, the named ones, or those a change affects."""
    if server is None:
        from holdfast.terraform.engine.worker_start import start_spares

        start_spares()
    from holdfast.cli.changes.change import Change, plan_options

    if lockfile not in (None, "update"):
        raise UsageError(
            "HF-USE-2",
            f"--lockfile {lockfile}: the only value is `update`",
            hint="Without --lockfile, changed lock files are reported and not written.",
        )
    if format_ not in (None, "text", "markdown"):
        raise UsageError(
            "HF-USE-22", f"--format {format_}: choose `text` or `markdown`", hint="Or use --json."
        )
    options = plan_options(
        destroy=destroy,
        targets=target,
        excludes=exclude,
        replace=replace,
        refresh_only=refresh_only,
    )
    options = options._replace(
        not_a_rename=not_a_rename, variables=variables_from(invocation.environment, var, var_file)
    )
    if server is not None:
        from holdfast.cli.server.change import ServerChange, refuse_options

        refuse_options(
            out=out, lockfile=lockfile, pull_request=pull_request, github=github, format=format_,
            exclude=exclude, not_a_rename=not_a_rename,
        )  # fmt: skip
        on_server = ServerChange(
            *(invocation, server, stacks, changed, since),
            dependents=dependents,
            dependencies=dependencies,
            detach=detach,
        )
        return on_server.plan(options, detailed=detailed_exitcode, full=full, reason=reason)
    require_server(detach=detach, reason=reason)
    if format_ == "markdown":
        invocation.console.reserve_output()
    report_to = None
    if github or pull_request is not None:
        from holdfast.cli.views.pull_request import destination

        report_to = destination(pull_request, invocation.environment, github=github)
    try:
        change = Change(
            *(invocation, stacks, changed, since),
            base=report_to.base(invocation.environment) if report_to is not None else None,
            dependents=dependents,
            dependencies=dependencies,
            wait=wait_from(None, ci=invocation.environment.ci),
        )
        return change.plan(
            options,
            out=out,
            detailed=detailed_exitcode,
            update_lock_files=lockfile == "update",
            report_to=report_to,
            as_markdown=format_ == "markdown",
            full=full,
        )
    except HoldfastError as error:
        if report_to is not None:
            from holdfast.cli.views.pull_request import publish_failure

            root = invocation.config.parent if invocation.config is not None else Path.cwd()
            publish_failure(invocation, report_to, error, operation="plan", root=root)
        raise
