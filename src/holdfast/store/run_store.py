"""The run store: what must outlive a run. Its id, used marks, claims, journals, states, backups, leases.

Everything except its own id is encrypted and bound to that id. The store records the id of its key and
refuses any other key.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from holdfast.kernel.errors import Busy, UsageError
from holdfast.kernel.text import json_object
from holdfast.secrets.encryption import apply_key_needed
from holdfast.secrets.keys import Key
from holdfast.store.blob_cipher import BlobCipher
from holdfast.store.blobs import BlobStore, EncryptedBlobs, encode_name, to_json, unreadable
from holdfast.store.machines import Machines
from holdfast.store.place import describe
from holdfast.store.run_records import Claims, RunRecords
from holdfast.store.states import Backups, ManagedStates
from holdfast.store.steps import Step
from holdfast.system import clock

if TYPE_CHECKING:
    from holdfast.store.applied import AppliedRecords
    from holdfast.store.approval_rules import ApprovalRule
    from holdfast.store.approvals import Approvals
    from holdfast.store.changes import ChangeRecords
    from holdfast.store.drift import DriftRecords
    from holdfast.store.due_hooks import DueHooks
    from holdfast.store.kept_files import KeptFileStore
    from holdfast.store.leases import Leases
    from holdfast.store.pull_requests import RequestPlans
    from holdfast.store.stack_names import StackNames

IDENTITY = "store.json"
FORMAT = 3
_FOLDERS = ("states", "runs", "audit")
"""A store that was used has at least one of these."""


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
    run: str = ""
    """The apply that wrote this version; empty: another one, or something else."""
    product: str = ""
    """`terraform` or `tofu`: what the last apply ran; empty: not known."""
    repository: str = ""
    """What it was applied from: `github.com/org/name` or a first commit; empty: not known."""


class StoreIdentity(NamedTuple):
    """What `store.json` says: the id of the store, of its key, and of a key that is about to replace it."""

    document: dict[str, object]
    tag: str

    @property
    def id(self) -> str:
        return str(self.document["id"])

    @property
    def key(self) -> str:
        return str(self.document.get("key") or "(none)")

    @property
    def next_key(self) -> str | None:
        """During a rotation."""
        found = self.document.get("next_key")
        return str(found) if found else None

    @property
    def replacing(self) -> bool:
        """A rotation has begun to replace blobs."""
        return self.document.get("replacing") is True

    @property
    def retired(self) -> tuple[str, ...]:
        found = self.document.get("retired")
        return tuple(map(str, found)) if isinstance(found, list) else ()


def read_identity(blobs: BlobStore) -> StoreIdentity | None:
    """None: nothing was ever written."""
    blob = blobs.read(IDENTITY)
    if blob is None:
        return None
    document = json_object(blob.data)
    if "id" not in document:
        raise unreadable(f"cannot read the run store: {blobs.shown}: {IDENTITY} is not valid")
    if document.get("version") != FORMAT:
        version = document.get("version") or "(none)"
        raise unreadable(f"cannot read the run store: {blobs.shown}: unknown format {version}")
    return StoreIdentity(document, blob.tag)


def require_current(
    blobs: BlobStore, document: dict[str, object], key: str, older: Sequence[Key] = ()
) -> None:
    """The key must be the store's, and must not be about to be replaced; or it replaces an older one."""
    identity = StoreIdentity(document, "")
    if _replaced_key(identity, key, older) is not None:
        return
    if identity.next_key is not None:
        raise Busy(
            "HF-KEY-13",
            f"the run store {blobs.shown} is being encrypted with another key ({identity.next_key})",
            hint="Wait until `holdfast keys rotate` is finished; if it was interrupted, run it again.",
        )
    if key in identity.retired:
        raise UsageError(
            "HF-KEY-14",
            f"the key {key} was retired: the run store {blobs.shown} is encrypted with key {identity.key}",
            hint="Set HOLDFAST_KEY to the new key, and HOLDFAST_PLAN_KEY to its plan key.",
        )
    if identity.key != key:
        raise UsageError(
            "HF-STORE-3",
            f"the run store {blobs.shown} is encrypted with key {identity.key}, but the current key is {key}",
            hint="Set HOLDFAST_KEY to the store's key, or restore its key file from your backup.",
        )


