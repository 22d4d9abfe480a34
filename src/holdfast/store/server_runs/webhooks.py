"""Events of code hosts in the database, and the changes that they started. The rows are the queue.

An event is accepted once: by the id of its delivery, and by its body, as only the body is signed.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.kernel.values import MaskedStruct
from holdfast.store.server_runs.contents import FOLDER
from holdfast.store.server_runs.rows import to_jsonb
from holdfast.store.server_runs.sources import REPOSITORY_COLUMNS, Repository
from holdfast.store.server_states.changes import run as execute
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.database.database import Database

KEPT: Final = "10 days"
"""Longer than events are accepted after they happened."""
_LOCK: Final = "select pg_advisory_xact_lock(7276454121341)"
_RECEIVE: Final = """
insert into webhook_events (id, tenant, repository, delivery, body, pull_request, head, at, event)
values (%(id)s, %(tenant)s, %(repository)s, %(delivery)s, %(body)s, %(number)s, %(head)s, %(at)s, %(event)s)
on conflict do nothing returning id
"""
_DELIVERIES: Final = """
select delivery as id, received, event ->> 'kind' as event, event ->> 'sender' as sender, pull_request,
  attempts, done, outcome, (select change from webhook_changes w where w.change = webhook_events.id) as change
from webhook_events where repository = %(repository)s order by received desc limit %(limit)s
"""
# One after another for each pull request. Who took one and died is followed when its time is over.
_TAKE: Final = """
update webhook_events set attempts = attempts + 1, next_try = clock_timestamp() + interval '2 minutes'
where id = (
  select id from webhook_events e where done is null and next_try <= clock_timestamp() and not exists (
    select from webhook_events other where other.repository = e.repository
      and other.pull_request = e.pull_request and other.done is null and other.received < e.received)
  order by received limit 1)
returning id, tenant, repository, pull_request as number, event, attempts
"""
_LATER: Final = """
update {table} set next_try = clock_timestamp() + make_interval(secs => least(3600, 5 * power(2, attempts)))
"""
_FINISH: Final = """
update webhook_events set done = clock_timestamp(), outcome = %(outcome)s, head = coalesce(%(head)s, head)
where id = %(id)s
"""
_LINK: Final = """
insert into webhook_changes (change, repository, pull_request, head)
values (%(change)s, %(repository)s, %(number)s, %(head)s) on conflict (change) do nothing
"""
_CHANGES_OF: Final = """
select c.id, c.operation, c.phase, c.source, c.cancel, w.head, w.reported_at
from webhook_changes w join changes c on c.id = w.change
where w.repository = %(repository)s and w.pull_request = %(number)s order by c.number desc limit 100
"""
# An event says which commit was the newest when it happened, and the host when it was acted on.
# A commit that was the newest before another one counts only from when it came back.
_SEEN: Final = """
with events as (
  select * from webhook_events
  where repository = %(repository)s and pull_request = %(number)s and id <> %(but)s
), said as (
  select event ->> 'head' as head, at from events where event ->> 'head' is not null
  union all select head, done from events where done is not null and head is not null
)
select min(at) as at from said
where head = %(head)s and at > coalesce((select max(at) from said where head <> %(head)s), '-infinity')
"""
_TAKE_REPORT: Final = """
update webhook_changes set attempts = attempts + 1, next_try = clock_timestamp() + interval '2 minutes'
where change = (
  select w.change from webhook_changes w join changes c on c.id = w.change
  where c.phase in ('waiting', 'done') and w.reported is distinct from c.phase || ' ' || c.fence
    and w.next_try <= clock_timestamp() and w.attempts < 40 order by c.number limit 1)
returning change, repository, pull_request as number, head, attempts,
  (select phase || ' ' || fence from changes where id = change) as reported
"""
_REPORTED: Final = """
update webhook_changes set reported = %(reported)s, reported_at = clock_timestamp(), attempts = 0,
  next_try = clock_timestamp() where change = %(change)s
