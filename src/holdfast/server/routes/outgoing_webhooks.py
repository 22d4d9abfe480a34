"""Outgoing webhooks of the tenant: `/api/v1/webhooks`. `server/outgoing_webhooks.py` sends.

The secret of a webhook is shown once, in the response that creates it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from litestar import Request, Response, Router, delete, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Meta, Struct
from msgspec.structs import asdict

from holdfast.audit.entry import Entry, What
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.notify.outgoing_webhooks import SECRET_BYTES, TEST, event_patterns, new_secret
from holdfast.server.audit_log import ServerAudit, TenantStores
from holdfast.server.exceptions import problem, standard_denial
from holdfast.server.guards import address_of, require_covered
from holdfast.server.problems import Denial, FieldProblem
from holdfast.store.outgoing_webhooks import (
    MOST,
    DeliveryState,
    OutgoingDelivery,
    OutgoingWebhook,
    OutgoingWebhookRows,
    WebhookTarget,
    read_targets,
)
from holdfast.system import clock
from holdfast.system.addresses import AddressRules

Who = NamedDependency[Principal]
Rows = NamedDependency[OutgoingWebhookRows]
Stores = NamedDependency[TenantStores]
AuditLog = NamedDependency[ServerAudit]
AnyRequest = Request[Any, Any, Any]
_ADMINISTER: Final = {"permission": Permission.ADMINISTER}
_WEBHOOK: Final = "/{webhook_id:str}"
_ALL_STACKS: Final = ("*",)
"""A webhook tells about all devices and runs of the tenant."""
_HINT: Final = "GET /api/v1/webhooks lists the webhooks of your tenant."


class NewOutgoingWebhook(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(min_length=1, max_length=1000)]
    events: Annotated[tuple[Annotated[str, Meta(max_length=100)], ...], Meta(min_length=1, max_length=100)]
    """Such as `event.succeeded`, or `event.*`."""


class OutgoingWebhookDocument(Struct, frozen=True, kw_only=True):
    version: int = 1
    id: str
    url: str
    events: tuple[str, ...]
    created: str
    created_by: str
    disabled: str | None
    """When its receiver answered 410."""
    secret: str | None = None
    """Only if it was just created."""


class OutgoingWebhookList(Struct, frozen=True, kw_only=True):
    version: int = 1
    webhooks: tuple[OutgoingWebhookDocument, ...]
    next: str | None


class OutgoingDeliveryDocument(OutgoingDelivery, frozen=True, kw_only=True):
    version: int = 1


class OutgoingDeliveryList(Struct, frozen=True, kw_only=True):
    version: int = 1
    deliveries: tuple[OutgoingDelivery, ...]
    next: str | None


@post("/", opt=_ADMINISTER, sync_to_thread=True)
def create_outgoing_webhook(
    request: AnyRequest,
    principal: Who,
    outgoing: Rows,
    stores: Stores,
    addresses: NamedDependency[AddressRules],
    audit: AuditLog,
    data: JSONBody[NewOutgoingWebhook],
) -> Response[OutgoingWebhookDocument]:
    require_covered(principal, _ALL_STACKS)
    _require_valid(data, addresses)
    target = WebhookTarget(url=data.url, secret=new_secret(clock.random_bytes(SECRET_BYTES)))
    store = stores.of(principal.tenant)
    store.id()  # Written with the first use, before the transaction.
    added = outgoing.add(
        principal.home_tenant,
        target=target,
        events=tuple(dict.fromkeys(data.events)),
        by=principal.name,
        encrypted=store.encrypted,
    )
    if added is None:
        message, hint = f"the tenant has {MOST} webhooks, the most it may have", "Delete one."
        raise problem(Denial(status=HTTPStatus.CONFLICT, code="HF-WEBHOOK-7", message=message, hint=hint))
    _record(audit, principal, "outgoing-webhook-add", added, target, request)
    document = _document(added, target, secret=target.secret)
    location = {"location": f"/api/v1/webhooks/{added.id}"}
    return Response(document, status_code=HTTPStatus.CREATED, headers=location)


@get("/", opt=_ADMINISTER, sync_to_thread=True)
def list_outgoing_webhooks(
    principal: Who,
    outgoing: Rows,
    stores: Stores,
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 100,
    cursor: FromQuery[str] = "",
) -> OutgoingWebhookList:
    page = outgoing.page(principal.home_tenant, after=cursor, limit=limit)
    targets = read_targets(stores.of(principal.tenant).encrypted, [webhook.id for webhook in page])
    return OutgoingWebhookList(
        webhooks=tuple(_document(webhook, targets.get(webhook.id)) for webhook in page),
        next=page[-1].id if len(page) == limit else None,
    )


@get(_WEBHOOK, opt=_ADMINISTER, sync_to_thread=True)
def show_outgoing_webhook(
    principal: Who, outgoing: Rows, stores: Stores, webhook_id: FromPath[str]
) -> OutgoingWebhookDocument:
    webhook = _webhook(outgoing, principal, webhook_id)
    return _document(webhook, _target(stores, principal, webhook))


@delete(_WEBHOOK, opt=_ADMINISTER, sync_to_thread=True)
def delete_outgoing_webhook(
    request: AnyRequest,
    principal: Who,
    outgoing: Rows,
    stores: Stores,
    audit: AuditLog,
    webhook_id: FromPath[str],
) -> None:
    """With its deliveries: what is not delivered yet is not sent any more."""
    require_covered(principal, _ALL_STACKS)
    webhook = _webhook(outgoing, principal, webhook_id)
    target = _target(stores, principal, webhook)
    if outgoing.remove(principal.home_tenant, webhook.id):
        _record(audit, principal, "outgoing-webhook-remove", webhook, target, request)


@get(f"{_WEBHOOK}/deliveries", opt=_ADMINISTER, sync_to_thread=True)
def list_deliveries(
    principal: Who,
    outgoing: Rows,
    webhook_id: FromPath[str],
    wanted: Annotated[DeliveryState | None, QueryParameter(name="state")] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 100,
    cursor: FromQuery[str] = "",
) -> OutgoingDeliveryList:
    """Newest first."""
    webhook = _webhook(outgoing, principal, webhook_id)
    page = outgoing.deliveries(principal.home_tenant, webhook.id, state=wanted, before=cursor, limit=limit)
    return OutgoingDeliveryList(deliveries=page, next=page[-1].id if len(page) == limit else None)


@post(f"{_WEBHOOK}/deliveries/{{delivery_id:str}}/retry", opt=_ADMINISTER, sync_to_thread=True)
def retry_delivery(
    principal: Who, outgoing: Rows, webhook_id: FromPath[str], delivery_id: FromPath[str]
) -> Response[OutgoingDeliveryDocument]:
    """Send a dead or pending delivery now."""
    require_covered(principal, _ALL_STACKS)
    webhook = _webhook(outgoing, principal, webhook_id)
    if outgoing.delivery(principal.home_tenant, webhook.id, delivery_id) is None:
        raise problem(_absent(f"the webhook {webhook.id} has no delivery {delivery_id}"))
    _require_enabled(webhook)
    retried = outgoing.retry(principal.home_tenant, webhook.id, delivery_id)
    if retried is None:
        message, hint = f"{delivery_id} was delivered", "POST /api/v1/webhooks/ID/test sends a test."
        raise problem(Denial(status=HTTPStatus.CONFLICT, code="HF-WEBHOOK-8", message=message, hint=hint))
    return _accepted(retried)


@post(f"{_WEBHOOK}/test", opt=_ADMINISTER, sync_to_thread=True)
def send_test(
    principal: Who, outgoing: Rows, webhook_id: FromPath[str]
) -> Response[OutgoingDeliveryDocument]:
    """A delivery of the kind `webhook.test`. What became of it is in its deliveries."""
    require_covered(principal, _ALL_STACKS)
    webhook = _webhook(outgoing, principal, webhook_id)
    _require_enabled(webhook)
    added = outgoing.add_test(principal.home_tenant, webhook.id, TEST)
    if added is None:  # It was disabled or deleted in between.
        raise problem(_disabled(webhook))
    return _accepted(added)


def outgoing_webhooks_router() -> Router:
    routes = (
        create_outgoing_webhook,
        list_outgoing_webhooks,
        show_outgoing_webhook,
        delete_outgoing_webhook,
        list_deliveries,
        retry_delivery,
        send_test,
    )
    return Router(path="/api/v1/webhooks", route_handlers=routes)


def _require_valid(data: NewOutgoingWebhook, addresses: AddressRules) -> None:
    known, errors = tuple(event_patterns()), []
    if (wrong := addresses.url_problem(data.url)) is not None:
        errors.append(FieldProblem(path="/url", message=wrong))
    for index, event in enumerate(data.events):
        if event not in known:
            errors.append(FieldProblem(path=f"/events/{index}", message=f"must be one of {', '.join(known)}"))
    if errors:
        raise problem(standard_denial(HTTPStatus.UNPROCESSABLE_ENTITY, errors=tuple(errors)))


def _webhook(outgoing: OutgoingWebhookRows, principal: Principal, id_: str) -> OutgoingWebhook:
    webhook = outgoing.of(principal.home_tenant, id_)
    if webhook is None:
        raise problem(_absent(f"there is no webhook {id_}"))
    return webhook


def _target(stores: TenantStores, principal: Principal, webhook: OutgoingWebhook) -> WebhookTarget | None:
    return read_targets(stores.of(principal.tenant).encrypted, [webhook.id]).get(webhook.id)


def _require_enabled(webhook: OutgoingWebhook) -> None:
    if webhook.disabled is not None:
        raise problem(_disabled(webhook))


def _disabled(webhook: OutgoingWebhook) -> Denial:
    return Denial(
        status=HTTPStatus.CONFLICT,
        code="HF-WEBHOOK-9",
        message=f"the webhook {webhook.id} is disabled: its receiver answered 410",
        hint="Delete it, and create it again when the receiver is back.",
    )


def _absent(message: str) -> Denial:
    return Denial(status=HTTPStatus.NOT_FOUND, code="HF-WEBHOOK-6", message=message, hint=_HINT)


def _document(
    webhook: OutgoingWebhook, target: WebhookTarget | None, *, secret: str | None = None
) -> OutgoingWebhookDocument:
    return OutgoingWebhookDocument(
        id=webhook.id,
        url=target.url if target is not None else "",
        events=webhook.events,
        created=webhook.created.isoformat(),
        created_by=webhook.created_by,
        disabled=webhook.disabled.isoformat() if webhook.disabled is not None else None,
        secret=secret,
    )


def _accepted(delivery: OutgoingDelivery) -> Response[OutgoingDeliveryDocument]:
    document = OutgoingDeliveryDocument(**asdict(delivery))
    return Response(document, status_code=HTTPStatus.ACCEPTED)


def _record(
    audit: ServerAudit,
    principal: Principal,
    what: What,
    webhook: OutgoingWebhook,
    target: WebhookTarget | None,
    request: AnyRequest,
) -> None:
    """With the host of the address only: its path may contain a token."""
    details: dict[str, str | int | None] = {
        "id": webhook.id,
        "host": urlsplit(target.url).hostname if target is not None else None,
        "events": " ".join(webhook.events),
    }
    entry = Entry(what=what, outcome="done", details=details)
    audit.record(webhook.tenant, principal, entry, address=address_of(request.scope))
