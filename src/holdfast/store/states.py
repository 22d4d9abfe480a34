"""States in the run store: versions of managed states, and backups of states that are stored elsewhere.

A version is written whole, never changed, and numbered in sequence. Of two writers, only one creates a
version. One line of JSON describes a state; the state follows, byte for byte.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from holdfast.kernel.errors import UnknownOutcome
from holdfast.kernel.secret import masked_repr
from holdfast.store.blobs import EncryptedBlobs, decode_name, encode_name, unreadable
from holdfast.store.place import is_on_server
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.terraform.statefile.model import State

FORMAT = 1
_NOT_DESCRIBED = ("state", "number", "name")


class StateSnapshot(NamedTuple):
    serial: int
    lineage: str
    resources: int | None
    """Managed resources; None if the state is encrypted."""
    run: str | None
    who: str
    why: str
    """The operation: apply, push, rollback, adopt."""
    state: bytes
    at: str = ""
    """When it was written; set by the store."""
    number: int = 0
    """The version's number, for a managed state."""
    name: str = ""
    """The backup's name, which sorts by time."""

    def __repr__(self) -> str:
        return masked_repr(self)

    @classmethod
    def of(cls, content: bytes, state: State, *, run: str | None, who: str, why: str) -> StateSnapshot:
        """`state` is the decoded `content`."""
        return cls(
            serial=state.serial,
            lineage=state.lineage,
            resources=state.managed,
            run=run,
            who=who,
            why=why,
            state=content,
        )


def _pack(new: StateSnapshot) -> tuple[bytes, StateSnapshot]:
    """The bytes to write, and the snapshot as it will be read back."""
    new = new._replace(at=clock.now().isoformat())
    described = {name: value for name, value in new._asdict().items() if name not in _NOT_DESCRIBED}
    head = json.dumps({"version": FORMAT, **described}, ensure_ascii=False).encode()
    return head + b"\n" + new.state, new


def _unpack(data: bytes, *, what: str, number: int = 0, name: str = "") -> StateSnapshot:
    head, _, state = data.partition(b"\n")
    described = json.loads(head)
    if described.pop("version") != FORMAT:
        raise UnknownOutcome("HF-STORE-2", f"{what} has an unknown format")
    return StateSnapshot(**described, state=state, number=number, name=name)


class ManagedStates:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def numbers(self, stack: str) -> tuple[int, ...]:
        return tuple(_number(name) for name in self._encrypted.names(_versions(stack)))

    def current(self, stack: str) -> StateSnapshot | None:
        """None only if there is none: a version that is removed meanwhile has newer ones beside it."""
        while numbers := self.numbers(stack):
            version = self.version(stack, numbers[-1])
            if version is not None:
                return version
        return None

    def version(self, stack: str, number: int) -> StateSnapshot | None:
        blob = self._encrypted.read(_version_name(stack, number))
        if blob is None:
            return None
        return _unpack(blob.data, what=f"version {number} of the state of {stack}", number=number)

    def add(self, stack: str, new: StateSnapshot, *, after: int) -> StateSnapshot | None:
        """The version after `after`; None if another writer has created it."""
        data, snapshot = _pack(new)
        # A number can also be free because its version was removed. A server compares it with the write.
        if not is_on_server(self._encrypted.blobs) and (self.numbers(stack) or (0,))[-1] != after:
            return None
        number = after + 1
        if not self._encrypted.create(_version_name(stack, number), data):
            return None
        return snapshot._replace(number=number)

    def stacks(self) -> tuple[str, ...]:
        names = {name.split("/")[1] for name in self._encrypted.names("states")}
        return tuple(sorted(map(decode_name, names)))

    def withdraw(self, stack: str, number: int) -> None:
        """Removes a version that this command has just added."""
        self._encrypted.remove(_version_name(stack, number))

    def drop(self, stack: str, number: int) -> None:
        """Removes an old version; never the current one."""
        if number != (self.numbers(stack) or (number,))[-1]:
            self._encrypted.remove(_version_name(stack, number))


class Backups:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def add(self, stack: str, new: StateSnapshot, *, name: str | None = None) -> StateSnapshot:
        """Durable, because what follows may destroy the original. `name` is the id of its run."""
        name = name or clock.new_id()
        data, snapshot = _pack(new)
        if self._encrypted.create(_backup_name(stack, name), data):
            return snapshot._replace(name=name)
        # From an earlier attempt whose answer was lost: it must have the same content.
        backup = self.read(stack, name)
        if backup is None or backup.state != new.state:
            raise UnknownOutcome("HF-STORE-2", f"{stack}: a backup {name} with different content exists")
        return backup

    def names(self, stack: str) -> tuple[str, ...]:
        """Oldest first."""
        return tuple(
            name.rpartition("/")[2] for name in self._encrypted.names(f"backups/{encode_name(stack)}")
        )

    def read(self, stack: str, name: str) -> StateSnapshot | None:
        blob = self._encrypted.read(_backup_name(stack, name))
        if blob is None:
            return None
        return _unpack(blob.data, what=f"the backup {name} of {stack}", name=name)

    def last(self, stack: str) -> StateSnapshot | None:
        names = self.names(stack)
        return self.read(stack, names[-1]) if names else None

    def drop(self, stack: str, name: str) -> None:
        self._encrypted.remove(_backup_name(stack, name))


def _number(name: str) -> int:
    last = name.rpartition("/")[2]
    if not last.isascii() or not last.isdigit():
        raise unreadable(
            f"the run store contains {name}, which is not a version of a state",
            "Holdfast does not create such names: check who did, then remove it.",
        )
    return int(last)


def _versions(stack: str) -> str:
    return f"states/{encode_name(stack)}"


def _version_name(stack: str, number: int) -> str:
    return f"{_versions(stack)}/{number:010d}"


def _backup_name(stack: str, name: str) -> str:
    return f"backups/{encode_name(stack)}/{name}"
