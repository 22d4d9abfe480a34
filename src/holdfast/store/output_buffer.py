"""The output buffer of an apply: a private file in memory between Terraform and the journal.

Output in a pipe is lost when its reader is killed; output in a file survives every process. During an apply
Terraform writes into this file, the supervisor copies it into the journal and removes it. After a kill the
next command saves the rest in the store, encrypted. Without such a file system a pipe is used, and the last
output before a kill may be lost.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from holdfast.system import clock

MEMORY = Path("/dev/shm")  # noqa: S108 - memory, not a disk: nothing is at rest there
_FREE_AT_START = 64 * 1024 * 1024
_FREE_WHILE_RUNNING = 4 * 1024 * 1024


def buffer_path(run: str, memory: Path = MEMORY) -> str | None:
    """None if there is too little memory, or no such file system."""
    try:
        if not os.access(memory, os.W_OK) or _free(memory) < _FREE_AT_START:
            return None
    except OSError:
        return None
    return str(memory / f"holdfast-{os.getuid()}-{run}-{clock.random_token(4)}")


def require_space(buffer: str) -> None:
    """Fails while there is still some space: Terraform would not report a failed write."""
    if _free(Path(buffer).parent) < _FREE_WHILE_RUNNING:
        raise OSError(errno.ENOSPC, "there is no memory left for Terraform's output", buffer)


def read_buffer(buffer: str) -> bytes | None:
    """What a killed run left. Ignores files of other users."""
    path = Path(buffer)
    try:
        if path.stat().st_uid != os.getuid() or not path.name.startswith("holdfast-"):
            return None
        return path.read_bytes()
    except OSError:
        return None


def leftover_buffers(memory: Path = MEMORY) -> tuple[tuple[str, str], ...]:
    """The buffers of this user: run and path."""
    ours = f"holdfast-{os.getuid()}-"
    try:
        names = [name for name in os.listdir(memory) if name.startswith(ours)]  # noqa: PTH208 - only names
    except OSError:
        return ()
    return tuple((name.removeprefix(ours).rpartition("-")[0], str(memory / name)) for name in sorted(names))


def remove_buffer(buffer: str) -> None:
    Path(buffer).unlink(missing_ok=True)


def _free(folder: Path) -> int:
    usage = os.statvfs(folder)
    return usage.f_bavail * usage.f_frsize
