"""Events and devices as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.identity.roles import Permission
from holdfast.server.fleet.drift import findings_of
from holdfast.server.fleet.requests import EventRequests
from holdfast.server.run_requests import Caller
from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.database_blobs import read_several
from holdfast.store.fleet.contents import EventContent, event_name
from holdfast.store.fleet.rows import Device, Event
from holdfast.store.fleet.rules import Action, DeviceStatus, EventStatus
from holdfast.store.server_runs.contents import result_name


class EventDocument(Struct, frozen=True, kw_only=True):
    version: int = 1
    id: str
    blueprint: str
    blueprint_version: str
    action: Action
    resource_id: str
    status: EventStatus
    outputs: dict[str, Any] | None
    """Once it has succeeded, those that the blueprint names. A sensitive one is null.

    Null as a whole also if its run was removed, which happens only if a later event of the device succeeded.
    """
    plan: dict[str, Any] | None
    """Once it is planned: `digest`, `changes` and `resources`, without sensitive values."""
    timings: dict[str, int] | None
    """Milliseconds of the last attempt: `queued`, `init`, `plan`, `apply`."""
    error: dict[str, Any] | None
    created: datetime
    updated: datetime
    superseded_by: str | None
    requires_approval: bool
    labels: dict[str, str]
    reason: str
    who: str
    attempts: int
    next_try: datetime | None
    """When a failed attempt is repeated."""
    origin: str | None
    """The event that it repeats, or to whose payload it returns."""
    run: str | None
    """The run of its last attempt."""


class EventList(Struct, frozen=True, kw_only=True):
    version: int = 1
    events: tuple[EventDocument, ...]
    """Without their plans."""
    next: str | None


class DeviceDocument(Struct, frozen=True, kw_only=True):
    blueprint: str
    blueprint_version: str | None
    blueprint_digest: str | None
    """Of the code that it was last changed with."""
    resource_id: str
    status: DeviceStatus
    event: str | None
    """The last one that succeeded."""
    state: str
    """The name of its state: `/state/NAME`."""
    labels: dict[str, str]
    created: datetime
    updated: datetime
    drift: dict[str, Any] | None
    """What the last look at it found; null: not checked since it was changed."""


class DeviceList(Struct, frozen=True, kw_only=True):
    version: int = 1
    devices: tuple[DeviceDocument, ...]
    next: str | None


def shown_event(requests: EventRequests, caller: Caller, event: Event) -> EventDocument:
    """Plan and outputs only for who may see them."""
    blobs, may_see = requests.blobs(caller.tenant), caller.principal.may(Permission.READ_PLAN)
    return event_documents(blobs, (event,), plan=may_see, outputs=may_see)[0]


def event_documents(
    blobs: EncryptedBlobs, events: Sequence[Event], *, plan: bool, outputs: bool
) -> tuple[EventDocument, ...]:
    """With what their runs stored, in one statement."""
    names = [name for event in events for name in (result_name(event.run), event_name(event.id))]
    stored = read_several(blobs, names)

    def document(event: Event) -> EventDocument:
        result, content = stored.get(result_name(event.run)), stored.get(event_name(event.id))
        known = msgspec.json.decode(result.data, type=dict[str, Any]) if result is not None else {}
        asked = (
            msgspec.json.decode(content.data, type=EventContent) if content is not None else EventContent()
        )
        return _document(event, known, asked, plan=plan, outputs=outputs)

    return tuple(map(document, events))


def _document(
    event: Event, result: dict[str, Any], content: EventContent, *, plan: bool, outputs: bool
) -> EventDocument:
    copied = (
        *("id", "blueprint", "action", "resource_id", "status", "created", "updated", "superseded_by"),
        *("requires_approval", "labels", "reason", "attempts", "next_try", "origin"),
    )
    succeeded = event.status is EventStatus.SUCCEEDED
    values = result.get("outputs") or {}
    return EventDocument(
        **{name: getattr(event, name) for name in copied},
        blueprint_version=event.version,
        who=event.requester.name,
        run=event.run if event.attempts else None,
        outputs={name: (values.get(name) or {}).get("value") for name in content.outputs}
        if outputs and succeeded and result and event.action is not Action.DELETE
        else None,
        plan={name: result[name] for name in ("digest", "changes", "resources", "guard") if name in result}
        if plan and result.get("digest")
        else None,
        timings=_timings(event, result.get("timings")),
        error=event.error or (None if succeeded else result.get("error")),
    )


def _timings(event: Event, measured: dict[str, int] | None) -> dict[str, int] | None:
    """`queued` since the event was accepted: it may have waited for others of its device before."""
    if measured is None or event.run_started is None:
        return measured
    return {**measured, "queued": round((event.run_started - event.created).total_seconds() * 1000)}


def device_document(device: Device, state: str, blobs: EncryptedBlobs | None = None) -> DeviceDocument:
    """With `blobs`, also what differs, and why it could not be compared."""
    drift = device.drift
    if drift is not None and blobs is not None and drift.get("run"):
        stored = blobs.read(result_name(drift["run"]))
        result = msgspec.json.decode(stored.data, type=dict[str, Any]) if stored is not None else {}
        error = result.get("error") if drift["status"] == "not_checked" else None
        drift = {**drift, "findings": msgspec.to_builtins(tuple(findings_of(result))), "error": error}
    copied = ("blueprint", "resource_id", "status", "event", "labels", "created", "updated")
    return DeviceDocument(
        **{name: getattr(device, name) for name in copied},
        blueprint_version=device.version,
        blueprint_digest=device.digest,
        state=state,
        drift=drift,
    )
