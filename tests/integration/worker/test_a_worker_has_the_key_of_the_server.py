"""A worker claims nothing with another key than that of the server."""

from __future__ import annotations

from holdfast.database.database import Database
from holdfast.identity.principal import DEFAULT_TENANT
from holdfast.secrets.keys import Key
from holdfast.store import rotation
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.run_store import RunStore, read_identity
from holdfast.worker.key_watch import KeyState, KeyWatch

OLD, NEW = Key.of(b"o" * 32), Key.of(b"n" * 32)


def test_a_worker_notices_that_the_key_was_replaced(database: Database) -> None:
    """Already while the server encrypts again; with the key file of the server it begins again."""
    blobs = DatabaseBlobs(database, DEFAULT_TENANT)

    def look(own: Key, file: Key) -> KeyState:
        return KeyWatch(database=database, key=own.id, load=lambda: file.id).look()

    assert look(OLD, OLD) is KeyState.CURRENT  # Nothing was stored yet.
    RunStore(blobs, lambda: OLD).encrypted.write("x", b"y")
    assert look(OLD, OLD) is KeyState.CURRENT
    assert look(NEW, NEW) is KeyState.MISSING  # The server was not restarted: it cannot read the new one.
    identity = read_identity(blobs)
    assert identity is not None
    rotation.begin(blobs, rotation.announce(blobs, identity, NEW.id))
    assert look(OLD, NEW) is KeyState.REPLACED
    assert look(OLD, OLD) is KeyState.MISSING
    assert look(NEW, NEW) is KeyState.CURRENT
