"""The key that encrypts what Holdfast keeps: configured by `HOLDFAST_KEY` or `HOLDFAST_KEY_FILE`, else made.

A key that exists is never overwritten and never guessed around: with another one, everything that was kept
would be lost to its owner.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import stat
from enum import StrEnum
from pathlib import Path

from holdfast.kernel.errors import Failed, UsageError
from holdfast.kernel.values import dataclass, field
from holdfast.system import clock, files
from holdfast.system.environment import Environment

VARIABLE = "HOLDFAST_KEY"
FILE_VARIABLE = "HOLDFAST_KEY_FILE"
FILE_NAME = "key"
KEY_SIZE = 32
_ID_LENGTH = 16
_MOST_BYTES = 4096
_MAKE_ONE = "Make one with: openssl rand -base64 32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    id: str
    """Names the key without telling anything about it: stands in clear beside what it encrypts."""
    secret: bytes = field(repr=False, compare=False)

    @classmethod
    def of(cls, secret: bytes) -> Key:
        if len(secret) != KEY_SIZE:
            raise ValueError(f"a key has {KEY_SIZE} bytes")
        named = derive(secret, purpose=b"key id")
        return cls(id=hashlib.sha256(named).hexdigest()[:_ID_LENGTH], secret=secret)


class Source(StrEnum):
    VARIABLE = "variable"
    NAMED_FILE = "named file"
    """The one that `HOLDFAST_KEY_FILE` names: its owner looks after it."""
    FILE = "file"
    """Holdfast's own, in its home on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Obtained:
    key: Key
    source: Source
    """What outlives this machine needs a configured key: Holdfast's own file stays here."""
    file: Path | None
    made: bool
    """It was made just now: the user is told where it is, and to back it up."""


def derive(secret: bytes, *, purpose: bytes, salt: bytes | None = None) -> bytes:
    """A key for one purpose only. Nothing that is learnt about it says anything about the others.

    HKDF with SHA-256, whose one round gives as many bytes as a key has.
    """
    extracted = hmac.digest(salt or bytes(KEY_SIZE), secret, "sha256")
    return hmac.digest(extracted, b"holdfast v1 " + purpose + b"\x01", "sha256")


def configured(environment: Environment) -> bool:
    """Whether somebody gave a key, and so can give it again on another machine."""
    return bool(environment.get(VARIABLE) or environment.get(FILE_VARIABLE))


def obtain(environment: Environment) -> Obtained:
    """The key of this user: the variable, else the named file, else one (0600) under the home directory."""
    if text := environment.get(VARIABLE):
        key = _parse(text, code="HF-KEY-1", what=VARIABLE, hint=f"It is base64 of 32 bytes. {_MAKE_ONE}")
        return Obtained(key=key, source=Source.VARIABLE, file=None, made=False)
    if name := environment.get(FILE_VARIABLE):
        named = Path(name).expanduser().absolute()
        return Obtained(key=_read(named), source=Source.NAMED_FILE, file=named, made=False)
    file = environment.home / FILE_NAME
    made = not _there(file) and _make(file)
    return Obtained(key=_read(file), source=Source.FILE, file=file, made=made)


def _there(file: Path) -> bool:
    try:
        return file.exists()
    except OSError as error:
        raise _unreadable(file, error) from None


def _make(file: Path) -> bool:
    """False when another process was first: then its key counts."""
    try:
        files.private_folder(file.parent)
        return files.create(file, base64.b64encode(clock.random_bytes(KEY_SIZE)) + b"\n")
    except OSError as error:
        raise Failed(
            "HF-KEY-2",
            f"no key file can be made at {file}: {error.strerror}",
            hint=f"Set HOLDFAST_HOME to a folder that this user may write to, or set {VARIABLE}. {_MAKE_ONE}",
        ) from None


def _read(file: Path) -> Key:
    try:
        with file.open("rb") as opened:
            mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            content = opened.read(_MOST_BYTES)
    except OSError as error:
        raise _unreadable(file, error) from None
    if mode & 0o077:
        raise UsageError(
            "HF-KEY-4",
            f"others than its owner may use the key file {file} (mode {mode:04o})",
            hint=f"Ask who has read it, then: chmod 600 {file}",
        )
    return _parse(
        content.decode("ascii", "replace"),
        code="HF-KEY-5",
        what=f"the key file {file}",
        hint="Restore it from its backup. Without that key, what was encrypted with it cannot be read;"
        " to begin anew, move the file away.",
    )


def _unreadable(file: Path, error: OSError) -> UsageError:
    return UsageError(
        "HF-KEY-3",
        f"the key file {file} cannot be read: {error.strerror}",
        hint=f"Give this user the right to read it, or set {VARIABLE}, {FILE_VARIABLE} or HOLDFAST_HOME.",
    )


def _parse(text: str, *, code: str, what: str, hint: str) -> Key:
    try:
        secret = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(code, f"{what} is not base64", hint=hint) from None
    if len(secret) != KEY_SIZE:
        raise UsageError(code, f"{what} holds {len(secret)} bytes, not {KEY_SIZE}", hint=hint)
    return Key.of(secret)
