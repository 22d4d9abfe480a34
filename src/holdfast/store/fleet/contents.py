"""What events and blueprints contain: blobs of the run stores, encrypted."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import field

from holdfast.kernel.values import MaskedStruct
from holdfast.store.blobs import EncryptedBlobs, StoredBlob
from holdfast.store.server_runs.contents import FOLDER


class EventContent(MaskedStruct, frozen=True, kw_only=True):
    """What a worker needs to run the event, and its client to read the result."""

    payload: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    """Those that the client gets."""
    requires_approval: bool = False
    deletes: bool = False
    """It is a deletion, which its blueprint allows: it overrides a denial of the guard. Where the blueprint
    asks for an approval, it needs that as well.
    """
    recreates: bool = True
    """Whether what vanished is created again; otherwise the event fails."""


def event_name(event: str) -> str:
    return f"{FOLDER}/events/{event}"


def blueprint_name(digest: str) -> str:
    """In the run store of the default tenant."""
    return f"{FOLDER}/blueprints/{digest}"


def read_event(blobs: EncryptedBlobs, event: str) -> EventContent | None:
    blob = blobs.read(event_name(event))
    return None if blob is None else event_content(blob)


def event_content(blob: StoredBlob) -> EventContent:
    return msgspec.json.decode(blob.data, type=EventContent)
