"""The server releases the lanes of a change that is done if its worker, which lives on, could not."""

from __future__ import annotations

from server_made import MadeServer

from holdfast.identity.principal import Principal
from holdfast.identity.roles import Role
from holdfast.runs import lanes
from holdfast.store.leases import Holder, Lease
from holdfast.store.server_runs.claiming import Claiming
from holdfast.store.server_runs.phases import Operation
from holdfast.store.server_runs.rows import ChangeRows, NewChange, NewRun
from holdfast.store.server_runs.sources import SourceRows
from holdfast.store.server_runs.workers import NewWorker, WorkerRows
from holdfast.system import process_table
from holdfast.worker.store_client import StoreRoutes
from holdfast.worker.sweeper import release_left_lanes


def test_only_those_of_a_change_that_is_done(shared: MadeServer) -> None:
    """A change that runs keeps its lanes, and so does a command line: the server does not know its change."""
    database, stores = shared.database, StoreRoutes(shared.parts).stores
    new = NewChange(
        tenant="default",
        operation=Operation.APPLY,
        source=SourceRows(database).add_upload("default", digest="0" * 64, size=0, by="tests").id,
        requester=Principal(id="", name="ann", kind="token", role=Role.OPERATOR),
        patterns=("a",),
        runs=(NewRun(stack="a"),),
    )
    ChangeRows(database).submit(new)
    worker = NewWorker(host="host", slot=1, version="0")
    WorkerRows(database).register(worker)
    claiming = Claiming(database, worker)
    change = claiming.claim()
    assert change is not None
    store = stores.of("default")
    process = process_table.this_process()
    for lane, id_ in (("a", change.id), ("b", change.id), ("c", "01COMMANDLINE")):
        holder = Holder(change=id_, who="ann", what="apply", process=process, since="2026-01-01")
        assert isinstance(store.leases.take(f"lanes/{lane}", holder), Lease)

    release_left_lanes(database, stores)
    assert lanes.holders(store) == {"a": change.id, "b": change.id, "c": "01COMMANDLINE"}
    claiming.finish(change.id, change.fence)
    release_left_lanes(database, stores)
    assert lanes.holders(store) == {"c": "01COMMANDLINE"}
