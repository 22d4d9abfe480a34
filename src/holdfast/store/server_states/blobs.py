"""The managed states of a server store: the blobs `states/NAME/NUMBER` are the versions of `/state/NAME`.

So a run and plain Terraform share one state, one sequence of versions and one lock. A run takes the lock with
its claim (`server/store_access.py`); the blob `state-locks/NAME` shows it, with the fencing number as tag.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from holdfast.store.blobs import StoredBlob, decode_name, encode_name
from holdfast.store.server_states.changes import Author, StateKey, run
from holdfast.store.server_states.cipher import VersionPlace
from holdfast.store.server_states.locks import Caller
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.rules import accepts_run_write, read_new_state, require_withdrawable
from holdfast.store.states import FORMAT

RunId = Annotated[str, Meta(pattern=r"^[0-9A-Za-z-]{1,64}\Z")]
VERSIONS = "states"
LOCKS = "state-locks"
_READ = """
    select v.tenant, v.state, v.number, v.data, v.digest, v.serial, v.lineage, v.resources, v.run, v.who,
      v.why, v.written as at
    from state_versions v join states s on s.id = v.state
    where s.tenant = %(tenant)s and s.name = %(name)s and s.deleted is null and v.number = %(number)s
      and v.data is not null and v.size <= %(largest)s"""
_NAMES = """
    select s.name, v.number from state_versions v join states s on s.id = v.state
    where s.tenant = %(tenant)s and s.deleted is null and v.data is not null
      and (%(name)s::text is null or s.name = %(name)s)"""


class _Head(Struct, frozen=True, kw_only=True):
    """What a client says about a version; the server knows the rest."""

    why: Annotated[str, Meta(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*\Z")]
    run: RunId | None


class StateBlobs:
    """A blob store for these names, of one tenant and one verified caller. Its data is not encrypted."""

    def __init__(self, rows: StateRows, tenant: str, caller: Caller) -> None:
        self._rows = rows
        self._tenant = tenant
        self._caller = caller

    def read(self, name: str, *, largest: int = sys.maxsize) -> StoredBlob | None:
        key, number = self._parse(name)
        if number is None:
            lock = self._rows.lock_of(key)
            return StoredBlob(data=lock.info, tag=str(lock.number)) if lock is not None else None
        with self._rows.database.transaction(single=True) as connection:
            rows = run(connection, _READ, tenant=key.tenant, name=key.name, number=number, largest=largest)
        return self._version(rows[0]) if rows else None

    def create(self, name: str, data: bytes) -> bool:
        """A version. ValueError where it does not say what it is."""
        key, number = self._parse(name)
        if number is None:
            return False
        head, _, content = data.partition(b"\n")
        described = msgspec.json.decode(head, type=_Head)
        new = read_new_state(content)
        compressed = self._rows.cipher.compress(content)
        with self._rows.change(key) as change:
            is_new = accepts_run_write(change.row, new, self._caller, run=described.run)
            if not is_new or change.next_number != number:
                # The answer to the first attempt may have been lost.
                return not is_new and change.next_number == number + 1
            lock = change.row.lock
            by = lock.run if lock is not None else None
            author = Author(who=self._caller.who, why=described.why, run=by)
            self._rows.add(change, new, compressed, author)
        return True

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        """Versions never change."""
        del name, data, tag
        return None

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        """Withdraw the first version, by the run that wrote it. It is kept with the history of the name."""
        del tag
        key, number = self._parse(name)
        with self._rows.change(key) as change:
            if number is None or change.row.current is None:
                return False
            require_withdrawable(change.row, self._caller, number)
            change.delete(self._caller, "withdraw", follows=False)
            return True

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

    def _parse(self, name: str) -> tuple[StateKey, int | None]:
        """The state, and the number of a version or None for its lock."""
        folder, encoded, *number = name.split("/")
        return StateKey(self._tenant, decode_name(encoded)), int(number[0]) if folder == VERSIONS else None
