"""All commands, in the order a user meets them. Each is imported when it is used."""

from __future__ import annotations

import sys

import click

from holdfast import __version__
from holdfast.cli.command import Group, NoSuchCommand, open_invocation, show_error
from holdfast.kernel.errors import Exit, UsageError

app = Group(
    "holdfast",
    (
        *(
            "init",
            "stacks",
            "graph",
            "check",
            "policy",
            "plan",
            "apply",
            "destroy",
            "drift",
            "import",
            "output",
            "facts",
            "deploy",
            "verify",
            "config",
        ),
        *(
            "state",
            "runs",
            "audit",
            "notify",
            "secrets",
            "keys",
            "doctor",
            "terraform",
            "tools",
            "clean",
            "serve",
            "worker",
            "token",
            "repository",
            "events",
            "devices",
            "blueprints",
            "scaffold",
            "webhooks",
            "login",
            "db",
            "completion",
        ),
    ),
    help="Run Terraform and OpenTofu for a team: find the stacks a change affects, plan and apply them.\n\n"
    "Every command takes --json, --config, --quiet, --verbose and --no-color.",
    context_settings={"help_option_names": ["-h", "--help"], "terminal_width": 80},
)
click.version_option(__version__, prog_name="holdfast", message="%(prog)s %(version)s")(app)


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code; 64 for a mistake in it, found by Click or by us."""
    arguments = ["terraform", *arguments[1:]] if arguments[:1] == ["tofu"] else arguments
    try:
        code = app.main(args=arguments or ["--help"], prog_name="holdfast", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stdout.write(f"{error.format_message()}\n")
        return int(Exit.DONE)
    except click.UsageError as error:
        return _usage(arguments, error)
    except click.Abort:
        return int(Exit.FAILED)
    return int(code or 0)


def _usage(arguments: list[str], error: click.UsageError) -> int:
    """Report a mistake that Click found: an unknown option, a missing argument."""
    message, hint = error.format_message().strip(), "See: {} --help"
    if isinstance(error, click.NoSuchOption):
        from holdfast.cli.terraform_options import INSTEAD

        if (instead := INSTEAD.get(error.option_name.lstrip("-").partition("=")[0])) is not None:
            message, hint = f"No such option '{error.option_name}'.", instead
        elif error.ctx is not None and error.ctx.command.name == "terraform":
            hint = "Write -- before the Terraform command: holdfast terraform STACK -- state list"
    elif isinstance(error, NoSuchCommand):
        from holdfast.cli.terraform_options import COMMANDS_INSTEAD

        instead = COMMANDS_INSTEAD.get(error.name) if error.context.command is app else None
        if instead is not None:
            hint = f"Use instead: {instead}"
        elif error.near is not None:
            message = f"{message} Did you mean '{error.near}'?"
    path = error.ctx.command_path if error.ctx is not None else "holdfast"
    invocation = open_invocation(as_json="--json" in arguments, no_color="--no-color" in arguments)
    show_error(invocation, UsageError("HF-USE-1", message, hint=hint.format(path)))
    return int(Exit.USAGE)
