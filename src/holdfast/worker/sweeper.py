"""Looks after changes whose worker is silent, in a server that may have no worker of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holdfast import __version__
from holdfast.database.database import Database
from holdfast.runs import lanes
from holdfast.server.app import ServerParts
from holdfast.server.audit_log import TenantStores
from holdfast.store.database_blobs import tenants
from holdfast.store.server_runs.claiming import HEARTBEAT, Claiming
from holdfast.store.server_runs.phases import ChangePhase
from holdfast.store.server_runs.rows import ChangeRows
from holdfast.store.server_runs.silent import take_silent
from holdfast.store.server_runs.workers import NewWorker
from holdfast.system.environment import Environment
from holdfast.worker.run_contents import RunContents
from holdfast.worker.store_client import StoreRoutes, store_of_change
from holdfast.worker.takeover import Takeover

_STOP_SECONDS: Final = 5.0
_LANES_EVERY: Final = 12
"""Rounds: a minute."""


@contextmanager
def hold_sweeper(environment: Environment, parts: ServerParts) -> Iterator[None]:
    """In a thread. What is to be planned again is queued for a worker.

    A worker, which would wait for an apply that still runs, comes first.
    """
    ended, database = threading.Event(), parts.database
    own = NewWorker(host=environment.host, slot=0, version=__version__)
    routes, claiming = StoreRoutes(parts), Claiming(database, own)

    def sweep() -> None:
        while not ended.is_set() and (change := take_silent(database, own.id, gone=False)) is not None:
            parts.log.info("worker silent", change=change.id)
            store = store_of_change(routes, change, environment.home, host=environment.host, address="")
            contents = RunContents(routes.stores.of(change.tenant).encrypted)
            asyncio.run(Takeover(store, contents, claiming, change, parts.log).run(once=True))

    def loop() -> None:
        rounds = 0
        while not ended.wait(HEARTBEAT):
            rounds += 1
            try:
                sweep()
                if rounds % _LANES_EVERY == 0:
                    release_left_lanes(database, routes.stores)
            except Exception as error:  # noqa: BLE001 - the next round tries again
                parts.log.error("sweeping failed", error=type(error).__name__)  # noqa: TRY400 - it may quote a state

    thread = threading.Thread(target=loop, name="holdfast-sweeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_STOP_SECONDS)


def release_left_lanes(database: Database, stores: TenantStores) -> None:
    """Of changes that are done, whose worker lives on and could not release them. Others keep theirs."""
    changes = ChangeRows(database)
    for tenant in tenants(database):
        store = stores.of(tenant)
        for id_ in set(lanes.holders(store).values()):
            change = changes.of(id_)
            if change is not None and change.phase is ChangePhase.DONE and change.tenant == tenant:
                lanes.release_lanes_of(store, id_)
