"""The only module that starts processes: no shell, an explicit environment, both pipes drained.

They are confined unless the caller says otherwise: they may run code of the change under review.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, Self, cast

from holdfast.kernel.values import MaskedStruct
from holdfast.system import confine
from holdfast.system import environment as own_environment
from holdfast.system.access_rules import access_rules

_FIRST_LINE_SECONDS = 15.0
_BACKGROUND: set[int] = set()
_BACKGROUND_LOCK = threading.Lock()
_KILLED = threading.Event()
"""Background processes are no longer wanted."""


class Finished(MaskedStruct, frozen=True, kw_only=True):
    """A negative code is the signal that killed the process."""

    code: int
    out: bytes
    err: bytes


class UserId(NamedTuple):
    """A user without privileges, for a program that must not run as root."""

    user: int
    group: int


class Child:
    """A process in its own session, so that Ctrl-C in the terminal does not reach it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        """True also while it is exiting, when its main thread is gone and others still hold files open."""
        if self._process.returncode is not None:
            return True
        try:
            with open(f"/proc/{self._process.pid}/stat", "rb") as file:  # noqa: PTH123 - before every command
                state = file.read().rpartition(b")")[2].split()[0]
        except (OSError, IndexError):
            return False
        return state in {b"Z", b"X"}

    def interrupt(self) -> None:
        """SIGINT to the child's process group, as Ctrl-C in a terminal would send."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGINT)

    def kill_group(self) -> None:
        """SIGKILL to the child's process group."""
        _kill_group(self.pid)

    async def wait(self) -> int:
        return await asyncio.to_thread(self._process.wait)


class OutputBuffer:
    """The output of a process, read after it ended: in memory or in an unnamed file.

    Unlike a pipe it never fills up, so it need not be read meanwhile.
    """

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self.number = os.memfd_create("holdfast")
        else:
            import tempfile  # noqa: PLC0415 - only without memfd

            self.number, path = tempfile.mkstemp()
            Path(path).unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def content(self, *, last: int | None = None) -> bytes:
        """All of it, or only the last bytes."""
        size = os.fstat(self.number).st_size
        begin = 0 if last is None else max(0, size - last)
        pieces: list[bytes] = []
        while begin < size and (piece := os.pread(self.number, size - begin, begin)):
            pieces.append(piece)
            begin += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        if self.number >= 0:
            os.close(self.number)
            self.number = -1


class SocketChild(NamedTuple):
    child: Child
    channel: socket.socket
    log: OutputBuffer


def start_with_socket(
    argv: Sequence[str], *, folder: Path, environment: Mapping[str, str], hand_over: Sequence[int] = ()
) -> SocketChild:
    """Start a program with a socket pair.

    The descriptor of its end is appended to `argv`; descriptors in `hand_over` keep their numbers.
    """
    _protect_this_process()
    log = OutputBuffer()
    ours, theirs = socket.socketpair()
    try:
        process = subprocess.Popen(
            [*argv, str(theirs.fileno())],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log.number,
            stderr=log.number,
            pass_fds=(theirs.fileno(), *hand_over),
            start_new_session=True,
            umask=0o077,
        )
    except BaseException:
        ours.close()
        log.close()
        raise
    finally:
        theirs.close()
    return SocketChild(Child(process), ours, log)


