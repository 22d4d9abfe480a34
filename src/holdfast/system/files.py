"""File operations that a crash cannot leave half done."""

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
    """Create the folder and its missing parents, accessible only to the owner."""
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
    """Readers see the old content or all of the new one.

    Use `durable=False` for what can be created again: a flush takes longer than a Terraform command.
    """
    temporary = _write_temporary(path, content, mode, durable=durable)
    try:
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise
    if durable:
        flush_folder(path.parent)


def create(path: Path, content: bytes | str) -> bool:
    """Create a file, durably. False if it exists. The content is complete before the name appears."""
    temporary = _write_temporary(path, content, PRIVATE_FILE, durable=True)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    flush_folder(path.parent)
    return True


def _write_temporary(path: Path, content: bytes | str, mode: int, *, durable: bool) -> Path:
    """Write a temporary file beside `path`, with all of the content. Returns its path."""
    temporary = path.parent / f".{path.name}.{clock.random_token(6)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        view = memoryview(content.encode() if isinstance(content, str) else content)
        while view:
            view = view[os.write(handle, view) :]
        if durable:
            os.fsync(handle)
    except BaseException:
        temporary.unlink()
        raise
    finally:
        os.close(handle)
    return temporary


def flush_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def hold_lock(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """A lock between processes. Without `wait`, yields False if another process holds it."""
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


def take_lock(path: Path) -> int | None:
    """The descriptor that holds the lock, to hand over to a program; None if another process holds it.

    The lock lasts until every process that got the descriptor has closed it.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def is_lock_held(path: Path) -> bool:
    """Whether a process holds the lock of `hold_lock` or `take_lock`."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def is_locked(path: Path) -> bool:
    """Whether another process holds a record lock on the file, as Terraform does on a local state."""
    with path.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.lockf(file, fcntl.LOCK_UN)
        return False


def read_text(path: Path, *, limit: int = 64 * 1024 * 1024) -> str:
    """The text of a user's file, or an error that names the file."""
    try:
        if path.stat().st_size > limit:
            raise Failed(
                "HF-FILE-3", f"{path} is larger than {limit} bytes", hint="Check that it is the right file."
            )
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
            f"cannot read {path}: {error.strerror}",
            hint="Check that the file exists and that this user can read it.",
        ) from None


def content_of(path: Path) -> bytes | None:
    """None if the file does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def file_error(error: OSError) -> Failed:
    """For an unexpected error of the file system."""
    prefix = f"{error.filename}: " if error.filename is not None else ""
    return Failed(
        "HF-FILE-4",
        f"{prefix}{error.strerror or error}",
        hint="Check that the file exists, that this user has access to it, and that the disk has free space.",
    )
