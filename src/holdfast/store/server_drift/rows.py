"""Rows of drift: repositories whose schedule is read, and stacks that are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from holdfast.store.server_runs.rows import to_jsonb
from holdfast.store.server_states.changes import run as execute

if TYPE_CHECKING:
    from psycopg import Connection

    from holdfast.database.database import Database

_KNOW_REPOSITORIES: Final = """
insert into drift_repositories (tenant, repository) select tenant, id from repositories
on conflict do nothing
"""
_FORGET_REPOSITORIES: Final = """
delete from drift_repositories d
where not exists (select from repositories r where r.tenant = d.tenant and r.id = d.repository)
"""
# Of a repository that is gone: one at a time, because its alert is closed too.
_ORPHANS: Final = """
select tenant, stack from drift_stacks s
where not exists (select from drift_repositories d where d.tenant = s.tenant and d.repository = s.repository)
limit 100
"""
_TO_LIST: Final = """
select tenant, repository from drift_repositories
where change is null and (listed is null or listed <= %(before)s)
  and (submitted is null or submitted <= %(before)s)
order by listed nulls first limit 10 for update skip locked
"""
_BEGIN_LISTING: Final = """
update drift_repositories set change = %(change)s, submitted = %(now)s
where tenant = %(tenant)s and repository = %(repository)s
"""
# A change that never came to be, because the server was killed in between, is no change.
_LISTED: Final = """
select d.tenant, d.repository, d.change, c.source, c.error, c.id is null as lost from drift_repositories d
left join changes c on c.id = d.change
where d.change is not null and (c.phase = 'done' or (c.id is null and d.submitted <= %(lost)s))
limit 20 for update of d skip locked
"""
_END_LISTING: Final = """
update drift_repositories set change = null, error = %(error)s::jsonb,
  listed = case when %(read)s then %(now)s else listed end,
  source = case when %(read)s then %(source)s else source end,
  schedule = case when %(read)s then %(schedule)s else schedule end,
  zone = case when %(read)s then %(zone)s else zone end,
  spread = case when %(read)s then %(spread)s else spread end
where tenant = %(tenant)s and repository = %(repository)s
"""
# Another repository of the tenant has this stack already: the first one keeps it.
_KNOW_STACK: Final = """
insert into drift_stacks (tenant, stack, repository, source, environment, production, target, schedule, due)
values (%(tenant)s, %(stack)s, %(repository)s, %(source)s, %(environment)s, %(production)s, %(target)s,
  %(schedule)s, %(due)s)
on conflict (tenant, stack) do update set source = excluded.source, environment = excluded.environment,
  production = excluded.production, target = excluded.target, schedule = excluded.schedule,
  due = case when drift_stacks.schedule is not distinct from excluded.schedule then drift_stacks.due
    else excluded.due end
where drift_stacks.repository = excluded.repository
"""
_UNLISTED: Final = """
select tenant, stack from drift_stacks
where tenant = %(tenant)s and repository = %(repository)s and stack <> all(%(stacks)s::text[])
"""
_FORGET_STACK: Final = "delete from drift_stacks where tenant = %(tenant)s and stack = %(stack)s"
_IN_PROGRESS: Final = "select count(*) as number from drift_stacks where change is not null and not healing"
_COLUMNS: Final = (
    "tenant, stack, repository, source, environment, production, target, due, attempts, change, healing,"
    " submitted, status, unapplied, findings, checked, tried"
)
_DUE: Final = f"""
select {_COLUMNS} from drift_stacks
where change is null and due <= %(now)s and source is not null
order by due, stack limit %(limit)s for update skip locked
"""  # noqa: S608 - our own column names
_BEGIN: Final = """
update drift_stacks set change = %(change)s, submitted = %(now)s, healing = %(healing)s
where tenant = %(tenant)s and stack = %(stack)s and change is null returning stack
"""
_DONE: Final = f"""
select {", ".join(f"s.{name}" for name in _COLUMNS.split(", "))}, c.error, c.id is null as lost,
  r.schedule as cron, r.zone, r.spread
from drift_stacks s left join changes c on c.id = s.change
left join drift_repositories r on r.tenant = s.tenant and r.repository = s.repository
where s.change is not null and (c.phase = 'done' or (c.id is null and s.submitted <= %(lost)s)
  or (s.healing and c.phase = 'waiting'))
