"""The process that runs Terraform for another one: warm inside it, or a program that it starts and watches.

Messages are lines of JSON over a socket; a command comes with two descriptors for its output. When the one
who asked is gone, the running command is finished and the process ends: an apply does not die with the one
who wanted it. Who listens in on a command (a journal, a state door) is given by the process's entry point.

Imports are few on purpose: this start is part of every first command.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import sys
import threading

_BUFFER = 1 << 20
_PIECE = 1 << 16
"""So much is written down at once, at most: where the disk is full, no more than that is missing."""
_BROKEN = 70
_LOOK_AGAIN = 0.02
"""Seconds between two looks at a file that Terraform writes to."""
_PASS_ON_SECONDS = 5.0
_STOPPED = 1
"""As Terraform ends when it is interrupted."""
NOT_STARTED = 69
"""The command was not begun, because what must be written first could not be."""


class Embedded:
    """Terraform as a library: the two calls of it that are used."""

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
        words = [f"-chdir={folder}", *argv]
        texts = (ctypes.c_char_p * len(words))(*[os.fsencode(text) for text in words])
        return int(self._run(name.encode(), len(words), texts, out, err))

    def cancel(self, name: str) -> None:
        self._cancel(name.encode())


class Program:
    """Terraform or OpenTofu as a program. It stays in this process's session and group."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._environment = dict(os.environ)
        self._child: int | None = None
        self._name: str | None = None
        self._asked: dict[str, int] = {}
        """How often each command was asked to stop: a wish can come before its command, or after it."""
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
            )
        finally:
            os.close(out)
            os.close(err)
        with self._turn:
            self._child, self._name = process.pid, name
            for _ in range(self._asked.pop(name, 0)):
                self._interrupt()
        try:
            return process.wait()
        finally:
            with self._turn:
                self._child = self._name = None

    def cancel(self, name: str) -> None:
        """SIGINT to Terraform only: it passes the word on to its providers itself."""
        with self._turn:
            if self._name == name:
                self._interrupt()
            else:
                self._asked[name] = self._asked.get(name, 0) + 1

    def _interrupt(self) -> None:
        try:
            if self._child is not None:
                os.kill(self._child, signal.SIGINT)
        except ProcessLookupError:
            pass


class Attention:
    """Who listens in on one command. This one does nothing."""

    def begin(self) -> str | None:
        """Before Terraform starts. A text says why it must not."""
        return None

    def spill(self) -> str | None:
        """A file in memory for Terraform's words: what it wrote there outlives a kill of everybody here."""
        return None

    def hear(self, chunk: bytes) -> bool:
        """What Terraform wrote, as it comes. False: it cannot be written down, so Terraform must stop."""
        del chunk
        return True

    def end(self, code: int) -> dict[str, object]:
        """After Terraform ended: what else there is to tell."""
        del code
        return {}


