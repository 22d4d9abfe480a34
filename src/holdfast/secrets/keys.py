"""The encryption key: `HOLDFAST_KEY`, `HOLDFAST_KEY_FILE`, or one that Holdfast creates.

An existing key is never overwritten or replaced: without it nothing that it encrypted can be read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import stat
from pathlib import Path
from typing import NamedTuple

from holdfast.kernel.errors import Failed, HoldfastError, UsageError
from holdfast.kernel.secret import masked_repr
from holdfast.system import clock, files
from holdfast.system.environment import Environment

VARIABLE = "HOLDFAST_KEY"
FILE_VARIABLE = "HOLDFAST_KEY_FILE"
FILE_NAME = "key"
KEY_SIZE = 32
_ID_LENGTH = 16
_MAX_BYTES = 4096
_CREATE = "Create one with: openssl rand -base64 32"


class Key(NamedTuple):
    id: str
    """Identifies the key without revealing it: stored unencrypted beside what it encrypts."""
    secret: bytes

    def __repr__(self) -> str:
        return masked_repr(self)

    @classmethod
    def of(cls, secret: bytes) -> Key:
        if len(secret) != KEY_SIZE:
            raise ValueError(f"a key has {KEY_SIZE} bytes")
        derived = derive(secret, purpose=b"key id")
        return cls(id=hashlib.sha256(derived).hexdigest()[:_ID_LENGTH], secret=secret)


class LoadedKey(NamedTuple):
    key: Key
    file: Path | None
    created: bool
    """Created just now: the user is told to back it up."""


def derive(secret: bytes, *, purpose: bytes, salt: bytes | None = None) -> bytes:
    """A key for one purpose, which reveals nothing about the others.

    HKDF with SHA-256; one round gives exactly the size of a key.
    """
    extracted = hmac.digest(salt or bytes(KEY_SIZE), secret, "sha256")
    return hmac.digest(extracted, b"holdfast v1 " + purpose + b"\x01", "sha256")


def is_key_configured(environment: Environment) -> bool:
    """A configured key can be used on another machine too."""
    return bool(environment.get(VARIABLE) or environment.get(FILE_VARIABLE))


def load_or_create_key(environment: Environment) -> LoadedKey:
    """From the variable, the named file, or a file (0600) in Holdfast's home that is created if missing."""
    if (loaded := load_key(environment)) is not None:
        return loaded
    file = environment.home / FILE_NAME
    created = _create(file)
    return LoadedKey(key=_read(file), file=file, created=created)


def load_key(environment: Environment) -> LoadedKey | None:
    """The key, if there is one. For everything that only reads: a new key would open nothing."""
    if text := environment.get(VARIABLE):
        key = _parse(text, code="HF-KEY-1", what=VARIABLE, hint=f"It must be 32 bytes in base64. {_CREATE}")
        return LoadedKey(key=key, file=None, created=False)
    if name := environment.get(FILE_VARIABLE):
        named = Path(name).expanduser().absolute()
        return LoadedKey(key=_read(named), file=named, created=False)
    file = environment.home / FILE_NAME
    return LoadedKey(key=_read(file), file=file, created=False) if _exists(file) else None


def existing_key(environment: Environment, encrypted: str) -> LoadedKey:
    """The key to read something that is encrypted already."""
    loaded = load_key(environment)
    if loaded is None:
        raise UsageError(
            "HF-KEY-20",
            f"there is no encryption key on this machine to read {encrypted} with",
            hint=f"Set {VARIABLE} to the key that it was encrypted with, or restore the key file "
            f"{environment.home / FILE_NAME} from your backup.",
        )
    return loaded


def index_key(environment: Environment) -> bytes | None:
    """The key that authenticates the records of verified providers; None while there is no usable key."""
    try:
        loaded = load_key(environment)
    except HoldfastError:
        return None
    return derive(loaded.key.secret, purpose=b"verified files") if loaded is not None else None


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError as error:
        raise _unreadable(file, error) from None


def _create(file: Path) -> bool:
    """False if another process was first: its key is used."""
    try:
        files.private_folder(file.parent)
        return files.create(file, base64.b64encode(clock.random_bytes(KEY_SIZE)) + b"\n")
    except OSError as error:
        raise Failed(
            "HF-KEY-2",
            f"cannot create a key file at {file}: {error.strerror}",
            hint=f"Set HOLDFAST_HOME to a folder that this user can write to, or set {VARIABLE}. {_CREATE}",
        ) from None


def _read(file: Path) -> Key:
    try:
        with file.open("rb") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            content = stream.read(_MAX_BYTES)
    except OSError as error:
        raise _unreadable(file, error) from None
    if mode & 0o077:
        raise UsageError(
            "HF-KEY-4",
            f"other users can read the key file {file} (mode {mode:04o})",
            hint=f"Check who may have read it, then run: chmod 600 {file}",
        )
    return _parse(
        content.decode("ascii", "replace"),
        code="HF-KEY-5",
        what=f"the key file {file}",
        hint="Restore it from your backup: without it, nothing that it encrypted can be read. To start over, "
        "move the file away.",
    )


def _unreadable(file: Path, error: OSError) -> UsageError:
    return UsageError(
        "HF-KEY-3",
        f"cannot read the key file {file}: {error.strerror}",
        hint=f"Allow this user to read it, or set {VARIABLE}, {FILE_VARIABLE} or HOLDFAST_HOME.",
    )


def _parse(text: str, *, code: str, what: str, hint: str) -> Key:
    try:
        secret = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(code, f"{what} is not base64", hint=hint) from None
    if len(secret) != KEY_SIZE:
        raise UsageError(code, f"{what} has {len(secret)} bytes instead of {KEY_SIZE}", hint=hint)
    return Key.of(secret)
