"""Whose run it is, and of which stack: the folder `runs/RUN` of the run store has an owner.

Ids of runs are no secret. The claim of a run, or the first record that it writes, names its stack.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from psycopg import Connection

    from holdfast.database.database import Database

_OF: Final = "select run, stack, holder from run_folders where tenant = %s and run = %s"
_SEVERAL: Final = "select run, stack, holder from run_folders where tenant = %s and run = any(%s)"
_ALL: Final = "select run, stack, holder from run_folders where tenant = %s"
_CREATE: Final = """
insert into run_folders (tenant, run, stack, holder) values (%s, %s, %s, %s) on conflict do nothing
returning run, stack, holder"""
_GIVE: Final = "update run_folders set holder = %s where tenant = %s and run = %s"


class RunFolder(NamedTuple):
    stack: str
    holder: str
    """The verified subject of who writes it."""


class RunFolders:
    """Of one tenant, as one request sees them."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant
        self._known: dict[str, RunFolder] = {}
        self._asked: set[str] = set()
        self._all = False

    def of(self, run: str) -> RunFolder | None:
        """None: nothing of the run was written."""
        if run not in self._known and run not in self._asked and not self._all:
            self._read(_OF, run)
        return self._known.get(run)

    def read(self, runs: Collection[str]) -> None:
        """What is asked about these runs next, in one statement."""
        if len(runs) > 1:
            self._read(_SEVERAL, list(runs))
            self._asked |= set(runs)

    def read_all(self) -> None:
        """For a list of names."""
        self._read(_ALL)
        self._all = True

    def create(self, run: str, folder: RunFolder, connection: Connection[Any] | None = None) -> RunFolder:
        """The one that exists then: of two writers, one was first."""
        with self._database.transaction() if connection is None else nullcontext(connection) as joined:
            created = joined.execute(_CREATE, (self._tenant, run, *folder)).fetchall()
            self._remember(created or joined.execute(_OF, (self._tenant, run)).fetchall())
        return self._known[run]

    def give(self, run: str, holder: str, connection: Connection[Any]) -> None:
        """After the run was taken over."""
        connection.execute(_GIVE, (holder, self._tenant, run))

    def _read(self, statement: str, *values: str | list[str]) -> None:
        with self._database.transaction(single=True) as connection:
            self._remember(connection.execute(statement, (self._tenant, *values)).fetchall())

    def _remember(self, rows: list[Any]) -> None:
        self._known |= {run: RunFolder(stack, holder) for run, stack, holder in rows}