"""


class Delivery(Struct, frozen=True, kw_only=True):
    """An event that was accepted."""

    id: str
    """As the host calls it."""
    received: datetime
    event: str
    """Its kind."""
    sender: str | None
    pull_request: int
    attempts: int
    done: datetime | None
    outcome: str | None
    """What was done about it; null until then."""
    change: str | None
    """That it started."""


class NewEvent(Struct, frozen=True, kw_only=True):
    tenant: str
    repository: str
    delivery: str
    body: bytes
    """Its SHA-256."""
    number: int
    head: str | None
    at: datetime
    event: dict[str, Any]


class TakenEvent(Struct, frozen=True, kw_only=True):
    id: str
    """Also that of the change that it starts."""
    tenant: str
    repository: str
    number: int
    event: dict[str, Any]
    attempts: int


class RequestChange(Struct, frozen=True, kw_only=True):
    """A change that an event of a pull request started."""

    id: str
    operation: str
    phase: str
    source: str
    cancel: datetime | None
    head: str
    reported_at: datetime | None


class DueReport(MaskedStruct, frozen=True, kw_only=True):
    change: str
    repository: str
    number: int
    head: str
    attempts: int
    reported: str
    """What is recorded once it is written."""


def settings_name(repository: str) -> str:
    return f"{FOLDER}/webhooks/{repository}"


class WebhookRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    def repository(self, id_: str) -> Repository | None:
        """Of any tenant: the address of a webhook has only the id."""
        statement = f"select {REPOSITORY_COLUMNS} from repositories where id = %(id)s"  # noqa: S608
        rows = self._run(statement, id=id_)
        return Repository(**rows[0]) if rows else None

    def receive(self, new: NewEvent) -> bool:
        """False: it was received before."""
        values = {name: getattr(new, name) for name in new.__struct_fields__}
        return bool(self._run(_RECEIVE, **{**values, "id": clock.new_id(), "event": to_jsonb(new.event)}))

    def deliveries(self, repository: str, *, limit: int) -> tuple[Delivery, ...]:
        """Newest first."""
        return tuple(Delivery(**row) for row in self._run(_DELIVERIES, repository=repository, limit=limit))

    def take(self) -> TakenEvent | None:
        """The next one to act on."""
        with self._database.transaction() as connection:
            connection.execute(_LOCK)
            rows = execute(connection, _TAKE)
        return TakenEvent(**rows[0]) if rows else None

    def finish(self, event: str, outcome: str, *, head: str | None = None) -> None:
        self._run(_FINISH, id=event, outcome=outcome[:500], head=head)

    def try_event_later(self, event: str) -> None:
        self._run(f"{_LATER.format(table='webhook_events')} where id = %(id)s", id=event)

    def link(self, change: str, *, repository: str, number: int, head: str) -> None:
        self._run(_LINK, change=change, repository=repository, number=number, head=head)

    def changes_of(self, repository: str, number: int) -> tuple[RequestChange, ...]:
        """Newest first."""
        return tuple(
            RequestChange(**row) for row in self._run(_CHANGES_OF, repository=repository, number=number)
        )

    def head_seen(self, repository: str, number: int, head: str, *, but: str) -> datetime | None:
        """Since when this is known to be the newest commit, by all events `but` this one. None: it is not."""
        rows = self._run(_SEEN, repository=repository, number=number, head=head, but=but)
        seen: datetime | None = rows[0]["at"]
        return seen

    def take_report(self) -> DueReport | None:
        """A change whose newest result is not in a comment."""
        with self._database.transaction() as connection:
            connection.execute(_LOCK)
            rows = execute(connection, _TAKE_REPORT)
        return DueReport(**rows[0]) if rows else None

    def finish_report(self, due: DueReport) -> None:
        self._run(_REPORTED, change=due.change, reported=due.reported)

    def try_report_later(self, change: str) -> None:
        self._run(f"{_LATER.format(table='webhook_changes')} where change = %(change)s", change=change)

    def remove_old(self) -> int:
        """Events that are too old to be repeated, and what belongs to changes that were removed."""
        orphans = "delete from webhook_changes w where not exists (select from changes where id = w.change)"
        old = "delete from webhook_events where done < now() - %(kept)s::interval"
        return sum(len(self._run(f"{statement} returning 1", kept=KEPT)) for statement in (orphans, old))

    def _run(self, statement: str, **values: object) -> list[dict[str, Any]]:
        with self._database.transaction(single=True) as connection:
            return execute(connection, statement, **values)
