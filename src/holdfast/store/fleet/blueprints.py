"""The blueprints that a server offers, and their code as the source of changes of each tenant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct, field

from holdfast.store.server_runs.rows import to_jsonb
from holdfast.store.server_states.changes import run as execute
from holdfast.system import clock

if TYPE_CHECKING:
    from psycopg import Connection

    from holdfast.database.database import Database

_OFFER: Final = """
insert into blueprints (name, version, digest, document)
values (%(name)s, %(version)s, %(digest)s, %(document)s)
on conflict (name) do update set version = excluded.version, digest = excluded.digest,
  document = excluded.document, offered = true, written = now()
"""
_WITHDRAW: Final = "update blueprints set offered = false where offered and name <> all(%(names)s)"
_ALL: Final = "select document from blueprints where offered order by name"
_WITHDRAWN: Final = "select document from blueprints where name = %(name)s and not offered"
_SOURCE: Final = """
select id from sources where tenant = %(tenant)s and digest = %(digest)s and created_by = %(by)s
order by created limit 1
"""
_ADD_SOURCE: Final = """
insert into sources (id, tenant, kind, digest, size, created_by)
values (%(id)s, %(tenant)s, 'upload', %(digest)s, %(size)s, %(by)s)
"""
_BY: Final = "holdfast serve"
"""Not the subject of any principal."""


class OfferedBlueprint(Struct, frozen=True, kw_only=True):
    name: str
    version: str
    digest: str
    description: str | None = None
    outputs: tuple[str, ...] = ()
    deletion: str = "approve"
    vanished: str = "report"
    concurrency: int | None = None
    concurrency_key: str = ""
    """Events with the same one share the limit."""
    environment: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    retries: int = 0
    retry_wait: float = 0.0
    not_read: tuple[str, ...] = ()
    """Attributes that the provider never reads back, as TYPE.attribute."""
    payload_schema: dict[str, Any] = field(default_factory=dict)


class BlueprintRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    def offer(self, blueprints: Iterable[OfferedBlueprint]) -> None:
        """These and no others."""
        offered = tuple(blueprints)
        with self._database.transaction() as connection:
            for blueprint in offered:
                document = to_jsonb(msgspec.to_builtins(blueprint))
                keys = {"name": blueprint.name, "version": blueprint.version, "digest": blueprint.digest}
                execute(connection, _OFFER, **keys, document=document)
            execute(connection, _WITHDRAW, names=[blueprint.name for blueprint in offered])

    def all(self) -> dict[str, OfferedBlueprint]:
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, _ALL)
        found = (msgspec.convert(row["document"], OfferedBlueprint) for row in rows)
        return {blueprint.name: blueprint for blueprint in found}

    def withdrawn(self, name: str) -> OfferedBlueprint | None:
        """As it was offered last; None: it is offered, or never was."""
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, _WITHDRAWN, name=name)
        return msgspec.convert(rows[0]["document"], OfferedBlueprint) if rows else None


def find_source(connection: Connection[Any], tenant: str, digest: str) -> str | None:
    """The code of a blueprint for changes of this tenant; it never expires."""
    rows = execute(connection, _SOURCE, tenant=tenant, digest=digest, by=_BY)
    return str(rows[0]["id"]) if rows else None


def add_source(connection: Connection[Any], tenant: str, digest: str, size: int) -> str:
    """Its content is to be written in the same transaction (`upload_name`)."""
    id_ = clock.new_id()
    execute(connection, _ADD_SOURCE, id=id_, tenant=tenant, digest=digest, size=size, by=_BY)
    return id_
