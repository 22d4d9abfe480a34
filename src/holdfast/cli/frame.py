"""What every command has in common: its options, its errors, its exit code.

A command is a function that takes an `Invocation` first and returns an exit code; `command` adds the
common options to it, and `run` turns whatever happens into one screen and a number.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.doors import environment as environment_door
from holdfast.doors.environment import Environment
from holdfast.doors.files import unusable
from holdfast.kernel.errors import Exit, Failed, HoldfastError

if TYPE_CHECKING:  # Rich is not loaded for a command that prints a document.
    from holdfast.cli.console import Console

Handler = Callable[..., Exit]


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
        """The one document on standard output."""
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")


_COMMON: dict[str, tuple[Any, Any]] = {
    "as_json": (
        Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")],
        False,
    ),
    "config": (
        Annotated[
            Path | None,
            typer.Option("--config", metavar="FILE", help="The configuration, if not found from here."),
        ],
        None,
    ),
    "quiet": (Annotated[bool, typer.Option("--quiet", "-q", help="Only results and errors.")], False),
    "verbose": (Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")], False),
    "no_color": (Annotated[bool, typer.Option("--no-color", help="No colour.")], False),
}


def command(app: typer.Typer, name: str) -> Callable[[Handler], Handler]:
    """Register a handler as a command with the common options."""

    def register(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def entry(**given: Any) -> None:
            common = {option: given.pop(option) for option in _COMMON}
            raise typer.Exit(_answer(handler, common, given))

        signature = inspect.signature(handler, eval_str=True)
        own = list(signature.parameters.values())[1:]
        added = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for option, (kind, default) in _COMMON.items()
        ]
        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + added
        entry.__signature__ = signature.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
        entry.__annotations__ = {one.name: one.annotation for one in parameters}
        app.command(name)(entry)
        return handler

    return register


def _answer(handler: Handler, common: dict[str, Any], given: dict[str, Any]) -> int:
    from holdfast.cli.console import Console

    environment = environment_door.read()
    console = Console(
        as_json=common["as_json"],
        quiet=common["quiet"],
        color=not (common["no_color"] or environment.get("NO_COLOR")),
        ci=environment.ci,
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
        return int(handler(invocation, **given))
    except HoldfastError as error:
        show_error(invocation, error)
        return int(error.exit)
    except KeyboardInterrupt:
        console.warn("stopped")
        return int(Exit.FAILED)
    except BrokenPipeError:
        sys.stderr.close()
        return int(Exit.FAILED)
    except Exception as error:
        if invocation.verbose:
            raise
        show_error(invocation, _unforeseen(error))
        return int(Exit.FAILED)


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
        invocation.document(errors_document(error.problems, invocation.console.redactor.clean))
    else:
        invocation.console.problems(error.problems, error.exit)
