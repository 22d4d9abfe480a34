"""A disk that can be filled."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_SIZE = "size=260m,mode=0700"


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """A file system of its own; a skip says where it cannot be had."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", _SIZE, "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can only be mounted by root, where the system allows it")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> None:
    """Not a byte is left."""
    with contextlib.suppress(OSError), (place / "filler").open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)
