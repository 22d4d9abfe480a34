"""Replaces the key of a server while it serves: blobs are read with both keys until all have the new one.

A start with a new key announces it in the run store of each tenant: a server that does not have both keys
refuses that store from then on. Upkeep encrypts and signs the blobs again, and retires the old key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct

from holdfast.audit.actor import Actor
from holdfast.audit.entry import Entry
from holdfast.audit.log import Audit
from holdfast.database.database import Database
from holdfast.kernel.errors import Busy
from holdfast.secrets.keys import Key
from holdfast.secrets.redact import Redactor
from holdfast.server.edge import Log
from holdfast.store import rotation
from holdfast.store.database_blobs import DatabaseBlobs, RenewedBlobs, tenants
from holdfast.store.run_store import RunStore, StoreIdentity, read_identity


class ServerRotation(Struct, frozen=True, kw_only=True):
    """Both steps may be repeated, and several servers may do them at once."""

    database: Database
    key: Key
    older: tuple[Key, ...]
    who: Actor
    log: Log

    def begin(self) -> None:
        """Before requests are served."""
        for tenant, identity, old in self._stores():
            if not identity.replacing:
                blobs = DatabaseBlobs(self.database, tenant)
                if identity.next_key is None:
                    self._record(RunStore(blobs, lambda old=old: old), "begun", old, {})  # type: ignore[misc]
                with suppress(Busy):  # Another server begins it.
                    rotation.begin(blobs, rotation.announce(blobs, identity, self.key.id))

    def finish(self) -> int:
        """While requests are served; how many blobs were encrypted again."""
        count = 0
        for tenant, identity, old in self._stores():
            renewed = RenewedBlobs(self.database, tenant)
            done = rotation.replace_all(renewed, identity.id, old, self.key, parallel=1)
            count += done.replaced
            for name in done.unreadable:
                self.log.error("blob keeps its old key: it cannot be read", tenant=tenant, name=name)
            blobs = DatabaseBlobs(self.database, tenant)
            with suppress(Busy):  # Another server finished it.
                rotation.finish(blobs, identity, old.id, self.key.id)
                details = {"blobs": done.replaced, "unreadable": len(done.unreadable)}
                self._record(RunStore(blobs, lambda: self.key), "done", old, details)
        return count

    def _stores(self) -> Iterator[tuple[str, StoreIdentity, Key]]:
        """Of each tenant whose store has an older key."""
        older = {key.id: key for key in self.older if key.id != self.key.id}
        for tenant in tenants(self.database):
            identity = read_identity(DatabaseBlobs(self.database, tenant))
            if identity is None or identity.key not in older or self.key.id in identity.retired:
                continue
            if identity.next_key in {None, self.key.id}:
                yield tenant, identity, older[identity.key]

    def _record(self, store: RunStore, outcome: str, old: Key, counts: dict[str, int]) -> None:
        details: dict[str, str | int | None] = {"old": old.id, "new": self.key.id, **counts}
        entry = Entry(what="rotate", outcome=outcome, details=details)
        Audit(store, self.who, redactor=Redactor()).record(entry)