def size() -> dict[str, int]:
    """What decides whether this process is recycled."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - pathlib is not imported here
            memory = int(file.read().split()[1]) * resource.getpagesize()
        files = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    except OSError:
        # Where there is no /proc: the most memory it ever had, which macOS counts in bytes.
        unit = 1 if sys.platform == "darwin" else 1024
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        files = len(os.listdir("/dev/fd"))  # noqa: PTH208
    return {"memory": memory, "files": files}


class Worker:
    def __init__(self, engine: Embedded | Program, channel: socket.socket, attend: object) -> None:
        self._engine = engine
        self._channel = channel
        self._attend = attend
        self._sending = threading.Lock()
        self._running: threading.Thread | None = None
        self._stopped: set[str] = set()
        self.last_code = 0

    def tell(self, message: dict[str, object]) -> None:
        try:
            with self._sending:
                self._channel.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # Nobody listens any more; the command itself is what matters.

    def serve(self) -> None:
        """Until the one who asks is gone and what it asked for is done."""
        self.tell({"ready": True})
        pending = b""
        descriptors: list[int] = []
        while True:
            try:
                data, received, _, _ = socket.recv_fds(self._channel, _BUFFER, 8)
            except OSError:
                data, received = b"", []
            for descriptor in received:
                # A provider or a provisioner that lives on must not hold a command's output open.
                os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's own signature
            descriptors += received
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                if "run" in message:
                    out, err = descriptors.pop(0), descriptors.pop(0)
                    self._start(message, out, err)
                elif "cancel" in message:
                    self._stopped.add(message["cancel"])
                    self._engine.cancel(message["cancel"])
        if self._running is not None:
            self._running.join()

    def _start(self, message: dict[str, object], out: int, err: int) -> None:
        self._running = threading.Thread(target=self._execute, args=(message, out, err), daemon=False)
        self._running.start()

    def _execute(self, message: dict[str, object], out: int, err: int) -> None:
        try:
            told = self._attended(message, out, err)
        except Exception as error:  # noqa: BLE001 - without an answer the other side would wait for ever
            sys.stderr.write(f"{error!r}\n")
            sys.stderr.flush()
            os._exit(_BROKEN)
        self.tell({"done": message["run"], **told, **size()})

    def _attended(self, message: dict[str, object], out: int, err: int) -> dict[str, object]:
        attention: Attention = self._attend(message)  # type: ignore[operator]
        refused = attention.begin()
        if refused is not None:
            os.close(out)
            os.close(err)
            return {"code": NOT_STARTED, "not_started": refused}
        name, folder = str(message["run"]), str(message["folder"])
        if name in self._stopped:
            # The wish came while what must be written first was written: no engine knows the command yet.
            os.close(out)
            os.close(err)
            return {"code": _STOPPED, **attention.end(_STOPPED)}
        argv = [str(text) for text in message["argv"]]  # type: ignore[attr-defined]
        relay = (
            _Relay(out, lambda chunk: self._heard(attention, name, chunk), attention.spill())
            if "journal" in message
            else None
        )
        refused = None
        try:
            self.last_code = self._engine.run(
                name, argv, folder, relay.entry if relay is not None else out, err
            )
        except OSError as error:
            self.last_code, refused = NOT_STARTED, f"{error.filename}: {error.strerror}"
        if relay is not None:
            relay.heard()
        told = {"code": self.last_code, **attention.end(self.last_code)}
        if relay is not None:
            relay.passed_on()
        return told if refused is None else {**told, "not_started": refused}

    def _heard(self, attention: Attention, name: str, chunk: bytes) -> None:
        try:
            written = attention.hear(chunk)
        except Exception as error:  # noqa: BLE001 - whatever it is, Terraform must not wait for a reader that is gone
            sys.stderr.write(f"{error!r}\n")
            written = False
        if not written and name not in self._stopped:
            # Once: asked twice, Terraform leaves at once, and what it is making is in no state.
            self._stopped.add(name)
            self._engine.cancel(name)


class _Relay:
    """Terraform's output on its way to the one who asked: written down first, then passed on.

    The one who asked may be slow, stopped or gone; Terraform never waits for it.
    """

    def __init__(self, out: int, hear: object, spill: str | None) -> None:
        if spill is None:
            reading, self.entry = os.pipe()
        else:
            # What stands in a pipe dies with its reader. A file in memory is there as soon as it is written.
            self.entry = os.open(spill, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
            reading = os.open(spill, os.O_RDONLY)
        self._grows = spill is not None
        self._ended = threading.Event()
        self._out = out
        self._hear = hear
        self._waiting: list[bytes] = []
        self._more = threading.Condition()
        self._over = False
        self._reader = threading.Thread(target=self._read, args=(reading,), daemon=False)
        self._writer = threading.Thread(target=self._write, daemon=True)
        self._reader.start()
        self._writer.start()

    def heard(self) -> None:
        """Terraform has ended, and everything is written down."""
        self._ended.set()
        self._reader.join()

    def passed_on(self) -> None:
        """As far as somebody takes it in time; whoever takes it later gets it later."""
        self._writer.join(timeout=_PASS_ON_SECONDS)

    def _read(self, reading: int) -> None:
        begun: list[bytes] = []
        while chunk := self._next(reading):
            whole, cut, rest = chunk.rpartition(b"\n")
            if cut:
                self._pass(b"".join((*begun, whole, cut)))
                begun.clear()
            if rest:
                begun.append(rest)
        if begun:
            self._pass(b"".join(begun))
        os.close(reading)
        with self._more:
            self._over = True
            self._more.notify()

    def _next(self, reading: int) -> bytes:
        """What was written since; empty at the end. A file does not say that it grew: it is looked at."""
        while self._grows:
            over = self._ended.is_set()
            chunk = os.read(reading, _PIECE)
            if chunk or over:
                return chunk
            self._ended.wait(_LOOK_AGAIN)
        return os.read(reading, _BUFFER)

    def _pass(self, lines: bytes) -> None:
        self._hear(lines)  # type: ignore[operator]
        with self._more:
            self._waiting.append(lines)
            self._more.notify()

    def _write(self) -> None:
        while True:
            with self._more:
                while not self._waiting and not self._over:
                    self._more.wait()
                chunks, self._waiting = self._waiting, []
                over = self._over
            try:
                for chunk in chunks:
                    view = memoryview(chunk)
                    while view:
                        view = view[os.write(self._out, view) :]
            except OSError:
                break  # Nobody reads any more.
            if over and not self._waiting:
                break
        os.close(self._out)