limit 100 for update of s skip locked
"""  # noqa: S608 - our own column names
# Also one that waits for an approval, and one that a person asked for.
_HAS_APPLY: Final = """
select exists (select from runs join changes on changes.id = runs.change
  where runs.tenant = %(tenant)s and runs.stack = %(stack)s and runs.phase <> 'done'
    and changes.operation <> 'plan') as pending
"""
_END: Final = """
update drift_stacks set change = null, healing = false, due = %(due)s, attempts = %(attempts)s,
  status = %(status)s, unapplied = %(unapplied)s, findings = %(findings)s, checked = %(checked)s,
  tried = %(tried)s
where tenant = %(tenant)s and stack = %(stack)s
"""
_ASK: Final = """
update drift_stacks set due = least(due, %(now)s)
where tenant = %(tenant)s and stack = %(stack)s returning change
"""
_ASK_NEVER_DUE: Final = """
update drift_stacks set due = %(now)s where tenant = %(tenant)s and stack = %(stack)s and due is null
"""
_OF: Final = f"select {_COLUMNS} from drift_stacks where tenant = %(tenant)s and stack = %(stack)s"  # noqa: S608
_LIST: Final = f"""
select {_COLUMNS} from drift_stacks where tenant = %(tenant)s and stack > %(after)s
  and (%(status)s::text is null or status = %(status)s)
  and (%(environment)s::text is null or environment = %(environment)s)
  and (%(repository)s::text is null or repository = %(repository)s)
order by stack limit %(limit)s
"""  # noqa: S608 - our own column names
_COUNTS: Final = """
select status, count(*) as stacks, coalesce(sum(findings), 0) as findings,
  count(*) filter (where due < clock_timestamp() - interval '1 hour') as overdue
