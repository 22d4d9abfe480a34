"""Which file system a path is on, by /proc. Without it nothing is known."""

from __future__ import annotations

import os
import re
from pathlib import Path

from holdfast.kernel.patterns import pattern

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = pattern(r"\\([0-7]{3})")
_LOCAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs"})
"""On a disk that one kernel mounts at a time. Any other type may be shared between machines."""


def is_local_disk(path: Path) -> bool:
    """Whether only one machine at a time can use this path. False if that is not known."""
    try:
        mounts = _MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return False
    return filesystem_type(mounts, os.path.realpath(path)) in _LOCAL


def filesystem_type(mounts: str, path: str) -> str | None:
    """By the text of `mountinfo`: of the deepest mount point above the path, and there of the last mount."""
    deepest, kind = "", None
    for line in mounts.splitlines():
        mount, _, rest = line.partition(" - ")
        fields, kinds = mount.split(" "), rest.split(" ")
        point = _ESCAPED.sub(_unescaped, fields[4]) if len(fields) > 4 else ""  # noqa: PLR2004 - see proc(5)
        inside = path == point or path.startswith(f"{point.rstrip('/')}/")
        if point and inside and len(point) >= len(deepest):
            deepest, kind = point, kinds[0] or None
    return kind


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))
