"""Replace the key of a run store while nothing runs, and record that in the audit log."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from holdfast.audit.entry import Entry
from holdfast.kernel.errors import Busy, UsageError
from holdfast.secrets.key_rotation import RotationKeys
from holdfast.secrets.keys import Key
from holdfast.store import rotation
from holdfast.store.blob_cipher import BlobCipher
from holdfast.store.blobs import BlobStore, EncryptedBlobs, decode_name
from holdfast.store.leases import Leases
from holdfast.store.run_store import RunStore, StoreIdentity, read_identity
from holdfast.system.process_table import Liveness

_LANES = "leases/lanes"


class RotationResult(Struct, frozen=True, kw_only=True):
    replaced: int
    unreadable: tuple[str, ...]
    resumed: bool
    """An earlier rotation to this key was interrupted or is finished already."""


def rotate_key(
    blobs: BlobStore,
    keys: RotationKeys,
    record: Callable[[RunStore, Entry], None],
) -> RotationResult:
    """Everything in the store has the new key when this returns. May be repeated after any interruption."""
    identity = read_identity(blobs)
    old, new = keys.old, keys.new
    if identity is None:
        return RotationResult(replaced=0, unreadable=(), resumed=False)
    require_new_key(f"the run store {blobs.shown}", identity, keys)
    finished = identity.key == new.id
    resumed = finished or identity.next_key is not None
    details: dict[str, str | int | None] = {"old": old.id, "new": new.id}
    if not finished:
        if identity.next_key is None:
            record(RunStore(blobs, lambda: old), Entry(what="rotate", outcome="begun", details=details))
            identity = rotation.announce(blobs, identity, new.id)
        if not identity.replacing:
            _require_idle(blobs, identity, old)
            identity = rotation.begin(blobs, identity)
    rotated = rotation.replace_all(blobs, identity.id, old, new, retired=finished)
    if not finished:
        rotation.finish(blobs, identity, old.id, new.id)
    details = {**details, "blobs": rotated.replaced, "unreadable": len(rotated.unreadable)}
    record(RunStore(blobs, lambda: new), Entry(what="rotate", outcome="done", details=details))
    return RotationResult(replaced=rotated.replaced, unreadable=rotated.unreadable, resumed=resumed)


def require_new_key(shown: str, identity: StoreIdentity, keys: RotationKeys) -> None:
    """The store has the old key, or the new one already; a retired key is never used again."""
    if keys.new.id in identity.retired:
        raise UsageError(
            "HF-KEY-14",
            f"the key {keys.new.id} was retired: it may be known to others",
            hint="Create another: openssl rand -base64 32",
        )
    if identity.next_key not in {None, keys.new.id}:
        raise UsageError(
            "HF-KEY-15",
            f"{shown} is being encrypted with key {identity.next_key}, not {keys.new.id}",
            hint="Finish that rotation first, with the same two keys.",
        )
    if identity.key not in {keys.old.id, keys.new.id}:
        raise UsageError(
            "HF-STORE-3",
            f"{shown} is encrypted with key {identity.key}, but the current key is {keys.old.id}",
            hint="Set HOLDFAST_KEY to the store's key, or restore its key file from your backup.",
        )


def _require_idle(blobs: BlobStore, identity: StoreIdentity, old: Key) -> None:
    """After the announcement: what starts later sees it, what started before is seen here."""
    cipher = BlobCipher.of(identity.id, old)
    leases = Leases(EncryptedBlobs(blobs, lambda: cipher))
    active = [f"stack {decode_name(name.partition('/')[2])}" for name in blobs.names("claims")]
    for name in blobs.names(_LANES):
        held = leases.look(name.partition("/")[2])
        if held is not None and held.life is not Liveness.DEAD:
            active.append(f"lane {decode_name(name.rpartition('/')[2])}")
    if active:
        rotation.withdraw(blobs, identity)
        raise Busy(
            "HF-KEY-16",
            f"the key of the run store {blobs.shown} cannot be replaced while these are in use: "
            f"{', '.join(active)}",
            hint="Wait until the runs are finished. Resolve an interrupted one: holdfast runs reconcile RUN",
        )
