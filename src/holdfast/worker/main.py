"""The loop of a worker: claim a change, run it, finish it; beats, cancellations and the end.

SIGTERM: nothing more is claimed, plans go back to the queue, and an apply gets some time to finish. After
that its supervisor goes on without the worker, and the next worker writes down how it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import uvloop
from msgspec import Struct

from holdfast import __version__
from holdfast.config.server import ServerSettings
from holdfast.database.database import Database
from holdfast.identity.federation import Federation
from holdfast.kernel.errors import HoldfastError, UsageError
from holdfast.secrets.server_key import load_older_keys, load_server_key
from holdfast.server.app import ServerParts
from holdfast.server.edge import Log
from holdfast.server.log import configure_log
from holdfast.store.server_runs.claiming import HEARTBEAT, Claiming, ClaimLimits, limits_of
from holdfast.store.server_runs.silent import forget_old_workers, take_silent
from holdfast.store.server_runs.wakeups import listen
from holdfast.store.server_runs.workers import NewWorker, WorkerRows
from holdfast.system import clock, confine, process_table
from holdfast.system.environment import Environment
from holdfast.terraform.workdirs.compartments import Compartments
from holdfast.terraform.workdirs.scratch import open_scratch_folder
from holdfast.worker.execution import ChangeExecution
from holdfast.worker.key_watch import KeyState, KeyWatch
from holdfast.worker.listener import hold_listener, hold_slot
from holdfast.worker.run_contents import RunContents
from holdfast.worker.services import WorkerServices, change_environment
from holdfast.worker.store_client import StoreRoutes
from holdfast.worker.takeover import Takeover
from holdfast.worker.tracing import open_tracing
from holdfast.worker.warm_engines import WarmEngines

GRACE_SECONDS: Final = 20.0
"""For what runs when a worker is asked to end."""
_REPEATED_SECONDS: Final = 2.0
Work = ChangeExecution | Takeover


class WorkerOptions(Struct, frozen=True, kw_only=True):
    labels: Mapping[str, tuple[str, ...]] = {}
    concurrency: int = 2
    """Changes at the same time."""
    parent: int | None = None
    """The process of the server that started it: it ends when that is gone."""


def run_worker(
    environment: Environment,
    database: Database,
    settings: ServerSettings,
    data: Path,
    options: WorkerOptions,
    ready: Callable[[str], None],
) -> None:
    """Until SIGTERM or SIGINT. `ready` gets the id of the worker, which is another one after a new key."""
    log = configure_log()
    confine.protect_process(environment.secret_variables)
    while _run_with_key(environment, database, settings, data, options, ready, log):
        log.info("worker begins again with the new key of the server")


def _run_with_key(
    environment: Environment,
    database: Database,
    settings: ServerSettings,
    data: Path,
    options: WorkerOptions,
    ready: Callable[[str], None],
    log: Log,
) -> bool:
    """True: the server has a newer key, which the file of this worker has, too."""
    key = load_server_key(environment, data)
    if key is None:
        raise UsageError(
            "HF-WKR-1",
            "this worker has no key of the server",
            hint=f"Set HOLDFAST_KEY to that of the server, or --data to its data folder ({data} has none).",
        )

    def load() -> str | None:
        loaded = load_server_key(environment, data)
        return loaded.key.id if loaded is not None else None

    parts = ServerParts(
        database=database,
        key=key.key,
        older_keys=load_older_keys(environment, data),
        settings=settings,
        federation=Federation((), lambda _: b"{}"),
        log=log,
    )
    routes = StoreRoutes(parts)
    with (
        hold_slot(environment.home) as slot,
        hold_listener(slot, parts, routes) as address,
        open_scratch_folder() as scratch,
    ):
        seen = change_environment(environment, settings.worker.pass_env)
        tracing = open_tracing(environment, log)
        warm = WarmEngines(scratch, Compartments(environment.home, slot.number, scratch))
        services = WorkerServices(parts, routes, seen, slot, address=address, warm=warm, tracing=tracing)
        worker = NewWorker(
            host=environment.host, slot=slot.number, version=__version__, labels=options.labels
        )
        watch = KeyWatch(database=database, key=key.key.id, load=load)
        loop = WorkerLoop(services, worker, limits_of(settings.runs), options, watch)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(loop.run(ready))


class WorkerLoop:
    def __init__(
        self,
        services: WorkerServices,
        worker: NewWorker,
        limits: ClaimLimits,
        options: WorkerOptions,
        watch: KeyWatch,
    ) -> None:
        self._services = services
        self._worker = worker
        self._rows = WorkerRows(services.database)
        self._claiming = Claiming(services.database, worker, limits)
        self._concurrency = options.concurrency
        self._work: dict[asyncio.Task[None], Work] = {}
        self._woken = asyncio.Event()
        self._draining = self._stopped = False
        self._asked = 0.0
        self._parent = options.parent
        self._watch = watch
        self._key = KeyState.CURRENT
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, ready: Callable[[str], None]) -> bool:
        """True: it ended to begin again with another key."""
        loop = self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
        await asyncio.to_thread(self._register)
        with self._beating():
            listening = asyncio.create_task(self._listen())
            ready(self._worker.id)
            try:
                await self._serve()
                await self._drain()
            finally:
                listening.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await listening
        await asyncio.to_thread(self._rows.set_phase, self._worker.id, "gone")
        if self._services.tracing is not None:
            await asyncio.to_thread(self._services.tracing.flush)
        if self._work:
            # As after a kill: the supervisor of an apply goes on by itself, and idle engines end.
            os._exit(0)
        await self._services.warm.close()
        return self._key is KeyState.REPLACED and not self._stopped

    def _register(self) -> None:
        """The worker that had the slot before is dead: this one holds its lock."""
        before = self._services.slot.replace_worker(self._worker.id)
        if before is not None:
            self._rows.set_phase(before, "gone")
        forget_old_workers(self._services.database)
        self._rows.register(self._worker)

    async def _serve(self) -> None:
        while not self._draining:
            self._woken.clear()
            try:
                await self._look_for_key()
                while len(self._work) < self._concurrency and await self._start_next():
                    pass
            except Exception as error:  # noqa: BLE001 - the worker goes on, and the next wake-up tries again
                message = error.problem.message if isinstance(error, HoldfastError) else type(error).__name__
                self._services.log.error("claiming failed", message=message)  # noqa: TRY400 - as above
            await self._woken.wait()

    async def _start_next(self) -> bool:
        """A change that lost its worker comes first: its lanes and stacks may be held."""
        if self._key is not KeyState.CURRENT:
            return False
        silent = await asyncio.to_thread(
            take_silent, self._services.database, self._worker.id, self._worker.tenant
        )
        if silent is not None:
            contents = RunContents(self._services.stores.of(silent.tenant).encrypted)
            store, log = self._services.store_of(silent), self._services.log
            self._start(Takeover(store, contents, self._claiming, silent, log))
            return True
        change = await asyncio.to_thread(self._claiming.claim)
        if change is not None:
            self._start(ChangeExecution(self._services, self._claiming, change))
        return change is not None

    async def _look_for_key(self) -> None:
        """Before anything is claimed: a change is not to fail because its worker has an older key."""
        before, self._key = self._key, await asyncio.to_thread(self._watch.look)
        if self._key is KeyState.REPLACED:
            self._end()
        elif self._key is not before:
            missing = self._key is KeyState.MISSING
            await asyncio.to_thread(self._rows.set_phase, self._worker.id, "draining" if missing else "ready")
            if missing:
                self._services.log.error(
                    "the server has another key than this worker, which takes no changes without it",
                    code="HF-WKR-4",
                    hint="Give it the new key (HOLDFAST_KEY, or its key file) and restart it.",
                )

    def _start(self, work: Work) -> None:
        task = asyncio.create_task(work.run())
        self._work[task] = work
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        work = self._work.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._services.log.error("change", change=work.change.id, error=type(error).__name__)
        self._woken.set()

    async def _listen(self) -> None:
        async with contextlib.aclosing(listen(self._services.database)) as wakeups:
            async for _ in wakeups:
                self._woken.set()
                await self._services.warm.close_idle()

    # Heartbeats, in a thread: the loop may be busy with a large plan.

    @contextlib.contextmanager
    def _beating(self) -> Iterator[None]:
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(HEARTBEAT):
                with contextlib.suppress(HoldfastError):
                    self._beat()

        thread = threading.Thread(target=beat, name="holdfast-heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()

    def _beat(self) -> None:
        assert self._loop is not None  # noqa: S101 - set before the thread starts
        if self._parent is not None and process_table.parent_id() != self._parent:
            self._loop.call_soon_threadsafe(self._end)
        work = {one.change.id: one for one in tuple(self._work.values())}
        beats = self._claiming.beat({id_: one.change.fence for id_, one in work.items()})
        for id_ in beats.lost:
            self._loop.call_soon_threadsafe(work[id_].lose)
        for id_ in beats.cancelled:
            self._loop.call_soon_threadsafe(work[id_].cancel, 2 if id_ in beats.forced else 1)

    # The end

    def _stop(self) -> None:
        self._stopped = True
        self._end()

    def _end(self) -> None:
        """The second signal ends it at once; a service manager and the server may both send the first."""
        if self._draining and clock.monotonic() - self._asked > _REPEATED_SECONDS:
            os._exit(1)
        if not self._draining:
            self._asked = clock.monotonic()
        self._draining = True
        self._woken.set()

    async def _drain(self) -> None:
        await asyncio.to_thread(self._rows.set_phase, self._worker.id, "draining")
        for work in self._work.values():
            work.drain()
        if self._work:
            # It goes on with another key: nothing is left behind.
            limit = GRACE_SECONDS if self._key is not KeyState.REPLACED else None
            await asyncio.wait(tuple(self._work), timeout=limit)
