"""The keys: `HOLDFAST_KEY` (or a file), from which everything is derived, and `HOLDFAST_PLAN_KEY`.

The apply key derives a read key, which encrypts the run store, and the private halves of two pairs: bundles
are sealed to one (X25519), what counts in the run store is signed by the other (Ed25519). The plan key holds
the read key and the public halves: with it a job reads the store and writes bundles that it cannot open. It
signs nothing.

An existing key is never overwritten or replaced: without it nothing that it encrypted can be read.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.kernel.errors import Failed, HoldfastError, UsageError
from holdfast.kernel.secret import masked_repr
from holdfast.system import clock, files
from holdfast.system.environment import Environment

VARIABLE = "HOLDFAST_KEY"
FILE_VARIABLE = "HOLDFAST_KEY_FILE"
PLAN_VARIABLE = "HOLDFAST_PLAN_KEY"
FILE_NAME = "key"
KEY_SIZE = 32
_PLAN_VERSION = b"\x01"
_PLAN_KEY_SIZE = 1 + 3 * KEY_SIZE
_ID_LENGTH = 16
_MAX_BYTES = 65536
_CREATE = "Create one with: openssl rand -base64 32"


class CipherKey(NamedTuple):
    """Encrypts one kind of data; derived from a `Key`, whose id it has."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        return masked_repr(self)


class PrivateHalves(NamedTuple):
    seal: bytes
    sign: bytes

    def __repr__(self) -> str:
        return masked_repr(self)


class PublicHalves(NamedTuple):
    seal: bytes
    """X25519: bundles are sealed to it."""
    sign: bytes
    """Ed25519: it verifies what the apply key signed."""


class Key(NamedTuple):
    """The apply key, or the plan key if it has no private halves."""

    id: str
    """Identifies the key without revealing it: stored unencrypted beside what it encrypts.

    An apply key and its plan key have the same id.
    """
    read: bytes
    """Derives the keys that encrypt the run store."""
    public: PublicHalves
    private: PrivateHalves | None
    ask_server: Callable[[bytes, str], bytes] | None = None
    """For the key of one sealed message, by its public key and context: the server has the private half."""

    def __repr__(self) -> str:
        return masked_repr(self)

    @property
    def can_apply(self) -> bool:
        return self.private is not None

    @classmethod
    def of(cls, secret: bytes) -> Key:
        """The apply key."""
        if len(secret) != KEY_SIZE:
            raise ValueError(f"a key has {KEY_SIZE} bytes")
        private = PrivateHalves(seal=derive(secret, purpose=b"seal"), sign=derive(secret, purpose=b"sign"))
        read = derive(secret, purpose=b"read")
        return cls(id=_id(read), read=read, public=_public(private), private=private)

    def plan_key(self) -> str:
        """The value of `HOLDFAST_PLAN_KEY`."""
        return base64.b64encode(_PLAN_VERSION + self.read + self.public.seal + self.public.sign).decode()

    def without_private(self) -> Key:
        return self._replace(private=None)

    def for_tenant(self, tenant: str) -> Key:
        """Of a server: what is sealed for one tenant, the key of another does not open."""
        if self.private is None:
            raise ValueError("the server has the private halves")
        seal = derive(self.private.seal, purpose=b"tenant " + tenant.encode())
        private = self.private._replace(seal=seal)
        return self._replace(private=private, public=_public(private))

    def scope_key(self, scope: str) -> CipherKey:
        """Encrypts one part of the run store, and reveals nothing about the others."""
        return CipherKey(self.id, derive(self.read, purpose=b"scope " + scope.encode()))


class LoadedKey(NamedTuple):
    key: Key
    source: str
    """The variable or the file that it comes from."""
    file: Path | None
    created: bool
    """Created just now: the user is told to back it up."""


def derive(secret: bytes, *, purpose: bytes, salt: bytes | None = None) -> bytes:
    """A key for one purpose, which reveals nothing about the others.

    HKDF with SHA-256; one round gives exactly the size of a key.
    """
    extracted = hmac.digest(salt or bytes(KEY_SIZE), secret, "sha256")
    return hmac.digest(extracted, b"holdfast v1 " + purpose + b"\x01", "sha256")


def _id(read: bytes) -> str:
    return hashlib.sha256(derive(read, purpose=b"key id")).hexdigest()[:_ID_LENGTH]


def _public(private: PrivateHalves) -> PublicHalves:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - slow to import
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # noqa: PLC0415 - as above

    return PublicHalves(
        seal=X25519PrivateKey.from_private_bytes(private.seal).public_key().public_bytes_raw(),
        sign=Ed25519PrivateKey.from_private_bytes(private.sign).public_key().public_bytes_raw(),
    )


def is_key_configured(environment: Environment) -> bool:
    """A configured key can be used on another machine too."""
    return any(environment.get(name) for name in (VARIABLE, FILE_VARIABLE, PLAN_VARIABLE))


