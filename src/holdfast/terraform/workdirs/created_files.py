"""Files in a work directory that are not from the repository: Terraform or a hook created them."""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections.abc import Iterable
from pathlib import Path

from holdfast.kernel.errors import Failed
from holdfast.system.access_rules import ForbiddenFiles
from holdfast.terraform.argv import UNSAVED_FILE
from holdfast.terraform.workdirs.workdir import WorkDirectory

_MAX_ARCHIVE = 500_000_000
FileStamps = frozenset[tuple[str, int, int]]
"""Files with size and modification time."""


def new_files(work: WorkDirectory, root: Path, before: FileStamps) -> dict[str, str]:
    """The hashes of files that a plan created, or that it changed: they differ from those in `root`."""
    hashes = {}
    for name in sorted(name for name, _, _ in list_files(work) - before):
        content = hash_of_file(work.tree / name)
        if content != hash_of_file(root / name):
            hashes[name] = content
    return hashes


def hash_of_file(file: Path) -> str:
    """Empty if there is none."""
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""


def archive_files(work: WorkDirectory, names: Iterable[str], forbidden: ForbiddenFiles) -> bytes | None:
    """Files that Terraform created or changed, as a tar file. A link becomes the content of its target.

    A forbidden file is refused: code in the next run could read it.
    """
    names = sorted(names)
    if not names:
        return None
    size = sum((work.tree / name).stat().st_size for name in names)
    if size > _MAX_ARCHIVE:
        raise Failed(
            "HF-WORK-2",
            f"the plan created {size} bytes of files; a bundle can hold at most {_MAX_ARCHIVE}",
            hint="Build large artefacts before the plan, and refer to them by path.",
        )
    import tarfile  # noqa: PLC0415 - few plans create files

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in names:
            with (work.tree / name).open("rb") as opened:
                about = os.fstat(opened.fileno())
                if about in forbidden:
                    raise PermissionError(errno.EACCES, "not a file for stacks", name)
                member = tarfile.TarInfo(name)
                member.size, member.mode, member.mtime = about.st_size, about.st_mode & 0o700, about.st_mtime
                archive.addfile(member, opened)
    return buffer.getvalue()


def restore_files(work: WorkDirectory, archive: bytes, *, replace: bool = True) -> None:
    """Inside the tree, and nothing that `new_files` leaves out. Without `replace`, other files win."""
    import tarfile  # noqa: PLC0415

    with tarfile.open(fileobj=io.BytesIO(archive)) as files_archive:
        members = [
            member
            for member in files_archive
            if member.isreg()
            and not any(map(_is_ours, member.name.split("/")))
            and (replace or not os.path.lexists(work.tree / member.name))
        ]
        files_archive.extractall(work.tree, members, filter="data")


def list_files(work: WorkDirectory) -> FileStamps:
    """Every file, except Terraform's own and ours."""
    stamps: set[tuple[str, int, int]] = set()
    start = len(str(work.tree)) + 1
    for folder, folders, names in os.walk(work.tree):
        folders[:] = [name for name in folders if name != ".terraform"]
        for name in names:
            path = f"{folder}/{name}"
            if not _is_ours(name) and os.path.isfile(path):  # noqa: PTH113 - strings, because this runs for every run
                about = os.stat(path)  # noqa: PTH116 - as above
                stamps.add((path[start:], about.st_size, about.st_mtime_ns))
    return frozenset(stamps)


def _is_ours(name: str) -> bool:
    """Written by Holdfast or Terraform."""
    return name.startswith(("holdfast.", "zz_holdfast", ".terraform")) or name == UNSAVED_FILE
