"""Free disk space: a run is refused when there is too little to finish it and to save a state."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from holdfast.kernel.errors import Failed
from holdfast.terraform.workdirs.gc_policy import format_size

FLOOR = 200_000_000
"""No run starts with less free space than this."""


class FreeSpace(Struct, frozen=True, kw_only=True):
    path: Path
    free: int


def free_bytes(path: Path) -> int | None:
    """What this user may still write where the path is or would be; None where the system does not say."""
    place = next((parent for parent in (path, *path.parents) if parent.exists()), Path("/"))
    about = os.statvfs(place)
    return about.f_bavail * about.f_frsize if about.f_blocks else None


def fullest_disk(
    places: Iterable[Path], *, free: Callable[[Path], int | None] = free_bytes, floor: int = FLOOR
) -> FreeSpace | None:
    """The disk with the least free space, if that is too little."""
    disks = [FreeSpace(path=path, free=known) for path in places if (known := free(path)) is not None]
    least = min(disks, key=lambda disk: disk.free, default=None)
    return least if least is not None and least.free < floor else None


def require_disk_space(
    places: Iterable[Path], *, free: Callable[[Path], int | None] = free_bytes, floor: int = FLOOR
) -> None:
    least = fullest_disk(places, free=free, floor=floor)
    if least is not None:
        raise Failed(
            "HF-WORK-4",
            f"only {format_size(least.free)} free for {least.path}; a run needs {format_size(floor)}",
            hint="Nothing was run. Free disk space: `holdfast clean --all` removes unused work directories.",
        )
