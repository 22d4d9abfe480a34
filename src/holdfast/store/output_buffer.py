"""Terraform's words on their way into the journal, in a file in memory.

What Terraform writes into a pipe dies with whoever reads it. Into a file it is there as soon as the write
returns, whoever is killed next: so for the length of an apply its output goes to a private file in memory,
is read from there into the journal, and the file goes. After a kill the next command takes what is left into
the store, encrypted. On a machine without such a place a pipe does, and the last moment may be lost.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from holdfast.system import clock

MEMORY = Path("/dev/shm")  # noqa: S108 - memory, not a disk: nothing is at rest there
_LEAST_AT_FIRST = 64 * 1024 * 1024
_LEAST = 4 * 1024 * 1024


def buffer_path(run: str, memory: Path = MEMORY) -> str | None:
    """A name for one run's words; None where there is no room in memory, or no such place."""
    try:
        if not os.access(memory, os.W_OK) or _free(memory) < _LEAST_AT_FIRST:
            return None
    except OSError:
        return None
    return str(memory / f"holdfast-{os.getuid()}-{run}-{clock.random_token(4)}")


def require_memory(spill: str) -> None:
    """An error while there is still room: a write of Terraform's that fails is said by nobody."""
    if _free(Path(spill).parent) < _LEAST:
        raise OSError(errno.ENOSPC, "no room in memory for what Terraform says", spill)


def left(spill: str) -> bytes | None:
    """What a killed run left there. Somebody else's file is not looked at."""
    path = Path(spill)
    try:
        if path.stat().st_uid != os.getuid() or not path.name.startswith("holdfast-"):
            return None
        return path.read_bytes()
    except OSError:
        return None


def all_left(memory: Path = MEMORY) -> tuple[tuple[str, str], ...]:
    """What lies there of this user's runs: each run, and the name of its words."""
    ours = f"holdfast-{os.getuid()}-"
    try:
        names = [name for name in os.listdir(memory) if name.startswith(ours)]  # noqa: PTH208 - names do
    except OSError:
        return ()
    return tuple((name.removeprefix(ours).rpartition("-")[0], str(memory / name)) for name in sorted(names))


def forget(spill: str) -> None:
    Path(spill).unlink(missing_ok=True)


def _free(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize
