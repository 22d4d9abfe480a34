"""The server's side of a run store: the blobs of one tenant in PostgreSQL.

Every write is one statement, so it is stored whole or not at all. An answer can be lost after a commit: each
write has a random tag, and the next try recognises its own write by it. Blobs are encrypted before they get
here (`EncryptedBlobs`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from typing import TYPE_CHECKING, Any

from holdfast.database.database import Database
from holdfast.database.errors import DatabaseUnavailable
from holdfast.store.blobs import EncryptedBlobs, StoredBlob
from holdfast.store.run_store import IDENTITY
from holdfast.system import clock

if TYPE_CHECKING:
    from psycopg import Connection

_TRIES = 3

_READ = "select data, tag from blobs where tenant = %s and name = %s"
_READ_SEVERAL = "select name, data, tag from blobs where tenant = %s and name = any(%s)"
_CREATE = """
insert into blobs (tenant, name, data, tag) values (%(tenant)s, %(name)s, %(data)b, %(tag)s)
on conflict (tenant, name) do nothing
returning tag
"""
_REPLACE = """
update blobs set data = %(data)b, tag = %(tag)s, written = now()
where tenant = %(tenant)s and name = %(name)s and tag = %(old)s
returning tag
"""
_WRITE = """
insert into blobs (tenant, name, data, tag) values (%(tenant)s, %(name)s, %(data)b, %(tag)s)
on conflict (tenant, name) do update set data = excluded.data, tag = excluded.tag, written = excluded.written
returning tag
"""
_NEW_SEVERAL = """
insert into blobs (tenant, name, data, tag)
select %(tenant)s, name, data, tag from unnest(%(names)s::text[], %(data)s::bytea[], %(tags)s::text[])
  as new (name, data, tag)
