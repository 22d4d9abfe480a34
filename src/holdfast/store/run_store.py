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
from holdfast.store.blobs import BlobStore
from holdfast.store.claims import Claims
from holdfast.store.encrypted_blobs import EncryptedBlobs, packed
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

    def __init__(self, blobs: BlobStore, key: Callable[[], Key]) -> None:
        self.blobs = blobs
        self._any_key = key
        self.encrypted = EncryptedBlobs(blobs, lambda: self.key)
        self.claims = Claims(self.encrypted)
        self.states = KeptStates(self.encrypted)
        self.backups = Backups(self.encrypted)
        self.runs = RunRecords(self.encrypted)

    @functools.cached_property
    def consents(self) -> Consents:
        from holdfast.store.approvals import Consents  # noqa: PLC0415 - only where the guard stops something

        return Consents(self.encrypted)

    @functools.cached_property
    def leases(self) -> Leases:
        from holdfast.store.leases import Leases  # noqa: PLC0415 - most commands take none

        return Leases(self.encrypted)

    @functools.cached_property
    def key(self) -> Key:
        """The key at hand, once it is known to be this store's own."""
        key = self._any_key()
        found = self._identity() or self._begun(key)
        if found.get("version") != _VERSION:
            raise _unreadable(self.blobs.shown, f"its format {found.get('version')} is not known")
        if found.get("key") != key.id:
            raise UsageError(
                "HF-STORE-3",
                f"the run store {self.blobs.shown} belongs to the key {found.get('key')}; "
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
        item = self.blobs.read(IDENTITY)
        if item is None:
            return None
        try:
            document = json.loads(item.data)
        except ValueError:
            document = None
        if not isinstance(document, dict) or "id" not in document:
            raise _unreadable(self.blobs.shown, f"{IDENTITY} is not a record")
        return document

    def _begun(self, key: Key) -> dict[str, object]:
        """The first use: a store that cannot keep its promises is refused before anything relies on it."""
        probe = getattr(self.blobs, "probe", None)
        if probe is not None:
            probe()
        document: dict[str, object] = {
            "version": _VERSION,
            "id": clock.new_id(),
            "created": clock.now().isoformat(),
            "key": key.id,
        }
        self.blobs.create(IDENTITY, packed(document) + b"\n")
        return self._identity() or document

    # Used marks: a plan is applied at most once.

    def mark_used(self, digest: str, *, run: str, stack: str, who: str) -> bool:
        """Durably, before Terraform starts. False when the plan was used before."""
        mark: dict[str, object] = {"run": run, "stack": stack, "who": who, "at": clock.now().isoformat()}
        return self.encrypted.create(f"used/{digest}", packed(mark))

    def used(self, digest: str) -> dict[str, object] | None:
        found = self.encrypted.read(f"used/{digest}")
        return found.document() if found is not None else None

    # Where states are and what was last seen there.

    def record(self, stack: str, record: StateRecord) -> None:
        self.encrypted.write(f"records/{word(stack)}", packed(asdict(record)))

    def last_seen(self, stack: str) -> StateRecord | None:
        found = self.encrypted.read(f"records/{word(stack)}")
        return StateRecord(**found.document()) if found is not None else None  # type: ignore[arg-type]

    def recorded_stacks(self) -> tuple[str, ...]:
        return tuple(sorted(stack_of(name.split("/")[1]) for name in self.blobs.names("records")))

    def forget(self, stack: str) -> None:
        self.encrypted.remove(f"records/{word(stack)}")

    # States that could not be saved. Kept until they are pushed.

    def keep_errored(self, stack: str, state: bytes) -> None:
        """The newest is the one that `errored` gives; an older one is set aside, never overwritten."""
        name = f"errored/{word(stack)}/kept"
        while not self.encrypted.create(name, state):
            older = self.encrypted.read(name)
            if older is None:
                continue
            self.encrypted.write(f"errored/{word(stack)}/older-{clock.new_id()}", older.data)
            if self.encrypted.replace(name, state, tag=older.tag) is not None:
                return

    def errored(self, stack: str) -> bytes | None:
        found = self.encrypted.read(f"errored/{word(stack)}/kept")
        return found.data if found is not None else None

    def settle_errored(self, stack: str) -> None:
        """The state was pushed: the copy stays, under a name that no longer stops the stack."""
        name = f"errored/{word(stack)}/kept"
        if (kept := self.encrypted.read(name)) is not None:
            self.encrypted.write(f"errored/{word(stack)}/pushed-{clock.new_id()}", kept.data)
            self.encrypted.remove(name, tag=kept.tag)


def _unreadable(place: str, why: str) -> UnknownOutcome:
    return UnknownOutcome(
        "HF-STORE-2",
        f"the run store cannot be read: {place}: {why}",
        hint="Restore it from a backup. Nothing is run while the record is unreadable.",
    )
