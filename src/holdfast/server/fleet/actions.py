"""What may be done with an event: cancel it, repeat it, return to the payload of an earlier one."""

from __future__ import annotations

from holdfast.kernel.errors import Refused
from holdfast.server.fleet.requests import EventAct, EventRequest, EventRequests
from holdfast.server.run_requests import Caller
from holdfast.store.fleet import queue
from holdfast.store.fleet.rows import Event
from holdfast.store.fleet.rules import Action, DeviceStatus, EventStatus
from holdfast.store.outgoing_webhooks import enqueue


def cancel_queued(requests: EventRequests, caller: Caller, event: Event, reason: str) -> None:
    """One that has not begun. The change of one that has is cancelled as any other."""
    error = {
        "code": "HF-EVENT-8",
        "message": f"cancelled by {caller.principal.name}{f': {reason}' if reason else ''}",
        "hint": f"To repeat it: holdfast events retry {event.id}",
    }
    with requests.database.transaction() as connection:
        queue.take_queue(connection)
        if not queue.cancel_queued(connection, event.id, error):
            raise wrong_status(event, "has ended or begun at the same moment")
        enqueue(connection, event.tenant, f"event.{EventStatus.CANCELLED}", event.id)
        queue.begin_events(connection)
        requests.record(connection, caller, event, "cancel", reason)


def retry(requests: EventRequests, caller: Caller, event: Event, reason: str) -> Event:
    """A new event with the same payload, checked against the blueprint as it is now."""
    if event.status is EventStatus.UNKNOWN:
        raise unknown_outcome(event, "repeated")
    if event.status not in {EventStatus.FAILED, EventStatus.CANCELLED}:
        raise wrong_status(event, "did not fail")
    return _again(requests, caller, event, event.action, reason, "event-retry")


def roll_back(requests: EventRequests, caller: Caller, event: Event, reason: str) -> Event:
    """Of the newest event that succeeded: to the payload before it. Of an older one: to its payload."""
    if event.status is not EventStatus.SUCCEEDED:
        raise wrong_status(event, "did not succeed, so there is nothing to roll back")
    device = requests.rows.device(event.tenant, event.blueprint, event.resource_id)
    newest = device is None or device.event == event.id
    wanted = requests.rows.payload_before(event) if newest or event.action is Action.DELETE else event.id
    if wanted is None or device is None:
        raise wrong_status(event, "has no payload before it", "To remove the device: the action `delete`.")
    action = Action.CREATE if device.status is DeviceStatus.ABSENT else Action.UPDATE
    origin = requests.event(caller, wanted)
    return _again(requests, caller, origin, action, reason or f"roll back {event.id}", "event-rollback")


def _again(
    requests: EventRequests, caller: Caller, event: Event, action: Action, reason: str, act: EventAct
) -> Event:
    request = EventRequest(
        blueprint=event.blueprint,
        action=action,
        resource_id=event.resource_id,
        payload=requests.content(event).payload,
        requires_approval=event.requires_approval,
        labels=event.labels,
        reason=reason,
        origin=event.id,
    )
    repeats = event if act == "event-retry" else None
    return requests.submit(caller, request, act=act, repeats=repeats).event


def wrong_status(event: Event, why: str, hint: str | None = None) -> Refused:
    hint = hint or f"It is {event.status}: holdfast events show {event.id}"
    return Refused("HF-EVENT-9", f"event {event.id} {why}", hint=hint)


def unknown_outcome(event: Event, what: str) -> Refused:
    hint = f"Find out what it did first: holdfast runs reconcile {event.run} --server"
    return wrong_status(event, f"has an unknown outcome, so it is not {what}", hint)
