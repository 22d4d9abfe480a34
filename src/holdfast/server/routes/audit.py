"""The audit log of a tenant: `/api/v1/audit`."""

from __future__ import annotations

from typing import Annotated, Any

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromQuery, QueryParameter
from msgspec import Struct

from holdfast.audit.reader import newest
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Permission
from holdfast.server.audit_log import TenantStores

Entry = dict[str, Any]


class EntryList(Struct, frozen=True, kw_only=True):
    version: int = 1
    entries: tuple[Entry, ...]
    next: str | None


@get("/api/v1/audit", opt={"permission": Permission.AUDIT}, sync_to_thread=True)
def list_entries(
    principal: NamedDependency[Principal],
    stores: NamedDependency[TenantStores],
    limit: Annotated[int, QueryParameter(ge=1, le=200)] = 100,
    cursor: Annotated[int, QueryParameter(ge=1, le=2**62)] = 2**62,
    tenant: FromQuery[str | None] = None,
) -> EntryList:
    """Newest first. Of another tenant there is nothing to see."""
    wanted = tenant or principal.home_tenant
    if not principal.in_tenant(wanted):
        return EntryList(entries=(), next=None)
    lines = newest(stores.of(wanted), limit=limit, wanted=lambda line: int(str(line["seq"])) < cursor)
    more = len(lines) == limit and lines[-1]["seq"] != 1
    return EntryList(entries=tuple(map(dict, lines)), next=str(lines[-1]["seq"]) if more else None)
