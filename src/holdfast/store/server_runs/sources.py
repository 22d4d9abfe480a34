"""Where the code of a change comes from: an upload, or a commit of a registered repository."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.store.server_states.changes import run as execute
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.database.database import Database

REPOSITORY_COLUMNS: Final = "id, tenant, name, url, branch, credentials, created, created_by"
_SOURCE_COLUMNS: Final = (
    "id, tenant, kind, repository, wanted, revision, base, digest, size, created, created_by, expires"
)
_ADD_REPOSITORY: Final = f"""
insert into repositories (id, tenant, name, url, branch, credentials, created_by)
values (%(id)s, %(tenant)s, %(name)s, %(url)s, %(branch)s, %(credentials)s, %(by)s)
on conflict (tenant, name) do nothing returning {REPOSITORY_COLUMNS}
"""  # noqa: S608 - our own column names
_REPOSITORY: Final = f"""
select {REPOSITORY_COLUMNS} from repositories where tenant = %(tenant)s and (id = %(id)s or name = %(id)s)
order by id = %(id)s desc limit 1
"""  # noqa: S608 - our own column names
_REPOSITORIES: Final = f"""
select {REPOSITORY_COLUMNS} from repositories
where tenant = %(tenant)s and id > %(after)s order by id limit %(limit)s
"""  # noqa: S608 - our own column names
_ADD_SOURCE: Final = f"""
insert into sources (id, tenant, kind, repository, wanted, base, digest, size, created_by, expires)
values (%(id)s, %(tenant)s, %(kind)s, %(repository)s, %(wanted)s, %(base)s, %(digest)s, %(size)s, %(by)s,
  case when %(kind)s = 'upload' then now() + interval '24 hours' end)
returning {_SOURCE_COLUMNS}
"""  # noqa: S608 - our own column names
# An upload that is used again is kept longer.
_USE: Final = f"""
update sources set expires = case when expires is not null then now() + interval '24 hours' end
where tenant = %(tenant)s and id = %(id)s and (kind = 'commit' or expires > now()) returning {_SOURCE_COLUMNS}
"""  # noqa: S608 - our own column names
_RESOLVE: Final = """
update sources set revision = %(revision)s where id = %(id)s and revision is null
"""


class SourceKind(StrEnum):
    UPLOAD = "upload"
    COMMIT = "commit"


class Repository(Struct, frozen=True, kw_only=True):
    id: str
    tenant: str
    name: str
    url: str
    branch: str
    """The default branch."""
    credentials: str | None
    """A reference to a secret."""
    created: datetime
    created_by: str


class Source(Struct, frozen=True, kw_only=True):
    id: str
    tenant: str
    kind: SourceKind
    repository: str | None
    """None: an upload. The repository may have been removed since."""
    wanted: str | None
    """A branch, a tag or a commit; None: the default branch."""
    revision: str | None
    """The full id of the commit, once it is known."""
    base: str | None
    digest: str | None
    """SHA-256 of an upload."""
    size: int
    created: datetime
    created_by: str
    expires: datetime | None


class RepositoryRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add(
        self, tenant: str, *, name: str, url: str, branch: str, credentials: str | None, by: str
    ) -> Repository | None:
        """None: the tenant has one with this name."""
        with self._database.transaction(single=True) as connection:
            rows = execute(
                connection, _ADD_REPOSITORY, id=clock.new_id(), tenant=tenant, name=name, url=url,
                branch=branch, credentials=credentials, by=by,
            )  # fmt: skip
        return Repository(**rows[0]) if rows else None

    def of(self, tenant: str, id_or_name: str) -> Repository | None:
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, _REPOSITORY, tenant=tenant, id=id_or_name)
        return Repository(**rows[0]) if rows else None

    def list(self, tenant: str, *, after: str = "", limit: int = 200) -> tuple[Repository, ...]:
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, _REPOSITORIES, tenant=tenant, after=after, limit=limit)
        return tuple(Repository(**row) for row in rows)

    def remove(self, tenant: str, id_: str) -> bool:
        with self._database.transaction(single=True) as connection:
            statement = "delete from repositories where tenant = %(tenant)s and id = %(id)s returning id"
            return bool(execute(connection, statement, tenant=tenant, id=id_))


class SourceRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    def add_upload(self, tenant: str, *, digest: str, size: int, by: str, id_: str | None = None) -> Source:
        """Its content is stored before, under this id (`contents.py`)."""
        return self._add(tenant, SourceKind.UPLOAD, by=by, digest=digest, size=size, id=id_ or clock.new_id())

    def add_commit(
        self, tenant: str, *, repository: str, wanted: str | None, by: str, base: str | None = None
    ) -> Source:
        return self._add(tenant, SourceKind.COMMIT, by=by, repository=repository, wanted=wanted, base=base)

    def of(self, id_: str) -> Source | None:
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, f"select {_SOURCE_COLUMNS} from sources where id = %(id)s", id=id_)  # noqa: S608
        return _source(rows[0]) if rows else None

    def use(self, tenant: str, id_: str) -> Source | None:
        """For one more change. None: there is none, or its upload has expired."""
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, _USE, tenant=tenant, id=id_)
        return _source(rows[0]) if rows else None

    def set_revision(self, id_: str, revision: str) -> str:
        """The one that counts: of two workers that resolve a branch, the first decides."""
        with self._database.transaction() as connection:
            execute(connection, _RESOLVE, id=id_, revision=revision)
            rows = execute(connection, "select revision from sources where id = %(id)s", id=id_)
        return str(rows[0]["revision"])

    def _add(self, tenant: str, kind: SourceKind, *, by: str, **values: object) -> Source:
        known = dict.fromkeys(("repository", "wanted", "base", "digest"))
        fields: dict[str, object] = {**known, "size": 0, "id": clock.new_id(), **values}
        with self._database.transaction(single=True) as connection:
            (row,) = execute(connection, _ADD_SOURCE, tenant=tenant, kind=kind.value, by=by, **fields)
        return _source(row)


def _source(row: dict[str, object]) -> Source:
    return Source(**{**row, "kind": SourceKind(row["kind"])})  # type: ignore[arg-type]
