"""The managed states of a server store: the blobs `states/NAME/NUMBER` are the versions of `/state/NAME`.

So a run and plain Terraform share one state, one sequence of versions and one lock. A run holds the lock
with the blob `state-locks/NAME`: creating it takes the lease, replacing it is a heartbeat, removing it
releases the lease. Its tag is the fencing number.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from holdfast import __version__
from holdfast.store.blobs import StoredBlob, decode_name, encode_name
from holdfast.store.server_states.cipher import VersionPlace
from holdfast.store.server_states.rows import Author, StateKey, StateRows, run
from holdfast.store.server_states.rules import (
    Caller,
    LockRequest,
    StateRefusal,
    accepts_run_write,
    read_new_state,
    run_lease,
)
from holdfast.store.states import FORMAT
from holdfast.system import clock

VERSIONS = "states"
LOCKS = "state-locks"
_READ = """
    select v.tenant, v.state, v.number, v.data, v.digest, v.serial, v.lineage, v.resources, v.run, v.who,
      v.why, v.written as at
    from state_versions v join states s on s.id = v.state
    where s.tenant = %(tenant)s and s.name = %(name)s and s.deleted is null and v.number = %(number)s
      and v.data is not null"""
_NAMES = """
    select s.name, v.number from state_versions v join states s on s.id = v.state
    where s.tenant = %(tenant)s and s.deleted is null and v.data is not null
      and (%(name)s::text is null or s.name = %(name)s)"""
_REMOVE = """
    delete from state_versions where state = %(state)s and number = %(number)s and pinned is null
    returning number"""
_WITHDRAW = """
    update states set version = coalesce((select max(number) from state_versions where state = %(state)s), 0)
    where id = %(state)s"""


class StateBlobs:
    """A blob store for these names, of one tenant and one verified caller. Its data is not encrypted."""

    def __init__(self, rows: StateRows, tenant: str, caller: Caller) -> None:
        self._rows = rows
        self._tenant = tenant
        self._caller = caller

    def read(self, name: str) -> StoredBlob | None:
        key, number = self._parse(name)
        if number is None:
            row, _ = self._rows.look(key)
            lock = row.lock if row is not None else None
            return StoredBlob(data=lock.info, tag=str(lock.number)) if lock is not None else None
        with self._rows.database.transaction(single=True) as connection:
            rows = run(connection, _READ, tenant=key.tenant, name=key.name, number=number)
        return self._version(rows[0]) if rows else None

    def create(self, name: str, data: bytes) -> bool:
        """False also where another client holds the lock of the state."""
        key, number = self._parse(name)
        if number is None:
            with suppress(StateRefusal):
                self._rows.lock(key, self._lease(json.loads(data)["run"]))
                return True
            return False
        head, _, content = data.partition(b"\n")
        described = json.loads(head)
        new = read_new_state(content)
        author = Author(who=self._caller.who, why=described["why"], run=described["run"])
        compressed = self._rows.cipher.compress(content)
        with self._rows.change(key) as change:
            is_new = accepts_run_write(change.row, new, run=author.run, lease=self._caller.lease)
            if not is_new or change.next_number != number:
                # The answer to the first attempt may have been lost.
                return not is_new and change.next_number == number + 1
            self._rows.add(change, new, compressed, author)
        return True

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        """The heartbeat of a lease. Versions never change."""
        key, number = self._parse(name)
        with suppress(StateRefusal):
            if number is None:
                self._rows.heartbeat(key, json.loads(data)["run"], int(tag))
                return tag
        return None

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        """Release the lease, remove an old version, or withdraw the current one."""
        key, number = self._parse(name)
        with self._rows.change(key) as change:
            row = change.row
            if number is None:
                mine = row.lock is not None and row.lock.who == self._caller.who
                if row.lock is None or not mine or tag != str(row.lock.number):
                    return False
                change.release(row.lock)
                return True
            gone = change.run(_REMOVE, number=number)
            if gone and row.current is not None and row.current.number == number:
                change.run(_WITHDRAW)
            return bool(gone)

    def names(self, folder: str) -> tuple[str, ...]:
        """Of versions: below `states` or `states/NAME`."""
        _, _, encoded = folder.partition("/")
        name = decode_name(encoded) if encoded else None
        with self._rows.database.transaction(single=True) as connection:
            rows = run(connection, _NAMES, tenant=self._tenant, name=name)
        return tuple(sorted(f"{VERSIONS}/{encode_name(row['name'])}/{row['number']:010d}" for row in rows))

    def _version(self, row: dict[str, Any]) -> StoredBlob:
        place = VersionPlace(row["tenant"], row["state"], row["number"])
        content = self._rows.decrypt(place, row["data"])
        head = {"version": FORMAT, "serial": int(row["serial"]), "at": row["at"].isoformat()}
        head |= {name: row[name] for name in ("lineage", "resources", "run", "who", "why")}
        return StoredBlob(data=json.dumps(head).encode() + b"\n" + content, tag=row["digest"])

    def _lease(self, run_id: str) -> LockRequest:
        created = clock.now().isoformat()
        return run_lease(run_id, run_id, who=self._caller.who, created=created, version=__version__)

    def _parse(self, name: str) -> tuple[StateKey, int | None]:
        """The state, and the number of a version or None for its lock."""
        folder, encoded, *number = name.split("/")
        return StateKey(self._tenant, decode_name(encoded)), int(number[0]) if folder == VERSIONS else None
