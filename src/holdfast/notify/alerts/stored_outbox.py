"""The outbox in a run store: one encrypted blob, changed by comparing and swapping.

It survives the process, and everyone with the store continues it: the next command, or another server.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from holdfast.kernel.errors import Busy, UnknownOutcome
from holdfast.notify.alerts.outbox import Outbox
from holdfast.store.blobs import UNREADABLE, EncryptedBlobs, encode_name
from holdfast.system import clock

FOLDER: Final = "notify"
_ATTEMPTS: Final = 50
_DECODER: Final = msgspec.json.Decoder(Outbox)
T = TypeVar("T")


def outbox_name(repository: str) -> str:
    """Repositories that share a store have their own: a name of a channel means something only in one."""
    return f"{FOLDER}/{encode_name(repository) or 'outbox'}"


class StoredOutbox:
    def __init__(self, blobs: EncryptedBlobs, name: str) -> None:
        self._blobs, self._name = blobs, name

    def read(self) -> Outbox:
        blob = self._blobs.read(self._name)
        return Outbox() if blob is None else self._decode(blob.data)

    def change(self, step: Callable[[Outbox], tuple[Outbox, T]]) -> T:
        """`step` may be called several times: what it does to anything else must not matter."""
        for attempt in range(_ATTEMPTS):
            blob = self._blobs.read(self._name)
            before = Outbox() if blob is None else self._decode(blob.data)
            after, answer = step(before)
            if after == before or self._write(after, None if blob is None else blob.tag):
                return answer
            clock.pause(min(0.5, 0.01 * 2**attempt) * clock.chance())
        raise Busy(
            "HF-NOTIFY-1",
            "cannot write the outbox of notifications: it keeps changing",
            hint="Many commands write at the same time. The next one sends what is left.",
        )

    def _write(self, outbox: Outbox, tag: str | None) -> bool:
        data = msgspec.json.encode(outbox)
        if tag is None:
            return self._blobs.create(self._name, data)
        return self._blobs.replace(self._name, data, tag=tag) is not None

    def _decode(self, data: bytes) -> Outbox:
        with contextlib.suppress(msgspec.MsgspecError):
            return _DECODER.decode(data)
        raise UnknownOutcome(
            UNREADABLE,
            f"cannot read the outbox of notifications: another version of Holdfast wrote {self._name}",
            hint="Use that version, or the newest one.",
        )
