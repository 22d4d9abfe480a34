"""Which processes live, and where they work. Where the system does not tell (no /proc), nothing is seen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_PROCESSES = Path("/proc")


def at_work_in(folder: Path) -> bool:
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


def told_of(folder: Path) -> bool:
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
    own = str(os.getpid())
    try:
        with os.scandir(_PROCESSES) as found:
            names = [one.name for one in found]
    except OSError:
        return
    yield from (f"{_PROCESSES}/{name}" for name in names if name.isdigit() and name != own)
