"""The workers: `/api/v1/workers`."""

from __future__ import annotations

from litestar import get
from litestar.di import NamedDependency
from msgspec import Struct

from holdfast.identity.principal import ALL_TENANTS, Principal
from holdfast.identity.roles import Permission
from holdfast.store.server_runs.claiming import SILENT
from holdfast.store.server_runs.workers import Worker, WorkerRows
from holdfast.system import clock


class WorkerInfo(Worker, frozen=True, kw_only=True):
    silent: bool
    """It had no heartbeat for half a minute."""


class WorkerList(Struct, frozen=True, kw_only=True):
    version: int = 1
    workers: tuple[WorkerInfo, ...]


@get("/api/v1/workers", opt={"permission": Permission.READ}, sync_to_thread=True)
def list_workers(principal: NamedDependency[Principal], workers: NamedDependency[WorkerRows]) -> WorkerList:
    """Those that run changes of the caller's tenant."""
    tenant, now = None if principal.tenant == ALL_TENANTS else principal.tenant, clock.now()
    return WorkerList(
        workers=tuple(
            WorkerInfo(
                **{name: getattr(worker, name) for name in Worker.__struct_fields__},
                silent=(now - worker.beat).total_seconds() > SILENT,
            )
            for worker in workers.list(tenant)
        )
    )
