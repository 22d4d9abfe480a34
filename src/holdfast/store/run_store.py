"""The run store: what must outlive a run. Its id, used marks, claims, journals, states, backups, leases.

Everything except its own id is encrypted. The store records the id of its key and refuses any other key.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from holdfast.kernel.errors import UsageError
from holdfast.kernel.text import json_object
from holdfast.secrets.keys import Key
from holdfast.store.blobs import BlobStore, EncryptedBlobs, encode_name, to_json, unreadable
from holdfast.store.run_records import Claims, RunRecords
from holdfast.store.states import Backups, ManagedStates
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.store.approvals import Approvals
    from holdfast.store.leases import Leases
    from holdfast.store.stack_names import StackNames

IDENTITY = "store.json"
_VERSION = 2


class StateRecord(Struct, frozen=True, kw_only=True):
    """The last known state of a stack. `place` says where it is stored, without secrets."""

    place: str
    lineage: str
    serial: int
    resources: int | None
    seen: str
    source: str = ""
    """The variables file or module folder that it was applied from, relative to the root."""
    variables: str = ""
    """A digest of its module and the values of its variables."""


class RunStore:
    """Nothing is written before it is needed, nor before the key is known to be the right one."""

    def __init__(self, blobs: BlobStore, key: Callable[[], Key], *, spool: Path | None = None) -> None:
        self.blobs = blobs
        self.spool = spool
        """Where journals wait on this machine until they have arrived in a store that is elsewhere."""
        self._load_key = key
        self._known_identity: dict[str, object] | None = None
        self.encrypted = EncryptedBlobs(blobs, lambda: self.key)
        self.claims = Claims(self.encrypted)
        self.states = ManagedStates(self.encrypted)
        self.backups = Backups(self.encrypted)
        self.runs = RunRecords(self.encrypted)

    @functools.cached_property
    def approvals(self) -> Approvals:
        from holdfast.store.approvals import Approvals  # noqa: PLC0415 - only needed when the guard stops a plan

        return Approvals(self.encrypted)

    @functools.cached_property
    def names(self) -> StackNames:
        from holdfast.store.stack_names import StackNames  # noqa: PLC0415 - only needed for new stacks

        return StackNames(self.encrypted)

    @functools.cached_property
    def leases(self) -> Leases:
        from holdfast.store.leases import Leases  # noqa: PLC0415 - most commands take no lease

        return Leases(self.encrypted)

    @functools.cached_property
    def key(self) -> Key:
        """The current key, after checking that it is the store's."""
        key = self._load_key()
        identity = self._identity() or self._create(key)
        if identity.get("version") != _VERSION:
            version = identity.get("version") or "(none)"
            raise unreadable(f"cannot read the run store: {self.blobs.shown}: unknown format {version}")
        if identity.get("key") != key.id:
            raise UsageError(
                "HF-STORE-3",
                f"the run store {self.blobs.shown} is encrypted with key {identity.get('key') or '(none)'}, "
                f"but the current key is {key.id}",
                hint="Set HOLDFAST_KEY to the store's key, or restore its key file from your backup.",
            )
        return key

    def id(self) -> str:
        """Written on first use; a bundle names it."""
        _ = self.key
        return str((self._identity() or {})["id"])

    @property
    def empty(self) -> bool:
        """Whether nothing was ever written."""
        return self._identity() is None

    def _identity(self) -> dict[str, object] | None:
        """Read once: it never changes."""
        if self._known_identity is None and (blob := self.blobs.read(IDENTITY)) is not None:
            document = json_object(blob.data)
            if "id" not in document:
                raise unreadable(f"cannot read the run store: {self.blobs.shown}: {IDENTITY} is not valid")
            self._known_identity = document
        return self._known_identity

    def _create(self, key: Key) -> dict[str, object]:
        """On first use. Refuses a blob store that does not honour conditional writes."""
        probe = getattr(self.blobs, "probe", None)
        if probe is not None:
            probe()
        document: dict[str, object] = {
            "version": _VERSION,
            "id": clock.new_id(),
            "created": clock.now().isoformat(),
            "key": key.id,
        }
        self.blobs.create(IDENTITY, to_json(document) + b"\n")
        return self._identity() or document

    # Used marks: a plan is applied at most once.

    def mark_used(self, digest: str, *, run: str, stack: str, who: str) -> bool:
        """Durable, before Terraform starts. False if the plan was already used."""
        mark: dict[str, object] = {"run": run, "stack": stack, "who": who, "at": clock.now().isoformat()}
        return self.encrypted.create(f"used/{digest}", to_json(mark))

    def used(self, digest: str) -> dict[str, object] | None:
        return self.encrypted.document(f"used/{digest}")

    # Where states are, and their last known version.

    def record(self, stack: str, record: StateRecord) -> None:
        self.encrypted.write(f"records/{encode_name(stack)}", to_json(asdict(record)))

    def last_seen(self, stack: str) -> StateRecord | None:
        document = self.encrypted.document(f"records/{encode_name(stack)}")
        return StateRecord(**document) if document is not None else None  # type: ignore[arg-type]

    def forget(self, stack: str) -> None:
        self.encrypted.remove(f"records/{encode_name(stack)}")

    # States that Terraform could not save, until they are pushed.

    def keep_errored(self, stack: str, state: bytes) -> None:
        """`errored` returns the newest; an older one is set aside, never overwritten."""
        name = f"errored/{encode_name(stack)}/unsaved"
        while not self.encrypted.create(name, state):
            older = self.encrypted.read(name)
            if older is None:
                continue
            self.encrypted.write(f"errored/{encode_name(stack)}/older-{clock.new_id()}", older.data)
            if self.encrypted.replace(name, state, tag=older.tag) is not None:
                return

    def errored_names(self, stack: str) -> tuple[str, ...]:
        """`unsaved` for the one that blocks the stack, `older-ID` and `pushed-ID` for those set aside."""
        return tuple(
            name.rpartition("/")[2] for name in self.encrypted.names(f"errored/{encode_name(stack)}")
        )

    def errored(self, stack: str, name: str = "unsaved") -> bytes | None:
        blob = self.encrypted.read(f"errored/{encode_name(stack)}/{name}")
        return blob.data if blob is not None else None

    def resolve_errored(self, stack: str, *, pushed: bool = True) -> None:
        """The copy stays, under a name that no longer blocks the stack."""
        name = f"errored/{encode_name(stack)}/unsaved"
        aside = f"{'pushed' if pushed else 'older'}-{clock.new_id()}"
        if (kept := self.encrypted.read(name)) is not None:
            self.encrypted.write(f"errored/{encode_name(stack)}/{aside}", kept.data)
            self.encrypted.remove(name, tag=kept.tag)