from drift_stacks where %(tenant)s::text is null or tenant = %(tenant)s group by status
"""


class DriftStack(Struct, frozen=True, kw_only=True):
    tenant: str
    stack: str
    repository: str
    source: str | None
    """The commit of the last listing."""
    environment: str | None
    production: bool
    target: str | None
    due: datetime | None
    attempts: int
    change: str | None
    healing: bool
    submitted: datetime | None
    status: str
    unapplied: bool
    findings: int
    checked: datetime | None
    tried: datetime | None


class EndedLook(DriftStack, frozen=True, kw_only=True):
    error: dict[str, Any] | None
    lost: bool
    cron: str | None
    zone: str | None
    spread: float | None


class EndedListing(Struct, frozen=True, kw_only=True):
    tenant: str
    repository: str
    change: str
    source: str | None
    error: dict[str, Any] | None
    lost: bool


class LookEnd(Struct, frozen=True, kw_only=True):
    due: datetime | None
    attempts: int
    status: str
    unapplied: bool
    findings: int
    checked: datetime | None
    tried: datetime | None


class StackCounts(Struct, frozen=True, kw_only=True):
    status: str
    stacks: int
    findings: int
    overdue: int


# What a keeper does, in its transaction


def know_repositories(connection: Connection[Any]) -> None:
    execute(connection, _FORGET_REPOSITORIES)
    execute(connection, _KNOW_REPOSITORIES)


def orphans(connection: Connection[Any]) -> list[tuple[str, str]]:
    return [(row["tenant"], row["stack"]) for row in execute(connection, _ORPHANS)]


def repositories_to_list(connection: Connection[Any], before: datetime) -> list[tuple[str, str]]:
    return [(row["tenant"], row["repository"]) for row in execute(connection, _TO_LIST, before=before)]


def begin_listing(
    connection: Connection[Any], tenant: str, repository: str, change: str, now: datetime
) -> None:
    execute(connection, _BEGIN_LISTING, tenant=tenant, repository=repository, change=change, now=now)


def ended_listings(connection: Connection[Any], lost: datetime) -> list[EndedListing]:
    return [EndedListing(**row) for row in execute(connection, _LISTED, lost=lost)]


def end_listing(
    connection: Connection[Any],
    listing: EndedListing,
    now: datetime,
    *,
    schedule: Mapping[str, Any] | None,
    error: Mapping[str, Any] | None,
) -> None:
    """`schedule` is None if it could not be read: what was known stays."""
    known = schedule or {}
    execute(
        connection,
        _END_LISTING,
        tenant=listing.tenant,
        repository=listing.repository,
        source=listing.source,
        now=now,
        read=schedule is not None,
        schedule=known.get("schedule"),
        zone=known.get("zone", "UTC"),
        spread=known.get("spread", 0.0),
        error=None if error is None else to_jsonb(dict(error)),
    )


def know_stack(
    connection: Connection[Any],
    listing: EndedListing,
    stack: Mapping[str, Any],
    schedule: str | None,
    due: datetime | None,
) -> None:
    named = ("stack", "environment", "production", "target")
    execute(
        connection,
        _KNOW_STACK,
        tenant=listing.tenant,
        repository=listing.repository,
        source=listing.source,
        schedule=schedule,
        due=due,
        **{name: stack[name] for name in named},
    )


def unlisted(
    connection: Connection[Any], listing: EndedListing, stacks: Sequence[str]
) -> list[tuple[str, str]]:
    rows = execute(
        connection, _UNLISTED, tenant=listing.tenant, repository=listing.repository, stacks=list(stacks)
    )
    return [(row["tenant"], row["stack"]) for row in rows]


def forget_stack(connection: Connection[Any], tenant: str, stack: str) -> None:
    execute(connection, _FORGET_STACK, tenant=tenant, stack=stack)


def due_stacks(connection: Connection[Any], now: datetime, at_once: int) -> list[DriftStack]:
    """As many as may be looked at beside those that are."""
    busy = int(execute(connection, _IN_PROGRESS)[0]["number"])
    if busy >= at_once:
        return []
    return [DriftStack(**row) for row in execute(connection, _DUE, now=now, limit=at_once - busy)]


def begin_look(
    connection: Connection[Any], stack: DriftStack, change: str, now: datetime, *, healing: bool = False
) -> None:
    named = {"tenant": stack.tenant, "stack": stack.stack}
    execute(connection, _BEGIN, **named, change=change, now=now, healing=healing)


def ended_looks(connection: Connection[Any], lost: datetime) -> list[EndedLook]:
    return [EndedLook(**row) for row in execute(connection, _DONE, lost=lost)]


def has_apply(connection: Connection[Any], tenant: str, stack: str) -> bool:
    return bool(execute(connection, _HAS_APPLY, tenant=tenant, stack=stack)[0]["pending"])


def end_look(connection: Connection[Any], look: DriftStack, end: LookEnd) -> None:
    values = {name: getattr(end, name) for name in LookEnd.__struct_fields__}
    execute(connection, _END, tenant=look.tenant, stack=look.stack, **values)


class DriftRows:
    """For the API and for metrics."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, tenant: str, stack: str) -> DriftStack | None:
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, _OF, tenant=tenant, stack=stack)
        return DriftStack(**rows[0]) if rows else None

    def list(
        self,
        tenant: str,
        *,
        status: str | None = None,
        environment: str | None = None,
        repository: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> tuple[DriftStack, ...]:
        """By name."""
        with self._database.transaction(single=True) as connection:
            rows = execute(
                connection, _LIST, tenant=tenant, status=status, environment=environment,
                repository=repository, after=after, limit=limit,
            )  # fmt: skip
        return tuple(DriftStack(**row) for row in rows)

    def ask(self, tenant: str, stack: str, now: datetime) -> None:
        """To be looked at as soon as possible."""
        with self._database.transaction() as connection:
            execute(connection, _ASK, tenant=tenant, stack=stack, now=now)
            execute(connection, _ASK_NEVER_DUE, tenant=tenant, stack=stack, now=now)

    def counts(self, tenant: str | None) -> tuple[StackCounts, ...]:
        """Of one tenant, or of all."""
        with self._database.transaction(single=True) as connection:
            rows = execute(connection, _COUNTS, tenant=tenant)
        return tuple(
            StackCounts(
                status=row["status"],
                stacks=int(row["stacks"]),
                findings=int(row["findings"]),
                overdue=int(row["overdue"]),
            )
            for row in rows
        )
