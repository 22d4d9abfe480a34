"""`holdfast blueprints`: the folders that devices are made from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import Reason, Server, Yes
from holdfast.kernel.errors import Exit, UsageError
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from holdfast.fleet.blueprint import Blueprint

HELP = "List, check, create and roll out blueprints of devices."
COMMANDS = ("list", "validate", "new", "rollout")
_PATH = "/api/v1/blueprints"
_DEFAULT = "blueprints"
_LONGEST = 60
_WAVES = "1,10%,100%"
_WAVE_WAIT = "30m"

Folders = Annotated[
    list[str] | None,
    Argument(
        metavar="[FOLDER]...",
        help="Blueprints, or folders that contain some. Default: blueprints/ if it exists, else this folder.",
    ),
]


def list_(
    invocation: Invocation,
    folders: Folders = None,
    server: Annotated[
        str | None,
        Option(
            "--server",
            metavar="URL",
            optional=True,
            sign="://",
            help="List those of this server. Default: of HOLDFAST_URL if it is set and no FOLDER is given.",
        ),
    ] = None,
) -> Exit:
    """List blueprints: those of a server, or those in folders."""
    from holdfast.identity.client import URL_VARIABLE

    if folders and server is not None:
        raise UsageError(
            "HF-USE-4",
            "FOLDER cannot be combined with --server",
            hint="Name the folders, or the server whose blueprints you want to list.",
        )
    if not folders and (server is not None or invocation.environment.get(URL_VARIABLE)):
        from holdfast.cli.server.connection import open_server

        found = list(open_server(invocation, server).client.pages(_PATH, "blueprints"))
    else:
        found = _documents(_load(invocation, folders).values())
    return invocation.answer({"version": 1, "blueprints": found}, lambda: _show(invocation, found))


def validate(invocation: Invocation, folders: Folders = None) -> Exit:
    """Check blueprints: settings, module, schema and files. Lists every mistake."""
    blueprints = list(_load(invocation, folders).values())
    lines = [f" {each.name} {each.version}: valid, sha256 {each.digest}" for each in blueprints]
    count = f" {plural(len(blueprints), 'valid blueprint')}"
    return invocation.answer({"version": 1, "blueprints": _documents(blueprints)}, *lines, count)


def new(
    invocation: Invocation,
    name: Annotated[str, Argument(metavar="NAME", help="The name of the blueprint and of its folder.")],
    folder: Annotated[
        Path | None,
        Option("--folder", metavar="DIR", help="Where its folder is created. Default: blueprints."),
    ] = None,
    source: Annotated[
        str | None,
        Option(
            "--from",
            metavar="BLUEPRINT",
            help="Copy one that comes with Holdfast: cato-ipsec-site, versa-site. Default: a small example.",
        ),
    ] = None,
) -> Exit:
    """Create a blueprint that works, to be changed."""
    from holdfast.fleet.blueprint import load_blueprint
    from holdfast.fleet.new_blueprint import copy_blueprint, write_new_blueprint

    place = folder or Path(_DEFAULT)
    created = copy_blueprint(place, name, source) if source else write_new_blueprint(place, name)
    blueprint = load_blueprint(created, invocation.environment)
    document = {"version": 1, "folder": str(created), "blueprint": _documents([blueprint])[0]}
    shown = (
        f" Created {created}: the payload is what variables.tf declares, the device what main.tf contains.",
        f" Change both, then: holdfast blueprints validate {created}",
    )
    return invocation.answer(document, *shown)


def rollout(
    invocation: Invocation,
    name: Annotated[str, Argument(metavar="NAME", help="The blueprint, which the server offers.")],
    waves: Annotated[
        str | None,
        Option(
            "--waves",
            metavar="LIST",
            help="How many devices have it after each wave: numbers or percentages. Default: 1,10%,100%.",
        ),
    ] = None,
    max_failures: Annotated[
        str | None, Option("--max-failures", metavar="N", help="Stop when more devices fail. Default: 0.")
    ] = None,
    wait: Annotated[
        str | None,
        Option("--wait", metavar="DURATION", help="How long the events of a wave may take. Default: 30m."),
    ] = None,
    reason: Reason = None,
    yes: Yes = False,
    server: Server = None,
) -> Exit:
    """Bring a new version of a blueprint to its devices, in waves.

    The version is the one that the server offers. Each device keeps its payload. Run it again to continue:
    devices that have the version are skipped.
    """
    from holdfast.cli.parameters import count, wait_from
    from holdfast.cli.server.rollout import RolloutCommand
    from holdfast.fleet.rollout import waves_from

    parts, most = waves_from(waves or _WAVES), count("--max-failures", max_failures, default=0, least=0)
    seconds = wait_from(wait or _WAVE_WAIT, ci=False)
    command = RolloutCommand(invocation, server, name)
    return command.run(parts, most, seconds, reason or "", yes=yes)


def _load(invocation: Invocation, folders: Sequence[str] | None) -> dict[str, Blueprint]:
    from holdfast.fleet.blueprint import load_blueprints

    default = _DEFAULT if Path(_DEFAULT).is_dir() else "."
    return load_blueprints([Path(folder) for folder in folders or [default]], invocation.environment)


def _documents(blueprints: Any) -> list[dict[str, object]]:
    from holdfast.fleet.blueprint import blueprint_document

    return [blueprint_document(blueprint) for blueprint in blueprints]


def _show(invocation: Invocation, found: Sequence[dict[str, Any]]) -> None:
    from holdfast.cli.views.state import show_rows
    from holdfast.kernel.text import cut

    rows = [
        (
            each["name"],
            each["version"],
            f"deletion: {each['deletion']}",
            f"outputs: {', '.join(each['outputs']) or 'none'}",
            cut(each["description"] or "", _LONGEST),
        )
        for each in found
    ]
    show_rows(invocation.console, rows)
    invocation.console.line(f" {plural(len(found), 'blueprint')}")
