"""Events are accepted and found, as the caller of a request may.

An event is in the database, and in the audit log, before the request is answered, and begins at once if its
device is free.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field

from holdfast.audit.entry import Entry
from holdfast.config.server import EventLimits
from holdfast.database.database import Database
from holdfast.fleet.payload import PayloadProblem, payload_problems
from holdfast.identity.principal import DEFAULT_TENANT
from holdfast.identity.roles import Permission
from holdfast.kernel.errors import Refused
from holdfast.server.audit_log import ServerAudit, TenantStores
from holdfast.server.exceptions import problem, standard_denial
from holdfast.server.guards import not_permitted
from holdfast.server.problems import Denial, FieldProblem
from holdfast.server.run_requests import Caller
from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.database_blobs import read_several, write_several
from holdfast.store.fleet import queue
from holdfast.store.fleet.blueprints import BlueprintRows, OfferedBlueprint, add_source, find_source
from holdfast.store.fleet.contents import (
    EventContent,
    blueprint_name,
    event_content,
    event_name,
    read_event,
)
from holdfast.store.fleet.queue import NewEvent
from holdfast.store.fleet.rows import Event, FleetRows, find_device
from holdfast.store.fleet.rules import Action, DeviceStatus, EventStatus, expected_status, is_refused
from holdfast.store.outgoing_webhooks import enqueue
from holdfast.store.server_runs.contents import upload_name
from holdfast.store.stack_names import DEVICES

EventAct = Literal["event-submit", "event-retry", "event-rollback", "cancel"]
_RETRY_SECONDS: Final = 10
"""How long a client waits that is refused because too many events wait."""


class EventRequest(Struct, frozen=True, kw_only=True):
    blueprint: str
    action: Action
    resource_id: str
    payload: Mapping[str, Any] | None = None
    requires_approval: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    origin: str | None = None


class _Addition(Struct, frozen=True, kw_only=True):
    """How an event is added."""

    caller: Caller
    act: EventAct
    key: str | None
    digest: bytes
    keeps: bool
    """The payload that the device has."""
    repeats: Event | None


class Accepted(Struct, frozen=True, kw_only=True):
    event: Event
    replayed: bool = False
    """The key was used before for the same request."""


def device_stack(tenant: str, blueprint: str, resource_id: str) -> str:
    """The name of its stack and of its state."""
    return f"{DEVICES}{tenant}/{blueprint}/{resource_id}"


class EventRequests:
    def __init__(
        self, database: Database, stores: TenantStores, audit: ServerAudit, limits: EventLimits
    ) -> None:
        self.database = database
        self._stores = stores
        self.audit = audit
        self._limits = limits
        self.rows = FleetRows(database)
        self._blueprints = BlueprintRows(database)

    def blueprints(self) -> dict[str, OfferedBlueprint]:
        return self._blueprints.all()

    def blobs(self, tenant: str) -> EncryptedBlobs:
        return self._stores.of(tenant).encrypted

    def event(self, caller: Caller, id_: str) -> Event:
        """404 also if it is another tenant's, or of a device that the caller's token does not cover."""
        event = self.rows.event(id_)
        if event is None or event.tenant != caller.tenant or not caller.principal.covers_stack(event.stack):
            raise problem(
                Denial(
                    status=404,
                    code="HF-EVENT-1",
                    message=f"there is no event {id_}",
                    hint="List the events: holdfast events list",
                )
            )
        return event

    def current(self, event: Event) -> Event:
        found = self.rows.event(event.id)
        return found if found is not None else event

    def content(self, event: Event) -> EventContent:
        return read_event(self.blobs(event.tenant), event.id) or EventContent()

    # Accepting

    def submit(
        self,
        caller: Caller,
        request: EventRequest,
        key: str | None = None,
        *,
        act: EventAct = "event-submit",
        repeats: Event | None = None,
    ) -> Accepted:
        """`key`: the client's own, under which it may repeat the request.

        `repeats`: an event after which no other of its device may count.
        """
        digest = _request_digest(caller, request)
        stack = device_stack(caller.tenant, request.blueprint, request.resource_id)
        if key is not None and (known := self.rows.known_key(caller.tenant, key)) is not None:
            return self._replayed(caller, key, digest, known)
        if not caller.principal.covers_stack(stack):
            raise problem(not_permitted(caller.principal, Permission.RUN))
        blueprint = self._blueprint(caller, request)
        content = self._content(request, blueprint)
        new = _new_event(caller, request, blueprint, content, stack)
        addition = _Addition(
            caller=caller, act=act, key=key, digest=digest, keeps=_keeps_payload(request), repeats=repeats
        )
        used = self._add(new, content, blueprint, addition)
        if key is not None and used is not None:
            return self._replayed(caller, key, digest, used)
        return Accepted(event=self.event(caller, new.id))

    def _add(
        self,
        new: NewEvent,
        content: EventContent,
        blueprint: OfferedBlueprint,
        addition: _Addition,
    ) -> tuple[bytes, str] | None:
        """What the key was used for in the meantime; None: the event is added.

        On one connection: others wait for the queue, and each of them has one.
        """
        store = self._stores.of(new.tenant)
        store.id()
        blobs = store.encrypted
        with self.database.transaction() as connection:
            queue.take_queue(connection)
            if addition.key is not None:
                used = queue.take_key(connection, new.tenant, addition.key, addition.digest, new.id)
                if used is not None:
                    return used
            if addition.repeats is not None:
                _require_newest(connection, addition.repeats)
            self._require_possible(connection, new)
            self._require_room(connection, new)
            if addition.keeps:
                content = self._with_kept_payload(connection, blobs, new, content, blueprint)
                new = msgspec.structs.replace(new, requires_approval=content.requires_approval)
            source, contents = self._source(connection, new.tenant, blueprint)
            new = msgspec.structs.replace(new, source=source)
            contents[event_name(new.id)] = msgspec.json.encode(content)
            write_several(blobs, contents, connection)
            for old in queue.add_event(connection, new):
                enqueue(connection, new.tenant, f"event.{EventStatus.SUPERSEDED}", old)
            queue.begin_events(connection, new.id)
            self.record(connection, addition.caller, new, addition.act)
        return None

    def record(
        self, connection: Any, caller: Caller, event: Event | NewEvent, what: EventAct, reason: str = ""
    ) -> None:
        """In the audit log, with the transaction: both count, or neither. Never the payload."""
        details = {"event": event.id, "action": event.action.value}
        if event.origin is not None:
            details["origin"] = event.origin
        entry = Entry(
            what=what,
            stack=event.stack,
            run=event.run,
            reason=reason or event.reason or None,
            outcome="done",
            details=details,
        )
        self.audit.record(
            caller.tenant, caller.principal, entry, address=caller.address, connection=connection
        )

    def _blueprint(self, caller: Caller, request: EventRequest) -> OfferedBlueprint:
        """A device of one that is no longer offered can be deleted, with the code of its last change."""
        offered, name = self.blueprints(), request.blueprint
        if name in offered:
            return offered[name]
        withdrawn = self._blueprints.withdrawn(name)
        device = self.rows.device(caller.tenant, name, request.resource_id)
        if withdrawn is not None and device is not None and request.action is Action.DELETE:
            used = {"version": device.version, "digest": device.digest} if device.digest is not None else {}
            return msgspec.structs.replace(withdrawn, **used)
        known = ", ".join(offered) or "none"
        message = f"there is no blueprint {name}; the server offers: {known}"
        hint = "List them: holdfast blueprints list --server"
        if withdrawn is not None:
            message = f"the server no longer offers the blueprint {name}; it offers: {known}"
            hint = "Its devices can be deleted. To change them: holdfast serve --blueprints ITS_FOLDER"
        raise _invalid("HF-EVENT-2", hint, FieldProblem(path="/blueprint", message=message))

    def _content(self, request: EventRequest, blueprint: OfferedBlueprint) -> EventContent:
        """Without a payload that the device keeps."""
        deletes = request.action is Action.DELETE
        if deletes and blueprint.deletion == "deny":
            raise Refused(
                "HF-EVENT-3",
                f"the blueprint {blueprint.name} does not allow events to delete devices",
                hint="Set `deletion: allow` or `approve` in its blueprint.yaml.",
            )
        payload = dict(request.payload or {})
        problems = () if _keeps_payload(request) else payload_problems(blueprint.payload_schema, payload)
        if problems:
            hint = "What it may contain is in `payload_schema`: holdfast blueprints list --server --json"
            raise _invalid("HF-EVENT-4", hint, *map(_in_payload, problems))
        return EventContent(
            payload=payload,
            outputs=blueprint.outputs,
            requires_approval=request.requires_approval or (deletes and blueprint.deletion == "approve"),
            deletes=deletes,
            recreates=blueprint.vanished == "recreate",
        )

    def _with_kept_payload(
        self,
        connection: Any,
        blobs: EncryptedBlobs,
        new: NewEvent,
        content: EventContent,
        of: OfferedBlueprint,
    ) -> EventContent:
        """That of the last event that counts, in the order of the queue: no accepted update is lost.

        What a person was to approve is not applied without that.
        """
        device = (new.tenant, new.blueprint, new.resource_id)
        origin = queue.payload_origin(connection, *device, new.action)
        found = read_several(blobs, [event_name(origin.event)] if origin is not None else [], connection)
        payload = next((event_content(blob).payload for blob in found.values()), {})
        # Whatever the schema says now, a device can be deleted.
        problems = payload_problems(of.payload_schema, payload) if new.action is Action.UPDATE else ()
        if problems:
            raise _no_longer_valid(of, *map(_in_payload, problems))
        waits = content.requires_approval or (origin is not None and origin.requires_approval)
        return msgspec.structs.replace(content, payload=payload, requires_approval=waits)

    def _require_possible(self, connection: Any, new: NewEvent) -> None:
        device = (new.tenant, new.blueprint, new.resource_id)
        found = find_device(connection, *device)
        current = found.status if found is not None else DeviceStatus.ABSENT
        expected = expected_status(current, queue.open_actions(connection, *device))
        if is_refused(new.action, expected):
            exists = expected is DeviceStatus.PRESENT
            raise Refused(
                "HF-EVENT-5",
                f"the device {new.resource_id} {'exists already' if exists else 'does not exist'}",
                hint="Change it with the action `update`." if exists else "Create it first.",
            )

    def _require_room(self, connection: Any, new: NewEvent) -> None:
        waiting = queue.waiting_counts(connection, new.tenant, new.requester.subject)
        full = {
            "of this client": waiting.client >= self._limits.per_client,
            "of this tenant": waiting.tenant >= self._limits.per_tenant,
            "on this server": waiting.overall >= self._limits.overall,
        }
        for whose, is_full in full.items():
            if is_full:
                raise problem(
                    Denial(
                        status=429,
                        code="HF-EVENT-6",
                        message=f"too many events {whose} are not over yet",
                        hint="Try again later, as Retry-After says.",
                        headers=(("retry-after", str(_RETRY_SECONDS)),),
                    )
                )

    def _source(
        self, connection: Any, tenant: str, blueprint: OfferedBlueprint
    ) -> tuple[str, dict[str, bytes]]:
        """The code of the blueprint, and what is to be written with its first use in a tenant."""
        source = find_source(connection, tenant, blueprint.digest)
        if source is not None:
            return source, {}
        name = blueprint_name(blueprint.digest)
        blob = read_several(self.blobs(DEFAULT_TENANT), [name], connection).get(name)
        if blob is None:
            raise Refused("HF-EVENT-2", f"the server has no code of the blueprint {blueprint.name}")
        source = add_source(connection, tenant, blueprint.digest, len(blob.data))
        return source, {upload_name(source): blob.data}

    def _replayed(self, caller: Caller, key: str, digest: bytes, known: tuple[bytes, str]) -> Accepted:
        request, event = known
        if request != digest:
            raise Refused(
                "HF-EVENT-7",
                f"the Idempotency-Key {key} was used for another request, event {event}",
                hint="Use a new key for each request, and the same one only to repeat it.",
            )
        return Accepted(event=self.event(caller, event), replayed=True)


def _new_event(
    caller: Caller, request: EventRequest, blueprint: OfferedBlueprint, content: EventContent, stack: str
) -> NewEvent:
    return NewEvent(
        tenant=caller.tenant,
        blueprint=blueprint.name,
        version=blueprint.version,
        digest=blueprint.digest,
        resource_id=request.resource_id,
        action=request.action,
        stack=stack,
        source="",
        requester=caller.principal,
        concurrency_key=blueprint.concurrency_key or blueprint.name,
        concurrency=blueprint.concurrency,
        reason=request.reason,
        requires_approval=content.requires_approval,
        labels=request.labels,
        environments=(blueprint.environment,) if blueprint.environment is not None else (),
        worker_labels=tuple(f"{name}={value}" for name, value in blueprint.labels.items()),
        retries=blueprint.retries,
        retry_wait=blueprint.retry_wait,
        origin=request.origin,
    )


def _require_newest(connection: Any, event: Event) -> None:
    """An event that failed must not undo what a later one did, or is about to do."""
    newer = queue.newer_event(connection, event)
    if newer is not None:
        raise Refused(
            "HF-EVENT-18",
            f"event {event.id} is not repeated: {newer.id}, a newer {newer.action} of the device, is"
            f" {newer.status}",
            hint=f"See what the device has: holdfast events show {newer.id}. To get an earlier payload back: "
            "holdfast events rollback EVENT, with an event that succeeded.",
        )


def _keeps_payload(request: EventRequest) -> bool:
    """An update or a deletion without a payload leaves it as it is."""
    return request.payload is None and request.action is not Action.CREATE


def _in_payload(found: PayloadProblem) -> FieldProblem:
    return FieldProblem(path=f"/payload{found.path}", message=found.message)


def _request_digest(caller: Caller, request: EventRequest) -> bytes:
    """Of who sends it and of what was sent, in whatever order its keys are."""
    sent = msgspec.json.encode([caller.principal.subject, request], order="deterministic")
    return hashlib.sha256(sent).digest()


def _invalid(code: str, hint: str, *errors: FieldProblem) -> Exception:
    denial = standard_denial(422, errors=errors)
    return problem(msgspec.structs.replace(denial, code=code, hint=hint))


def _no_longer_valid(blueprint: OfferedBlueprint, *errors: FieldProblem) -> Exception:
    denial = standard_denial(422, errors=errors)
    _, _, shown = denial.message.partition(": ")
    return problem(
        msgspec.structs.replace(
            denial,
            code="HF-EVENT-15",
            message=f"the payload of the device does not fit {blueprint.name} {blueprint.version}: {shown}",
            hint="Send an update with a payload that does.",
        )
    )
