"""Programs of other people's, where they are: on PATH, or in the folder that HOLDFAST_TOOLS names."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

_NAMED = os.environ.get("HOLDFAST_TOOLS", "")
_PLACES = [_NAMED, f"{_NAMED}/bin"] if _NAMED else []
SEARCHED = os.pathsep.join([*_PLACES, os.environ["PATH"]])


def real(name: str) -> Path:
    """The program; without it the test is skipped, and says so."""
    found = shutil.which(name, path=SEARCHED)
    if found is None:
        pytest.skip(f"no {name} on PATH or in HOLDFAST_TOOLS")
    return Path(found)


def only(name: str, folder: Path) -> str:
    """A folder for PATH that has this program and no other."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).symlink_to(real(name))
    return str(folder)