on conflict (tenant, name)
"""
_CREATE_SEVERAL = f"{_NEW_SEVERAL} do nothing returning name"
_WRITE_SEVERAL = f"""{_NEW_SEVERAL}
do update set data = excluded.data, tag = excluded.tag, written = excluded.written returning name
"""
_REMOVE = """
delete from blobs
where tenant = %(tenant)s and name = %(name)s and (%(old)s::text is null or tag = %(old)s)
returning tag
"""
_RENEW = """
update blobs set data = %(data)b where tenant = %(tenant)s and name = %(name)s and tag = %(old)s returning tag
"""
_NOT_DURABLE = ", set_config('synchronous_commit', 'off', true)"
"""Of the transaction that this statement is: it need not wait for the disk."""
_TENANTS = "select tenant from blobs where name = %s order by tenant"
_NAMES = "select name from blobs where tenant = %s and name >= %s and name < %s order by name"
_NAMES_SEVERAL = """
select folder, name from unnest(%s::text[]) as wanted (folder)
join blobs on tenant = %s and name >= folder || '/' and name < folder || '0' order by name
"""
_ALL_NAMES = "select name from blobs where tenant = %s order by name"


def tenants(database: Database) -> list[str]:
    """Those that have a run store."""
    with database.transaction() as connection:
        return [tenant for (tenant,) in connection.execute(_TENANTS, (IDENTITY,)).fetchall()]


class DatabaseBlobs:
    """A `BlobStore`. The names of a tenant are its own."""

    def __init__(
        self, database: Database, tenant: str, *, new_tag: Callable[[], str] = clock.random_token
    ) -> None:
        """`new_tag`: a client that recognises its own write by its tag chooses that."""
        self.shown = f"of the tenant {tenant}"
        self._transaction: Callable[..., AbstractContextManager[Any]] = database.transaction
        self._tenant = tenant
        self._new_tag = new_tag
        self._joined = False

    def within(self, connection: Connection[Any]) -> DatabaseBlobs:
        """The same blobs, in the transaction of this connection."""
        blobs = copy(self)
        blobs._transaction = lambda **_: nullcontext(connection)  # noqa: SLF001 - of this class
        blobs._joined = True  # noqa: SLF001 - of this class
        return blobs

    def read(self, name: str) -> StoredBlob | None:
        with self._transaction(single=True) as connection:
            row = connection.execute(_READ, (self._tenant, name), binary=True).fetchone()
        return StoredBlob(data=row[0], tag=row[1]) if row is not None else None

    def read_several(self, names: Collection[str]) -> dict[str, StoredBlob]:
        """Those that exist, in one statement."""
        if not names:
            return {}
        with self._transaction(single=True) as connection:
            rows = connection.execute(_READ_SEVERAL, (self._tenant, list(names)), binary=True).fetchall()
        return {name: StoredBlob(data=data, tag=tag) for name, data, tag in rows}

    def create_several(self, contents: Mapping[str, bytes]) -> frozenset[str]:
        """The names that did not exist. Not repeated if PostgreSQL does not answer."""
        return self._put_several(_CREATE_SEVERAL, contents)

    def write_several(self, contents: Mapping[str, bytes]) -> None:
        self._put_several(_WRITE_SEVERAL, contents)

    def _put_several(self, statement: str, contents: Mapping[str, bytes]) -> frozenset[str]:
        values = {
            "tenant": self._tenant,
            "names": list(contents),
            "data": list(contents.values()),
            "tags": [self._new_tag() for _ in contents],
        }
        with self._transaction(single=True) as connection:
            return frozenset(name for (name,) in connection.execute(statement, values).fetchall())

    def create(self, name: str, data: bytes) -> bool:
        return self._put(_CREATE, name, data) is not None

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        return self._put(_REPLACE, name, data, old=tag)

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        """A write that is not durable can be lost if the machine crashes, not if a process does."""
        self._put(_WRITE, name, data, durable=durable)

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        """Absent after a lost answer means removed."""
        removed, tries = self._execute(_REMOVE, {"name": name, "old": tag})
        return removed is not None or (tries > 1 and self.read(name) is None)

    def names(self, folder: str) -> tuple[str, ...]:
        """The names below a folder are a range: `0` follows `/`."""
        with self._transaction(single=True) as connection:
            if folder:
                rows = connection.execute(_NAMES, (self._tenant, f"{folder}/", f"{folder}0")).fetchall()
            else:
                rows = connection.execute(_ALL_NAMES, (self._tenant,)).fetchall()
        return tuple(name for (name,) in rows)

    def names_several(self, folders: Collection[str]) -> dict[str, tuple[str, ...]]:
        """The names below each of these folders, in one statement."""
        found: dict[str, list[str]] = {folder: [] for folder in folders}
        if folders:
            with self._transaction(single=True) as connection:
                rows = connection.execute(_NAMES_SEVERAL, (list(folders), self._tenant)).fetchall()
            for folder, name in rows:
                found[folder].append(name)
        return {folder: tuple(names) for folder, names in found.items()}

    def _put(
        self, statement: str, name: str, data: bytes, *, old: str | None = None, durable: bool = True
    ) -> str | None:
        """The tag of the write, or None if its condition is not met."""
        tag = self._new_tag()
        values = {"name": name, "data": data, "tag": tag, "old": old}
        written, tries = self._execute(statement, values, durable=durable)
        if written is None and tries > 1:
            current = self.read(name)
            return tag if current is not None and current.tag == tag else None
        return written

    def _execute(
        self, statement: str, values: dict[str, Any], *, durable: bool = True
    ) -> tuple[str | None, int]:
        """The tag that the statement returns, and how often it was tried."""
        if not durable and not self._joined:
            statement += _NOT_DURABLE
        for attempt in range(1, _TRIES + 1):
            try:
                with self._transaction(single=True) as connection:
                    row = connection.execute(statement, {**values, "tenant": self._tenant}).fetchone()
            except DatabaseUnavailable:
                if attempt == _TRIES:
                    raise
            else:
                return (row[0] if row is not None else None), attempt
        raise AssertionError


def read_several(
    encrypted: EncryptedBlobs, names: Collection[str], connection: Connection[Any] | None = None
) -> dict[str, StoredBlob]:
    """Those that exist, of a store in the database. With a connection, in its transaction."""
    stored = _stored(encrypted)
    found = (stored if connection is None else stored.within(connection)).read_several(names)
    return {name: encrypted.decrypt(name, blob) for name, blob in found.items()}


def create_several(
    encrypted: EncryptedBlobs, contents: Mapping[str, bytes], connection: Connection[Any]
) -> frozenset[str]:
    """In this transaction: the names that did not exist."""
    return _stored(encrypted).within(connection).create_several(_encrypt(encrypted, contents))


def write_several(
    encrypted: EncryptedBlobs, contents: Mapping[str, bytes], connection: Connection[Any]
) -> None:
    _stored(encrypted).within(connection).write_several(_encrypt(encrypted, contents))


def _stored(encrypted: EncryptedBlobs) -> DatabaseBlobs:
    if not isinstance(encrypted.blobs, DatabaseBlobs):
        raise TypeError(encrypted.blobs)
    return encrypted.blobs


def _encrypt(encrypted: EncryptedBlobs, contents: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: encrypted.cipher.encrypt(name, data) for name, data in contents.items()}


class RenewedBlobs(DatabaseBlobs):
    """Replaces only how a blob is encrypted: it keeps its tag, so the conditions of clients still hold."""

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        return self._put(_RENEW, name, data, old=tag)
