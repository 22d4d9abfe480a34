"""Scratch folders: in the temporary directory, with a short path, removed with the command that made them.

They hold sockets, and credentials while these are needed. A killed command leaves its folder; the lock on its
file `holdfast-owner` shows whether the owner is alive, because the system releases it when a process ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from holdfast.system import files, process_table
from holdfast.system.access_rules import SCRATCH_NAME, SCRATCH_OWNER, SCRATCH_PREFIX

_MAX_LENGTH = 70
"""Characters of a temporary directory: a socket's whole path has 107, and a provider's own part takes 24."""
_SHORT = Path("/tmp")  # noqa: S108 - a private folder with a random name is made in it


def temporary_root(named: Path | None = None) -> Path:
    """Where scratch folders are made: providers could not open a socket with a longer path."""
    folder = named or Path(tempfile.gettempdir())
    return _SHORT if len(str(folder)) > _MAX_LENGTH and os.access(_SHORT, os.W_OK | os.X_OK) else folder


def temporary_roots() -> tuple[Path, ...]:
    """Where scratch folders of this user may be: in the configured directory, and in the short one."""
    return tuple(dict.fromkeys((Path(tempfile.gettempdir()), temporary_root())))


@contextlib.contextmanager
def open_scratch_folder() -> Iterator[Path]:
    """A private folder for the life of this process."""
    folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=temporary_root()))
    aside = folder / f"{SCRATCH_OWNER}.new"
    try:
        with files.hold_lock(aside):
            aside.write_text(json.dumps({"pid": os.getpid()}) + "\n")
            # The name appears with the lock on it: the folder of a running command always has one.
            aside.rename(folder / SCRATCH_OWNER)
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(temporary_root: Path, *, older_than: float) -> Iterator[tuple[Path, int]]:
    """Remove this user's folders whose owner has ended, and yield each with its size.

    A folder without an owner file is removed only if it is empty and older than `older_than` (seconds
    since the epoch): any other is not ours.
    """
    for folder in sorted(temporary_root.glob(f"{SCRATCH_PREFIX}*")):
        try:
            about = folder.lstat()
            ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
            if not ours or not SCRATCH_NAME.fullmatch(folder.name):
                continue
            if (folder / SCRATCH_OWNER).is_file():
                size = _remove_if_dead(folder)
                if size is not None:
                    yield folder, size
            elif about.st_mtime < older_than:
                folder.rmdir()
                yield folder, 0
        except OSError:
            # It was removed meanwhile, or it is not empty and so not ours.
            continue


def _remove_if_dead(folder: Path) -> int | None:
    with files.hold_lock(folder / SCRATCH_OWNER, wait=False) as ended:
        if not ended or process_table.any_process_in(folder) or process_table.any_process_mentions(folder):
            return None
        size = sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
        shutil.rmtree(folder)
        return size
