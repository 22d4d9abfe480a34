"""A worker: a process that runs Terraform commands, in itself as a library or as a program that it starts.

Messages are lines of JSON over a socket; a command comes with two descriptors for its output. When the
caller ends, the worker finishes the running command and exits: an apply does not die with its caller.
The entry point passes in what observes a command (journal, local state backend). The engine is confined to
a thread of its own, with all that it starts; what observes a command is not.

Imports are few on purpose: this start is part of every first command.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.system import confine, orphans
from holdfast.terraform.engine import worker_sockets
from holdfast.terraform.engine.output_relay import OutputRelay

if TYPE_CHECKING:
    from holdfast.terraform.engine.warm_providers import WarmProviders

_BUFFER = 1 << 20
_BROKEN = 70
_CANCELLED = 1
"""Terraform's exit code after an interrupt."""
NOT_STARTED = 69
"""Exit code of a command that was not started: a step before it failed."""
_SUCCEEDED = (0, 2)
"""2 is the exit code of a plan with changes."""


class Embedded:
    """Terraform or OpenTofu as a library: the two functions of it that are used."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(path)
        self._run = library.RunCliWithCancel
        self._run.argtypes = [
            ctypes.c_char_p,
            ctypes.c_int64,
            ctypes.POINTER(ctypes.c_char_p),
            ctypes.c_int64,
            ctypes.c_int64,
        ]
        self._cancel = library.CancelCli
        self._cancel.argtypes = [ctypes.c_char_p]
        self._cancel.restype = ctypes.c_int

    def run(self, name: str, argv: list[str], folder: str, out: int, err: int) -> int:
        """Blocks without holding Python's lock. The library closes both descriptors."""
        texts = (ctypes.c_char_p * len(argv))(*[os.fsencode(text) for text in argv])
        try:
            # With `-chdir`, `path.cwd` would be the folder of this process: another one in each run.
            os.chdir(folder)
        except OSError:
            os.close(out)
            os.close(err)
            raise
        try:
            return int(self._run(name.encode(), len(argv), texts, out, err))
        finally:
            os.chdir("/")  # The folder of the command may be removed.

    def cancel(self, name: str) -> None:
        self._cancel(name.encode())


class Program:
    """Terraform or OpenTofu as a program. It stays in this process's session and group."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._environment = dict(os.environ)
        self._child: int | None = None
        self._name: str | None = None
        self._cancels: dict[str, int] = {}
        """How often each command was cancelled: a cancel can arrive before its command, or after it."""
        self._turn = threading.Lock()

    def run(self, name: str, argv: list[str], folder: str, out: int, err: int) -> int:
        """A negative code is the signal that killed it."""
        import subprocess  # noqa: PLC0415 - this process only ever starts Terraform

        try:
            process = subprocess.Popen(
                [self._path, *argv],
                cwd=folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=worker_sockets.inherited(),
            )
        finally:
            os.close(out)
            os.close(err)
        with self._turn:
            self._child, self._name = process.pid, name
            for _ in range(self._cancels.pop(name, 0)):
                self._interrupt()
        try:
            return process.wait()
        finally:
            with self._turn:
                self._child = self._name = None

    def cancel(self, name: str) -> None:
        """SIGINT to Terraform only: it stops its providers itself."""
        with self._turn:
            if self._name == name:
                self._interrupt()
            else:
                self._cancels[name] = self._cancels.get(name, 0) + 1

    def _interrupt(self) -> None:
        try:
            if self._child is not None:
                os.kill(self._child, signal.SIGINT)
        except ProcessLookupError:
            pass


class EngineThread:
    """The engine, and the confined thread that loads it and runs its commands.

    The library's own threads, and every provider and program, descend from this thread and are confined with
    it. No other thread may call the library: Go could start a thread from it.
    """

    def __init__(self, kind: str, path: str, ruleset: int) -> None:
        self._runs = confine.CallThread()
        self._measures = self._runs.call(lambda: confine.confine_thread(ruleset))
        if ruleset >= 0:
            os.close(ruleset)
        self._runs.call(worker_sockets.open_folder)
        # Before the library is loaded, which reads the environment only then.
        self.providers = self._runs.call(_warm_providers)
        self._engine = self._runs.call(lambda: Embedded(path) if kind == "embedded" else Program(path))
        # A command blocks its thread. This one inherits the confinement.
        self._cancels = self._runs.call(confine.CallThread)

    def confinement(self, measures: tuple[str, ...], secrets: list[str]) -> confine.Confinement:
        """What is done, and what can be read nevertheless: tried out in the engine's own thread."""
        leaks = self._runs.call(lambda: confine.readable_secrets(secrets))
        return confine.Confinement((*measures, *self._measures), leaks)

    def begin(
        self, name: str, argv: list[str], folder: str, out: int, err: int, ended: threading.Event
    ) -> Callable[[], int]:
        """Start a command, and set `ended` when it has ended. What is returned waits for its exit code."""

        def run() -> int:
            try:
                return self._engine.run(name, argv, folder, out, err)
            finally:
                ended.set()

        return self._runs.begin(run)

    def end_providers(self) -> None:
        if self.providers is not None:
            self.providers.end()
        worker_sockets.remove_folder()

    def cancel(self, name: str) -> None:
        self._cancels.send(lambda: self._engine.cancel(name))


