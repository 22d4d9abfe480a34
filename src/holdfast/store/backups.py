"""Copies of states that lie elsewhere, taken before each apply and whenever somebody asks."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from holdfast.doors import clock
from holdfast.kernel.errors import UnknownOutcome
from holdfast.store.names import word
from holdfast.store.sealed import SealedShelf


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    name: str
    """Sorts by time."""
    serial: int
    lineage: str
    resources: int | None
    at: str
    run: str | None
    who: str
    why: str
    state: bytes = field(repr=False)


class Backups:
    def __init__(self, sealed: SealedShelf) -> None:
        self._sealed = sealed

    def add(
        self,
        stack: str,
        state: bytes,
        *,
        serial: int,
        lineage: str,
        resources: int | None,
        run: str | None,
        who: str,
        why: str,
        name: str | None = None,
    ) -> Backup:
        """Durably: what follows may destroy what was copied. `name` is the id of the run it is made for."""
        document = {
            "version": 1,
            "serial": serial,
            "lineage": lineage,
            "resources": resources,
            "at": clock.now().isoformat(),
            "run": run,
            "who": who,
            "why": why,
        }
        name = name or clock.new_id()
        head = json.dumps(document, ensure_ascii=False).encode()
        if not self._sealed.create(_name(stack, name), head + b"\n" + state):
            return self._there(stack, name, state)
        document.pop("version")
        return Backup(name=name, state=state, **document)  # type: ignore[arg-type]

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
        return tuple(name.rpartition("/")[2] for name in self._sealed.names(f"backups/{word(stack)}"))

    def read(self, stack: str, name: str) -> Backup | None:
        found = self._sealed.read(_name(stack, name))
        if found is None:
            return None
        head, _, state = found.data.partition(b"\n")
        document = json.loads(head)
        if document.pop("version") != 1:
            raise UnknownOutcome("HF-STORE-2", f"{stack}: the backup {name} has an unknown format")
        return Backup(name=name, state=state, **document)

    def last(self, stack: str) -> Backup | None:
        names = self.names(stack)
        return self.read(stack, names[-1]) if names else None

    def drop(self, stack: str, name: str) -> None:
        self._sealed.remove(_name(stack, name))


def _name(stack: str, name: str) -> str:
    return f"backups/{word(stack)}/{name}"
