"""Which processes live, and where they work. Where the system does not tell (no /proc), nothing is seen."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Self

_PROCESSES = Path("/proc")
_BOOT = _PROCESSES / "sys/kernel/random/boot_id"
_MACHINE = Path("/etc/machine-id")
_WHOLE_MACHINE = "pid:[4026531836]"
"""The name Linux gives to the process numbers of the machine itself; a container has numbers of its own."""
_DEAD_STATES = frozenset("ZX")


class Liveness(Enum):
    ALIVE = "alive"
    DEAD = "dead"
    """Proved: it can do nothing any more."""
    UNKNOWN = "unknown"
    """It is out of sight: on another machine, or in another container."""


class ProcessId(NamedTuple):
    """One process of one boot of one machine. A number alone is given out again; empty is not known."""

    host: str
    boot: str
    pid: int
    started: str
    """In the kernel's ticks since the boot."""
    machine: str = ""
    space: str = ""
    """Whose process numbers these are: the machine's, or a container's."""

    def document(self) -> dict[str, object]:
        names = ("host", "boot", "pid", "started", "machine", "space")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of(cls, document: Mapping[str, object]) -> Self:
        """What `document` wrote. Whatever is missing is not known."""
        texts = {
            name: str(document.get(name) or "") for name in ("host", "boot", "started", "machine", "space")
        }
        return cls(pid=int(str(document.get("pid") or 0)), **texts)


def this_process() -> ProcessId:
    return process(os.getpid())


def process(pid: int) -> ProcessId:
    """The process that has this number on this machine now."""
    seen = _seen(pid)
    return ProcessId(
        host=os.uname().nodename,
        boot=_text(_BOOT),
        pid=pid,
        started=seen.started if seen is not None else "",
        machine=_text(_MACHINE),
        space=_space(),
    )


def life(of: ProcessId, *, here: ProcessId | None = None) -> Liveness:
    """Dead only when that is proved. A name of a host proves nothing: containers share and inherit names."""
    here = here or this_process()
    if of.pid <= 0 or (of.host, of.machine) != (here.host, here.machine):
        return Liveness.UNKNOWN
    if of.boot != here.boot:
        # The same machine started anew; but a container may have moved to another one, with its name.
        whole = bool(here.machine) and of.space == here.space == _WHOLE_MACHINE
        return Liveness.DEAD if whole and of.boot and here.boot else Liveness.UNKNOWN
    if of.space != here.space:
        return Liveness.UNKNOWN
    return Liveness.ALIVE if _is_there(of) else Liveness.DEAD


def session_members(leader: int) -> tuple[int, ...]:
    """The living processes of a session, its leader included: what a killed one has left behind."""
    found = ((int(one.rpartition("/")[2]), _seen(int(one.rpartition("/")[2]))) for one in _all())
    return tuple(
        sorted(pid for pid, seen in found if seen is not None and seen.session == leader and not seen.over)
    )


def _is_there(of: ProcessId) -> bool:
    """By the system's own word first: /proc may hide what belongs to another user."""
    try:
        os.kill(of.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    seen = _seen(of.pid)
    if seen is None:
        return True
    return not seen.over and (not of.started or seen.started == of.started)


class _Seen(NamedTuple):
    session: int
    started: str
    over: bool


def _seen(pid: int) -> _Seen | None:
    """What the system shows of a process. Its name, which may hold anything, stands in brackets before."""
    try:
        words = (_PROCESSES / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        over = words[0] in _DEAD_STATES and not _other_threads(pid)
        return _Seen(session=int(words[3]), started=words[19], over=over)
    except (OSError, IndexError, ValueError):
        return None


def _other_threads(pid: int) -> bool:
    """A process whose first thread ended is over only when the others have ended too."""
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


def any_process_in(folder: Path) -> bool:
    """Whether another process works in the folder or below it."""
    inside = os.path.realpath(folder)
    for process in _others():
        try:
            place = os.readlink(f"{process}/cwd")  # noqa: PTH115 - asked of every process, for every folder
        except OSError:
            # It ended meanwhile, or it is somebody else's.
            continue
        if place == inside or place.startswith(f"{inside}/"):
            return True
    return False


def any_process_mentions(folder: Path) -> bool:
    """Whether another process of this user was started with this folder in its environment."""
    name = os.fsencode(os.path.realpath(folder))
    for process in _others():
        try:
            if name in Path(process, "environ").read_bytes():
                return True
        except OSError:
            continue
    return False


def _others() -> Iterator[str]:
    own = f"{_PROCESSES}/{os.getpid()}"
    yield from (process for process in _all() if process != own)


def _all() -> Iterator[str]:
    try:
        with os.scandir(_PROCESSES) as found:
            names = [one.name for one in found]
    except OSError:
        return
    yield from (f"{_PROCESSES}/{name}" for name in names if name.isdigit())
