"""The run store: what must outlive a run. Its id, used marks, claims, journals, states, backups, leases.

Everything but its own id is encrypted. The store records the id of its key; another key is refused by name.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from holdfast.kernel.errors import UnknownOutcome, UsageError
from holdfast.kernel.values import dataclass
from holdfast.secrets.keys import Key
from holdfast.store.backups import Backups
from holdfast.store.blobs import Shelf
from holdfast.store.claims import Claims
from holdfast.store.encrypted_blobs import SealedShelf, packed
from holdfast.store.names import stack_of, word
from holdfast.store.run_records import RunRecords
from holdfast.store.states import KeptStates
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.store.approvals import Consents
    from holdfast.store.leases import Leases

IDENTITY = "store.json"
_VERSION = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRecord:
    """What was last seen of a stack's state. `place` names where, without secrets."""

    place: str
    lineage: str
    serial: int
    resources: int | None
    seen: str


class RunStore:
    """Nothing is written before something has to be remembered, nor before the key is the right one."""

    def __init__(self, shelf: Shelf, key: Callable[[], Key]) -> None:
        self.shelf = shelf
        self._any_key = key
        self.sealed = SealedShelf(shelf, lambda: self.key)
        self.claims = Claims(self.sealed)
        self.states = KeptStates(self.sealed)
        self.backups = Backups(self.sealed)
        self.runs = RunRecords(self.sealed)

    @functools.cached_property
    def consents(self) -> Consents:
        from holdfast.store.approvals import Consents  # noqa: PLC0415 - only where the guard stops something

        return Consents(self.sealed)

    @functools.cached_property
    def leases(self) -> Leases:
        from holdfast.store.leases import Leases  # noqa: PLC0415 - most commands take none

        return Leases(self.sealed)

    @functools.cached_property
    def key(self) -> Key:
        """The key at hand, once it is known to be this store's own."""
        key = self._any_key()
        found = self._identity() or self._begun(key)
        if found.get("version") != _VERSION:
            raise _unreadable(self.shelf.shown, f"its format {found.get('version')} is not known")
        if found.get("key") != key.id:
            raise UsageError(
                "HF-STORE-3",
                f"the run store {self.shelf.shown} belongs to the key {found.get('key')}; "
                f"the key at hand is {key.id}",
                hint="Set HOLDFAST_KEY to the store's key, or restore its key file from the backup.",
            )
        return key

    def id(self) -> str:
        """The store's own id, written on first use; a bundle names it."""
        _ = self.key
        return str((self._identity() or {})["id"])

    @property
    def empty(self) -> bool:
        """Whether nothing was ever written here."""
        return self._identity() is None

    def _identity(self) -> dict[str, object] | None:
        item = self.shelf.read(IDENTITY)
        if item is None:
            return None
        try:
            document = json.loads(item.data)
        except ValueError:
            document = None
        if not isinstance(document, dict) or "id" not in document:
            raise _unreadable(self.shelf.shown, f"{IDENTITY} is not a record")
        return document

    def _begun(self, key: Key) -> dict[str, object]:
        """The first use: a store that cannot keep its promises is refused before anything relies on it."""
        probe = getattr(self.shelf, "probe", None)
        if probe is not None:
            probe()
        document: dict[str, object] = {
            "version": _VERSION,
            "id": clock.new_id(),
            "created": clock.now().isoformat(),
            "key": key.id,
        }
        self.shelf.create(IDENTITY, packed(document) + b"\n")
        return self._identity() or document

    # Used marks: a plan is applied at most once.

    def mark_used(self, digest: str, *, run: str, stack: str, who: str) -> bool:
        """Durably, before Terraform starts. False when the plan was used before."""
        mark: dict[str, object] = {"run": run, "stack": stack, "who": who, "at": clock.now().isoformat()}
        return self.sealed.create(f"used/{digest}", packed(mark))

    def used(self, digest: str) -> dict[str, object] | None:
        found = self.sealed.read(f"used/{digest}")
        return found.document() if found is not None else None

    # Where states are and what was last seen there.

    def record(self, stack: str, record: StateRecord) -> None:
        self.sealed.write(f"records/{word(stack)}", packed(asdict(record)))

    def last_seen(self, stack: str) -> StateRecord | None:
        found = self.sealed.read(f"records/{word(stack)}")
        return StateRecord(**found.document()) if found is not None else None  # type: ignore[arg-type]

    def recorded_stacks(self) -> tuple[str, ...]:
        return tuple(sorted(stack_of(name.split("/")[1]) for name in self.shelf.names("records")))

    def forget(self, stack: str) -> None:
        self.sealed.remove(f"records/{word(stack)}")

    # States that could not be saved. Kept until they are pushed.

    def keep_errored(self, stack: str, state: bytes) -> None:
        """The newest is the one that `errored` gives; an older one is set aside, never overwritten."""
        name = f"errored/{word(stack)}/kept"
        while not self.sealed.create(name, state):
            older = self.sealed.read(name)
            if older is None:
                continue
            self.sealed.write(f"errored/{word(stack)}/older-{clock.new_id()}", older.data)
            if self.sealed.replace(name, state, tag=older.tag) is not None:
                return

    def errored(self, stack: str) -> bytes | None:
        found = self.sealed.read(f"errored/{word(stack)}/kept")
        return found.data if found is not None else None

    def settle_errored(self, stack: str) -> None:
        """The state was pushed: the copy stays, under a name that no longer stops the stack."""
        name = f"errored/{word(stack)}/kept"
        if (kept := self.sealed.read(name)) is not None:
            self.sealed.write(f"errored/{word(stack)}/pushed-{clock.new_id()}", kept.data)
            self.sealed.remove(name, tag=kept.tag)


def _unreadable(place: str, why: str) -> UnknownOutcome:
    return UnknownOutcome(
        "HF-STORE-2",
        f"the run store cannot be read: {place}: {why}",
        hint="Restore it from a backup. Nothing is run while the record is unreadable.",
    )
