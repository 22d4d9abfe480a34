"""What every command has in common: its options, its error handling, its exit code.

A command is a function that takes an `Invocation` first and returns an exit code. Its parameters declare the
command line with `Annotated[…, Option(…)]`; `command` adds the common options and turns every error into a
message and an exit code.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import click
from msgspec import Struct

from holdfast.kernel.errors import Exit, Failed, HoldfastError
from holdfast.system import environment as system_environment
from holdfast.system import streams
from holdfast.system.environment import Environment
from holdfast.system.files import file_error

if TYPE_CHECKING:  # Rich is not loaded for a command that prints a document.
    from holdfast.cli.console import Console

Handler = Callable[..., Exit]


class Option(Struct, frozen=True):
    """`--name VALUE` or a flag, by the type of the parameter."""

    name: str
    short: str | None = None
    metavar: str | None = None
    help: str = ""


class Argument(Struct, frozen=True):
    metavar: str
    help: str = ""


class Invocation(Struct, kw_only=True):
    """The common options of one command line, its environment and its console."""

    as_json: bool
    config: Path | None
    quiet: bool
    verbose: bool
    environment: Environment
    console: Console

    def document(self, document: object) -> None:
        """Write the JSON document to standard output, without secrets."""
        from holdfast.secrets.redact_document import clean_document

        cleaned = clean_document(self.console.redactor, document)
        # `##[` occurs only in strings; escaped, GitHub Actions does not read it as a command.
        text = json.dumps(cleaned, indent=2, ensure_ascii=False).replace("##[", "##\\u005b")
        sys.stdout.write(text + "\n")

    def answer(self, document: object, *lines: str) -> Exit:
        """With `--json` the document, otherwise the lines."""
        if self.as_json:
            self.document(document)
        else:
            for line in lines:
                self.console.line(line)
        return Exit.DONE


def fields(value: object, *names: str) -> dict[str, object]:
    """Part of a document: these attributes of a value, under their own names."""
    return {name: getattr(value, name) for name in names}


_COMMON: dict[str, tuple[Any, Any]] = {
    "as_json": (Annotated[bool, Option("--json", help="Print one JSON document to standard output.")], False),
    "config": (
        Annotated[
            Path | None,
            Option("--config", metavar="FILE", help="Use this configuration file."),
        ],
        None,
    ),
    "quiet": (Annotated[bool, Option("--quiet", "-q", help="Print only results and errors.")], False),
    "verbose": (Annotated[bool, Option("--verbose", "-v", help="Show more detail.")], False),
    "no_color": (Annotated[bool, Option("--no-color", help="Do not use colour.")], False),
}


class Group(click.Group):
    """Commands in the order a user meets them. A misspelt one suggests the nearest."""

    modules: Mapping[str, str] = MappingProxyType({})
    """Modules of commands, loaded when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's own signature
        return [*self.modules, *(name for name in self.commands if name not in self.modules)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.modules and cmd_name not in self.commands:
            importlib.import_module(self.modules[cmd_name]).register(self)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        known = self.list_commands(ctx)
        if name and not name.startswith("-") and name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise click.UsageError(f"No such command '{name}'.{hint}", ctx)
        return super().resolve_command(ctx, args)


class _Command(click.Command):
    """A command whose help explains its arguments too."""

    arguments: tuple[tuple[str, str], ...] = ()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(self.arguments)
        super().format_options(ctx, formatter)


def command(app: click.Group, name: str) -> Callable[[Handler], Handler]:
    """Register a handler as a command with the common options."""

    def register(handler: Handler) -> Handler:
        def entry(**values: Any) -> int:
            common = {option: values.pop(option) for option in _COMMON}
            return _run(handler, common, values)

        own = list(inspect.signature(handler, eval_str=True).parameters.values())[1:]
        parameters = [(parameter.name, parameter.annotation, parameter.default) for parameter in own]
        parameters += [(option, kind, default) for option, (kind, default) in _COMMON.items()]
        click_command = _Command(
            name,
            callback=entry,
            params=[_click_parameter(*parameter) for parameter in parameters],
            help=handler.__doc__,
        )
        click_command.arguments = tuple(
            (declared.metavar, declared.help)
            for _, annotation, _ in parameters
            if isinstance(declared := get_args(annotation)[1], Argument)
        )
        app.add_command(click_command)
        return handler

    return register


def _click_parameter(name: str, annotation: Any, default: Any) -> click.Parameter:
    """From an annotated parameter to Click's."""
    kind, declared = get_args(annotation)
    many = get_origin(kind) is list or any(get_origin(one) is list for one in get_args(kind))
    convert = _converter(many=many, to_path=kind is Path or Path in get_args(kind))
    required = default is inspect.Parameter.empty
    if isinstance(declared, Argument):
        return click.Argument(
            [name],
            nargs=-1 if many else 1,
            required=required,
            metavar=declared.metavar if required else f"[{declared.metavar}]{'...' if many else ''}",
            callback=convert,
        )
    names = [declared.name, *((declared.short,) if declared.short else ()), name]
    if kind is bool:
        return click.Option(names, is_flag=True, default=default, help=declared.help)
    return click.Option(
        names,
        multiple=many,
        required=required,
        metavar=declared.metavar,
        help=declared.help,
        callback=convert,
    )


def _converter(*, many: bool, to_path: bool) -> Callable[[Any, Any, Any], Any]:
    """A missing value is None, for one and for many alike."""

    def convert(_context: Any, _parameter: Any, value: Any) -> Any:
        if many:
            return list(value) or None
        return Path(value) if to_path and value is not None else value

    return convert


def invocation_of(
    *,
    as_json: bool,
    no_color: bool,
    config: Path | None = None,
    quiet: bool = False,
    verbose: bool = False,
) -> Invocation:
    from holdfast.cli.console import Console

    environment = system_environment.read()
    console = Console(
        as_json=as_json,
        quiet=quiet,
        color=not (no_color or environment.get("NO_COLOR")),
        ci=environment.ci,
        actions=environment.get("GITHUB_ACTIONS") == "true",
    )
    return Invocation(
        as_json=as_json,
        config=config,
        quiet=quiet,
        verbose=verbose,
        environment=environment,
        console=console,
    )


def _run(handler: Handler, common: dict[str, Any], values: dict[str, Any]) -> int:
    invocation = invocation_of(**common)
    console = invocation.console
    try:
        exit_ = handler(invocation, **values)
        sys.stdout.flush()  # A full disk is an error now; at interpreter exit it could get lost.
    except HoldfastError as error:
        show_error(invocation, error)
        return int(error.exit)
    except KeyboardInterrupt:
        console.warn("stopped")
        return int(Exit.FAILED)
    except BrokenPipeError:
        streams.give_up_output()
        return int(Exit.FAILED)
    except Exception as error:  # noqa: BLE001 - the outermost loop: a user never sees a traceback
        if invocation.verbose:
            console.trace(error)
        show_error(invocation, file_error(error) if isinstance(error, OSError) else _bug(error))
        streams.flush_or_give_up()
        return int(Exit.FAILED)
    return int(exit_)


def _bug(error: Exception) -> HoldfastError:
    return Failed(
        "HF-BUG-1",
        f"unexpected error in Holdfast: {type(error).__name__}: {error}",
        hint="Please report it with the output of --verbose. Run holdfast plan before the next apply.",
    )


def show_error(invocation: Invocation, error: HoldfastError) -> None:
    from holdfast.runs.document import errors_document

    if invocation.as_json:
        try:
            invocation.document(errors_document(error.problems))
            sys.stdout.flush()
        except OSError:  # The output itself may be what failed.
            streams.give_up_output()
        else:
            return
    invocation.console.problems(error.problems, error.exit)