def _warm_providers() -> WarmProviders | None:
    if "TF_REATTACH_PROVIDERS" not in os.environ:
        return None
    from holdfast.terraform.engine.warm_providers import WarmProviders  # noqa: PLC0415 - few workers have any

    return WarmProviders(os.environ)


class CommandObserver:
    """Observes one command. This one does nothing."""

    def begin(self) -> str | None:
        """Before Terraform starts. Returns why it must not start, if so."""
        return None

    def buffer(self) -> str | None:
        """A file in memory for Terraform's output: it survives a kill of all processes of the run."""
        return None

    def record(self, chunk: bytes) -> bool:
        """Terraform's output as it arrives. False: it cannot be recorded, so Terraform must stop."""
        del chunk
        return True

    def end(self, code: int, *, forced: bool = False) -> dict[str, object]:
        """After Terraform ended: fields to add to the result. `forced`: it was interrupted twice."""
        del code, forced
        return {}


def size(others: tuple[int, ...] = ()) -> dict[str, int]:
    """What decides whether this worker is replaced: memory in all, and files of the process with the most."""
    try:
        memory, files = _size_of("self")
        for pid in others:
            with contextlib.suppress(OSError):
                more, files_there = _size_of(str(pid))
                memory, files = memory + more, max(files, files_there)
    except OSError:
        # Without /proc: the peak memory, which macOS counts in bytes.
        unit = 1 if sys.platform == "darwin" else 1024
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        files = len(os.listdir("/dev/fd"))  # noqa: PTH208
    return {"memory": memory, "files": files}


def _size_of(process: str) -> tuple[int, int]:
    with open(f"/proc/{process}/statm", encoding="ascii") as file:  # noqa: PTH123 - pathlib is not imported here
        memory = int(file.read().split()[1]) * resource.getpagesize()
    return memory, len(os.listdir(f"/proc/{process}/fd"))  # noqa: PTH208