def load_or_create_key(environment: Environment) -> LoadedKey:
    """The configured key, or the one in Holdfast's home, which is created (0600) if it is missing."""
    if (loaded := load_key(environment)) is not None:
        return loaded
    file = environment.home / FILE_NAME
    created = create_key_file(file)
    return LoadedKey(key=read_key_file(file), source=str(file), file=file, created=created)


def load_key(environment: Environment) -> LoadedKey | None:
    """From a variable, the named file, or the file in Holdfast's home. The apply key is preferred."""
    if text := environment.get(VARIABLE):
        return LoadedKey(key=apply_key_from(text, VARIABLE), source=VARIABLE, file=None, created=False)
    if name := environment.get(FILE_VARIABLE):
        named = Path(name).expanduser().absolute()
        return LoadedKey(key=read_key_file(named), source=FILE_VARIABLE, file=named, created=False)
    if text := environment.get(PLAN_VARIABLE):
        return LoadedKey(key=plan_key_from(text), source=PLAN_VARIABLE, file=None, created=False)
    file = environment.home / FILE_NAME
    if not _exists(file):
        return None
    return LoadedKey(key=read_key_file(file), source=str(file), file=file, created=False)


def apply_key_from(text: str, variable: str) -> Key:
    return Key.of(secret_from(text, variable))


def secret_from(text: str, variable: str) -> bytes:
    """The secret of an apply key."""
    hint = f"It must be 32 bytes in base64. {_CREATE}"
    return _parse(text, code="HF-KEY-1", what=variable, hint=hint)


def plan_key_from(text: str) -> Key:
    what, hint = PLAN_VARIABLE, "Print it with the apply key set: holdfast keys plan"
    content = _decode(text, code="HF-KEY-1", what=what, hint=hint)
    if len(content) == KEY_SIZE:
        raise UsageError(
            "HF-KEY-1",
            f"{what} is not a plan key; it may be the apply key",
            hint=f"A job that plans must not have the apply key. {hint}",
        )
    if len(content) != _PLAN_KEY_SIZE or content[:1] != _PLAN_VERSION:
        raise UsageError("HF-KEY-1", f"{what} is not a plan key of this version of Holdfast", hint=hint)
    read, seal, sign = (content[at : at + KEY_SIZE] for at in range(1, _PLAN_KEY_SIZE, KEY_SIZE))
    return Key(id=_id(read), read=read, public=PublicHalves(seal=seal, sign=sign), private=None)


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
    if loaded is None:
        return None
    # What a plan job verified does not count for an apply.
    private = loaded.key.private
    return derive(private.sign if private is not None else loaded.key.read, purpose=b"verified files")


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError as error:
        raise _unreadable(file, error) from None


def create_key_file(file: Path, content: bytes | None = None) -> bool:
    """With a new key, or with this content. False if another process was first: its key is used."""
    try:
        files.private_folder(file.parent)
        return files.create(file, content or key_text(clock.random_bytes(KEY_SIZE)))
    except OSError as error:
        raise Failed(
            "HF-KEY-2",
            f"cannot create a key file at {file}: {error.strerror}",
            hint=f"Set HOLDFAST_HOME to a folder that this user can write to, or set {VARIABLE}. {_CREATE}",
        ) from None


def key_text(secret: bytes) -> bytes:
    """The content of a key file."""
    return base64.b64encode(secret) + b"\n"


def read_key_file(file: Path) -> Key:
    return Key.of(read_secret_file(file))


def read_secret_file(file: Path) -> bytes:
    """The secret of the apply key in a key file."""
    return _parse(
        read_private(file),
        code="HF-KEY-5",
        what=f"the key file {file}",
        hint="Restore it from your backup: without it, nothing that it encrypted can be read. To start over, "
        "move the file away.",
    )


def read_private(file: Path) -> str:
    """The text of a file that only its owner can read."""
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
    return content.decode("ascii", "replace")


def _unreadable(file: Path, error: OSError) -> UsageError:
    return UsageError(
        "HF-KEY-3",
        f"cannot read the key file {file}: {error.strerror}",
        hint=f"Allow this user to read it, or set {VARIABLE}, {FILE_VARIABLE} or HOLDFAST_HOME.",
    )


def _parse(text: str, *, code: str, what: str, hint: str) -> bytes:
    secret = _decode(text, code=code, what=what, hint=hint)
    if len(secret) == _PLAN_KEY_SIZE:
        raise UsageError(code, f"{what} contains a plan key", hint=f"Set it as {PLAN_VARIABLE} instead.")
    if len(secret) != KEY_SIZE:
        raise UsageError(code, f"{what} has {len(secret)} bytes instead of {KEY_SIZE}", hint=hint)
    return secret


def _decode(text: str, *, code: str, what: str, hint: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(code, f"{what} is not base64", hint=hint) from None
