"""`holdfast check`: check code, variables and repository before anything runs."""

from __future__ import annotations

from typing import Annotated

from holdfast.cli.command import Invocation, Option
from holdfast.cli.parameters import Changed, Since, Stacks
from holdfast.kernel.errors import Exit, UsageError


def check(  # noqa: PLR0917 - one parameter per option
    invocation: Invocation,
    stacks: Stacks = None,
    changed: Changed = None,
    since: Since = None,
    format_: Annotated[
        str | None,
        Option("--format", metavar="FORMAT", help="text, json, sarif, github, markdown or junit."),
    ] = None,
    fail_on: Annotated[
        str | None,
        Option(
            "--fail-on",
            metavar="SEVERITY",
            help="Exit 3 for findings of this severity or above: error (default), warning, note.",
        ),
    ] = None,
    engine: Annotated[bool, Option("--engine", help="Also run terraform fmt and validate.")] = False,
    fix: Annotated[bool, Option("--fix", help="With --engine: write the formatted code.")] = False,
    history: Annotated[
        bool,
        Option(
            "--history", help="Also search the Git history for secrets and files that do not belong there."
        ),
    ] = False,
    baseline: Annotated[
        str | None,
        Option(
            "--baseline",
            metavar="write",
            help="Write the current findings to holdfast.baseline.json: afterwards only new ones count.",
        ),
    ] = None,
    full: Annotated[
        bool, Option("--full", help="Show every finding, with its line of code and what to do.")
    ] = False,
    list_: Annotated[bool, Option("--list", help="List all rules.")] = False,
    explain: Annotated[
        str | None,
        Option("--explain", metavar="RULE", help="Explain a rule: what it finds, why, and what to do."),
    ] = None,
) -> Exit:
    """Check code, variables and repository without running a plan."""
    from holdfast.cli.checks import run as check_run

    wanted = check_run.chosen_format(invocation, format_)
    invocation.as_json = wanted == "json"  # So that an error is a JSON document, too.
    if list_ or explain is not None:
        return check_run.show_rules(invocation, explain, wanted)
    level = check_run.chosen_level(fail_on)
    if fix and not engine:
        raise UsageError(
            "HF-CHECK-4", "--fix needs --engine: Terraform formats the code", hint="Add --engine."
        )
    if baseline is not None:
        check_run.check_baseline_option(baseline, selected=bool(stacks or changed or since))
    options = check_run.CheckOptions(
        format=wanted,
        fail_on=level,
        engine=engine,
        fix=fix,
        history=history,
        write_baseline=baseline is not None,
        full=full,
    )
    return check_run.run_check(invocation, (stacks or [], changed or [], since), options)
