"""Drift of stacks: `/api/v1/drift`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, Any, Final

from litestar import Request, Router, get, post
from litestar.di import NamedDependency
from litestar.params import FromQuery, JSONBody, QueryParameter
from msgspec import Meta, Struct

from holdfast.audit.entry import Entry
from holdfast.drift.acknowledging import acknowledge_one
from holdfast.drift.report import finding_document, time_text
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.kernel.errors import UsageError
from holdfast.secrets.redact import Redactor
from holdfast.server.audit_log import ServerAudit, TenantStores
from holdfast.server.exceptions import problem
from holdfast.server.guards import address_of
from holdfast.server.problems import Denial
from holdfast.server.run_requests import invalid_field
from holdfast.store.drift import Acknowledgement, StackDrift, StackStatus
from holdfast.store.run_store import RunStore
from holdfast.store.server_drift.rows import DriftRows, DriftStack
from holdfast.system import clock

Who = NamedDependency[Principal]
Stores = NamedDependency[TenantStores]
Rows = NamedDependency[DriftRows]
AnyRequest = Request[Any, Any, Any]
StackName = Annotated[str, Meta(min_length=1, max_length=500)]
_READ: Final = {"permission": Permission.READ}
_RUN: Final = {"permission": Permission.RUN}


class DriftedStack(Struct, frozen=True, kw_only=True):
    name: str
    environment: str | None
    production: bool | None
    repository: str | None
    """The registered repository that has it; null: only `holdfast drift` looks at it."""
    status: StackStatus
    unapplied: bool
    checked: str | None
    tried: str | None
    due: str | None
    """When it is looked at next."""
    looking: bool
    attempts: int
    """Looks that failed, since the last one that worked."""
    findings: list[dict[str, Any]]
    not_looked_at: list[dict[str, Any]]
    ignored: list[dict[str, Any]]
    expired_rules: list[str]
    notes: list[str]
    error: dict[str, Any] | None


class DriftList(Struct, frozen=True, kw_only=True):
    version: int = 1
    stacks: tuple[DriftedStack, ...]
    next: str | None


class LookRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    stack: StackName


class AcknowledgeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    stack: StackName
    finding: Annotated[str, Meta(min_length=1, max_length=100)]
    reason: Annotated[str, Meta(min_length=1, max_length=1000)]
    until: datetime | None = None
    """Absent: until the finding changes or is over."""


class AcknowledgedFinding(Struct, frozen=True, kw_only=True):
    version: int = 1
    stack: str
    finding: dict[str, Any]


@get("/api/v1/drift", opt=_READ, sync_to_thread=True)
def list_drift(
    principal: Who,
    stores: Stores,
    drift: Rows,
    status: FromQuery[StackStatus | None] = None,
    environment: FromQuery[str | None] = None,
    stack: FromQuery[str | None] = None,
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 100,
    cursor: FromQuery[str] = "",
) -> DriftList:
    """By name: stacks of registered repositories, and others that `holdfast drift` has looked at."""
    tenant = principal.home_tenant
    store = stores.of(tenant)
    scheduled = {row.stack: row for row in _all_rows(drift, tenant)}
    names = sorted({*scheduled, *store.drift.stacks()})
    values = principal.may(Permission.READ_PLAN)
    found: list[DriftedStack] = []
    for name in names:
        if name <= cursor or (stack is not None and name != stack) or not principal.covers_stack(name):
            continue
        document = _document(name, scheduled.get(name), store.drift.of(name), values=values)
        if status not in {None, document.status} or environment not in {None, document.environment}:
            continue
        if len(found) == limit:
            return DriftList(stacks=tuple(found), next=found[-1].name)
        found.append(document)
    return DriftList(stacks=tuple(found), next=None)


def _all_rows(drift: DriftRows, tenant: str) -> Iterable[DriftStack]:
    after = ""
    while page := drift.list(tenant, after=after, limit=1000):
        yield from page
        after = page[-1].stack


def _document(name: str, row: DriftStack | None, known: StackDrift | None, *, values: bool) -> DriftedStack:
    """`values`: whether the caller may see values of resources."""
    details: dict[str, Any] = known.details if known is not None else {}
    findings = [finding_document(finding) for finding in known.findings] if known is not None else []
    if not values:
        findings = [{**finding, "before": None, "after": None} for finding in findings]
    # A look of a worker that died has only a row, one by `holdfast drift` only a record.
    newest = known is not None and known.tried is not None and known.tried >= _tried(row)
    status = known.status if known is not None and newest else StackStatus.NOT_CHECKED
    return DriftedStack(
        name=name,
        environment=(row.environment if row is not None else None)
        or (known.environment or None if known else None),
        production=row.production if row is not None else None,
        repository=row.repository if row is not None else None,
        status=status,
        unapplied=known.unapplied if known is not None else False,
        checked=time_text(known.checked) if known is not None else None,
        tried=time_text(row.tried if row is not None else known.tried if known is not None else None),
        due=time_text(row.due) if row is not None else None,
        looking=row is not None and row.change is not None,
        attempts=row.attempts if row is not None else 0,
        findings=findings,
        not_looked_at=details.get("not_looked_at", []),
        ignored=details.get("ignored", []),
        expired_rules=details.get("expired_rules", []),
        notes=details.get("notes", []),
        error=details.get("error"),
    )


def _tried(row: DriftStack | None) -> datetime:
    return row.tried if row is not None and row.tried is not None else datetime.min.replace(tzinfo=UTC)


@post("/api/v1/drift/look", opt=_RUN, status_code=HTTPStatus.ACCEPTED, sync_to_thread=True)
def look_now(principal: Who, stores: Stores, drift: Rows, data: JSONBody[LookRequest]) -> DriftedStack:
    """At a stack of a registered repository, before its turn. What is found: `GET /api/v1/drift?stack=`."""
    tenant = principal.home_tenant
    row = drift.of(tenant, data.stack) if principal.covers_stack(data.stack) else None
    if row is None:
        raise _no_stack(data.stack)
    drift.ask(tenant, row.stack, clock.now())
    known = stores.of(tenant).drift.of(row.stack)
    return _document(
        row.stack, drift.of(tenant, row.stack), known, values=principal.may(Permission.READ_PLAN)
    )


@post("/api/v1/drift/acknowledge", opt=_RUN, status_code=HTTPStatus.OK, sync_to_thread=True)
def acknowledge_finding(
    request: AnyRequest,
    principal: Who,
    stores: Stores,
    audit: NamedDependency[ServerAudit],
    data: JSONBody[AcknowledgeRequest],
) -> AcknowledgedFinding:
    """It raises no alert and is not healed until it changes, or that time has come."""
    now, store = clock.now(), stores.of(principal.home_tenant)
    if data.until is not None and (data.until.tzinfo is None or data.until <= now):
        raise invalid_field("/until", "must be a time in the future, with a time zone")
    if not principal.covers_stack(data.stack) or not _is_known(store, data.stack, data.finding):
        raise _no_stack(data.stack)
    details = {"finding": data.finding}
    details |= {"until": data.until.isoformat()} if data.until is not None else {}
    entry = Entry(what="drift-acknowledge", stack=data.stack, reason=data.reason, details=details)
    audit.record(principal.home_tenant, principal, entry, address=address_of(request.scope))
    given = Acknowledgement(by=principal.name, at=now, reason=Redactor().clean(data.reason), until=data.until)
    try:
        finding = acknowledge_one(store, data.stack, data.finding, given)
    except UsageError as error:
        raise problem(Denial(status=409, code=error.problem.code, message=error.problem.message)) from None
    return AcknowledgedFinding(stack=data.stack, finding=finding_document(finding))


def _is_known(store: RunStore, stack: str, finding: str) -> bool:
    known = store.drift.of(stack)
    return known is not None and any(each.id == finding for each in known.findings)


def _no_stack(name: str) -> Exception:
    return problem(
        Denial(
            status=404,
            code="HF-DRIFT-9",
            message=f"there is no stack {name} that is looked at, or no such finding of it",
            hint="GET /api/v1/drift",
        )
    )


def drift_router() -> Router:
    return Router(path="/", route_handlers=[list_drift, look_now, acknowledge_finding])
