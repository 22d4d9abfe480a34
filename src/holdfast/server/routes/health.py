"""Whether the server runs and can work: `/healthz`, `/readyz`."""

from __future__ import annotations

from litestar import get
from litestar.di import NamedDependency
from msgspec import Struct

from holdfast.database.database import Database
from holdfast.database.migrations import require_current_schema
from holdfast.identity.principal import DEFAULT_TENANT
from holdfast.kernel.errors import HoldfastError
from holdfast.secrets.keys import Key
from holdfast.server.edge import Log
from holdfast.server.exceptions import problem
from holdfast.server.guards import OPEN
from holdfast.server.problems import Denial
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.run_store import read_identity, require_current


class Health(Struct, frozen=True, kw_only=True):
    version: int = 1
    status: str = "ok"


class Readiness(Struct, frozen=True, kw_only=True):
    """What the server needs to work."""

    database: Database
    key: Key
    older_keys: tuple[Key, ...] = ()
    log: Log

    def require(self) -> None:
        require_current_schema(self.database)
        blobs = DatabaseBlobs(self.database, DEFAULT_TENANT)
        if (identity := read_identity(blobs)) is not None:
            require_current(blobs, identity.document, self.key.id, self.older_keys)

    def error(self) -> HoldfastError | None:
        try:
            self.require()
        except HoldfastError as error:
            return error
        return None


@get("/healthz", opt=OPEN, sync_to_thread=False)
def healthz() -> Health:
    """The process runs."""
    return Health()


@get("/readyz", opt=OPEN, sync_to_thread=True)
def readyz(readiness: NamedDependency[Readiness]) -> Health:
    """Database, schema and key fit: requests can be served."""
    if (error := readiness.error()) is None:
        return Health(status="ready")
    readiness.log.error("not ready", code=error.problem.code, message=error.problem.message)
    raise problem(
        Denial(
            status=503,
            code=error.problem.code,
            message="the server is not ready",
            hint="Its log says why; docs/errors.md explains the code.",
            headers=(("retry-after", "2"),),
        )
    )


ROUTES = (healthz, readyz)
