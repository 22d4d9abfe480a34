"""Free space on the disk: a run is refused where there is too little to finish it and to save a state."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct

from holdfast.kernel.errors import Failed
from holdfast.terraform.workdirs.gc_policy import size_in_words

FLOOR = 200_000_000
"""Less free space than this, and no run starts."""


class FreeSpace(Struct, frozen=True, kw_only=True):
    path: Path
    free: int


def free_bytes(path: Path) -> int | None:
    """What this user may still write where the path is or would be; None where the system does not tell."""
    place = next((one for one in (path, *path.parents) if one.exists()), Path("/"))
    about = os.statvfs(place)
    return about.f_bavail * about.f_frsize if about.f_blocks else None


def fullest_disk(
    places: Iterable[Path], *, free: Callable[[Path], int | None] = free_bytes, floor: int = FLOOR
) -> FreeSpace | None:
    """The place with the least room, if that is too little."""
    rooms = [FreeSpace(path=path, free=known) for path in places if (known := free(path)) is not None]
    least = min(rooms, key=lambda room: room.free, default=None)
    return least if least is not None and least.free < floor else None


def require_disk_space(
    places: Iterable[Path], *, free: Callable[[Path], int | None] = free_bytes, floor: int = FLOOR
) -> None:
    least = fullest_disk(places, free=free, floor=floor)
    if least is not None:
        raise Failed(
            "HF-WORK-4",
            f"only {size_in_words(least.free)} are free for {least.path}; a run needs {size_in_words(floor)}",
            hint="Nothing was run. Make room: `holdfast clean --all` removes work directories not in use.",
        )
