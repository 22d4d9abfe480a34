"""`holdfast devices`: what events made of the devices of a server."""

from __future__ import annotations

import itertools
from typing import Annotated

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import Limit, Server, limit_from
from holdfast.kernel.errors import Exit, UsageError

HELP = "List and show the devices of a server."
COMMANDS = ("list", "show")


def list_(
    invocation: Invocation,
    blueprint: Annotated[
        str | None, Option("--blueprint", metavar="NAME", help="Only devices of this blueprint.")
    ] = None,
    status: Annotated[
        str | None,
        Option(
            "--status", metavar="STATUS", help="Only present, incomplete or absent. Default: not absent ones."
        ),
    ] = None,
    limit: Limit = None,
    server: Server = None,
) -> Exit:
    """List devices, by blueprint and name."""
    from holdfast.cli.server.events import open_fleet
    from holdfast.cli.views.events import show_devices

    most, fleet = limit_from(limit), open_fleet(invocation, server)
    devices = list(itertools.islice(fleet.devices(blueprint=blueprint, status=status), most))
    document = {"version": 1, "devices": devices}
    option = fleet.client.login.option
    return invocation.answer(document, lambda: show_devices(invocation.console, devices, option, most))


def show(
    invocation: Invocation,
    device: Annotated[str, Argument(metavar="BLUEPRINT/RESOURCE_ID", help="As `devices list` shows it.")],
    server: Server = None,
) -> Exit:
    """Show a device: its status, drift, last event and state."""
    from holdfast.cli.server.events import open_fleet
    from holdfast.cli.views.events import show_device

    blueprint, slash, resource_id = device.partition("/")
    if not slash or not resource_id:
        raise UsageError(
            "HF-USE-48",
            f"{device} is not a device",
            hint="Write BLUEPRINT/RESOURCE_ID: holdfast devices list",
        )
    fleet = open_fleet(invocation, server)
    found, last = fleet.device(blueprint, resource_id), fleet.last_event(blueprint, resource_id)
    option = fleet.client.login.option
    document = {"version": 1, "device": found, "last_event": last}
    return invocation.answer(document, lambda: show_device(invocation.console, found, last, option))
