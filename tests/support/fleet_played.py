"""Events of devices without Terraform: a worker that ends their runs as a test says."""

from __future__ import annotations

from typing import Any, Final

from runs_made import made_worker
from server_made import KEY, ListLog

from holdfast.config.server import EventLimits
from holdfast.database.database import Database
from holdfast.identity.principal import DEFAULT_TENANT, Principal
from holdfast.identity.roles import Role
from holdfast.secrets.redact import Redactor
from holdfast.server.audit_log import ServerAudit, TenantStores
from holdfast.server.fleet.keeper import FleetKeeper
from holdfast.server.fleet.requests import EventRequest, EventRequests
from holdfast.server.run_requests import Caller
from holdfast.store.fleet.blueprints import BlueprintRows, OfferedBlueprint
from holdfast.store.fleet.contents import blueprint_name
from holdfast.store.fleet.rows import Event
from holdfast.store.fleet.rules import Action
from holdfast.store.server_runs.phases import Operation, RunPhase
from holdfast.store.server_runs.rows import Change, ChangeRows, NewChange, NewRun

DIGEST: Final = "d" * 64
SCHEMA: Final = {
    "type": "object",
    "properties": {"number": {"type": "integer"}, "text": {"type": "string"}},
    "required": ["number"],
    "additionalProperties": False,
}


def offered(name: str = "site", **fields: Any) -> OfferedBlueprint:
    known: dict[str, Any] = {"version": "1.0.0", "digest": f"{name}-1", "payload_schema": SCHEMA}
    return OfferedBlueprint(**{**known, "name": name, "deletion": "allow", **fields})


def offer(database: Database, stores: TenantStores, *blueprints: OfferedBlueprint) -> None:
    """Their code is never read: no worker opens it."""
    for blueprint in blueprints:
        stores.of(DEFAULT_TENANT).encrypted.write(blueprint_name(blueprint.digest), b"packed")
    BlueprintRows(database).offer(blueprints)


class PlayedFleet:
    def __init__(self, database: Database, *blueprints: OfferedBlueprint, **limits: int) -> None:
        self.database = database
        self.stores = TenantStores(database, KEY)
        self.requests = EventRequests(
            database, self.stores, ServerAudit(self.stores, Redactor()), EventLimits(**_limits(limits))
        )
        self.rows = self.requests.rows
        self.changes = ChangeRows(database)
        self.keeper = FleetKeeper(database=database, store=self.stores.of, log=ListLog())
        offer(database, self.stores, *(blueprints or (offered(),)))
        self.worker = made_worker(database)[0]

    def caller(self, name: str = "ada", tenant: str = DEFAULT_TENANT) -> Caller:
        principal = Principal(id=name, name=name, kind="token", role=Role.OPERATOR, tenant=tenant)
        return Caller(principal=principal, address="127.0.0.1")

    def submit(
        self, action: str, device: str, number: int | None = None, *, blueprint: str = "site", **more: Any
    ) -> Event:
        payload = None if number is None else {"number": number}
        request = EventRequest(
            blueprint=blueprint, action=Action(action), resource_id=device, payload=payload, **more
        )
        return self.requests.submit(self.caller(), request).event

    def event(self, id_: str) -> Event:
        event = self.rows.event(id_)
        assert event is not None
        return event

    def payload(self, id_: str) -> dict[str, Any]:
        return self.requests.content(self.event(id_)).payload

    # As a worker

    def begin(self, change: Change, phase: RunPhase = RunPhase.APPLYING) -> None:
        (run,) = change.runs
        for step in (RunPhase.PLANNING, phase) if phase is not RunPhase.PLANNING else (phase,):
            assert self.worker.set_phase(change.id, change.fence, run.id, step)

    def end(self, change: Change, status: str) -> None:
        """`waiting`: for an approval."""
        (run,) = change.runs
        phase = RunPhase.WAITING if status == "waiting" else RunPhase.DONE
        mine = change.id, change.fence
        assert self.worker.set_phase(*mine, run.id, phase, status=status, digest=DIGEST)
        self.worker.finish(*mine)

    def work(self, status: str = "applied") -> Event | None:
        """Claims, runs and ends one event; None: there is none to run."""
        change = self.worker.claim()
        if change is None:
            return None
        self.begin(change, RunPhase.PLANNING if status == "waiting" else RunPhase.APPLYING)
        self.end(change, status)
        self.keeper.run()
        return self.event(str(change.event))

    def reconcile(self, event: Event) -> None:
        """Asks for it; a worker then ends it like any other change."""
        self.changes.submit(
            NewChange(
                tenant=event.tenant,
                operation=Operation.RECONCILE,
                source=event.source,
                requester=event.requester,
                patterns=(event.stack,),
                runs=(NewRun(stack=event.stack, retried_from=event.run),),
                event=event.id,
            )
        )


def _limits(given: dict[str, int]) -> dict[str, int]:
    return {"per_client": 1000, "per_tenant": 1000, "overall": 1000, **given}
