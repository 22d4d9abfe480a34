"""Files, written so that a crash leaves the old content or the new one, never half of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from holdfast.kernel.errors import Failed
from holdfast.system import clock

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def private_folder(path: Path) -> Path:
    """Make the folder (and its missing parents) readable by its owner only."""
    try:
        path.mkdir(mode=PRIVATE_FOLDER)
    except FileNotFoundError:
        private_folder(path.parent)
        return private_folder(path)
    except FileExistsError:
        if stat.S_IMODE(path.stat().st_mode) != PRIVATE_FOLDER:
            path.chmod(PRIVATE_FOLDER)
    return path


def write(path: Path, content: bytes | str, *, mode: int = PRIVATE_FILE, durable: bool = True) -> None:
    """Write aside, flush to disk, rename over. Readers see all of it or none.

    What can be made again need not be `durable`: a flush costs more than a whole command of Terraform's.
    """
    data = content.encode() if isinstance(content, str) else content
    aside = path.with_name(f".{path.name}.{clock.random_token(6)}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    if durable:
        flush_folder(path.parent)


def create(path: Path, content: bytes | str, *, mode: int = PRIVATE_FILE) -> bool:
    """Write a file that must not be there yet, durably. False when somebody was first.

    The content is complete before the name appears: a crash never leaves an empty mark.
    """
    data = content.encode() if isinstance(content, str) else content
    aside = path.with_name(f".{path.name}.{clock.random_token(6)}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(aside, path)
        except FileExistsError:
            return False
    finally:
        aside.unlink(missing_ok=True)
    flush_folder(path.parent)
    return True


def flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lock between processes. Without `wait`, yields False when another holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(handle)


def held_by_another(path: Path) -> bool:
    """Whether another process holds a record lock on a file, as Terraform does on a local state."""
    with path.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.lockf(file, fcntl.LOCK_UN)
        return False


def read_text(path: Path, *, limit: int = 64 * 1024 * 1024) -> str:
    """The text of a file a person wrote, or an error that names the file and what is wrong with it."""
    try:
        if path.stat().st_size > limit:
            raise Failed("HF-FILE-3", f"{path} is larger than {limit} bytes", hint="Is it the right file?")
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Failed(
            "HF-FILE-1",
            f"{path} is not UTF-8 (byte {error.start})",
            hint="Save the file as UTF-8.",
        ) from None
    except OSError as error:
        raise Failed(
            "HF-FILE-2",
            f"{path} cannot be read: {error.strerror}",
            hint="Check that the file is there and that this user may read it.",
        ) from None


def content_of(path: Path) -> bytes | None:
    """The bytes of a file, or None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def unusable(error: OSError) -> Failed:
    """What the system said about a file or a folder that nobody looked at before using it."""
    named = f"{error.filename}: " if error.filename is not None else ""
    return Failed(
        "HF-FILE-4",
        f"{named}{error.strerror or error}",
        hint="Check that the file is there, that this user may use it, and that the disk has room.",
    )
