"""Changes in the run store: which stacks each was to apply, how, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

from holdfast.kernel.values import MaskedStruct
from holdfast.store.blobs import EncryptedBlobs, encode_name, unreadable
from holdfast.terraform.argv import PlanOptions

_FORMAT = 1
REJECTED = "rejected"
"""Instead of `refused`, for a stack whose plan a person rejected."""
_DONE = frozenset({"applied", "unchanged", "removed", REJECTED})


class ChangedStack(MaskedStruct, frozen=True, kw_only=True):
    status: str | None = None
    """None: it has no result yet."""
    options: PlanOptions = PlanOptions()
    digest: str | None = None
    """Of its plan in the bundle, if one was applied: a person may have rejected it."""


class ChangeRecord(MaskedStruct, frozen=True, kw_only=True):
    id: str
    who: str
    at: str
    stacks: Mapping[str, ChangedStack] = field(default_factory=dict)
    bundle: str | None = None
    """The folder that was applied, if one was."""
    base: bytes | None = None
    """The rules of the base that its plans are judged by too."""

    @property
    def left(self) -> tuple[str, ...]:
        """Stacks that are not applied yet."""
        return tuple(name for name, stack in self.stacks.items() if stack.status not in _DONE)


class _Stored(Struct, frozen=True, kw_only=True):
    version: int
    change: ChangeRecord


class ChangeRecords:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def ids(self) -> tuple[str, ...]:
        """Newest first."""
        return tuple(sorted((name.split("/")[1] for name in self._encrypted.names("changes")), reverse=True))

    def write(self, record: ChangeRecord, *, durable: bool = True) -> None:
        stored = msgspec.json.encode(_Stored(version=_FORMAT, change=record))
        self._encrypted.write(_name(record.id), stored, durable=durable)

    def read(self, change: str) -> ChangeRecord | None:
        blob = self._encrypted.read(_name(change))
        if blob is None:
            return None
        try:
            stored = msgspec.json.decode(blob.data, type=_Stored)
            if stored.version == _FORMAT:
                return stored.change
        except msgspec.ValidationError:
            pass
        raise unreadable(
            f"{_name(change)} in the run store is not a valid record of a change",
            "A newer version of Holdfast may have written it. Upgrade Holdfast, or plan and apply again.",
        )

    def remove(self, change: str) -> None:
        self._encrypted.remove(_name(change))


def _name(change: str) -> str:
    return f"changes/{encode_name(change)}"