class Worker:
    def __init__(self, engine: EngineThread, channel: socket.socket, observe: object) -> None:
        self._engine = engine
        self._channel = channel
        self._observe = observe
        self._sending = threading.Lock()
        self._commands = confine.CallThread()
        self._interrupts: dict[str, int] = {}
        """How often each command was interrupted: after the second time it does not wait for its changes."""
        self.last_code = 0
        if engine.providers is not None:
            engine.providers.on_end(lambda: self._commands.send(self._leave))

    def _leave(self) -> None:
        """A provider has ended. After the running command, if there is one, this worker is of no more use."""
        self._engine.end_providers()
        os._exit(0)

    def send(self, message: dict[str, object]) -> None:
        try:
            with self._sending:
                self._channel.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # The caller has ended; the command itself matters.

    def serve(self, confinement: dict[str, object]) -> None:
        """Until the caller has ended and its last command is done."""
        self.send({"ready": True, "confinement": confinement})
        try:
            self._receive()
        finally:
            # Whatever ended it: this process must not end before its last command.
            self._commands.call(lambda: None)

    def _receive(self) -> None:
        pending = b""
        descriptors: list[int] = []
        while True:
            try:
                data, received, _, _ = socket.recv_fds(self._channel, _BUFFER, 8)
            except OSError:
                data, received = b"", []
            for descriptor in received:
                # A provider or a provisioner that outlives the command must not hold its output open.
                os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's own signature
            descriptors += received
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "run" in message:
                    outputs = [(descriptors.pop(0), descriptors.pop(0)) for _ in message["commands"]]
                    self._commands.send(functools.partial(self._execute, message, outputs))
                elif "cancel" in message:
                    self._interrupt(message["cancel"])

    def _interrupt(self, name: str) -> None:
        self._interrupts[name] = self._interrupts.get(name, 0) + 1
        self._engine.cancel(name)

    def _execute(self, message: dict[str, object], outputs: list[tuple[int, int]]) -> None:
        """Run the commands of a message; one that follows another only if that succeeded."""
        commands: list[list[str]] = message["commands"]  # type: ignore[assignment]
        try:
            if message.get("alone"):
                orphans.adopt()
            observer: CommandObserver = self._observe(message)  # type: ignore[operator]
            for argv in commands:
                report = self._run_observed(observer, message, argv, *outputs.pop(0))
                if message.get("alone"):
                    report["left_running"] = not orphans.end_children(self._kept_pids)
                succeeded = report["code"] in _SUCCEEDED and message["run"] not in self._interrupts
                follows = succeeded and bool(outputs)
                self.send(
                    {"done": message["run"], "follows": follows, **report, **self._use(succeeded=succeeded)}
                )
                if not follows:
                    break
            for number in (number for pair in outputs for number in pair):
                os.close(number)
        except Exception as error:  # noqa: BLE001 - without a result the caller would wait for ever
            sys.stderr.write(f"{error!r}\n")
            sys.stderr.flush()
            os._exit(_BROKEN)

    @property
    def _kept_pids(self) -> tuple[int, ...]:
        return self._engine.providers.pids if self._engine.providers is not None else ()

    def _use(self, *, succeeded: bool) -> dict[str, object]:
        """What this worker uses, and whether its providers are spent, as after a failure or an interrupt."""
        providers = self._engine.providers
        if providers is None:
            return {**size()}
        return {**size(providers.pids), "spent": providers.ended or not succeeded}

    def _run_observed(
        self, observer: CommandObserver, message: dict[str, object], argv: list[str], out: int, err: int
    ) -> dict[str, object]:
        refused = observer.begin()
        if refused is not None:
            os.close(out)
            os.close(err)
            return {"code": NOT_STARTED, "not_started": refused}
        name, folder = str(message["run"]), str(message["folder"])
        if name in self._interrupts:
            # Cancelled before the engine knew the command.
            os.close(out)
            os.close(err)
            return {"code": _CANCELLED, **observer.end(_CANCELLED, forced=False)}
        ended = threading.Event()
        relay = (
            OutputRelay(out, lambda chunk: self._record(observer, name, chunk), observer.buffer(), ended)
            if "journal" in message
            else None
        )
        wait = self._engine.begin(name, argv, folder, relay.entry if relay is not None else out, err, ended)
        try:
            if relay is not None:
                relay.record_all()
        finally:
            # Also after a failure here: this process must not end before Terraform.
            refused = self._wait(wait)
        forced = self._interrupts.get(name, 0) > 1
        report = {"code": self.last_code, **observer.end(self.last_code, forced=forced)}
        if relay is not None:
            relay.wait_forwarded()
        return report if refused is None else {**report, "not_started": refused}

    def _wait(self, wait: Callable[[], int]) -> str | None:
        """Returns why Terraform did not start, if so."""
        try:
            self.last_code = wait()
        except OSError as error:
            self.last_code = NOT_STARTED
            return f"{error.filename}: {error.strerror}"
        return None

    def _record(self, observer: CommandObserver, name: str, chunk: bytes) -> None:
        try:
            written = observer.record(chunk)
        except Exception as error:  # noqa: BLE001 - Terraform must not wait for a reader that failed
            sys.stderr.write(f"{error!r}\n")
            written = False
        if not written and name not in self._interrupts:
            # Only once: at the second interrupt Terraform exits at once, and loses the resource in progress.
            self._interrupt(name)
