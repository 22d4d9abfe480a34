"""The only module that starts processes. No shell, an explicit environment, both pipes drained at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from holdfast.kernel.values import dataclass, field

_CHUNK = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a process ended. A negative code is the signal that killed it."""

    code: int
    out: bytes = field(repr=False)
    err: bytes = field(repr=False)


class Child:
    """A process in a session of its own, so that a terminal's Ctrl-C reaches us and not it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        return self._process.returncode

    @property
    def ended(self) -> bool:
        """It ended, or is ending: its first thread is gone while others still hold its files open."""
        if self._process.returncode is not None:
            return True
        try:
            state = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return False
        return state in {"Z", "X"}

    def interrupt(self) -> None:
        """SIGINT to the leader only: Terraform passes the word on to its providers itself."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)

    def kill_group(self) -> None:
        """SIGKILL to everything that was started in the child's session and stayed in its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def wait(self) -> int:
        return await self._process.wait()

    async def read_output(self, take: Callable[[bytes], None]) -> None:
        """Hand over standard output in chunks, as they come, to the end."""
        stdout = self._process.stdout
        while stdout is not None and (chunk := await stdout.read(_CHUNK)):
            take(chunk)

    async def read_errors(self) -> bytes:
        return b"" if self._process.stderr is None else await self._process.stderr.read()


async def start(
    argv: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
) -> Child:
    """Start a program in its own session with pipes for both outputs and nothing to read."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=folder,
        env=dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        umask=0o077,
    )
    return Child(process)


async def start_with_socket(
    argv: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    hand_over: Sequence[int] = (),
) -> tuple[Child, socket.socket]:
    """Start a program that we talk to over a socket pair; its own output goes to a log file (0600).

    The number of its end of the socket is appended to `argv`. Descriptors that are handed over keep theirs.
    """
    ours, theirs = socket.socketpair()
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            str(theirs.fileno()),
            cwd=folder,
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=handle,
            stderr=handle,
            pass_fds=(theirs.fileno(), *hand_over),
            start_new_session=True,
            umask=0o077,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        os.close(handle)
    return Child(process), ours


def run(
    argv: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float = 60.0,
    on_start: Callable[[int], None] | None = None,
) -> Finished:
    """Run a short program (git, `terraform version`) to its end. A missing program is code 127."""
    try:
        process = subprocess.Popen(
            list(argv),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        return Finished(code=127, out=b"", err=str(error).encode())
    except OSError as error:
        return Finished(code=126, out=b"", err=str(error).encode())
    if on_start is not None:
        on_start(process.pid)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return Finished(code=124, out=out, err=err + f"\ngave no answer in {seconds:g} s".encode())
    return Finished(code=process.returncode, out=out, err=err)


def first_line(
    argv: Sequence[str], *, folder: Path, environment: Mapping[str, str], seconds: float = 15.0
) -> bytes | None:
    """Start a program only to hear its first line, then end it and all it started. None: it said nothing."""
    try:
        process = subprocess.Popen(
            list(argv),
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    timer = threading.Timer(seconds, _kill_group, (process.pid,))
    timer.start()
    try:
        line = process.stdout.readline() if process.stdout is not None else b""
    finally:
        timer.cancel()
        _kill_group(process.pid)
        process.communicate()
    return line.strip() or None


def kill_all(pids: Sequence[int]) -> None:
    """SIGKILL to each; one that is gone already is no mistake."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def free_memory() -> int:
    """Bytes that programs can still have; a great many where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 1 << 40
