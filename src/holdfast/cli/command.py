"""What every command has in common: its options, its error handling, its exit code.

A command is a function that takes an `Invocation` first and returns an exit code. Its parameters declare the
command line with `Annotated[…, Option(…)]`; the common options are those of `open_invocation`. Every error
becomes a message and an exit code.
"""

from __future__ import annotations

import importlib
import inspect
import json
import keyword
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import click
from msgspec import Struct

from holdfast.kernel.errors import Exit, Failed, HoldfastError
from holdfast.system import environment as system_environment
from holdfast.system import standard_streams
from holdfast.system.environment import Environment
from holdfast.system.files import file_error

if TYPE_CHECKING:  # Rich is not loaded for a command that prints a document.
    from holdfast.cli.console import Console

Handler = Callable[..., Exit]
_ORDER = "holdfast.order"


class Option(Struct, frozen=True):
    """`--name VALUE` or a flag, by the type of the parameter."""

    name: str
    short: str | None = None
    metavar: str | None = None
    help: str = ""
    optional: bool = False
    """The value may be left out; it is empty then."""
    sign: str = ""
    """Of an optional value: the next word without this sign is not the value."""


class Argument(Struct, frozen=True):
    metavar: str
    help: str = ""
    separated: bool = False
    """Contains `--` where the command line does."""


class Invocation(Struct, kw_only=True):
    """The common options of one command line, its environment and its console."""

    as_json: bool
    config: Path | None
    verbose: bool
    environment: Environment
    console: Console

    def document(self, document: object) -> None:
        """Write the JSON document to standard output, without secrets."""
        from holdfast.secrets.redact import clean_document

        cleaned = clean_document(self.console.redactor, document)
        # `##[` and `##vso[` occur only in strings; escaped, no runner reads them as a command.
        text = json.dumps(cleaned, indent=2, ensure_ascii=False)
        text = re.sub(r"##(?=(?:vso)?\[)", r"#\\u0023", text, flags=re.IGNORECASE)
        sys.stdout.write(text + "\n")

    def answer(
        self, document: object, *shown: str | Callable[[], object], exit_code: Exit = Exit.DONE
    ) -> Exit:
        """With `--json` the document, otherwise the lines and what the functions show."""
        if self.as_json:
            self.document(document)
        else:
            for part in shown:
                self.console.line(part) if isinstance(part, str) else part()
        return exit_code


def options_in_order(*names: str) -> tuple[str, ...]:
    """The parameters of these names as often and in the order in which the command line has them."""
    given: tuple[str, ...] = click.get_current_context().meta[_ORDER]
    return tuple(name for name in given if name in names)


def fields(value: object, *names: str) -> dict[str, object]:
    """Part of a document: these attributes of a value, under their own names."""
    return {name: getattr(value, name) for name in names}


class NoSuchCommand(click.UsageError):
    def __init__(self, name: str, near: str | None, context: click.Context) -> None:
        super().__init__(f"No such command '{name}'.", context)
        self.name, self.near, self.context = name, near, context


