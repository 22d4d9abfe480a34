"""`holdfast webhooks`: where the server sends what became of events, and what did not arrive."""

from __future__ import annotations

import itertools
import json
import sys
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

from holdfast.cli.command import Argument, Invocation, Option
from holdfast.cli.parameters import Limit, Server, Yes, limit_from
from holdfast.kernel.errors import Exit
from holdfast.kernel.text import plural

if TYPE_CHECKING:
    from holdfast.identity.client import ServerClient

HELP = "Have a server call your program when events end."
COMMANDS = ("add", "list", "remove", "test", "deliveries", "retry")
_PATH = "/api/v1/webhooks"
Id = Annotated[str, Argument(metavar="ID", help="As `webhooks list` shows it.")]


def add(
    invocation: Invocation,
    url: Annotated[str, Argument(metavar="URL", help="Where your program listens.")],
    event: Annotated[
        list[str] | None,
        Option("--event", metavar="EVENT", help="Such as event.failed. Can be repeated. Default: event.*"),
    ] = None,
    server: Server = None,
) -> Exit:
    """Add a webhook. Prints its secret, once.

    With it your program verifies what arrives.
    """
    created = _client(invocation, server).send("POST", _PATH, {"url": url, "events": event or ["event.*"]})
    # The redactor masks secrets everywhere else.
    sys.stdout.write((json.dumps(created, indent=2) if invocation.as_json else created["secret"]) + "\n")
    if not invocation.as_json:
        sys.stdout.flush()
        sys.stderr.write(
            f" {_line(created)}. Its secret is not shown again.\n"
            f" Try it: holdfast webhooks test {created['id']}\n"
        )
    return Exit.DONE


def list_(invocation: Invocation, server: Server = None) -> Exit:
    """List the webhooks of your tenant, without their secrets."""
    webhooks = list(_client(invocation, server).pages(_PATH, "webhooks"))
    lines = [f" {_line(webhook)}" for webhook in webhooks]
    return invocation.answer(
        {"version": 1, "webhooks": webhooks}, *lines, f" {plural(len(webhooks), 'webhook')}"
    )


def remove(invocation: Invocation, webhook_id: Id, yes: Yes = False, server: Server = None) -> Exit:
    """Remove a webhook with its deliveries. What did not arrive yet is not sent any more."""
    from holdfast.cli.confirmation import confirm_at_once

    client = _client(invocation, server)
    webhook = client.send("GET", _of(webhook_id))
    question = f"Remove the webhook to {webhook['url']}, with what did not arrive yet?"
    if not confirm_at_once(invocation.console, question, yes=yes):
        invocation.console.say(" Nothing was removed.")
        return Exit.FAILED
    client.send("DELETE", _of(webhook_id))
    return invocation.answer({"version": 1, "removed": webhook_id}, f" Removed {webhook_id}.")


def test(invocation: Invocation, webhook_id: Id, server: Server = None) -> Exit:  # noqa: PT028 - a command
    """Send a test. What became of it is in the deliveries of the webhook."""
    sent = _client(invocation, server).send("POST", f"{_of(webhook_id)}/test", {})
    hint = f" What became of it: holdfast webhooks deliveries {webhook_id}"
    return invocation.answer(sent, f" {_delivery(sent)}", hint)


def deliveries(
    invocation: Invocation,
    webhook_id: Id,
    state: Annotated[
        str | None, Option("--state", metavar="STATE", help="Only pending, delivered or dead ones.")
    ] = None,
    limit: Limit = None,
    server: Server = None,
) -> Exit:
    """List what was sent to a webhook, newest first."""
    most = limit_from(limit)
    pages = _client(invocation, server).pages(f"{_of(webhook_id)}/deliveries", "deliveries", state=state)
    sent = list(itertools.islice(pages, most))
    lines = [f" {_delivery(each)}" for each in sent]
    if any(each["state"] == "dead" for each in sent):
        lines.append(f" Send a dead one again: holdfast webhooks retry {webhook_id} DELIVERY")
    count = plural(len(sent), "delivery", "deliveries")
    more = " shown, there may be more" if len(sent) == most else ""
    return invocation.answer({"version": 1, "deliveries": sent}, *lines, f" {count}{more}")


def retry(
    invocation: Invocation,
    webhook_id: Id,
    delivery: Annotated[str, Argument(metavar="DELIVERY", help="As `webhooks deliveries` shows it.")],
    server: Server = None,
) -> Exit:
    """Send a dead or waiting delivery now."""
    path = f"{_of(webhook_id)}/deliveries/{quote(delivery, safe='')}/retry"
    sent = _client(invocation, server).send("POST", path, {})
    return invocation.answer(sent, f" {_delivery(sent)}")


def _client(invocation: Invocation, server: str | None) -> ServerClient:
    from holdfast.cli.server.connection import open_server

    return open_server(invocation, server).client


def _of(webhook_id: str) -> str:
    return f"{_PATH}/{quote(webhook_id, safe='')}"


def _line(webhook: dict[str, Any]) -> str:
    from holdfast.cli.views.state import moment

    disabled = f", disabled {moment(webhook['disabled'])}" if webhook["disabled"] else ""
    return f"{webhook['id']}  {webhook['url']}: {' '.join(webhook['events'])}{disabled}"


def _delivery(sent: dict[str, Any]) -> str:
    from holdfast.cli.views.state import moment

    parts = [f"{sent['state']} after {plural(sent['attempts'], 'attempt')}"]
    if sent["error"]:
        parts.append(str(sent["error"]))
    if sent["state"] == "pending" and sent["next_try"]:
        parts.append(f"next {moment(sent['next_try'])}")
    return f"{sent['id']}  {sent['kind']} of {sent['subject']}: {', '.join(parts)}"
