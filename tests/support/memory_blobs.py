"""A blob store in memory, with the same promises: for tests of what stands on a blob store."""

from __future__ import annotations

import hashlib
import threading

from holdfast.store.blobs import StoredBlob


class MemoryBlobs:
    def __init__(self) -> None:
        self.shown = "memory"
        self._held: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def read(self, name: str) -> StoredBlob | None:
        with self._lock:
            return self._item(name)

    def create(self, name: str, data: bytes) -> bool:
        with self._lock:
            if name in self._held:
                return False
            self._held[name] = data
            return True

    def replace(self, name: str, data: bytes, *, tag: str) -> str | None:
        with self._lock:
            now = self._item(name)
            if now is None or now.tag != tag:
                return None
            self._held[name] = data
            return _tag(data)

    def write(self, name: str, data: bytes, *, durable: bool = True) -> None:
        del durable
        with self._lock:
            self._held[name] = data

    def remove(self, name: str, *, tag: str | None = None) -> bool:
        with self._lock:
            now = self._item(name)
            if now is None or (tag is not None and now.tag != tag):
                return False
            del self._held[name]
            return True

    def names(self, folder: str) -> tuple[str, ...]:
        with self._lock:
            start = f"{folder}/" if folder else ""
            return tuple(sorted(name for name in self._held if name.startswith(start)))

    def _item(self, name: str) -> StoredBlob | None:
        data = self._held.get(name)
        return StoredBlob(data=data, tag=_tag(data)) if data is not None else None


def _tag(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
