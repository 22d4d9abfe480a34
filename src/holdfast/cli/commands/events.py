"""`holdfast events`: create, change and delete devices on a server, each with one event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import Limit, Reason, Server, Yes, limit_from
from holdfast.kernel.errors import Exit, UsageError

if TYPE_CHECKING:
    from holdfast.cli.server.events import EventCommands

HELP = "Create, change and delete devices on a server."
COMMANDS = ("submit", "show", "wait", "list", "log", "approve", "reject", "cancel", "retry", "rollback")

OneEvent = Annotated[str, Argument(metavar="EVENT", help="The event's id, or its first characters.")]
Wait = Annotated[
    str | None,
    Option(
        "--wait",
        metavar="DURATION",
        help="How long to wait for the result, such as 30s; 0 does not wait. Default: until it has ended.",
    ),
]


def submit(
    invocation: Invocation,
    blueprint: Annotated[str, Argument(metavar="BLUEPRINT", help="As `blueprints list --server` shows it.")],
    action: Annotated[str, Argument(metavar="ACTION", help="create, update or delete.")],
    resource_id: Annotated[str, Argument(metavar="RESOURCE_ID", help="Your own name of the device.")],
    payload: Annotated[
        str | None,
        Option(
            "--payload",
            metavar="FILE",
            help="All variables of the device as a JSON object; `-` reads standard input. Without a payload, "
            "update and delete keep what the device has.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="NAME=VALUE",
            help="A variable of the payload: a value in JSON, or text; wins over --payload; repeatable.",
        ),
    ] = None,
    requires_approval: Annotated[
        bool, Option("--requires-approval", help="Stop after the plan until another person approves it.")
    ] = False,
    label: Annotated[
        list[str] | None, Option("--label", metavar="NAME=VALUE", help="Of the device; repeatable.")
    ] = None,
    reason: Reason = None,
    key: Annotated[
        str | None,
        Option(
            "--key",
            metavar="KEY",
            help="Your own key of this request: with the same one it is done once. Default: a new one.",
        ),
    ] = None,
    wait: Wait = None,
    server: Server = None,
) -> Exit:
    """Submit an event, and wait until the device is as it says."""
    from holdfast.cli.server.events import pairs, read_payload

    request: dict[str, Any] = {"blueprint": blueprint, "action": action, "resource_id": resource_id}
    given = read_payload(payload, set_ or [])
    more = {
        "payload": given,
        "requires_approval": requires_approval or None,
        "labels": pairs("--label", label or []) or None,
        "reason": reason,
    }
    request |= {name: value for name, value in more.items() if value is not None}
    seconds = _seconds(wait)
    return _commands(invocation, server).submit(request, key, seconds)


def show(
    invocation: Invocation,
    event: OneEvent,
    plan: Annotated[bool, Option("--plan", help="Show everything that its plan changes.")] = False,
    server: Server = None,
) -> Exit:
    """Show an event: its status, outputs, timings and error."""
    return _commands(invocation, server).show(event, plan=plan)


def wait(invocation: Invocation, event: OneEvent, wait: Wait = None, server: Server = None) -> Exit:
    """Wait until an event has ended, or waits for an approval."""
    seconds = _seconds(wait)
    return _commands(invocation, server).wait(event, seconds)


def list_(
    invocation: Invocation,
    blueprint: Annotated[
        str | None, Option("--blueprint", metavar="NAME", help="Only devices of this blueprint.")
    ] = None,
    device: Annotated[
        str | None, Option("--device", metavar="RESOURCE_ID", help="Only events of this device.")
    ] = None,
    action: Annotated[
        str | None, Option("--action", metavar="ACTION", help="Only create, update or delete.")
    ] = None,
    status: Annotated[
        str | None, Option("--status", metavar="STATUS", help="Only events with this status.")
    ] = None,
    dead_letters: Annotated[
        bool, Option("--dead-letters", help="Only those that failed, and that no later event made up for.")
    ] = False,
    limit: Limit = None,
    server: Server = None,
) -> Exit:
    """List events, newest first."""
    filters = {"blueprint": blueprint, "resource_id": device, "action": action, "status": status}
    if device is not None and "/" in device:
        filters["blueprint"], _, filters["resource_id"] = device.partition("/")
    most = limit_from(limit)
    return _commands(invocation, server).list(
        limit=most, **filters, dead_letters="true" if dead_letters else None
    )


def log(
    invocation: Invocation,
    event: OneEvent,
    follow: Annotated[bool, Option("--follow", help="Print new lines until it is done.")] = False,
    server: Server = None,
) -> Exit:
    """Show the output of an event's last attempt, with secrets masked."""
    return _commands(invocation, server).log(event, follow=follow)


def approve(
    invocation: Invocation, event: OneEvent, reason: Reason = None, yes: Yes = False, server: Server = None
) -> Exit:
    """Show the plan of an event, ask, and approve exactly this plan."""
    return _commands(invocation, server).approve(event, reason or "", yes=yes)


def reject(invocation: Invocation, event: OneEvent, reason: Reason = None, server: Server = None) -> Exit:
    """Reject the plan of an event, which is then cancelled. Needs --reason."""
    if not (reason or "").strip():
        hint = "Add --reason TEXT. The audit log records it."
        raise UsageError("HF-USE-25", "events reject needs --reason", hint=hint)
    return _commands(invocation, server).reject(event, str(reason))


def cancel(invocation: Invocation, event: OneEvent, reason: Reason = None, server: Server = None) -> Exit:
    """Cancel an event. If it has begun, resources in progress are finished first."""
    return _commands(invocation, server).cancel(event, reason or "")


def retry(
    invocation: Invocation, event: OneEvent, reason: Reason = None, wait: Wait = None, server: Server = None
) -> Exit:
    """Repeat an event that failed or was cancelled. A new event gets the same payload."""
    seconds = _seconds(wait)
    return _commands(invocation, server).again(event, "retry", reason or "", seconds)


def rollback(
    invocation: Invocation, event: OneEvent, reason: Reason = None, wait: Wait = None, server: Server = None
) -> Exit:
    """Return a device to an earlier payload, with a new event.

    EVENT is its newest one, to return to the payload before it, or an older one, to return to its payload.
    """
    seconds = _seconds(wait)
    return _commands(invocation, server).again(event, "rollback", reason or "", seconds)


def _commands(invocation: Invocation, server: str | None) -> EventCommands:
    from holdfast.cli.server.events import EventCommands

    return EventCommands(invocation, server)


def _seconds(text: str | None) -> float | None:
    """None: without a limit."""
    from holdfast.cli.parameters import wait_from

    return None if text is None else wait_from(text, ci=False)
