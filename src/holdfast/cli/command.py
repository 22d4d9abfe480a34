"""What every command has in common: its options, its errors, its exit code.

A command is a function that takes an `Invocation` first and returns an exit code. Its parameters say with
`Annotated[…, Option(…)]` what the command line looks like; `command` adds the common options and turns
whatever happens into one screen and a number.
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

from holdfast.kernel.errors import Exit, Failed, HoldfastError
from holdfast.kernel.values import dataclass
from holdfast.system import environment as environment_door
from holdfast.system import streams
from holdfast.system.environment import Environment
from holdfast.system.files import unusable

if TYPE_CHECKING:  # Rich is not loaded for a command that prints a document.
    from holdfast.cli.console import Console

Handler = Callable[..., Exit]


@dataclass(frozen=True, slots=True)
class Option:
    """`--name VALUE` or a flag, by the type of the parameter."""

    name: str
    short: str | None = None
    metavar: str | None = None
    help: str = ""


@dataclass(frozen=True, slots=True)
class Argument:
    metavar: str
    help: str = ""


@dataclass(slots=True, kw_only=True)
class Invocation:
    """One start of the program: its common options and its surroundings."""

    as_json: bool
    config: Path | None
    quiet: bool
    verbose: bool
    environment: Environment
    console: Console

    def document(self, document: object) -> None:
        """The one document on standard output, without secrets."""
        from holdfast.secrets.redact_document import clean_document

        cleaned = clean_document(self.console.redactor, document)
        # The same document, in which GitHub Actions sees no command: `##[` stands in texts only.
        text = json.dumps(cleaned, indent=2, ensure_ascii=False).replace("##[", "##\\u005b")
        sys.stdout.write(text + "\n")


_COMMON: dict[str, tuple[Any, Any]] = {
    "as_json": (Annotated[bool, Option("--json", help="One JSON document on standard output.")], False),
    "config": (
        Annotated[
            Path | None,
            Option("--config", metavar="FILE", help="The configuration, if not found from here."),
        ],
        None,
    ),
    "quiet": (Annotated[bool, Option("--quiet", "-q", help="Only results and errors.")], False),
    "verbose": (Annotated[bool, Option("--verbose", "-v", help="Say more.")], False),
    "no_color": (Annotated[bool, Option("--no-color", help="No colour.")], False),
}


class Group(click.Group):
    """Commands in the order a person meets them; a misspelt one is answered with the nearest."""

    later: Mapping[str, str] = MappingProxyType({})
    """Names of commands whose module is loaded when somebody asks for them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's own signature
        return [*self.later, *(name for name in self.commands if name not in self.later)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.later and cmd_name not in self.commands:
            importlib.import_module(self.later[cmd_name]).register(self)
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
        def entry(**given: Any) -> int:
            common = {option: given.pop(option) for option in _COMMON}
            return _answer(handler, common, given)

        own = list(inspect.signature(handler, eval_str=True).parameters.values())[1:]
        parameters = [(one.name, one.annotation, one.default) for one in own]
        parameters += [(option, kind, default) for option, (kind, default) in _COMMON.items()]
        made = _Command(
            name, callback=entry, params=[_parameter(*one) for one in parameters], help=handler.__doc__
        )
        made.arguments = tuple(
            (said.metavar, said.help)
            for _, kind, _ in parameters
            if isinstance(said := _said(kind), Argument)
        )
        app.add_command(made)
        return handler

    return register


def _said(annotation: Any) -> Option | Argument:
    said: Option | Argument = get_args(annotation)[1]
    return said


def _parameter(name: str, annotation: Any, default: Any) -> click.Parameter:
    """From an annotated parameter to Click's."""
    kind, said = get_args(annotation)[0], _said(annotation)
    many = get_origin(kind) is list or any(get_origin(one) is list for one in get_args(kind))
    converts = Path if kind is Path or Path in get_args(kind) else None
    required = default is inspect.Parameter.empty
    if isinstance(said, Argument):
        return click.Argument(
            [name],
            nargs=-1 if many else 1,
            required=required,
            metavar=said.metavar if required else f"[{said.metavar}]{'...' if many else ''}",
            callback=_callback(many=many, converts=converts),
        )
    words = [said.name, *((said.short,) if said.short else ()), name]
    if kind is bool:
        return click.Option(words, is_flag=True, default=default, help=said.help)
    return click.Option(
        words,
        multiple=many,
        required=required,
        metavar=said.metavar,
        help=said.help,
        callback=_callback(many=many, converts=converts),
    )


def _callback(*, many: bool, converts: type[Path] | None) -> Callable[[Any, Any, Any], Any]:
    """Nothing given is None, for one and for many alike."""

    def convert(_context: Any, _parameter: Any, value: Any) -> Any:
        if many:
            return list(value) or None
        return converts(value) if converts is not None and value is not None else value

    return convert


def _answer(handler: Handler, common: dict[str, Any], given: dict[str, Any]) -> int:
    from holdfast.cli.console import Console

    environment = environment_door.read()
    console = Console(
        as_json=common["as_json"],
        quiet=common["quiet"],
        color=not (common["no_color"] or environment.get("NO_COLOR")),
        ci=environment.ci,
        actions=environment.get("GITHUB_ACTIONS") == "true",
    )
    invocation = Invocation(
        as_json=common["as_json"],
        config=common["config"],
        quiet=common["quiet"],
        verbose=common["verbose"],
        environment=environment,
        console=console,
    )
    try:
        return _flushed(handler(invocation, **given))
    except HoldfastError as error:
        show_error(invocation, error)
        return int(error.exit)
    except KeyboardInterrupt:
        console.warn("stopped")
        return int(Exit.FAILED)
    except BrokenPipeError:
        streams.give_up_output()
        return int(Exit.FAILED)
    except Exception as error:  # noqa: BLE001 - the outermost door: nothing leaves it as a traceback
        if invocation.verbose:
            console.trace(error)
        show_error(invocation, _unforeseen(error))
        streams.flush_or_give_up()
        return int(Exit.FAILED)


def _flushed(exit_: Exit) -> int:
    """What a full disk has no room for is found now: at Python's own end it can get lost."""
    sys.stdout.flush()
    return int(exit_)


def _unforeseen(error: Exception) -> HoldfastError:
    """The outermost door: what nobody foresaw is still a code, a message and a hint."""
    if isinstance(error, OSError):
        return unusable(error)
    return Failed(
        "HF-BUG-1",
        f"Holdfast met something it did not foresee: {type(error).__name__}: {error}",
        hint="Please report it with what --verbose shows. Before another apply, look with: holdfast plan",
    )


def show_error(invocation: Invocation, error: HoldfastError) -> None:
    from holdfast.runs.document import errors_document

    if invocation.as_json:
        try:
            invocation.document(errors_document(error.problems))
            sys.stdout.flush()
        except OSError:  # It may be the output itself that failed.
            streams.give_up_output()
        else:
            return
    invocation.console.problems(error.problems, error.exit)
