"""What is known of the drift of each stack: findings, checks and alerts, encrypted in the run store.

A plan job writes them, so they count without a signature and only inform: what heals drift plans again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import Busy
from holdfast.kernel.values import MaskedStruct
from holdfast.store.blob_cipher import DRIFT
from holdfast.store.blobs import decode_name, encode_name

if TYPE_CHECKING:
    from holdfast.store.blobs import EncryptedBlobs

_TRIES: Final = 20


class FindingState(StrEnum):
    OPENED = "opened"
    STILL_THERE = "still_there"
    CHANGED = "changed"
    ACKNOWLEDGED = "acknowledged"
    HEALED = "healed"
    GONE = "gone"
    REOPENED = "reopened"

    @property
    def ended(self) -> bool:
        return self in {FindingState.HEALED, FindingState.GONE}


class Acknowledgement(Struct, frozen=True, kw_only=True):
    by: str
    at: datetime
    reason: str
    until: datetime | None = None


class Author(Struct, frozen=True, kw_only=True):
    """Who changed a resource, by the audit trail of the cloud."""

    who: str
    at: datetime
    event: str
    source: str
    """Where this is known from, such as `CloudTrail`."""


class Finding(MaskedStruct, frozen=True, kw_only=True):
    """One attribute of one resource that is not as the state says, from its first to its last sight."""

    id: str
    address: str
    type: str = ""
    attribute: str | None
    """A path; None: the whole resource, which no longer exists."""
    before: Any
    """In the state. Without sensitive values, as `after`."""
    after: Any
    """In reality."""
    sensitive: bool = False
    first_seen: datetime
    last_seen: datetime
    state: FindingState
    since: datetime
    """Of the state."""
    fingerprint: str
    """A salted digest of the values: whether they change can be told without them."""
    acknowledged: Acknowledgement | None = None
    healings: tuple[datetime, ...] = ()
    """When it was undone, since it last stayed away."""
    author: Author | None = None
    opened: int = 1
    """How often it was opened."""

    @property
    def key(self) -> tuple[str, str | None]:
        return self.address, self.attribute

    @property
    def active(self) -> bool:
        """It is there, and no person has acknowledged it."""
        return not self.state.ended and self.state is not FindingState.ACKNOWLEDGED


class StackStatus(StrEnum):
    IN_SYNC = "in_sync"
    DRIFTED = "drifted"
    UNAPPLIED = "unapplied"
    NOT_CHECKED = "not_checked"


class Period(Struct, frozen=True, kw_only=True):
    """How long a stack had one status."""

    status: StackStatus
    since: datetime
    until: datetime | None = None


class StackDrift(MaskedStruct, frozen=True, kw_only=True):
    """What is known of one stack."""

    stack: str
    environment: str = ""
    salt: str
    status: StackStatus = StackStatus.NOT_CHECKED
    unapplied: bool = False
    checked: datetime | None = None
    """When it was last compared."""
    tried: datetime | None = None
    findings: tuple[Finding, ...] = ()
    periods: tuple[Period, ...] = ()
    """The newest last."""
    details: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the last check said beside findings, masked: why it could not look, what is ignored."""
    healing: tuple[str, ...] = ()
    """The rules by which the last check would undo the findings; empty: it would not."""
    alerted: str | None = None
    """A digest of the open alert; None: none is open."""
    alert_since: datetime | None = None

    @property
    def active(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.active)

    @property
    def open(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.state.ended)


class StoredDrift(MaskedStruct, frozen=True, kw_only=True):
    drift: StackDrift | None
    tag: str | None
    """None: there is no record."""


class DriftRecords:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def of(self, stack: str) -> StackDrift | None:
        return self.read(stack).drift

    def read(self, stack: str) -> StoredDrift:
        blob = self._encrypted.read(drift_name(stack))
        if blob is None:
            return StoredDrift(drift=None, tag=None)
        return StoredDrift(drift=_decoder().decode(blob.data), tag=blob.tag)

    def stacks(self) -> tuple[str, ...]:
        return tuple(sorted(decode_name(name.rpartition("/")[2]) for name in self._encrypted.names(DRIFT)))

    def update(
        self, stack: str, change: Callable[[StackDrift | None], StackDrift], stored: StoredDrift | None = None
    ) -> StackDrift:
        """Read, change and write, until no other writer came between. `change` has no effects.

        `stored` is what the caller has read.
        """
        name = drift_name(stack)
        for _ in range(_TRIES):
            before = stored or self.read(stack)
            stored = None
            after = change(before.drift)
            if after == before.drift:
                return after
            data = msgspec.json.encode(after)
            if not after.findings and before.drift is not None and not before.drift.findings:
                # Only that it was looked at again: nothing that another writer could lose.
                self._encrypted.write(name, data, durable=False)
                return after
            if before.tag is None:
                written = self._encrypted.create(name, data)
            else:
                written = self._encrypted.replace(name, data, tag=before.tag) is not None
            if written:
                return after
        raise Busy(
            "HF-DRIFT-1",
            f"the findings of {stack} are being written by others all the time",
            hint="Try again.",
        )


def drift_name(stack: str) -> str:
    return f"{DRIFT}/{encode_name(stack)}"


@functools.cache
def _decoder() -> msgspec.json.Decoder[StackDrift]:
    return msgspec.json.Decoder(StackDrift)
