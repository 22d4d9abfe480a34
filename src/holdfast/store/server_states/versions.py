"""The versions of states on the server: listed, read, pinned, purged and, when they are old, removed.

A state is named by its id, because a deleted one keeps its versions and its name may be in use again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from msgspec import Struct

from holdfast.config.settings import BackupSettings
from holdfast.kernel.errors import HoldfastError, Refused, UsageError
from holdfast.store.retention import expired
from holdfast.store.server_states.changes import Statements, run
from holdfast.store.server_states.cipher import VersionPlace
from holdfast.store.server_states.locks import Caller
from holdfast.store.server_states.rows import StateRows

_STATES = """
    select s.id, s.name, s.version, s.unlocked_writes, s.created, s.deleted, v.serial, v.lineage,
      v.resources, v.written, l.who as locked_by
    from states s
    left join state_versions v on v.state = s.id and v.number = s.version
    left join state_locks l on l.state = s.id
    where s.tenant = %(tenant)s and s.id > %(after)s and (%(name)s::text is null or s.name = %(name)s)
      and (s.version > 0 or l.id is not null or s.unlocked_writes) and (%(id)s::text is null or s.id = %(id)s)
    order by s.id limit %(limit)s"""
_LIST = """
    select v.number, v.serial, v.lineage, v.resources, v.size, v.digest, v.written, v.who, v.why, v.run,
      v.fence, v.pinned, v.purged, v.secrets, coalesce(octet_length(v.data), 0) as stored,
      v.number = s.version and s.deleted is null as current
    from state_versions v join states s on s.id = v.state
    where s.tenant = %(tenant)s and s.id = %(state)s and v.number <= %(newest)s
      and v.number >= %(oldest)s order by v.number desc limit %(limit)s"""
_CONTENT = """
    select v.data, v.purged from state_versions v
    where v.tenant = %(tenant)s and v.state = %(state)s and v.number = %(number)s"""
_UNSCANNED = """
    select tenant, state, number from state_versions
    where secrets is null and data is not null and resources is not null
      and (state, number) > (%(state)s, %(number)s)
    order by state, number limit 1"""
# The id of the key follows seven bytes; the whole head of 38 bytes is different for each encryption.
_OTHER_KEY = """
    select tenant, state, number, data from state_versions
    where data is not null and substring(data from 8 for 8) <> decode(%(key)s, 'hex')
      and (state, number) > (%(state)s, %(number)s)
    order by state, number limit 1"""
_RENEW = """
    update state_versions set data = %(new)s
    where state = %(state)s and number = %(number)s and substring(data from 1 for 38) = %(head)s"""
_COUNT = """
    select count(*) as total,
      count(*) filter (where substring(data from 8 for 8) <> decode(%(key)s, 'hex')) as other
    from state_versions where data is not null"""
_SECRETS = """
    select
      coalesce(sum(v.secrets) filter (where v.number = s.version and s.deleted is null), 0)::bigint
        as current,
      count(*) filter (where v.secrets > 0) as versions,
      count(*) filter (where v.secrets is null and v.data is not null) as not_scanned
    from state_versions v join states s on s.id = v.state
    where %(tenant)s::text is null or v.tenant = %(tenant)s"""
_LONG = "select tenant, state from state_versions group by tenant, state having count(*) > %(keep)s"
_SET = "update state_versions set"
_WHERE = "where tenant = %(tenant)s and state = %(state)s and number = %(number)s"
_NEWEST = 2**62


class StateInfo(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    version: int
    """The number of the current version; 0: never written."""
    unlocked_writes: bool
    created: datetime
    deleted: datetime | None
    serial: int | None
    lineage: str | None
    resources: int | None
    written: datetime | None
    locked_by: str | None


class StateVersion(Struct, frozen=True, kw_only=True):
    number: int
    serial: int
    lineage: str
    resources: int | None
    """Managed resources; None: OpenTofu encrypted the state."""
    size: int
    digest: str
    """SHA-256 of the content."""
    written: datetime
    who: str
    why: str
    run: str | None
    fence: int | None
    """The fencing number of the lock that it was written under."""
    pinned: str | None
    purged: str | None
    secrets: int | None
    """How many attributes contain secrets; None: not scanned."""
    stored: int
    """Bytes in the database."""
    current: bool


class SecretCounts(Struct, frozen=True, kw_only=True):
    """Of all states."""

    current: int
    """Attributes with secrets in the current versions."""
    versions: int
    """With at least one secret, also old ones."""
    not_scanned: int


class StateVersions:
    def __init__(self, rows: StateRows) -> None:
        self._rows = rows

    def states(
        self, tenant: str, *, name: str | None = None, after: str = "", limit: int = 100
    ) -> tuple[StateInfo, ...]:
        """Also deleted ones; by id, which sorts by creation."""
        with self._rows.database.transaction() as connection:
            rows = run(connection, _STATES, tenant=tenant, name=name, after=after, id=None, limit=limit)
        return tuple(StateInfo(**row | {"serial": _integer(row["serial"])}) for row in rows)

    def state(self, tenant: str, state: str) -> StateInfo:
        with self._rows.database.transaction() as connection:
            rows = run(connection, _STATES, tenant=tenant, name=None, after="", id=state, limit=1)
        if not rows:
            raise _unknown(f"there is no state {state}")
        return StateInfo(**rows[0] | {"serial": _integer(rows[0]["serial"])})

    def list(
        self, tenant: str, state: str, *, before: int = _NEWEST, limit: int = 100
    ) -> tuple[StateVersion, ...]:
        """Newest first."""
        with self._rows.database.transaction() as connection:
            return tuple(_VersionChange(connection, tenant, state).versions(newest=before - 1, limit=limit))

    def show(self, tenant: str, state: str, number: int) -> StateVersion:
        with self._rows.database.transaction() as connection:
            return _VersionChange(connection, tenant, state).version(number)

    def content(self, tenant: str, state: str, number: int) -> bytes:
        with self._rows.database.transaction() as connection:
            rows = run(connection, _CONTENT, tenant=tenant, state=state, number=number)
            if not rows:
                _VersionChange(connection, tenant, state).version(number)
            elif (purged := rows[0]["purged"]) is not None:
                change = _VersionChange(connection, tenant, state)
                raise change.unknown(f"the content of version {number} was purged: {purged}")
        return self._rows.decrypt(VersionPlace(tenant, state, number), rows[0]["data"])

    def pin(self, tenant: str, state: str, number: int, caller: Caller, *, reason: str | None) -> None:
        """Retention keeps a pinned version. None as reason: it is no longer pinned."""
        with self._changing(tenant, state) as change:
            change.version(number)
            change.run(f"{_SET} pinned = %(reason)s {_WHERE}", number=number, reason=reason)
            change.record(caller.who, f"{'pin' if reason else 'unpin'} version {number}", reason)

    def purge(self, tenant: str, state: str, number: int, caller: Caller, *, reason: str) -> None:
        """Destroy the content of a version, for example because of a secret in it. Its row stays."""
        with self._changing(tenant, state) as change:
            version = change.version(number)
            if version.pinned is not None:
                raise Refused(
                    "HF-STATE-66",
                    f"version {number} is pinned: {version.pinned}",
                    hint="If it is no longer needed, first: "
                    f"holdfast state pin --state NAME {number} --remove",
                )
            if version.current:
                raise Refused(
                    "HF-STATE-52",
                    f"version {number} is the current one: without it, the state would be lost",
                    hint="Apply a change that removes the secret first; then this version is an old one.",
                )
            change.run(
                f"{_SET} data = null, secrets = 0, purged = %(purged)s {_WHERE}",
                number=number,
                purged=f"{caller.who}: {reason}",
            )
            change.record(caller.who, f"purge version {number}", reason)

    def prune(self, tenant: str, state: str, settings: BackupSettings) -> tuple[int, ...]:
        """Remove old versions, apart from the current one and pinned ones; the numbers removed."""
        with self._changing(tenant, state) as change:
            versions = {str(row.number): row for row in change.versions() if row.pinned is None}
            names = expired(
                tuple(versions),
                lambda name: versions[name].written.isoformat(),
                settings,
                now=change.run("select clock_timestamp() as now")[0]["now"],
                current=tuple(name for name, row in versions.items() if row.current),
            )
            numbers = [int(name) for name in names]
            change.run(
                "delete from state_versions where state = %(state)s and number = any(%(numbers)s)",
                numbers=numbers,
            )
        return tuple(numbers)

    def prune_all(self, settings: BackupSettings) -> int:
        """Of every state; how many versions were removed."""
        with self._rows.database.transaction() as connection:
            rows = run(connection, _LONG, keep=settings.keep)
        return sum(len(self.prune(row["tenant"], row["state"], settings)) for row in rows)

    def unscanned(self) -> Iterator[VersionPlace]:
        """Versions that were not scanned for secrets, such as those of runs and rollbacks."""
        place = VersionPlace("", "", 0)
        while True:
            with self._rows.database.transaction() as connection:
                rows = run(connection, _UNSCANNED, state=place.state, number=place.number)
            if not rows:
                return
            place = VersionPlace(**rows[0])
            yield place

    def renew(self, report: Callable[[VersionPlace, HoldfastError], None]) -> int:
        """Encrypt what has an older key with the newest one, while others read and write; how many.

        What cannot be read is reported and left as it is.
        """
        cipher, place, count = self._rows.cipher, VersionPlace("", "", 0), 0
        while True:
            values = {"key": cipher.key_id, "state": place.state, "number": place.number}
            with self._rows.database.transaction() as connection:
                rows = run(connection, _OTHER_KEY, **values)
                if not rows:
                    return count
                old = bytes(rows[0].pop("data"))
                place = VersionPlace(**rows[0])
                try:
                    new = cipher.renew(place, old)
                except HoldfastError as error:
                    report(place, error)
                    continue
                run(connection, _RENEW, state=place.state, number=place.number, new=new, head=old[:38])
                count += 1

    def count_keys(self) -> tuple[int, int]:
        """How many versions have content, and how many of them another key than the newest."""
        with self._rows.database.transaction() as connection:
            row = run(connection, _COUNT, key=self._rows.cipher.key_id)[0]
        return row["total"], row["other"]

    def count_secrets(self, tenant: str | None = None) -> SecretCounts:
        """Of one tenant, or of all."""
        with self._rows.database.transaction() as connection:
            return SecretCounts(**run(connection, _SECRETS, tenant=tenant)[0])

    def record_secrets(self, place: VersionPlace, secrets: int) -> None:
        with self._rows.database.transaction(durable=False) as connection:
            run(connection, f"{_SET} secrets = %(secrets)s {_WHERE}", **place._asdict(), secrets=secrets)

    @contextmanager
    def _changing(self, tenant: str, state: str) -> Iterator[_VersionChange]:
        """Under the lock of the state's row, so that no version becomes the current one meanwhile."""
        with self._rows.database.transaction() as connection:
            change = _VersionChange(connection, tenant, state)
            if not change.run("select from states where tenant = %(tenant)s and id = %(state)s for update"):
                raise _unknown(f"there is no state {state}")
            yield change


class _VersionChange(Statements):
    """The versions of one state in one transaction."""

    def versions(self, *, newest: int = _NEWEST, oldest: int = 0, limit: int = _NEWEST) -> list[StateVersion]:
        rows = self.run(_LIST, newest=newest, oldest=oldest, limit=limit)
        return [StateVersion(**row | {"serial": int(row["serial"])}) for row in rows]

    def version(self, number: int) -> StateVersion:
        versions = self.versions(newest=number, oldest=number)
        if not versions:
            raise self.unknown(f"there is no version {number} of this state")
        return versions[0]

    def unknown(self, message: str) -> UsageError:
        """Names the state in the hint."""
        for row in self.run("select name from states where tenant = %(tenant)s and id = %(state)s"):
            return _unknown(message, f"List its versions: holdfast state versions --state {row['name']}")
        return _unknown(message)


def _integer(value: Any) -> int | None:
    return int(value) if value is not None else None


def _unknown(message: str, hint: str = "List the states: holdfast state list") -> UsageError:
    return UsageError("HF-STATE-51", message, hint=hint)
