"""Rows of plans that wait for a decision and are out of date."""

from __future__ import annotations

from typing import Final

from holdfast.database.database import Database
from holdfast.store.server_runs.rows import RUN, WORK
from holdfast.store.server_states.changes import run as execute

_NEWER_COMMITS: Final = """
select mine.pull_request as number
from webhook_changes mine join changes old on old.id = mine.change
join webhook_changes w on w.repository = mine.repository and w.pull_request = mine.pull_request
join changes newer on newer.id = w.change
where mine.change = %(change)s and w.head <> mine.head and newer.number > old.number limit 1
"""
# Only if no worker has the change: a worker that finishes with it ends the runs that it did not plan.
_PLAN_AGAIN: Final = f"""
with stale as (
  select changes.id from changes join runs on runs.change = changes.id
  where runs.id = %(run)s and runs.phase = 'waiting' and runs.digest = %(digest)s
    and changes.phase = 'waiting'
  for update of changes, runs
), again as (
  update runs set phase = 'queued', status = null, since = clock_timestamp()
  from stale where runs.id = %(run)s
), woken as (
  update changes set phase = 'queued' from stale where changes.id = stale.id returning changes.id
)
select pg_notify('{WORK}', id), pg_notify('{RUN}', %(run)s), pg_notify('{RUN}', id) from woken
"""  # noqa: S608 - our own names


class StaleRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    def newer_commits(self, change: str) -> int | None:
        """The pull request of the change, if newer code of it was planned or applied since."""
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, _NEWER_COMMITS, change=change)
        return int(rows[0]["number"]) if rows else None

    def plan_again(self, run: str, digest: str) -> bool:
        """False: it does not wait with this plan, or a worker has its change."""
        with self._database.transaction() as connection:
            return bool(execute(connection, _PLAN_AGAIN, run=run, digest=digest))
