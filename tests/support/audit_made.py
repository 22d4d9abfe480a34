"""A run store in memory or on a given blob store, somebody who acts, and lines for its record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memory_blobs import MemoryBlobs

from holdfast.audit.actor import PERSON, Actor
from holdfast.audit.entry import Entry, What
from holdfast.audit.log import Audit
from holdfast.secrets.keys import Key
from holdfast.secrets.redact import Redactor
from holdfast.store.blobs import BlobStore
from holdfast.store.run_store import RunStore

KEY = Key.of(b"a key of the tests, 32 bytes it is"[:32])
ADA = Actor(kind=PERSON, name="ada", host="laptop", verified=False, because="nothing proves it", claims={})


def store_on(blobs: BlobStore | None = None) -> RunStore:
    return RunStore(blobs if blobs is not None else MemoryBlobs(), lambda: KEY)


def audit_on(store: RunStore, *, who: Actor = ADA, secrets: Iterable[str] = ()) -> Audit:
    return Audit(store, who, redactor=Redactor(secrets), change="01CHANGE")


def applied(stack: str = "net", *, outcome: str = "applied", **fields: Any) -> Entry:
    return Entry(what="apply", stack=stack, outcome=outcome, **fields)


def act(what: What, stack: str = "net", *, reason: str = "the runner is gone", **fields: Any) -> Entry:
    return Entry(what=what, stack=stack, reason=reason, outcome="done", **fields)
