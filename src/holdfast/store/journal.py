"""A journal: what Terraform said during one run, each word on disk before it goes anywhere else.

A file of frames, each encrypted on its own and bound to its run and its place in the row. It is only ever
appended to, and a crash can cut it anywhere: what is whole up to there counts, the rest is "not known".

Written by the process that supervises Terraform, so the imports are few.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from holdfast.kernel.values import dataclass, field
from holdfast.secrets.encryption import WrongKey
from holdfast.secrets.keys import Key, derive

_MAGIC = b"HFJRNL1\n"
_SALT = 16
_NONCE = 12
_HEAD = len(_MAGIC) + 8 + _SALT
_LENGTH = 4

STARTED = b"S"
LINES = b"L"
ENDED = b"E"


class JournalWriter:
    """Every `append` is on disk when it returns. `grown` hears each piece as it was written, for shipping.

    The file has its name with the first frame and not before, and nobody else's: whoever makes the name first
    (`RunRecords.bar`) has decided that this run is not begun. After a write that failed there is no other.
    """

    def __init__(
        self, path: str, key: Key, run: str, *, grown: Callable[[bytes], None] | None = None
    ) -> None:
        salt = os.urandom(_SALT)
        self._cipher = AESGCM(derive(key.secret, purpose=b"journal", salt=salt))
        self._run = run
        self._count = 0
        self._grown = grown
        self._head = _MAGIC + bytes.fromhex(key.id) + salt
        self._path = path
        self._aside: str | None = _beside(path, salt)
        self._broken: str | None = None
        self._file = os.open(
            self._aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600
        )

    def append(self, kind: bytes, data: bytes) -> None:
        if self._broken is not None:
            # What follows half a frame could never be read.
            raise OSError(errno.EIO, f"it failed before: {self._broken}", self._path)
        nonce = os.urandom(_NONCE)
        body = nonce + self._cipher.encrypt(nonce, kind + data, _bound(self._run, self._count))
        frame = len(body).to_bytes(_LENGTH, "big") + body
        try:
            self._put(frame if self._count else self._head + frame)
        except BaseException as error:
            self._broken = str(error)
            raise
        self._count += 1

    def _put(self, data: bytes) -> None:
        """A write that does not fit is an error, and never half a frame that is taken for one."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        os.fdatasync(self._file) if hasattr(os, "fdatasync") else os.fsync(self._file)
        if self._aside is not None:
            self._named(self._aside)
        if self._grown is not None:
            self._grown(data)

    def _named(self, aside: str) -> None:
        os.link(aside, self._path)
        os.unlink(aside)  # noqa: PTH108 - pathlib is not imported here
        self._aside = None
        folder = os.open(os.path.dirname(self._path) or ".", os.O_RDONLY)  # noqa: PTH120 - as above
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def close(self) -> None:
        os.close(self._file)
        if self._aside is not None:
            os.unlink(self._aside)  # noqa: PTH108 - as above


def _beside(path: str, salt: bytes) -> str:
    """A name that begins with a dot is half-written, to every blob store."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{salt.hex()[:8]}")  # noqa: PTH118 - as above


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """What can be read of it."""

    started: dict[str, object] | None
    """Who supervised it. None: Terraform was never started."""
    lines: tuple[bytes, ...] = field(repr=False)
    ended: dict[str, object] | None
    """The exit record. None: nobody saw the end."""
    whole: bool
    """Nothing of it was cut off or damaged."""


EMPTY = Journal(started=None, lines=(), ended=None, whole=True)


def read_journal(key: Key, run: str, content: bytes) -> Journal:
    """Everything up to where it was cut. Another key is an error; it is never taken for an empty journal."""
    if not content:
        return EMPTY
    if len(content) < _HEAD or not content.startswith(_MAGIC):
        return Journal(started=None, lines=(), ended=None, whole=False)
    named = content[len(_MAGIC) :][:8].hex()
    if named != key.id:
        raise WrongKey(
            "HF-KEY-7",
            f"the journal of run {run} was encrypted with the key {named}, and the key at hand is {key.id}",
            hint="Set HOLDFAST_KEY to that key, or restore its key file from the backup.",
        )
    cipher = AESGCM(derive(key.secret, purpose=b"journal", salt=content[_HEAD - _SALT : _HEAD]))
    started: dict[str, object] | None = None
    ended: dict[str, object] | None = None
    lines: list[bytes] = []
    whole = True
    for number, body in enumerate(_bodies(content)):
        try:
            clear = cipher.decrypt(body[:_NONCE], body[_NONCE:], _bound(run, number)) if body else None
        except (InvalidTag, ValueError):
            clear = None
        if clear is None:
            whole = False
            break
        kind, data = clear[:1], clear[1:]
        if kind == STARTED:
            started = json.loads(data)
        elif kind == ENDED:
            ended = json.loads(data)
        else:
            lines += data.split(b"\n")
    return Journal(started=started, lines=tuple(line for line in lines if line), ended=ended, whole=whole)


def _bodies(content: bytes) -> Iterator[bytes | None]:
    """Each frame's body; None for one that was cut."""
    at = _HEAD
    while at < len(content):
        size = int.from_bytes(content[at : at + _LENGTH], "big")
        body = content[at + _LENGTH : at + _LENGTH + size]
        yield body if size > _NONCE and len(body) == size else None
        at += _LENGTH + size


def _bound(run: str, number: int) -> bytes:
    return f"journal\0{run}\0{number}".encode()