def _replaced_key(identity: StoreIdentity, key: str, older: Sequence[Key]) -> Key | None:
    """The older key that this one is replacing."""
    if identity.next_key != key:
        return None
    return next((old for old in older if old.id == identity.key), None)


class RunStore:
    """On a blob store that it encrypts itself; `ServerRunStore` is the one on a server.

    Nothing is written before it is needed, nor before the key is known to be the right one.
    """

    on_server = False
    """Whether a server encrypts, verifies who acts, and writes approvals and the audit log."""
    fenced = False
    """A worker uses it, for a change that no other worker has: who had it before writes nothing more."""

    @property
    def approval_rules(self) -> tuple[ApprovalRule, ...]:
        """Of a server."""
        return ()

    def __init__(
        self,
        blobs: BlobStore,
        key: Callable[[], Key],
        *,
        spool: Path | None = None,
        older_keys: Sequence[Key] = (),
    ) -> None:
        """`older_keys`: a server reads with them what it did not encrypt again yet."""
        self.blobs = blobs
        self._older_keys = older_keys
        self.spool = spool
        """Where journals wait on this machine until they have arrived in a store that is elsewhere."""
        self._load_key = key
        self._known_identity: dict[str, object] | None = None
        self.encrypted = EncryptedBlobs(blobs, lambda: self.cipher)
        self.claims = Claims(self.encrypted)
        self.states = ManagedStates(self.encrypted)
        self.backups = Backups(self.encrypted)
        self.runs = RunRecords(self.encrypted)
        self.machines = Machines(self.encrypted)

    @functools.cached_property
    def approvals(self) -> Approvals:
        from holdfast.store.approvals import Approvals  # noqa: PLC0415 - only needed when the guard stops a plan

        return Approvals(self.encrypted)

    @functools.cached_property
    def applied(self) -> AppliedRecords:
        from holdfast.store.applied import AppliedRecords  # noqa: PLC0415 - the supervisor needs no msgspec

        return AppliedRecords(self.encrypted)

    @functools.cached_property
    def drift(self) -> DriftRecords:
        from holdfast.store.drift import DriftRecords  # noqa: PLC0415 - few commands need it

        return DriftRecords(self.encrypted)

    @functools.cached_property
    def changes(self) -> ChangeRecords:
        from holdfast.store.changes import ChangeRecords  # noqa: PLC0415 - the supervisor needs no msgspec

        return ChangeRecords(self.encrypted)

    @functools.cached_property
    def due_hooks(self) -> DueHooks:
        from holdfast.store.due_hooks import DueHooks  # noqa: PLC0415 - only needed for stacks with hooks

        return DueHooks(self.encrypted)

    @functools.cached_property
    def names(self) -> StackNames:
        from holdfast.store.stack_names import StackNames  # noqa: PLC0415 - only needed for new stacks

        return StackNames(self.encrypted)

    @functools.cached_property
    def kept_files(self) -> KeptFileStore:
        from holdfast.store.kept_files import KeptFileStore  # noqa: PLC0415 - the supervisor needs no msgspec

        return KeptFileStore(self.encrypted)

    @functools.cached_property
    def request_plans(self) -> RequestPlans:
        from holdfast.store.pull_requests import RequestPlans  # noqa: PLC0415 - only in CI and after an apply

        return RequestPlans(self.encrypted)

    @functools.cached_property
    def leases(self) -> Leases:
        from holdfast.store.leases import Leases  # noqa: PLC0415 - most commands take no lease

        return Leases(self.encrypted, life=self.machines.liveness)

    @functools.cached_property
    def key(self) -> Key:
        """The current key, after checking that it is the store's."""
        key = self._load_key()
        identity = self._identity() or self._create(key)
        require_current(self.blobs, identity, key.id, self._older_keys)
        return key

    def require_unchanged_key(self) -> None:
        """Read the store's identity again: its key may be replaced while this command runs."""
        identity = read_identity(self.blobs)
        if identity is not None:
            require_current(self.blobs, identity.document, self.key.id, self._older_keys)

    @functools.cached_property
    def cipher(self) -> BlobCipher:
        return self.cipher_with(self.key)

    def cipher_with(self, key: Key) -> BlobCipher:
        """Of the store's key, or of its part that signs nothing."""
        store, identity = self.id(), StoreIdentity(self._identity() or {}, "")
        return BlobCipher.of(store, key, older=_replaced_key(identity, key.id, self._older_keys))

    def on(self, blobs: BlobStore) -> RunStore:
        """The same store, through other access to its blobs, such as one transaction."""
        store = RunStore(blobs, lambda: self.key, older_keys=self._older_keys)
        store._known_identity, store.cipher = self._identity(), self.cipher
        return store

    @property
    def rotating(self) -> bool:
        """Its key is being replaced."""
        return bool((self._identity() or {}).get("next_key"))

    @property
    def can_apply(self) -> bool:
        """False with only the plan key: nothing that counts can be written."""
        return self.key.can_apply

    def require_apply_key(self, what: str) -> None:
        if not self.can_apply:
            raise apply_key_needed(what)

    def supervisor_access(
        self, *, read: tuple[str, ...], write: tuple[str, ...], run: str, stack: str
    ) -> dict[str, object]:
        """What the process that hosts Terraform may use of this store, for its `from_description`."""
        del run, stack
        return {"store": describe(self.blobs), "keys": self.cipher.grant(read=read, write=write)}

    def read_ahead(self, step: Step, stack: str = "") -> None:
        """A server is asked once for what this step reads."""
        del step, stack

    async def ask_ahead(self, step: Step, stack: str = "") -> None:
        """The same for a caller that does not let other stacks wait."""
        del step, stack

    async def ask_access(
        self, *, read: tuple[str, ...], write: tuple[str, ...], run: str, stack: str
    ) -> dict[str, object]:
        return self.supervisor_access(read=read, write=write, run=run, stack=stack)

    def when_waiting(self, tell: Callable[[str], None]) -> None:
        """`tell` hears that the server of the store does not answer."""
        del tell

    def take_over(self, stack: str, run: str, *, declared: str | None = None) -> None:
        """Before the claim of a run that is proved or `declared` dead is used or released.

        A server asks for it: there, claims belong to the verified person who took them.
        """
        del stack, run, declared

    @property
    def shows_output(self) -> bool:
        """Whether the caller may read what Terraform printed."""
        return True

    @property
    def is_ci(self) -> bool:
        """Whether the server verified that CI acts."""
        return False

    def server_actor(self) -> dict[str, object] | None:
        """Whom the server verified; None without one."""
        return None

    def id(self) -> str:
        """Written on first use; a bundle names it."""
        _ = self.key
        return str((self._identity() or {})["id"])

    @property
    def empty(self) -> bool:
        """Whether nothing was ever written."""
        return self._identity() is None

    def _identity(self) -> dict[str, object] | None:
        """Read once: a command works with one key."""
        if self._known_identity is None and (identity := read_identity(self.blobs)) is not None:
            self._known_identity = identity.document
        return self._known_identity

    def _create(self, key: Key) -> dict[str, object]:
        """On first use. Refuses a blob store that does not honour conditional writes.

        A store that lost its id gets no other one: nothing in it could be read with that.
        """
        if any(self.blobs.names(folder) for folder in _FOLDERS):
            if (created := self._identity()) is not None:
                return created
            raise unreadable(
                f"{IDENTITY} is missing in the run store {self.blobs.shown}, which is not empty",
                "Restore it from a backup: everything in the store is bound to the id in it.",
            )
        probe = getattr(self.blobs, "probe", None)
        if probe is not None:
            probe()
        document: dict[str, object] = {
            "version": FORMAT,
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
