"""Whether a worker still has the key of the server, which `holdfast keys rotate` replaces.

With another one it could not read what the server writes, nor the server what it writes: it claims nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from holdfast.database.database import Database
from holdfast.identity.principal import DEFAULT_TENANT
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.run_store import read_identity


class KeyState(Enum):
    CURRENT = "current"
    REPLACED = "replaced"
    """Its key file has the new one: the worker begins again with that."""
    MISSING = "missing"
    """The worker waits for it, or for the server to start with the one that it has."""


class KeyWatch(Struct, frozen=True, kw_only=True):
    database: Database
    key: str
    """The id of the key that this worker uses."""
    load: Callable[[], str | None]
    """The id of the key that a worker would use that is started now."""

    def look(self) -> KeyState:
        """The server announces a new key in the database when it starts with it."""
        identity = read_identity(DatabaseBlobs(self.database, DEFAULT_TENANT))
        wanted = (identity.next_key or identity.key) if identity is not None else None
        if wanted in {None, self.key}:
            return KeyState.CURRENT
        return KeyState.REPLACED if self.load() == wanted else KeyState.MISSING
