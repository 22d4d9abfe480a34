"""Events of devices: `/api/v1/events`."""

from __future__ import annotations

import asyncio
import contextlib
from http import HTTPStatus
from typing import Annotated, Any, Final

from anyio import to_thread
from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, QueryParameter
from msgspec import Meta, Struct, field

from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.server.exceptions import problem
from holdfast.server.fleet.actions import cancel_queued, retry, roll_back, unknown_outcome, wrong_status
from holdfast.server.fleet.documents import (
    EventDocument,
    EventList,
    event_documents,
    shown_event,
)
from holdfast.server.fleet.requests import EventRequest, EventRequests
from holdfast.server.guards import address_of
from holdfast.server.problems import Denial
from holdfast.server.routes.run_log import log_response
from holdfast.server.run_events import RunEvents
from holdfast.server.run_requests import Caller, RunRequests, invalid_field
from holdfast.store.approvals import ApprovalKind
from holdfast.store.fleet.rows import Event
from holdfast.store.fleet.rules import Action, EventStatus
from holdfast.system import clock

Who = NamedDependency[Principal]
Fleet = NamedDependency[EventRequests]
Runs = NamedDependency[RunRequests]
AnyRequest = Request[Any, Any, Any]
Name = Annotated[str, Meta(pattern=r"^[0-9A-Za-z](?:[0-9A-Za-z_-]|\.(?!\.)){0,99}\Z")]
Label = Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
Reason = Annotated[str, Meta(max_length=2000)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
Limit = Annotated[int, QueryParameter(ge=1, le=200)]
Cursor = Annotated[int, QueryParameter(ge=1, le=2**62)]
_READ: Final = {"permission": Permission.READ}
_RUN: Final = {"permission": Permission.RUN}
_APPROVE: Final = {"permission": Permission.APPROVE}
_LONGEST_KEY: Final = 255


class NewEventRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    blueprint: Name
    action: Action
    resource_id: Name
    """The client's own name of the device."""
    payload: dict[str, Any] | None = None
    """All variables of the device, not only those that change. Left out, it keeps what it has."""
    requires_approval: bool = False
    """Stop after the plan, until another person approves it."""
    labels: Annotated[dict[Label, Label], Meta(max_length=50)] = field(default_factory=dict)
    reason: Reason = ""


class EventDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    digest: Digest
    """Of the plan that was shown; another one is 409."""
    reason: Reason = ""


class EventReason(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Reason = ""


@post("/api/v1/events", opt=_RUN, status_code=HTTPStatus.ACCEPTED)
async def submit_event(
    request: AnyRequest,
    principal: Who,
    fleet: Fleet,
    events: NamedDependency[RunEvents],
    data: JSONBody[NewEventRequest],
    wait: Annotated[float, QueryParameter(ge=0, le=300)] = 0,
) -> Response[EventDocument]:
    """With `wait`, 200 as soon as the event is final or waits for an approval; otherwise 202."""
    caller = _caller(request, principal)
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable()):
        raise invalid_field("", f"Idempotency-Key must be 1 to {_LONGEST_KEY} printable ASCII characters")
    asked = EventRequest(**{name: getattr(data, name) for name in NewEventRequest.__struct_fields__})
    accepted = await to_thread.run_sync(fleet.submit, caller, asked, key)
    event = await _ended(fleet, events, accepted.event, wait)
    document = await to_thread.run_sync(shown_event, fleet, caller, event)
    headers = {"location": f"/api/v1/events/{event.id}"}
    if accepted.replayed:
        headers["idempotency-replayed"] = "true"
    done = wait > 0 and _is_ended(event)
    return Response(document, status_code=HTTPStatus.OK if done else HTTPStatus.ACCEPTED, headers=headers)


@get("/api/v1/events", opt=_READ, sync_to_thread=True)
def list_events(
    principal: Who,
    fleet: Fleet,
    blueprint: FromQuery[str | None] = None,
    resource_id: FromQuery[str | None] = None,
    action: FromQuery[Action | None] = None,
    status: FromQuery[EventStatus | None] = None,
    dead_letters: FromQuery[bool] = False,  # noqa: FBT002 - a parameter of the address
    limit: Limit = 100,
    cursor: Cursor = 2**62,
) -> EventList:
    """Newest first. `dead_letters`: those that failed, and that no later event made up for."""
    page = fleet.rows.events(
        principal.home_tenant,
        blueprint=blueprint,
        resource_id=resource_id,
        action=None if action is None else action.value,
        status=None if status is None else status.value,
        dead=dead_letters,
        before=cursor,
        limit=limit,
    )
    shown = tuple(event for event in page if principal.covers_stack(event.stack))
    documents = event_documents(
        fleet.blobs(principal.home_tenant), shown, plan=False, outputs=principal.may(Permission.READ_PLAN)
    )
    return EventList(events=documents, next=str(page[-1].number) if len(page) == limit else None)


@get("/api/v1/events/{event_id:str}", opt=_READ)
async def show_event(
    request: AnyRequest,
    principal: Who,
    fleet: Fleet,
    events: NamedDependency[RunEvents],
    event_id: FromPath[str],
    wait: Annotated[float, QueryParameter(ge=0, le=300)] = 0,
) -> EventDocument:
    """With `wait`, as soon as it is final or waits for an approval, or after so many seconds."""
    caller = _caller(request, principal)
    event = await to_thread.run_sync(fleet.event, caller, event_id)
    event = await _ended(fleet, events, event, wait)
    return await to_thread.run_sync(shown_event, fleet, caller, event)


@get("/api/v1/events/{event_id:str}/log", opt={"permission": Permission.READ_PLAN})
async def event_log(
    request: AnyRequest,
    principal: Who,
    fleet: Fleet,
    requests: Runs,
    events: NamedDependency[RunEvents],
    event_id: FromPath[str],
    cursor: Annotated[int, QueryParameter(ge=0, le=2**31)] = 0,
) -> Response[Any]:
    """Of its last attempt, as `/api/v1/runs/{id}/log`."""
    caller = _caller(request, principal)
    event = await to_thread.run_sync(fleet.event, caller, event_id)
    if not event.attempts:
        raise problem(
            Denial(
                status=404, code="HF-EVENT-10", message=f"event {event.id} has not begun, so it has no log"
            )
        )
    return await log_response(request, requests, events, caller, event.run, cursor)


@post("/api/v1/events/{event_id:str}/approve", opt=_APPROVE, status_code=HTTPStatus.OK, sync_to_thread=True)
def approve_event(
    request: AnyRequest,
    principal: Who,
    fleet: Fleet,
    requests: Runs,
    event_id: FromPath[str],
    data: JSONBody[EventDecision],
) -> EventDocument:
    return _decide(_caller(request, principal), fleet, requests, event_id, ApprovalKind.APPROVAL, data)


@post("/api/v1/events/{event_id:str}/reject", opt=_APPROVE, status_code=HTTPStatus.OK, sync_to_thread=True)
def reject_event(
    request: AnyRequest,
    principal: Who,
    fleet: Fleet,
    requests: Runs,
    event_id: FromPath[str],
    data: JSONBody[EventDecision],
) -> EventDocument:
    """The event is then `cancelled`. The reason is for who asked for it."""
    if not data.reason.strip():
        raise invalid_field("/reason", "a rejection needs a reason")
    return _decide(_caller(request, principal), fleet, requests, event_id, ApprovalKind.REJECTION, data)


@post("/api/v1/events/{event_id:str}/cancel", opt=_RUN, status_code=HTTPStatus.ACCEPTED, sync_to_thread=True)
def cancel_event(
    request: AnyRequest,
    principal: Who,
    fleet: Fleet,
    requests: Runs,
    event_id: FromPath[str],
    data: JSONBody[EventReason],
) -> EventDocument:
    """At once if it has not begun. Otherwise Terraform finishes the resources in progress."""
    caller = _caller(request, principal)
    event = fleet.event(caller, event_id)
    if event.stored == EventStatus.RUNNING:
        requests.cancel(caller, requests.change(caller, event.change), data.reason)
    elif event.stored == EventStatus.QUEUED:
        cancel_queued(fleet, caller, event, data.reason)
    elif event.stored == EventStatus.UNKNOWN:
        raise unknown_outcome(event, "cancelled")
    else:
        raise wrong_status(event, "is over, so it cannot be cancelled")
    return shown_event(fleet, caller, fleet.event(caller, event_id))


@post("/api/v1/events/{event_id:str}/retry", opt=_RUN, status_code=HTTPStatus.ACCEPTED, sync_to_thread=True)
def retry_event(
    request: AnyRequest, principal: Who, fleet: Fleet, event_id: FromPath[str], data: JSONBody[EventReason]
) -> Response[EventDocument]:
    """A new event with the same payload."""
    caller = _caller(request, principal)
    return _new(fleet, caller, retry(fleet, caller, fleet.event(caller, event_id), data.reason))


@post(
    "/api/v1/events/{event_id:str}/rollback", opt=_RUN, status_code=HTTPStatus.ACCEPTED, sync_to_thread=True
)
def roll_back_event(
    request: AnyRequest, principal: Who, fleet: Fleet, event_id: FromPath[str], data: JSONBody[EventReason]
) -> Response[EventDocument]:
    """A new event: of the newest one to the payload before it, of an older one to its own payload."""
    caller = _caller(request, principal)
    return _new(fleet, caller, roll_back(fleet, caller, fleet.event(caller, event_id), data.reason))


def events_router() -> Router:
    return Router(
        path="/",
        route_handlers=[
            *(submit_event, list_events, show_event, event_log, approve_event, reject_event, cancel_event),
            *(retry_event, roll_back_event),
        ],
    )


def _caller(request: AnyRequest, principal: Principal) -> Caller:
    return Caller(principal=principal, address=address_of(request.scope))


def _new(fleet: EventRequests, caller: Caller, event: Event) -> Response[EventDocument]:
    headers = {"location": f"/api/v1/events/{event.id}"}
    return Response(shown_event(fleet, caller, event), status_code=202, headers=headers)


def _decide(
    caller: Caller,
    fleet: EventRequests,
    requests: RunRequests,
    event_id: str,
    kind: ApprovalKind,
    data: EventDecision,
) -> EventDocument:
    event = fleet.event(caller, event_id)
    if event.status is not EventStatus.WAITING:
        raise wrong_status(event, "does not wait for a decision")
    requests.decide(caller, requests.run(caller, event.run), kind, data.digest, data.reason)
    return shown_event(fleet, caller, fleet.event(caller, event_id))


def _is_ended(event: Event) -> bool:
    return event.status.is_final or event.status in {EventStatus.WAITING, EventStatus.UNKNOWN}


async def _ended(fleet: EventRequests, events: RunEvents, event: Event, seconds: float) -> Event:
    """The event once there is nothing to wait for any more, or as it is after so many seconds."""
    end = clock.monotonic() + seconds
    if not seconds:
        return event
    while True:
        change = event.change
        async with events.subscribe(event.id, change) as news:
            while event.change == change:  # Another attempt has another one.
                news.clear()
                event = await to_thread.run_sync(fleet.current, event)
                left = end - clock.monotonic()
                if _is_ended(event) or events.ended or left <= 0:
                    return event
                if event.change == change:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(left):
                            await news.wait()
