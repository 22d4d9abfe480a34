"""A worker that was stopped between its last look at the change and the apply claims and writes nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from server_made import MadeServer

from holdfast.identity.principal import Principal
from holdfast.identity.roles import Role
from holdfast.identity.token_rows import TokenRows
from holdfast.kernel.errors import HoldfastError
from holdfast.store.run_records import StoredClaim
from holdfast.store.server_runs.claiming import Claiming
from holdfast.store.server_runs.phases import Operation, RunPhase
from holdfast.store.server_runs.rows import ChangeRows, NewChange, NewRun
from holdfast.store.server_runs.silent import take_silent
from holdfast.store.server_runs.sources import SourceRows
from holdfast.store.server_runs.workers import NewWorker, WorkerRows
from holdfast.worker.run_contents import RunContents
from holdfast.worker.store_client import StoreRoutes, store_of_change
from holdfast.worker.takeover import Takeover


def test_its_claims_and_records_are_refused(shared: MadeServer, tmp_path: Path) -> None:
    database, ann = shared.database, Principal(id="", name="ann", kind="token", role=Role.OPERATOR)
    token = TokenRows(database).create(ann, created_by="tests").info.id
    ann = Principal(id=token, name="ann", kind="token", role=Role.OPERATOR)
    source = SourceRows(database).add_upload("default", digest="0" * 64, size=0, by="tests").id
    new = NewChange(
        tenant="default",
        operation=Operation.APPLY,
        source=source,
        requester=ann,
        patterns=("a",),
        runs=(NewRun(stack="a"),),
    )
    ChangeRows(database).submit(new)
    stopped, other = (NewWorker(host="host", slot=slot, version="0") for slot in (1, 2))
    for worker in (stopped, other):
        WorkerRows(database).register(worker)
    claiming = Claiming(database, stopped)
    change = claiming.claim()
    assert change is not None
    run = change.runs[0].id
    for phase in (RunPhase.PLANNING, RunPhase.APPLYING):
        assert claiming.set_phase(change.id, change.fence, run, phase)

    # Here it is stopped.
    taken = take_silent(database, other.id, silent=0.0)
    assert taken is not None
    routes = StoreRoutes(shared.parts)
    old, current = (
        store_of_change(routes, one, tmp_path, host="host", address=shared.url) for one in (change, taken)
    )
    claim = StoredClaim(stack="a", run=run, intent={})
    for refused in (
        lambda: old.claims.take(claim),
        lambda: old.blobs.write(f"runs/{run}/outcome", b'{"stack":"a"}'),
    ):
        with pytest.raises(HoldfastError, match="HF-RUN-30"):
            refused()
    assert current.claims.of("a") is None
    assert current.claims.take(claim) == claim
    # It is the same run: the lost worker cannot release it, either.
    with pytest.raises(HoldfastError, match="HF-RUN-30"):
        old.claims.release("a", run)
    held = current.claims.of("a")
    assert held is not None
    assert held.run == run
    current.claims.release("a", run)

    # Nothing was started, so nothing was applied.
    contents = RunContents(StoreRoutes(shared.parts).stores.of("default").encrypted)
    asyncio.run(Takeover(current, contents, Claiming(database, other), taken, shared.log).run())
    shown = shared.send("GET", f"/api/v1/runs/{run}").document
    assert (shown["status"], shown["run"]["error"]["code"]) == ("failed", "HF-RUN-38")
    assert shared.send("GET", f"/api/v1/runs/{run}/plan").status == 404
    log = shared.send("GET", f"/api/v1/runs/{run}/log").document["lines"]
    assert any("HF-RUN-38" in line for line in log)
