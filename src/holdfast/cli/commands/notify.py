"""`holdfast notify`: what people are told, whether it arrives, and a test of each route."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

from holdfast.cli.command import Argument, Invocation
from holdfast.kernel.errors import Exit, HoldfastError, UsageError
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from holdfast.cli.context import CommandContext
    from holdfast.config.notify import NotifySettings, Route
    from holdfast.notify.alerts.status import NotifyStatus

HELP = "Show alerts and what did not arrive, and test routes."
COMMANDS = ("status", "test", "retry")
_MARKS = {
    "ok": (" ✓ ", "green"),
    "unused": (" · ", "dim"),
    "waiting": (" · ", "dim"),
    "failing": (" ✗ ", "bold red"),
}
RouteName = Annotated[
    str, Argument(metavar="ROUTE", help="The name of a route or of its channel, or its number, from 1.")
]
MessageId = Annotated[str, Argument(metavar="ID", help="The id of a message, or its first characters.")]


def status(invocation: Invocation) -> Exit:
    """Show open alerts, and messages that have not arrived."""
    from holdfast.cli.notifications import open_delivery
    from holdfast.notify.alerts.status import status_of

    context = _open(invocation)
    delivery = open_delivery(invocation, context.repository)
    known = status_of(delivery.outbox.read(), delivery.rules, delivery.access.now())
    return invocation.answer(known.document(), lambda: _show(invocation, known))


def test(invocation: Invocation, route: RouteName) -> Exit:
    """Send a marked test through a route, and print the answer."""
    from holdfast.cli.notifications import accept_settings, open_delivery, runs_under_review
    from holdfast.notify.alerts.delivery import channels_of, send_test
    from holdfast.notify.alerts.status import notice_of_a_test
    from holdfast.notify.channels.interface import ChannelError

    context = _open(invocation)
    settings = context.repository.config.notify
    name = _route(settings, route).channel
    entry = channels_of(settings)[name]
    delivery = open_delivery(invocation, context.repository)
    document: dict[str, object] = {"version": 1, "route": route, "channel": name, "kind": entry.kind}
    notice = notice_of_a_test(delivery.new_id(), delivery.access.now(), name)
    if context.repository.store.can_apply and not runs_under_review(invocation, context.repository):
        with contextlib.suppress(HoldfastError):  # A test needs no key.
            accept_settings(delivery)
    try:
        sent = send_test(entry, notice, delivery.access, delivery.clean)
    except ChannelError as error:
        reason = error.reason
        return invocation.answer(
            {**document, "delivered": False, "answer": reason},
            lambda: invocation.console.line(
                (" ✗ ", "bold red"), f"{name} ({entry.kind}): not delivered: {reason}"
            ),
            exit_code=Exit.FAILED,
        )
    return invocation.answer(
        {**document, "delivered": True, "answer": sent.answer},
        lambda: invocation.console.line((" ✓ ", "green"), f"{name} ({entry.kind}): {sent.answer}"),
    )


def retry(invocation: Invocation, message: MessageId) -> Exit:
    """Send a message again that is dead or waits for its next attempt."""
    from holdfast.cli.notifications import SECONDS, open_delivery
    from holdfast.notify.alerts import outbox as steps
    from holdfast.notify.alerts.status import status_of
    from holdfast.system import clock

    context = _open(invocation)
    delivery = open_delivery(invocation, context.repository)
    matches = [id_ for id_ in delivery.outbox.read().messages if id_.startswith(message.upper())]
    if len(matches) != 1:
        what = f"{message} matches {len(matches)} messages" if matches else f"there is no message {message}"
        raise UsageError("HF-NOTIFY-4", what, hint="List them: holdfast notify status")
    id_, now = matches[0], delivery.access.now()

    def step(outbox: steps.Outbox) -> tuple[steps.Outbox, bool]:
        again = steps.retry(outbox, id_, now)
        return (outbox, False) if again is None else (again, True)

    if not delivery.outbox.change(step):
        raise UsageError("HF-NOTIFY-4", f"{id_} was delivered", hint="Test the channel: holdfast notify test")
    delivery.deliver(clock.monotonic() + SECONDS)
    known = status_of(delivery.outbox.read(), delivery.rules, delivery.access.now())
    left = next((each for each in known.messages if each.id == id_), None)
    error = left.error if left is not None else None
    shown = "delivered" if left is None else error or "not sent yet"
    return invocation.answer(
        {"version": 1, "message": id_, "delivered": left is None, "error": error},
        f" {id_}: {shown}",
        exit_code=Exit.DONE if left is None else Exit.FAILED,
    )


def _route(settings: NotifySettings, name: str) -> Route:
    from holdfast.notify.alerts.routing import routes_named

    if routes := routes_named(settings, name):
        return routes[0]
    known = ", ".join(dict.fromkeys(route.name or route.channel for route in settings.routes))
    raise UsageError("HF-NOTIFY-3", f"there is no route {name}", hint=f"Give one of: {known}")


def _open(invocation: Invocation) -> CommandContext:
    from holdfast.changes.preconditions import require_store
    from holdfast.cli.context import CommandContext

    context = CommandContext(invocation, reads=True)
    if not context.repository.config.notify.routes:
        raise UsageError(
            "HF-NOTIFY-3",
            "`notify` in holdfast.yaml has no routes",
            hint="Add channels and routes: docs/notifications.md",
        )
    require_store(context.repository)
    return context


def _show(invocation: Invocation, known: NotifyStatus) -> None:
    console = invocation.console
    for channel in known.channels:
        mark = _MARKS[channel.state]
        waits = f", {plural(channel.pending, 'message')} to send" if channel.pending else ""
        dead = f", {plural(channel.dead, 'dead message')}" if channel.dead else ""
        error = f": {channel.error}" if channel.error else ""
        unused = ": nothing was sent yet" if channel.state == "unused" else ""
        console.line(mark, f"{channel.name}{waits}{dead}{error}{unused}")
    for message in known.messages:
        state = "dead" if message.dead else f"next attempt {message.next_try or 'soon'}"
        console.line(f"   {message.id}  {message.channel}  {message.title}  ({state})")
        if message.error:
            console.line((f"      {message.error}", "dim"))
    if any(message.dead for message in known.messages):
        console.line("   Send a dead one again: holdfast notify retry ID")
    console.line(f" {plural(len(known.alerts), 'open alert')}")
    for alert in known.alerts:
        told = ", ".join(alert.channels) or "on no channel yet"
        console.line(f"   {alert.severity:8}  {alert.title}  since {alert.since[:16]}  ({told})")
