"""`holdfast apply`: plan, show, ask, and apply exactly what was shown; or apply a bundle."""

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
    Wait,
    Yes,
    require_server,
    variables_from,
    wait_from,
)
from holdfast.kernel.errors import Exit, UsageError


def apply(  # noqa: PLR0917 - one parameter per option
    invocation: Invocation,
    stacks: Stacks = None,
    changed: Changed = None,
    since: Since = None,
    dependents: Dependents = False,
    dependencies: Dependencies = False,
    plan: Annotated[
        Path | None, Option("--plan", metavar="DIR", help="Apply the saved plans of this bundle.")
    ] = None,
    continue_: Annotated[
        str | None,
        Option(
            "--continue",
            metavar="CHANGE",
            optional=True,
            help="Plan and apply what is left of a change. Default: the latest that is not complete.",
        ),
    ] = None,
    target: Targets = None,
    exclude: Excludes = None,
    replace: Replace = None,
    var: Var = None,
    var_file: VarFile = None,
    not_a_rename: NotARename = False,
    yes: Yes = False,
    override: Annotated[
        list[str] | None,
        Option(
            "--override",
            metavar="DIGEST",
            help="With --plan: override the guard's denial of this one plan, for 24 hours; repeatable. "
            "The id of the change stands for all its refused plans.",
        ),
    ] = None,
    break_glass: Annotated[
        bool,
        Option(
            "--break-glass",
            help="With --override, by an admin, if a server is the run store: also of their own plan, and of "
            "the approvals that are missing.",
        ),
    ] = False,
    reason: Reason = None,
    wait: Wait = None,
    allow_blocked: Annotated[
        bool, Option("--allow-blocked", help="Do not fail because stacks are blocked by their dependencies.")
    ] = False,
    server: Server = None,
    detach: Detach = False,
) -> Exit:
    """Plan stacks, ask, and apply exactly those plans. Dependencies are applied first."""
    if server is None:
        from holdfast.terraform.engine.worker_start import start_spares

        start_spares()
    from holdfast.cli.changes.change import Change, plan_options

    selects = any(
        (
            stacks,
            changed,
            since,
            dependents,
            dependencies,
            target or exclude,
            replace,
            var,
            var_file,
            not_a_rename,
        )
    )
    if plan is not None and (selects or continue_ is not None):
        raise UsageError(
            "HF-USE-3",
            "--plan cannot be combined with stacks, or with options that select or plan them",
            hint="To apply one stack of a bundle, name its folder: --plan DIR/<stack>",
        )
    if continue_ is not None and selects:
        raise UsageError(
            "HF-USE-3",
            "--continue cannot be combined with stacks, or with options that select or plan them",
            hint="To apply only some stacks, name them without --continue: holdfast apply STACK",
        )
    if server is None:
        require_server(detach=detach)
        _require_reason(override, reason, plan, break_glass=break_glass)
    if server is not None:
        from holdfast.cli.server.change import refuse_options

        refuse_options(
            plan=plan, continue_=continue_ is not None, override=override, wait=wait, exclude=exclude,
            not_a_rename=not_a_rename, break_glass=break_glass,
        )  # fmt: skip
    seconds = wait_from(wait, ci=invocation.environment.ci)
    if plan is not None or continue_ is not None:
        from holdfast.cli.changes.saved_change import SavedChange

        saved = SavedChange(invocation, wait=seconds)
        if plan is None:
            return saved.continue_change(continue_ or None, yes=yes, allow_blocked=allow_blocked)
        return saved.apply_bundle(
            plan,
            override=tuple(override or ()),
            break_glass=break_glass,
            reason=reason or "",
            allow_blocked=allow_blocked,
        )
    options = plan_options(
        destroy=False,
        targets=target,
        excludes=exclude,
        replace=replace,
        refresh_only=False,
    )
    options = options._replace(
        not_a_rename=not_a_rename, variables=variables_from(invocation.environment, var, var_file)
    )
    if server is not None:
        from holdfast.cli.server.change import ServerChange

        on_server = ServerChange(
            *(invocation, server, stacks, changed, since),
            dependents=dependents,
            dependencies=dependencies,
            detach=detach,
        )
        return on_server.apply(options, yes=yes, allow_blocked=allow_blocked, reason=reason)
    change = Change(
        *(invocation, stacks, changed, since),
        dependents=dependents,
        dependencies=dependencies,
        wait=seconds,
    )
    return change.apply(options, yes=yes, allow_blocked=allow_blocked)


def _require_reason(
    override: list[str] | None, reason: str | None, plan: Path | None, *, break_glass: bool
) -> None:
    """An override is for one saved plan, and its reason goes to the audit log."""
    if override and plan is None:
        raise UsageError(
            "HF-USE-18",
            "--override needs --plan: it overrides the denial of one saved plan",
            hint="Save the plan first: holdfast plan STACK --out DIR",
        )
    if override and not (reason or "").strip():
        raise UsageError(
            "HF-USE-19", "--override needs --reason", hint="Add --reason TEXT. The audit log records it."
        )
    if break_glass and not override:
        raise UsageError(
            "HF-USE-18",
            "--break-glass needs --override: it is an override by an admin",
            hint="Add --override DIGEST, with the digest of the plan.",
        )
    if reason is not None and not override:
        raise UsageError(
            "HF-USE-19",
            "--reason needs --override",
            hint="Add --override DIGEST, with the digest of the plan.",
        )
