"""Changes on the server, as tests make them."""

from __future__ import annotations

from typing import Any

from holdfast.database.database import Database
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Role
from holdfast.store.server_runs.claiming import Claiming, ClaimLimits
from holdfast.store.server_runs.phases import Operation
from holdfast.store.server_runs.rows import Change, ChangeRows, NewChange, NewRun
from holdfast.store.server_runs.sources import SourceRows
from holdfast.store.server_runs.workers import NewWorker, WorkerRows

ADA = Principal(id="T1", name="ada", kind="token", role=Role.OPERATOR, tenant="acme")


def made_worker(
    database: Database, *, limits: ClaimLimits | None = None, **fields: Any
) -> tuple[Claiming, NewWorker]:
    worker = NewWorker(host="host", slot=1, version="1", **fields)
    WorkerRows(database).register(worker)
    return Claiming(database, worker, limits), worker


def submitted(
    database: Database, *stacks: str, operation: Operation = Operation.PLAN, **fields: Any
) -> Change:
    """A change of these stacks, named exactly."""
    source = SourceRows(database).add_upload("acme", digest="00", size=1, by="ada")
    return ChangeRows(database).submit(
        NewChange(
            tenant="acme",
            operation=operation,
            source=source.id,
            requester=ADA,
            patterns=stacks,
            runs=tuple(NewRun(stack=stack) for stack in stacks),
            **fields,
        )
    )