class Group(click.Group):
    """For a misspelt command it suggests the nearest."""

    def __init__(self, name: str, names: tuple[str, ...], module: str = "", **options: Any) -> None:
        super().__init__(name, **options)
        self._names = names
        self._module = module

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's own signature
        return list(self._names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Loaded when it is used: a function of its module, or a module that names its own in COMMANDS."""
        if cmd_name in self._names and cmd_name not in self.commands:
            name = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
            module = importlib.import_module(self._module or f"holdfast.cli.commands.{name}")
            if not self._module and hasattr(module, "COMMANDS"):
                self.add_command(Group(cmd_name, module.COMMANDS, module.__name__, help=module.HELP))
            else:
                name = cmd_name.replace("-", "_")
                handler = getattr(module, f"{name}_", None) or getattr(module, name)
                self.add_command(_build_command(cmd_name, handler))
        return super().get_command(ctx, cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`-help` and `-version` are Terraform's spelling."""
        if args and args[0].startswith("-"):
            from holdfast.cli.terraform_options import with_two_dashes

            args = [*with_two_dashes(self, ctx, args[:1]), *args[1:]]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self._names:
            import difflib

            near = difflib.get_close_matches(name, self._names, n=1)
            raise NoSuchCommand(name, near[0] if near else None, ctx)
        return super().resolve_command(ctx, args)


class _Command(click.Command):
    """A command whose help explains its arguments too."""

    arguments: tuple[tuple[str, str], ...] = ()
    separated = False
    """Its last argument contains `--` where the command line does."""
    signs: Mapping[str, str] = {}
    """What optional values contain, by option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Takes Terraform's spelling of options. Click forgets in which order different ones came."""
        from holdfast.cli.terraform_options import with_two_dashes

        if not self.separated or "--" in args:
            args = with_two_dashes(self, ctx, args)
        args = list(_without_values(args, self.signs))
        if self.separated and "--" in args:
            args.insert(args.index("--"), "--")  # Click removes the first one.
        given = self.make_parser(ctx).parse_args(args=list(args))[2]
        ctx.meta[_ORDER] = tuple(str(parameter.name) for parameter in given)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(self.arguments)
        super().format_options(ctx, formatter)


def _without_values(args: Sequence[str], signs: Mapping[str, str]) -> Iterator[str]:
    """`--server RUN` becomes `--server= RUN`: the next word is no address."""
    end = args.index("--") if "--" in args else len(args)
    for place, word in enumerate(args):
        following = args[place + 1] if place + 1 < end else ""
        yield f"{word}=" if place < end and word in signs and signs[word] not in following else word


def _build_command(name: str, handler: Handler) -> click.Command:
    """The handler as a command with the common options."""

    def entry(**values: Any) -> int:
        return _run(handler, {option: values.pop(option) for option in common}, values)

    own = dict(list(inspect.signature(handler, eval_str=True).parameters.items())[1:])
    common = inspect.signature(open_invocation, eval_str=True).parameters
    parameters = (*own.values(), *common.values())
    command = _Command(
        name, callback=entry, params=list(map(_click_parameter, parameters)), help=handler.__doc__
    )
    command.arguments = tuple(
        (declared.metavar, declared.help)
        for parameter in parameters
        if isinstance(declared := get_args(parameter.annotation)[1], Argument)
    )
    declared_options = (get_args(parameter.annotation)[1] for parameter in parameters)
    command.signs = {
        option.name: option.sign for option in declared_options if isinstance(option, Option) and option.sign
    }
    command.separated = any(
        getattr(get_args(parameter.annotation)[1], "separated", False) for parameter in parameters
    )
    return command


def _click_parameter(parameter: inspect.Parameter) -> click.Parameter:
    """From an annotated parameter to Click's. A missing value is None, for one and for many alike."""
    name, (kind, declared) = parameter.name, get_args(parameter.annotation)
    many = get_origin(kind) is list or any(get_origin(choice) is list for choice in get_args(kind))
    to_path = kind is Path or Path in get_args(kind)
    required = parameter.default is inspect.Parameter.empty

    def convert(_context: Any, _parameter: Any, value: Any) -> Any:
        if many:
            return list(value) or None
        return Path(value) if to_path and value is not None else value

    complete = _complete_stacks if declared.metavar and declared.metavar.startswith("STACK") else None
    if isinstance(declared, Argument):
        return click.Argument(
            [name],
            shell_complete=complete,
            nargs=-1 if many else 1,
            required=required,
            metavar=declared.metavar if required else f"[{declared.metavar}]{'...' if many else ''}",
            callback=convert,
        )
    names = [declared.name, *((declared.short,) if declared.short else ()), name]
    if kind is bool:
        return click.Option(names, is_flag=True, default=parameter.default, help=declared.help)
    # With these, also if they are False and None, Click takes `--since -x` for an option without its value.
    without_value: dict[str, Any] = {"is_flag": False, "flag_value": ""} if declared.optional else {}
    return click.Option(
        names,
        multiple=many,
        required=required,
        metavar=f"[{declared.metavar}]" if declared.optional else declared.metavar,
        shell_complete=complete,
        help=declared.help,
        callback=convert,
        **without_value,
    )


def _complete_stacks(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The names of stacks, while a user types. There is no place for an error."""
    from holdfast.changes.repository import open_repository

    try:
        config = context.params.get("config")
        repository = open_repository(Path(config) if config else None, system_environment.read())
    except Exception:  # noqa: BLE001 - a shell shows nothing, rather than a message in the middle of a line
        return []
    return [stack.name for stack in repository.stacks if stack.name.startswith(incomplete)]


def open_invocation(
    *,
    as_json: Annotated[bool, Option("--json", help="Print one JSON document to standard output.")] = False,
    config: Annotated[
        Path | None, Option("--config", metavar="FILE", help="Use this configuration file.")
    ] = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print only results and errors.")] = False,
    verbose: Annotated[bool, Option("--verbose", "-v", help="Show more detail.")] = False,
    no_color: Annotated[bool, Option("--no-color", help="Do not use colour.")] = False,
) -> Invocation:
    """The parameters are the options of every command."""
    from holdfast.cli.console import Console

    environment = system_environment.read()
    console = Console(
        as_json=as_json,
        quiet=quiet,
        color=not (no_color or environment.get("NO_COLOR")),
        ci=environment.ci,
        actions=environment.get("GITHUB_ACTIONS") == "true" or environment.get("TF_BUILD") is not None,
    )
    return Invocation(
        as_json=as_json, config=config, verbose=verbose, environment=environment, console=console
    )


def _run(handler: Handler, common: dict[str, Any], values: dict[str, Any]) -> int:
    invocation = open_invocation(**common)
    console = invocation.console
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # The same as Ctrl-C.
        exit_ = handler(invocation, **values)
        sys.stdout.flush()  # A full disk is an error now; at interpreter exit it could get lost.
    except HoldfastError as error:
        show_error(invocation, error)
        return int(error.exit)
    except KeyboardInterrupt:
        show_error(invocation, Failed("HF-RUN-2", "cancelled"))
        return int(Exit.FAILED)
    except BrokenPipeError:
        standard_streams.give_up_output()
        return int(Exit.FAILED)
    except Exception as error:  # noqa: BLE001 - the outermost loop: a user never sees a traceback
        if invocation.verbose:
            console.trace(error)
        show_error(invocation, file_error(error) if isinstance(error, OSError) else _bug(error))
        standard_streams.flush_or_give_up()
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
            standard_streams.give_up_output()
        else:
            return
    invocation.console.problems(error.problems, error.exit)
