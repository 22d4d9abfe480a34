"""Which processes are alive, and what they use. Without /proc nothing is found."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Self

_PROCESSES = Path("/proc")
_BOOT = _PROCESSES / "sys/kernel/random/boot_id"
_MACHINE = Path("/etc/machine-id")
_WHOLE_MACHINE = "pid:[4026531836]"
"""The PID namespace of the machine itself; a container has its own."""
_DEAD_STATES = frozenset("ZX")
_SUPERVISOR = b"supervisor/main.py"


class Liveness(Enum):
    ALIVE = "alive"
    DEAD = "dead"
    """Proved."""
    UNKNOWN = "unknown"
    """On another machine or in another container."""


class ProcessId(NamedTuple):
    """A process of one boot of one machine, because pids are reused. Empty fields are unknown."""

    host: str
    boot: str
    pid: int
    started: str
    """Kernel ticks since boot."""
    machine: str = ""
    space: str = ""
    """The PID namespace."""

    def document(self) -> dict[str, object]:
        return self._asdict()

    @classmethod
    def of(cls, document: Mapping[str, object]) -> Self:
        """From `document`. Missing fields are unknown."""
        texts = {name: str(document.get(name) or "") for name in cls._fields if name != "pid"}
        return cls(pid=int(str(document.get("pid") or 0)), **texts)


def this_process() -> ProcessId:
    return _own(os.getpid())


@functools.cache
def _own(pid: int) -> ProcessId:
    """Of the process itself, for which nothing of this changes."""
    return process(pid)


def process(pid: int) -> ProcessId:
    """The process that has this pid on this machine now."""
    stat = _stat(pid)
    return ProcessId(
        host=os.uname().nodename,
        boot=_text(_BOOT),
        pid=pid,
        started=stat.started if stat is not None else "",
        machine=_text(_MACHINE),
        space=_space(),
    )


def liveness(
    of: ProcessId, *, here: ProcessId | None = None, one_machine: Callable[[], bool] = lambda: False
) -> Liveness:
    """Dead only if that is proved. Names prove nothing: containers inherit them, clones share them.

    `one_machine` tells whether the place where the process was recorded is used by one machine only. Only
    then a different boot id means that this machine was restarted, and not that it is another one.
    """
    here = here or this_process()
    if of.pid <= 0 or (of.host, of.machine) != (here.host, here.machine) or not (of.boot and here.boot):
        return Liveness.UNKNOWN
    if of.boot != here.boot:
        # A container may have moved to another machine, with its name.
        whole = bool(here.machine) and of.space == here.space == _WHOLE_MACHINE
        return Liveness.DEAD if whole and one_machine() else Liveness.UNKNOWN
    if of.space != here.space:
        return Liveness.UNKNOWN
    return Liveness.ALIVE if _exists(of) else Liveness.DEAD


def is_alive(pid: int) -> bool:
    """Whether any process has this pid."""
    stat = _stat(pid)
    return stat is not None and not stat.ended


def session_members(leader: int) -> tuple[int, ...]:
    """The live processes of a session, including its leader."""
    pids = (int(process.rpartition("/")[2]) for process in _all())
    seen = ((pid, _stat(pid)) for pid in pids)
    return tuple(
        sorted(pid for pid, stat in seen if stat is not None and stat.session == leader and not stat.ended)
    )


def _exists(of: ProcessId) -> bool:
    """Asks the kernel first: /proc may hide processes of other users."""
    try:
        os.kill(of.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    stat = _stat(of.pid)
    if stat is None:
        return True
    return not stat.ended and (not of.started or stat.started == of.started)


class _Stat(NamedTuple):
    session: int
    started: str
    ended: bool


def _stat(pid: int) -> _Stat | None:
    """The fields after the program's name, which is in parentheses and may contain anything."""
    try:
        fields = (_PROCESSES / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        ended = fields[0] in _DEAD_STATES and not _other_threads(pid)
        return _Stat(session=int(fields[3]), started=fields[19], ended=ended)
    except (OSError, IndexError, ValueError):
        return None


def _other_threads(pid: int) -> bool:
    """A process whose main thread ended is dead only when the others have ended too."""
    try:
        return len(os.listdir(_PROCESSES / str(pid) / "task")) > 1  # noqa: PTH208 - names are enough
    except OSError:
        return False


def _space() -> str:
    try:
        return os.readlink(_PROCESSES / "self/ns/pid")  # noqa: PTH115 - a name, not a path
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def own_id() -> int:
    return os.getpid()


def parent_id() -> int:
    """1, or that of another process, once the one that started this one is gone."""
    return os.getppid()


def any_process_in(folder: Path) -> bool:
    """Whether another process has its working directory in the folder, or may have it there."""
    inside = os.path.realpath(folder)
    for process in _others():
        try:
            cwd = os.readlink(f"{process}/cwd")  # noqa: PTH115 - for every process and every folder
        except PermissionError:
            # Of another user; or a supervisor of this one, into which no process can look.
            owned = b"\nUid:\t%d\t" % os.getuid() in _bytes(f"{process}/status")
            if owned and _SUPERVISOR in _bytes(f"{process}/cmdline"):
                return True
            continue
        except OSError:
            continue
        if cwd == inside or cwd.startswith(f"{inside}/"):
            return True
    return False


def any_process_mentions(folder: Path) -> bool:
    """Whether another process of this user has this folder in its environment or its command line."""
    name = os.fsencode(os.path.realpath(folder))
    for process in _others():
        if name in _bytes(f"{process}/environ") or name in _bytes(f"{process}/cmdline"):
            return True
    return False


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def _others() -> Iterator[str]:
    own = f"{_PROCESSES}/{os.getpid()}"
    yield from (process for process in _all() if process != own)


def _all() -> Iterator[str]:
    try:
        with os.scandir(_PROCESSES) as entries:
            names = [entry.name for entry in entries]
    except OSError:
        return
    yield from (f"{_PROCESSES}/{name}" for name in names if name.isdigit())
