"""States and their versions: `/api/v1/states`.

The app provides `principal` and `rows`, and checks the permission that each route names.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, JSONBody, PathParameter, QueryParameter
from msgspec import Meta, Struct

from holdfast.audit.entry import Entry, What
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.kernel.errors import UsageError
from holdfast.server.audit_log import ServerAudit
from holdfast.server.guards import address_of
from holdfast.server.state_protocol import valid_name
from holdfast.states import server_versions
from holdfast.states.server_versions import SecretsFound
from holdfast.store.server_states.changes import StateKey
from holdfast.store.server_states.locks import HolderKind, caller_of
from holdfast.store.server_states.rows import StateRows, Waiting
from holdfast.store.server_states.versions import StateInfo, StateVersion, StateVersions
from holdfast.terraform.statefile.diff import OutputDiff, ResourceDiff

Rows = NamedDependency[StateRows]
Who = NamedDependency[Principal]
AuditLog = NamedDependency[ServerAudit]
AnyRequest = Request[Any, Any, Any]
Limit = Annotated[int, QueryParameter(ge=1, le=200)]
StateId = FromPath[str]
Number = Annotated[int, PathParameter(ge=1, le=2**62)]
Reason = Annotated[str, Meta(min_length=1, max_length=1000)]
_READ = {"permission": Permission.READ}
_DOWNLOAD = {"permission": Permission.READ_STATE}
_ADMINISTER = {"permission": Permission.ADMINISTER}


class StateList(Struct, frozen=True, kw_only=True):
    version: int = 1
    states: tuple[StateInfo, ...]
    next: str | None


class VersionList(Struct, frozen=True, kw_only=True):
    version: int = 1
    versions: tuple[StateVersion, ...]
    next: str | None


class Difference(Struct, frozen=True, kw_only=True):
    version: int = 1
    resources: tuple[ResourceDiff, ...]
    outputs: tuple[OutputDiff, ...]


class SecretList(Struct, frozen=True, kw_only=True):
    version: int = 1
    secrets: tuple[SecretsFound, ...] | None
    """Null: OpenTofu encrypted the state, so it cannot be scanned."""


class LockDocument(Struct, frozen=True, kw_only=True):
    """Who holds the lock of a state, and who waits for it."""

    version: int = 1
    holder: str | None
    kind: HolderKind | None
    run: str | None
    id: str | None
    number: int | None
    taken: datetime | None
    beat: datetime | None
    """The last heartbeat of a run; plain Terraform has none."""
    expired: bool
    waiting: tuple[Waiting, ...]


class Rollback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Annotated[int, Meta(ge=1)]
    reason: Reason


class WithReason(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Reason


class Pin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    reason: Reason | None
    """Null: no longer pinned."""


class Unlock(WithReason, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str | None = None
    """Only if this is still the id of the lock."""


class NamedSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1)]
    """Of a state that may not be written yet."""
    unlocked_writes: bool
    version: Literal[1] = 1


class StateSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    unlocked_writes: bool


@get("/", opt=_READ, sync_to_thread=True)
def list_states(
    principal: Who,
    rows: Rows,
    name: FromQuery[str | None] = None,
    limit: Limit = 100,
    cursor: FromQuery[str] = "",
) -> StateList:
    page = StateVersions(rows).states(principal.home_tenant, name=name, after=cursor, limit=limit)
    return StateList(
        states=tuple(state for state in page if principal.covers_state(state.name)),
        next=page[-1].id if len(page) == limit else None,
    )


@get("/{state_id:str}/versions", opt=_READ, sync_to_thread=True)
def list_versions(
    principal: Who, rows: Rows, state_id: StateId, limit: Limit = 100, cursor: FromQuery[int] = 2**62
) -> VersionList:
    _state(principal, rows, state_id)
    page = StateVersions(rows).list(principal.home_tenant, state_id, before=cursor, limit=limit)
    return VersionList(versions=page, next=str(page[-1].number) if len(page) == limit else None)


@get("/{state_id:str}/versions/{number:int}", opt=_READ, sync_to_thread=True)
def show_version(principal: Who, rows: Rows, state_id: StateId, number: Number) -> StateVersion:
    _state(principal, rows, state_id)
    return StateVersions(rows).show(principal.home_tenant, state_id, number)


@get("/{state_id:str}/versions/{number:int}/content", opt=_DOWNLOAD, sync_to_thread=True)
def download(
    request: AnyRequest, principal: Who, rows: Rows, audit: AuditLog, state_id: StateId, number: Number
) -> Response[bytes]:
    """Contains secrets. Recorded."""
    name = _state(principal, rows, state_id).name
    content = StateVersions(rows).content(principal.home_tenant, state_id, number)
    with rows.change(StateKey(principal.home_tenant, name)) as change:
        change.record(principal.name, f"download version {number}", None)
    _record(request, principal, audit, "pull", name, version=number)
    return Response(content, media_type="application/json")


@get("/{state_id:str}/versions/{number:int}/secrets", opt=_READ, sync_to_thread=True)
def secrets(principal: Who, rows: Rows, state_id: StateId, number: Number) -> SecretList:
    _state(principal, rows, state_id)
    content = StateVersions(rows).content(principal.home_tenant, state_id, number)
    return SecretList(secrets=server_versions.find_secrets(content))


@get("/{state_id:str}/diff", opt=_READ, sync_to_thread=True)
def diff(
    principal: Who,
    rows: Rows,
    state_id: StateId,
    before: Annotated[int, QueryParameter(name="from", ge=1, le=2**62)],
    after: Annotated[int, QueryParameter(name="to", ge=1, le=2**62)],
) -> Difference:
    _state(principal, rows, state_id)
    difference = server_versions.diff(StateVersions(rows), principal.home_tenant, state_id, before, after)
    if difference is None:
        raise UsageError(
            "HF-STATE-59",
            "one of the versions is encrypted by OpenTofu, so they cannot be compared",
            hint="Download both and compare them with OpenTofu.",
        )
    return Difference(resources=difference.resources, outputs=difference.outputs)


@post("/{state_id:str}/rollback", opt=_ADMINISTER, status_code=200, sync_to_thread=True)
def rollback(
    request: AnyRequest,
    principal: Who,
    rows: Rows,
    audit: AuditLog,
    state_id: StateId,
    data: JSONBody[Rollback],
) -> StateVersion:
    name = _state(principal, rows, state_id).name
    written = server_versions.rollback(
        rows, principal.home_tenant, state_id, data.version, caller_of(principal), reason=data.reason
    )
    details = {"to": data.version, "version": written.number, "serial": written.serial}
    _record(request, principal, audit, "rollback", name, data.reason, **details)
    return written


@post("/{state_id:str}/versions/{number:int}/pin", opt=_ADMINISTER, status_code=200, sync_to_thread=True)
def pin(
    request: AnyRequest,
    principal: Who,
    rows: Rows,
    audit: AuditLog,
    state_id: StateId,
    number: Number,
    data: JSONBody[Pin],
) -> StateVersion:
    name = _state(principal, rows, state_id).name
    versions = StateVersions(rows)
    versions.pin(principal.home_tenant, state_id, number, caller_of(principal), reason=data.reason)
    pinned = "no" if data.reason is None else "yes"
    _record(request, principal, audit, "pin", name, data.reason, version=number, pinned=pinned)
    return versions.show(principal.home_tenant, state_id, number)


@post("/{state_id:str}/versions/{number:int}/purge", opt=_ADMINISTER, status_code=200, sync_to_thread=True)
def purge(
    request: AnyRequest,
    principal: Who,
    rows: Rows,
    audit: AuditLog,
    state_id: StateId,
    number: Number,
    data: JSONBody[WithReason],
) -> StateVersion:
    name = _state(principal, rows, state_id).name
    versions = StateVersions(rows)
    versions.purge(principal.home_tenant, state_id, number, caller_of(principal), reason=data.reason)
    _record(request, principal, audit, "purge", name, data.reason, version=number)
    return versions.show(principal.home_tenant, state_id, number)


@post("/{state_id:str}/settings", opt=_ADMINISTER, status_code=200, sync_to_thread=True)
def change_settings(
    request: AnyRequest,
    principal: Who,
    rows: Rows,
    audit: AuditLog,
    state_id: StateId,
    data: JSONBody[StateSettings],
) -> StateInfo:
    name = _state(principal, rows, state_id).name
    _allow_unlocked_writes(request, principal, rows, audit, name, allowed=data.unlocked_writes)
    return _state(principal, rows, state_id)


@post("/settings", opt=_ADMINISTER, status_code=200, sync_to_thread=True)
def change_settings_by_name(
    request: AnyRequest, principal: Who, rows: Rows, audit: AuditLog, data: JSONBody[NamedSettings]
) -> NamedSettings:
    name = valid_name(data.name)
    if not principal.covers_state(name):
        raise UsageError("HF-STATE-51", f"there is no state {name}")
    _allow_unlocked_writes(request, principal, rows, audit, name, allowed=data.unlocked_writes)
    return data


@get("/{state_id:str}/lock", opt=_READ, sync_to_thread=True)
def show_lock(principal: Who, rows: Rows, state_id: StateId) -> LockDocument:
    return _lock_document(rows, StateKey(principal.home_tenant, _state(principal, rows, state_id).name))


@post("/{state_id:str}/unlock", opt=_ADMINISTER, status_code=200, sync_to_thread=True)
def unlock(
    request: AnyRequest,
    principal: Who,
    rows: Rows,
    audit: AuditLog,
    state_id: StateId,
    data: JSONBody[Unlock],
) -> LockDocument:
    key = StateKey(principal.home_tenant, _state(principal, rows, state_id).name)
    lock = rows.force_unlock(key, caller_of(principal), id_=data.id, reason=data.reason)
    if lock is not None:
        _record(
            *(request, principal, audit, "unlock", key.name, data.reason),
            lock=lock.id,
            holder=lock.who,
            run=lock.run,
        )
    return _lock_document(rows, key)


ROUTES = (
    *(list_states, list_versions, show_version, download, secrets, diff),
    *(rollback, pin, purge, change_settings, change_settings_by_name, show_lock, unlock),
)


def states_router() -> Router:
    return Router(path="/api/v1/states", route_handlers=list(ROUTES))


def _state(principal: Principal, rows: StateRows, state: str) -> StateInfo:
    """The state, if the principal may know of it; others do not exist."""
    info = StateVersions(rows).state(principal.home_tenant, state)
    if not principal.covers_state(info.name):
        raise UsageError("HF-STATE-51", f"there is no state {state}")
    return info


def _allow_unlocked_writes(
    request: AnyRequest,
    principal: Principal,
    rows: StateRows,
    audit: ServerAudit,
    name: str,
    *,
    allowed: bool,
) -> None:
    key = StateKey(principal.home_tenant, name)
    rows.allow_unlocked_writes(key, caller_of(principal), allowed=allowed)
    _record(request, principal, audit, "unlocked-writes", name, allowed="yes" if allowed else "no")


def _record(
    request: AnyRequest,
    principal: Principal,
    audit: ServerAudit,
    what: What,
    state: str,
    reason: str | None = None,
    **details: str | int | None,
) -> None:
    entry = Entry(what=what, stack=state, reason=reason, outcome="done", details=details)
    audit.record(principal.home_tenant, principal, entry, address=address_of(request.scope))


def _lock_document(rows: StateRows, key: StateKey) -> LockDocument:
    row, waiting = rows.look(key)
    lock = row.lock if row is not None else None
    return LockDocument(
        holder=lock.who if lock is not None else None,
        kind=lock.kind if lock is not None else None,
        run=lock.run if lock is not None else None,
        id=lock.id if lock is not None else None,
        number=lock.number if lock is not None else None,
        taken=lock.taken if lock is not None else None,
        beat=lock.beat if lock is not None and lock.expires is not None else None,
        expired=lock is not None and row is not None and lock.expired(row.now),
        waiting=waiting,
    )
