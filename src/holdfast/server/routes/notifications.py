"""Alerts of the tenant, and whether they arrive: `/api/v1/notifications`.

The channels are those of server.yaml: a tenant cannot add one.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from msgspec import Meta, Struct

from holdfast.audit.entry import Entry
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.kernel.errors import HoldfastError
from holdfast.notify.alerts import outbox as steps
from holdfast.notify.alerts.delivery import channels_of, send_test
from holdfast.notify.alerts.routing import routes_named
from holdfast.notify.alerts.status import MessageStatus, NotifyStatus, notice_of_a_test, status_of
from holdfast.notify.channels.interface import ChannelError
from holdfast.server.audit_log import ServerAudit
from holdfast.server.exceptions import problem
from holdfast.server.guards import address_of, require_covered
from holdfast.server.notifications import ServerChannels
from holdfast.server.problems import Denial
from holdfast.store.alert_signals import AlertSignals

Who = NamedDependency[Principal]
Channels = NamedDependency[ServerChannels]
AnyRequest = Request[Any, Any, Any]
_ADMINISTER: Final = {"permission": Permission.ADMINISTER}
_ALL_STACKS: Final = ("*",)


class TestedRoute(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    route: Annotated[str, Meta(min_length=1, max_length=100)]
    """Its name, the name of its channel, or its number, from 1."""


class TestAnswer(Struct, frozen=True, kw_only=True):
    version: int = 1
    route: str
    channel: str
    kind: str
    delivered: bool
    answer: str
    """Of the receiver, or why there is none."""


class MessageDocument(MessageStatus, frozen=True, kw_only=True):
    version: int = 1


@get("/", opt=_ADMINISTER, sync_to_thread=True)
def show_notifications(principal: Who, channels: Channels) -> NotifyStatus:
    """Open alerts, the channels, and what has not arrived."""
    require_covered(principal, _ALL_STACKS)
    delivery = channels.delivery(principal.home_tenant)
    return status_of(delivery.outbox.read(), delivery.rules, delivery.access.now())


@post("/test", opt=_ADMINISTER, status_code=HTTPStatus.OK, sync_to_thread=True)
def test_route(
    request: AnyRequest,
    principal: Who,
    channels: Channels,
    audit: NamedDependency[ServerAudit],
    data: JSONBody[TestedRoute],
) -> TestAnswer:
    """Send a marked test. Whether it was delivered is in the answer."""
    require_covered(principal, _ALL_STACKS)
    tenant = principal.home_tenant
    routes = routes_named(channels.settings, data.route, tenant)
    if not routes:
        hint = "`notify.routes` in server.yaml has those for your tenant."
        raise problem(_absent("HF-NOTIFY-3", f"there is no route {data.route}", hint))
    entry = channels_of(channels.settings)[routes[0].channel]
    delivery = channels.delivery(tenant)
    now = delivery.access.now()
    notice = notice_of_a_test(delivery.new_id(), now, entry.name)

    def spend(outbox: steps.Outbox) -> tuple[steps.Outbox, bool]:
        spent = steps.spend(outbox, entry.name, delivery.rules, now)
        return (outbox, False) if spent is None else (spent, True)

    may_send = delivery.outbox.change(spend)
    try:
        if may_send:
            answer, delivered = send_test(entry, notice, delivery.access, delivery.clean).answer, True
        else:
            answer, delivered = f"not sent: the channel takes {entry.per_minute} messages in a minute", False
    except ChannelError as error:
        answer, delivered = error.reason, False
    except HoldfastError as error:  # Its text may name what only who runs the server is to know.
        answer, delivered = f"{error.problem.code}: the channel cannot be used", False
    details: dict[str, str | int | None] = {"channel": entry.name}
    outcome = Entry(what="notify-test", outcome="done" if delivered else "failed", details=details)
    audit.record(tenant, principal, outcome, address=address_of(request.scope))
    return TestAnswer(
        route=data.route, channel=entry.name, kind=entry.kind, delivered=delivered, answer=answer
    )


@post("/messages/{message_id:str}/retry", opt=_ADMINISTER, sync_to_thread=True)
def retry_message(
    principal: Who, channels: Channels, signals: NamedDependency[AlertSignals], message_id: FromPath[str]
) -> Response[MessageDocument]:
    """Send a dead or pending message now."""
    require_covered(principal, _ALL_STACKS)
    tenant = principal.home_tenant
    delivery = channels.delivery(tenant)
    now = delivery.access.now()

    def step(outbox: steps.Outbox) -> tuple[steps.Outbox, steps.Outbox | None]:
        again = steps.retry(outbox, message_id, now)
        return (outbox, None) if again is None else (again, again)

    outbox = delivery.outbox.change(step)
    if outbox is None:
        message = f"there is no message {message_id} that has not arrived"
        raise problem(_absent("HF-NOTIFY-4", message, "GET /api/v1/notifications lists them."))
    signals.wake(tenant)
    left = status_of(outbox, delivery.rules, now).messages
    shown = next(message for message in left if message.id == message_id)
    fields = {name: getattr(shown, name) for name in MessageStatus.__struct_fields__}
    return Response(MessageDocument(**fields), status_code=HTTPStatus.ACCEPTED)


def notifications_router() -> Router:
    return Router(
        path="/api/v1/notifications", route_handlers=[show_notifications, test_route, retry_message]
    )


def _absent(code: str, message: str, hint: str) -> Denial:
    return Denial(status=HTTPStatus.NOT_FOUND, code=code, message=message, hint=hint)
