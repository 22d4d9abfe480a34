"""The key of a server: it encrypts what clients store, and never leaves the server.

It is in a variable, in a file, or in a file that AWS KMS or an age identity opens (`key_wrapping`).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from holdfast.kernel.errors import UsageError
from holdfast.kernel.secret import masked_repr
from holdfast.secrets.key_rotation import NEW_VARIABLE, KeyFiles, RotationKeys, choose_keys, given_key
from holdfast.secrets.key_wrapping import KeyWrapping, is_wrapped, key_wrapping, unwrap
from holdfast.secrets.keys import (
    FILE_NAME,
    FILE_VARIABLE,
    KEY_SIZE,
    VARIABLE,
    Key,
    LoadedKey,
    create_key_file,
    key_text,
    read_private,
    read_secret_file,
    secret_from,
)
from holdfast.system import clock
from holdfast.system.environment import Environment

OLD_VARIABLE = "HOLDFAST_OLD_KEY"
OLD_FILE_VARIABLE = "HOLDFAST_OLD_KEY_FILE"
_ID_LENGTH = 16


class ServerKey(NamedTuple):
    secret: bytes
    source: str
    """The variable or the file that it comes from, and what opens that file."""
    file: Path | None = None
    """In the data folder."""
    wrapped: str | None = None
    """The content of the file, if it is encrypted."""

    def __repr__(self) -> str:
        return masked_repr(self)

    @property
    def key(self) -> Key:
        return Key.of(self.secret)


def load_server_key(environment: Environment, data: Path) -> ServerKey | None:
    """From a variable, the named file, or the data folder of the server."""
    wrapping, file = key_wrapping(environment), data / FILE_NAME
    if wrapping is None:
        if text := environment.get(VARIABLE):
            return ServerKey(secret_from(text, VARIABLE), VARIABLE)
        if name := environment.get(FILE_VARIABLE):
            return ServerKey(read_secret_file(Path(name).expanduser().absolute()), FILE_VARIABLE)
    if not file.exists():
        return None
    text = read_private(file)
    if is_wrapped(text):
        secret = unwrap(text, [wrapping], f"the key file {file}")
        shown = f" ({wrapping.shown})" if wrapping is not None else ""
        return ServerKey(secret, f"{file}{shown}", file, text)
    if wrapping is not None:
        raise UsageError(
            "HF-KEY-21",
            f"the key file {file} is not encrypted, and {VARIABLE} says that it is by {wrapping.shown}",
            hint=f"To replace it by an encrypted one, run without {VARIABLE}: "
            f"{NEW_VARIABLE}={environment.get(VARIABLE)} holdfast keys rotate --data {data}",
        )
    return ServerKey(read_secret_file(file), str(file), file)


def load_older_keys(environment: Environment, data: Path) -> tuple[Key, ...]:
    """Those that were replaced: the server reads what they encrypted until it has encrypted it again.

    A file that neither `HOLDFAST_OLD_KEY` nor `HOLDFAST_KEY` opens is left out: it may not be needed any
    more, and whatever needs it says so.
    """
    wrapping = key_wrapping(environment, OLD_VARIABLE)
    wrappings = [wrapping, current := key_wrapping(environment)]
    names = sorted(data.glob(f"{FILE_NAME}.{'?' * _ID_LENGTH}"))
    if current is None and (environment.get(VARIABLE) or environment.get(FILE_VARIABLE)):
        # The key moved from the data folder to the environment.
        names += [file for file in (data / FILE_NAME,) if file.exists()]
    keys = []
    for file in names:
        try:
            keys.append(_read_key(file, *wrappings))
        except UsageError:
            if not is_wrapped(read_private(file)):
                raise
    if wrapping is None and (text := environment.get(OLD_VARIABLE)):
        keys.append(Key.of(secret_from(text, OLD_VARIABLE)))
    if name := environment.get(OLD_FILE_VARIABLE):
        keys.append(_read_key(Path(name).expanduser().absolute(), *wrappings))
    return tuple(keys)


def write_server_key(environment: Environment, data: Path, secret: bytes) -> Path:
    """In the data folder, which has none."""
    _create(data / FILE_NAME, secret, key_wrapping(environment))
    return data / FILE_NAME


def server_rotation_keys(environment: Environment, data: Path, store_key: str | None) -> RotationKeys:
    """The given key, or a new one in the data folder, encrypted as the new or the current one is to be."""
    current, target = load_server_key(environment, data), key_wrapping(environment, NEW_VARIABLE)
    now = key_wrapping(environment)
    loaded = None
    if current is not None:
        file = current.file
        if target is not None and file is None:
            file = data / FILE_NAME
            if file.exists():
                raise UsageError(
                    "HF-KEY-21",
                    f"the key comes from {current.source}, and {file}, where the new one goes, exists",
                    hint="Move the file away.",
                )
        loaded = LoadedKey(key=current.key, source=current.source, file=file, created=False)
    wrappings = (target, key_wrapping(environment, OLD_VARIABLE), now)

    def create(file: Path) -> None:
        _create(file, clock.random_bytes(KEY_SIZE), target or now)

    key_files = KeyFiles(read=lambda file: _read_key(file, *wrappings), create=create)
    given = given_key(environment) if target is None else None
    return choose_keys(loaded, given, data, store_key, key_files)


def _create(file: Path, secret: bytes, wrapping: KeyWrapping | None) -> None:
    if not file.exists():
        create_key_file(file, wrapping.wrap(secret).encode() if wrapping is not None else key_text(secret))


def _read_key(file: Path, *wrappings: KeyWrapping | None) -> Key:
    text = read_private(file)
    return Key.of(
        unwrap(text, wrappings, f"the key file {file}") if is_wrapped(text) else read_secret_file(file)
    )
