"""The audit log of the server: one per tenant, in the run store of that tenant, with verified actors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.audit.actor import Actor
from holdfast.audit.entry import Entry
from holdfast.audit.log import Audit
from holdfast.database.database import Database
from holdfast.identity.principal import ALL_TENANTS, DEFAULT_TENANT, Principal
from holdfast.secrets.keys import Key
from holdfast.secrets.redact import Redactor
from holdfast.store.approval_rules import ServerRules, read_rules
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.run_store import RunStore

if TYPE_CHECKING:
    from psycopg import Connection

_BECAUSE = {
    "token": "a token of the server",
    "oidc": "a CI token, verified with the keys of its issuer",
    "run": "the token of a run",
    "webhook": "a signed webhook of the code host",
    "schedule": "a schedule of the server",
}


class TenantStores:
    """The run store of each tenant."""

    def __init__(self, database: Database, key: Key, older_keys: tuple[Key, ...] = ()) -> None:
        self._database = database
        self._key = key
        self._older_keys = older_keys
        self._stores: dict[str, RunStore] = {}

    def of(self, tenant: str) -> RunStore:
        tenant = _home(tenant)
        if tenant in self._stores:
            return self._stores[tenant]
        blobs, key = DatabaseBlobs(self._database, tenant), self.key(tenant)
        store = RunStore(blobs, lambda: key, older_keys=self._older_keys)
        if not store.rotating:  # Otherwise the old key would count after it is retired.
            self._stores[tenant] = store
        return store

    def key(self, tenant: str) -> Key:
        return self._key.for_tenant(_home(tenant))

    def rules(self, tenant: str) -> ServerRules:
        """As the server that started last wrote them."""
        return read_rules(self.of(DEFAULT_TENANT).encrypted, _home(tenant))

    def within(self, tenant: str, connection: Connection[Any]) -> RunStore:
        """The store in the transaction of this connection."""
        store = self.of(tenant)
        return store.on(DatabaseBlobs(self._database, _home(tenant)).within(connection))

    @contextmanager
    def transaction(self, tenant: str) -> Iterator[RunStore]:
        """Everything that is read and written in the block is one transaction."""
        self.of(tenant).id()  # Written with the first use, for all.
        with self._database.transaction() as connection:
            yield self.within(tenant, connection)


def _home(tenant: str) -> str:
    return DEFAULT_TENANT if tenant == ALL_TENANTS else tenant


class ServerAudit:
    def __init__(self, stores: TenantStores, redactor: Redactor) -> None:
        self._stores = stores
        self._redactor = redactor

    def record(
        self,
        tenant: str,
        principal: Principal,
        entry: Entry,
        *,
        address: str,
        connection: Connection[Any] | None = None,
    ) -> None:
        """Durable when this returns; with a connection, with its transaction."""
        stores = self._stores
        store = stores.of(tenant) if connection is None else stores.within(tenant, connection)
        Audit(store, actor_of(principal, address), redactor=self._redactor).record(entry)


def actor_of(principal: Principal, address: str) -> Actor:
    return Actor(
        kind=principal.kind,
        name=principal.name,
        host=address,
        verified=True,
        because=f"{_BECAUSE[principal.kind]} ({principal.id})" if principal.id else _BECAUSE[principal.kind],
        claims=principal.claims,
        subject=principal.subject,
    )
