"""The command line: what there is, in one place. Each command imports what it needs when it runs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from typer.core import TyperGroup

from holdfast.cli import apply, doctor, engine_command, init, output, plan, stacks, state
from holdfast.kernel.errors import Exit, Problem


class _InOrder(TyperGroup):
    """Commands in the order a person meets them, not of the alphabet."""


app = typer.Typer(
    name="holdfast",
    cls=_InOrder,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Runs Terraform and OpenTofu for teams: finds what a change touches, plans it, applies it.",
    context_settings={"help_option_names": ["-h", "--help"], "terminal_width": 80},
)


def _version(value: bool) -> None:
    if value:
        from holdfast import __version__

        typer.echo(f"holdfast {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    """Every command takes --json, --config, --quiet, --verbose and --no-color."""


for module in (init, stacks, plan, apply, output, state, doctor, engine_command):
    module.register(app)


def run(arguments: list[str]) -> int:
    """The exit code. A mistake on the command line is 64, whoever finds it."""
    try:
        code = app(args=arguments, prog_name="holdfast", standalone_mode=False)
    except typer.Exit as exit_:
        return int(exit_.exit_code)
    except typer.Abort:
        return int(Exit.FAILED)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return _usage(arguments, error)
    return int(code or 0)


def _usage(arguments: list[str], error: Exception) -> int:
    """A mistake that Typer found: an unknown option, a missing argument."""
    from holdfast.cli.console import Console
    from holdfast.doors import environment
    from holdfast.runs.document import errors_document

    message = str(error.format_message())  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "holdfast"
    problem = Problem(code="HF-USE-1", message=message.strip(), hint=f"{path} --help says what there is.")
    if "--json" in arguments:
        import json

        sys.stdout.write(json.dumps(errors_document((problem,)), indent=2) + "\n")
    else:
        plain = "--no-color" in arguments or environment.read().get("NO_COLOR") is not None
        Console(color=not plain).problems((problem,), Exit.USAGE)
    return int(Exit.USAGE)
