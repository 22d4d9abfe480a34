"""The two keys of a rotation: where the new one comes from, and what happens to the file in Holdfast's home.

In the home, the new key is created beside the old one (`key.new`) and takes its place when everything is
encrypted with it. The old one stays as `key.ID`: another repository on this machine may still use it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.kernel.errors import UsageError
from holdfast.secrets.encryption import apply_key_needed
from holdfast.secrets.keys import (
    FILE_NAME,
    Key,
    LoadedKey,
    apply_key_from,
    create_key_file,
    load_key,
    read_key_file,
)
from holdfast.system import files
from holdfast.system.environment import Environment

NEW_VARIABLE = "HOLDFAST_NEW_KEY"
NEW_FILE_VARIABLE = "HOLDFAST_NEW_KEY_FILE"
_NEW_FILE = f"{FILE_NAME}.new"


class RotationKeys(NamedTuple):
    old: Key
    new: Key
    home: Path | None
    """Holdfast's home, if its key file is to be replaced when the rotation is finished."""

    def replace_file(self) -> Path | None:
        """Put the new key in the place of the old one; where the old one is now. May be repeated."""
        if self.home is None:
            return None
        file, kept = self.home / FILE_NAME, self.home / f"{FILE_NAME}.{self.old.id}"
        with contextlib.suppress(FileExistsError, FileNotFoundError):
            os.link(file, kept)
        (self.home / _NEW_FILE).replace(file)
        files.flush_folder(self.home)
        return kept if kept.exists() else None


class KeyFiles(NamedTuple):
    """How key files are written and read."""

    read: Callable[[Path], Key] = read_key_file
    create: Callable[[Path], object] = create_key_file


def rotation_keys(environment: Environment, store_key: str | None) -> RotationKeys:
    """`store_key` is the id of the key that the store has now; None if there is no store."""
    given = given_key(environment)
    return choose_keys(load_key(environment), given, environment.home, store_key, KeyFiles())


def choose_keys(
    current: LoadedKey | None, given: Key | None, home: Path, store_key: str | None, key_files: KeyFiles
) -> RotationKeys:
    """A given key, or a new one in the home if the current one is there."""
    if current is None:
        raise UsageError("HF-KEY-12", "there is no key yet, so there is none to replace")
    if not current.key.can_apply:
        raise apply_key_needed("rotate")
    if given is not None:
        keys = RotationKeys(current.key, given, None)
    elif current.file is not None and current.file == home / FILE_NAME:
        keys = _keys_in_home(current, home, store_key, key_files)
    else:
        raise UsageError(
            "HF-KEY-15",
            f"the key comes from {current.source}, and no new key is set",
            hint=f"Set {NEW_VARIABLE} or {NEW_FILE_VARIABLE}; create one with: openssl rand -base64 32",
        )
    if keys.old.id == keys.new.id:
        raise UsageError(
            "HF-KEY-15", "the new key is the current one", hint="Create another: openssl rand -base64 32"
        )
    return keys


def given_key(environment: Environment) -> Key | None:
    if text := environment.get(NEW_VARIABLE):
        return apply_key_from(text, NEW_VARIABLE)
    if name := environment.get(NEW_FILE_VARIABLE):
        return read_key_file(Path(name).expanduser().absolute())
    return None


def _keys_in_home(current: LoadedKey, home: Path, store_key: str | None, key_files: KeyFiles) -> RotationKeys:
    kept = home / f"{FILE_NAME}.{store_key}"
    if store_key is not None and store_key != current.key.id and kept.exists():
        # Another repository was rotated before, and this store still has the old key.
        return RotationKeys(key_files.read(kept), current.key, None)
    if store_key in {None, current.key.id}:
        key_files.create(home / _NEW_FILE)
    if not (home / _NEW_FILE).exists():
        raise UsageError(
            "HF-STORE-3",
            f"the run store is encrypted with key {store_key}, but the current key is {current.key.id}",
            hint="Set HOLDFAST_KEY to the store's key, or restore its key file from your backup.",
        )
    return RotationKeys(current.key, key_files.read(home / _NEW_FILE), home)
