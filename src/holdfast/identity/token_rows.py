"""Tokens in the database: create, find, list, revoke; and which CI tokens were exchanged."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from holdfast.database.database import Database
from holdfast.identity.principal import RUN, Principal
from holdfast.identity.roles import Role
from holdfast.identity.tokens import GivenToken, NewToken, new_token
from holdfast.kernel.errors import Refused
from holdfast.system import clock

_USE_RECORDED_EVERY: Final = timedelta(minutes=1)
"""The last use is a hint for people, and not worth a write with every request."""
_NAMES: Final = (
    "id", "tenant", "name", "kind", "role", "stacks", "states", "reads", "claims", "created", "created_by",
    "expires", "last_used", "revoked", "groups",
)  # fmt: skip
_COLUMNS: Final = ", ".join(_NAMES)
_REVOKE: Final = """
    with recursive doomed as (
      select id from tokens where id = %(id)s
      union select t.id from tokens t join doomed d on t.parent = d.id)
    update tokens set revoked = coalesce(revoked, now()), revoked_by = coalesce(revoked_by, %(by)s)
    where id in (select id from doomed)"""
_KEEP_CREATED: Final = """
    update tokens set parent = (select parent from tokens where id = %(id)s)
    where parent = %(id)s and kind <> 'run'"""
# Whether one above it was revoked, and of a run's token whether the run still holds its lease.
_TOKEN: Final = f"""
    select digest, parent is not null and exists (
      with recursive creators as (
        select o.parent, o.revoked from tokens o where o.id = t.parent
        union select o.parent, o.revoked from tokens o join creators c on o.id = c.parent)
      select from creators where revoked is not null), not claims ? 'fence' or exists (
      select from state_locks l join states s on s.id = l.state
      where s.tenant = t.tenant and s.name = t.claims ->> 'state' and s.deleted is null
        and l.run = t.claims ->> 'run' and l.number = (t.claims ->> 'fence')::bigint), {_COLUMNS}
    from tokens t where id = %s"""  # noqa: S608 - our own column names


class TokenInfo(Struct, frozen=True, kw_only=True):
    """What can be shown of a token."""

    id: str
    name: str
    kind: str
    role: Role
    tenant: str
    stacks: tuple[str, ...]
    states: tuple[str, ...]
    created: datetime
    created_by: str
    expires: datetime | None
    last_used: datetime | None
    revoked: datetime | None
    groups: tuple[str, ...] = ()

    def active(self, now: datetime) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)

    def is_within(self, grantor: Principal) -> bool:
        """Whether `grantor` could have created it."""
        own = Principal(
            id=self.id,
            name=self.name,
            kind=self.kind,
            role=self.role,
            tenant=self.tenant,
            stacks=self.stacks,
            states=self.states,
        )
        return own.is_within(grantor)


class CreatedToken(Struct, frozen=True, kw_only=True):
    info: TokenInfo
    text: str

    def __repr__(self) -> str:
        return f"CreatedToken({self.info.id})"


class LostLeaseError(Refused):
    """The token is right, but its run no longer holds the lease that it was created for."""


class TokenRows:
    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        principal: Principal,
        *,
        created_by: str,
        expires: datetime | None = None,
        token: NewToken | None = None,
        parent: Principal | None = None,
        outlives: bool = False,
    ) -> CreatedToken:
        """With a new id. `token` was made before, such as the one in the server's own file.

        It is revoked with the token of its `parent`, and expires with that, unless it `outlives` it.
        """
        token = token or new_token()
        with self._database.transaction(single=True) as connection:
            row = connection.execute(
                "insert into tokens (id, tenant, digest, name, kind, role, stacks, states, reads, claims,"  # noqa: S608 - our own column names
                " groups, created_by, parent, expires)"
                " values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,"
                " least(%s::timestamptz, (select expires from tokens where id = %s)))"
                f" on conflict (id) do update set digest = excluded.digest returning {_COLUMNS}",
                (
                    token.id,
                    principal.tenant,
                    token.digest,
                    principal.name,
                    principal.kind,
                    principal.role.value,
                    list(principal.stacks),
                    list(principal.states),
                    list(principal.reads),
                    _json(dict(principal.claims)),
                    list(principal.groups),
                    created_by,
                    parent.id if parent is not None else None,
                    expires,
                    parent.id if parent is not None and not outlives else None,
                ),
            ).fetchone()
        assert row is not None  # noqa: S101 - `returning` of one row
        return CreatedToken(info=_info(row), text=token.text)

    def create_for_run(
        self,
        holder: Principal,
        *,
        run: str,
        state: str,
        reads: tuple[str, ...],
        fence: int,
        expires: datetime,
    ) -> CreatedToken:
        """For one state and those that the run reads, while the run holds this lease of the state."""
        claims = {"run": run, "state": state, "fence": str(fence)}
        return self.create_run(holder, claims, states=(state,), reads=reads, expires=expires)

    def create_run(
        self,
        holder: Principal,
        claims: dict[str, str],
        *,
        states: tuple[str, ...],
        reads: tuple[str, ...],
        expires: datetime,
    ) -> CreatedToken:
        """With a `fence`: while the run holds that lease of the state. Without: it only reads.

        An apply may take longer than the token that began it is valid, and must save its state.
        """
        principal = Principal(
            id="",
            name=holder.name,
            kind=RUN,
            role=Role.RUN,
            tenant=holder.home_tenant,
            stacks=(),
            states=tuple(map(_literal, states)),
            reads=tuple(map(_literal, reads)),
            claims={**claims, "subject": holder.subject},
        )
        outlives = "fence" in claims
        return self.create(
            principal, created_by=holder.name, expires=expires, parent=holder, outlives=outlives
        )

    def authenticate(self, given: GivenToken) -> Principal | None:
        """None: unknown, revoked (or a token above it), expired, or another secret."""
        with self._database.transaction(single=True) as connection:
            row = connection.execute(_TOKEN, (given.id,)).fetchone()
        same = given.matches(bytes(row[0]) if row is not None else None)
        if row is None or not same:
            return None
        _, revoked_above, holds_lease, *columns = row
        info, principal, now = _info(tuple(columns)), _principal(tuple(columns)), clock.now()
        if not info.active(now) or revoked_above:
            return None
        if principal.kind == RUN and not holds_lease:
            run, state = principal.claims["run"], principal.claims["state"]
            raise LostLeaseError(
                "HF-STATE-49",
                f"the run {run} has lost its lease on {state}: it ended, or its lock was released",
                hint=f"Show who holds it: holdfast state locks --state {state}. To finish the run: "
                f"holdfast runs reconcile {run}",
            )
        recorded = info.last_used is not None and now - info.last_used <= _USE_RECORDED_EVERY
        if not recorded and principal.kind != RUN:
            with self._database.transaction(durable=False) as connection:
                connection.execute("update tokens set last_used = now() where id = %s", (given.id,))
        return principal

    def was_withdrawn(self, id_: str) -> bool:
        """Revoked, or one above it, or removed. One that has only expired was not."""
        statement = """
            with recursive creators as (
              select parent, revoked from tokens where id = %(id)s
              union select t.parent, t.revoked from tokens t join creators c on t.id = c.parent)
            select 1 from creators having count(*) > 0 and count(revoked) = 0"""
        with self._database.transaction(single=True) as connection:
            return connection.execute(statement, {"id": id_}).fetchone() is None

    def expires(self, id_: str) -> datetime | None:
        with self._database.transaction() as connection:
            row = connection.execute("select expires from tokens where id = %s", (id_,)).fetchone()
        return row[0] if row is not None else None

    def list(self, tenant: str | None, *, after: str = "", limit: int = 200) -> tuple[TokenInfo, ...]:
        """Of one tenant, or of all; tokens of single runs are not listed."""
        with self._database.transaction() as connection:
            rows = connection.execute(
                f"select {_COLUMNS} from tokens where kind <> 'run' and id > %s"  # noqa: S608
                " and (%s::text is null or tenant = %s) order by id limit %s",
                (after, tenant, tenant, limit),
            ).fetchall()
        return tuple(map(_info, rows))

    def name_is_free(self, wanted: Principal, grantor: Principal) -> bool:
        """A person's tokens share their name: only who may create all of them may create another."""
        if wanted.name == wanted.role.value:
            return True
        with self._database.transaction() as connection:
            rows = connection.execute(
                f"select {_COLUMNS} from tokens where kind = 'token' and lower(name) = lower(%s)"  # noqa: S608
                " and tenant in (%s, '*')",
                (wanted.name, wanted.tenant),
            ).fetchall()
        return all(info.name == wanted.name and info.is_within(grantor) for info in map(_info, rows))

    def revoke(self, id_: str, grantor: Principal, *, keep_created: bool = False) -> TokenInfo | None:
        """With those that it created, unless they are kept; its runs end in any case.

        None: there is no such token that `grantor` could have created. Twice changes nothing.
        """
        with self._database.transaction() as connection:
            row = connection.execute(
                f"select {_COLUMNS} from tokens where id = %s for update",  # noqa: S608 - our own column names
                (id_,),
            ).fetchone()
            if row is None or not _info(row).is_within(grantor):
                return None
            if keep_created:
                connection.execute(_KEEP_CREATED, {"id": id_})
            connection.execute(_REVOKE, {"id": id_, "by": grantor.name})
        return _info(row)

    def mark_exchanged(self, issuer: str, token: str, expires: datetime) -> bool:
        """False: it was exchanged before."""
        digest = hashlib.sha256(token.encode()).hexdigest()
        with self._database.transaction() as connection:
            connection.execute("delete from exchanged_tokens where expires < now() - interval '1 hour'")
            return (
                connection.execute(
                    "insert into exchanged_tokens (issuer, token, expires) values (%s, %s, %s)"
                    " on conflict do nothing",
                    (issuer, digest, expires),
                ).rowcount
                == 1
            )

    def remove_expired(self) -> int:
        """Those that expired or were revoked a month ago, and those of CI and of runs at once.

        Not while a change that was submitted with it is unfinished: it can still be revoked.
        """
        with self._database.transaction() as connection:
            return connection.execute(
                "delete from tokens where coalesce(revoked, expires) <"
                " now() - case kind when 'token' then interval '30 days' else interval '1 hour' end"
                " and not exists (select from changes where phase <> 'done'"
                " and requester ->> 'id' = tokens.id)"
            ).rowcount


def _literal(text: str) -> str:
    """A pattern that matches only this text."""
    return re.sub(r"([*?[])", r"[\1]", text)


def _json(document: dict[str, str]) -> object:
    from psycopg.types.json import Jsonb  # noqa: PLC0415 - an extra

    return Jsonb(document)


def _info(row: tuple[Any, ...]) -> TokenInfo:
    id_, tenant, name, kind, role, stacks, states, _, _, *others = row
    created, created_by, expires, used, revoked, groups = others
    return TokenInfo(
        id=id_,
        tenant=tenant,
        name=name,
        kind=kind,
        role=Role(role),
        stacks=tuple(stacks),
        states=tuple(states),
        created=created,
        created_by=created_by,
        expires=expires,
        last_used=used,
        revoked=revoked,
        groups=tuple(groups),
    )


def _principal(row: tuple[Any, ...]) -> Principal:
    id_, tenant, name, kind, role, stacks, states, reads, claims, *_ = row
    return Principal(
        id=id_,
        name=name,
        kind=kind,
        role=Role(role),
        tenant=tenant,
        stacks=tuple(stacks),
        states=tuple(states),
        reads=tuple(reads),
        claims=claims,
        groups=tuple(row[-1]),
    )