class Program:
    """A part of this program that runs beside it, and writes where it writes its log."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        output = sys.stderr.fileno()
        self._process = _start(
            argv, confined=False, env=dict(environment), stdin=subprocess.DEVNULL, stdout=output
        )

    @property
    def code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def start_with_output(
    argv: Sequence[str], *, folder: Path, environment: Mapping[str, str], ruleset: int
) -> tuple[Child, IO[bytes]]:
    """Start a program that is confined by these rules; its output is read while it runs."""
    process = _start(
        argv,
        confined=True,
        ruleset=ruleset,
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        umask=0o077,
    )
    return Child(process), cast("IO[bytes]", process.stdout)


def run(
    argv: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float = 60.0,
    stdin: bytes | None = None,
    background: bool = False,
    confined: bool = True,
    fetches_code: bool = False,
    user: UserId | None = None,
    hand_over: Sequence[int] = (),
) -> Finished:
    """Run a short program (git, `terraform version`) to its end. A missing program is code 127.

    `stdin` is its standard input. Only one that `fetches_code` can write where workers have that of changes.
    `kill_background` kills a `background` process, whose result is optional.
    The program gets the rights of `user` after it has entered `folder`, which that user need not reach by its
    path. Descriptors in `hand_over` keep their numbers.
    """
    if background and _KILLED.is_set():
        return Finished(code=-signal.SIGKILL, out=b"", err=b"not started: Holdfast is stopping")
    try:
        process = _start(
            argv,
            confined=confined,
            fetches_code=fetches_code,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=hand_over,
            **_as_user(user),
        )
    except FileNotFoundError as error:
        return Finished(code=127, out=b"", err=str(error).encode())
    except OSError as error:
        return Finished(code=126, out=b"", err=str(error).encode())
    if background:
        with _BACKGROUND_LOCK:
            _BACKGROUND.add(process.pid)
            if _KILLED.is_set():
                _kill_group(process.pid)
    try:
        out, err = process.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        _kill_group(process.pid)
        out, err = process.communicate()
        return Finished(code=124, out=out, err=err + f"\ntimed out after {seconds:g} s".encode())
    except BaseException:
        # Ctrl-C does not reach it, because it has its own session.
        _kill_group(process.pid)
        process.communicate()
        raise
    finally:
        with _BACKGROUND_LOCK:
            _BACKGROUND.discard(process.pid)
    return Finished(code=process.returncode, out=out, err=err)


class PipeError(Exception):
    """The program failed. The text is what it wrote to standard error."""


@contextlib.contextmanager
def open_pipe(
    argv: Sequence[str], *, folder: Path, environment: Mapping[str, str], writes: bool
) -> Iterator[IO[bytes]]:
    """Stream from a trusted program, or to it (`writes`). It is killed if the block fails."""
    with OutputBuffer() as log:
        process = _start(
            argv,
            confined=False,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE if writes else subprocess.DEVNULL,
            stdout=log.number if writes else subprocess.PIPE,
            stderr=log.number,
        )
        try:
            with cast("IO[bytes]", process.stdin if writes else process.stdout) as stream:
                yield stream
        except BrokenPipeError:
            pass
        except BaseException:
            _kill_group(process.pid)
            process.wait()
            raise
        if process.wait() != 0:
            raise PipeError(log.content(last=2000).decode(errors="replace").strip())


def _as_user(user: UserId | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {"user": user.user, "group": user.group, "extra_groups": [], "umask": 0o077}


def reap(pid: int, *, seconds: float = 0.0) -> None:
    """Remove what is left of a process that this one inherited, as the first process of a container does.

    Waits for the end of one that is still ending.
    """
    end = time.monotonic() + seconds
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < end:
            time.sleep(0.01)


def kill_background() -> None:
    """On Ctrl-C: kill background processes, and start no more of them."""
    with _BACKGROUND_LOCK:
        _KILLED.set()
        for pid in _BACKGROUND:
            _kill_group(pid)


def first_line(
    argv: Sequence[str], *, folder: Path, environment: Mapping[str, str], ruleset: int | None = None
) -> bytes | None:
    """Start a program, read its first line, then kill it and its group. None if it printed nothing."""
    try:
        process = _start(
            argv,
            confined=True,
            ruleset=ruleset,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None
    timer = threading.Timer(_FIRST_LINE_SECONDS, _kill_group, (process.pid,))
    timer.start()
    try:
        line = process.stdout.readline() if process.stdout is not None else b""
    finally:
        timer.cancel()
        _kill_group(process.pid)
        process.communicate()
    return line.strip() or None


def _start(
    argv: Sequence[str],
    *,
    confined: bool,
    ruleset: int | None = None,
    fetches_code: bool = False,
    **options: Any,
) -> subprocess.Popen[bytes]:
    _protect_this_process()

    def start(*launcher: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*launcher, *argv], start_new_session=True, **options)

    if not confined or sys.platform != "linux":
        return start()
    if not confine.can_confine_threads():
        wanted = str(Path(options["cwd"], argv[0])) if "/" in argv[0] else argv[0]
        program = shutil.which(wanted, path=options["env"].get("PATH", os.defpath))
        if program is None:
            raise FileNotFoundError(f"{argv[0]} is not on PATH")
        argv = (program, *argv[1:])
        return start(sys.executable, "-I", "-S", str(confine.__file__))
    if ruleset is not None:
        return confine.call_confined(ruleset, start)
    ruleset = confine.create_ruleset(access_rules(own_environment.read(), fetches_code=fetches_code).rules())
    try:
        return confine.call_confined(ruleset, start)
    finally:
        if ruleset >= 0:
            os.close(ruleset)


@functools.cache
def _protect_this_process() -> None:
    """Before the first process is started: none of them can read this one."""
    confine.protect_process(own_environment.read().secret_variables)


def kill_all(pids: Sequence[int]) -> None:
    """SIGKILL to each; a process that is already gone is ignored."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def free_memory() -> int:
    """Available bytes; a large number if the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 1 << 40
