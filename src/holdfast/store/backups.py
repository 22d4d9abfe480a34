"""Copies of states that lie elsewhere, taken before each apply and whenever somebody asks."""

from __future__ import annotations

from holdfast.kernel.errors import UnknownOutcome
from holdfast.kernel.values import dataclass
from holdfast.store.encrypted_blobs import EncryptedBlobs
from holdfast.store.names import word
from holdfast.store.snapshots import KeptCopy, StateCopy, pack, unpack
from holdfast.system import clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup(KeptCopy):
    name: str
    """Sorts by time."""


class Backups:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def add(self, stack: str, new: StateCopy, *, name: str | None = None) -> Backup:
        """Durably: what follows may destroy what was copied. `name` is the id of the run it is made for."""
        name = name or clock.new_id()
        data, fields = pack(new)
        if not self._encrypted.create(_name(stack, name), data):
            return self._there(stack, name, new.state)
        return Backup(name=name, **fields)

    def _there(self, stack: str, name: str, state: bytes) -> Backup:
        """Of a try before, whose answer was lost. A copy of something else is no copy."""
        there = self.read(stack, name)
        if there is None or there.state != state:
            raise UnknownOutcome(
                "HF-STORE-2", f"{stack}: a backup called {name} is there already, with another content"
            )
        return there

    def names(self, stack: str) -> tuple[str, ...]:
        """Oldest first."""
        return tuple(name.rpartition("/")[2] for name in self._encrypted.names(f"backups/{word(stack)}"))

    def read(self, stack: str, name: str) -> Backup | None:
        found = self._encrypted.read(_name(stack, name))
        if found is None:
            return None
        return Backup(name=name, **unpack(found.data, what=f"{stack}: the backup {name}"))

    def last(self, stack: str) -> Backup | None:
        names = self.names(stack)
        return self.read(stack, names[-1]) if names else None

    def drop(self, stack: str, name: str) -> None:
        self._encrypted.remove(_name(stack, name))


def _name(stack: str, name: str) -> str:
    return f"backups/{word(stack)}/{name}"
