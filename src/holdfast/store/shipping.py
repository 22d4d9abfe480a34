"""A journal that is written on this machine and must be known elsewhere: shipped as it grows.

At most a second behind, at once when it is urged. A store that does not answer holds nothing up: what waits
is shipped when it answers again, and the end says whether everything arrived.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.store.blobs import BlobStore
from holdfast.store.run_records import journal_name

_BEHIND = 0.5
_AFTER_A_FAILURE = 1.0


def catch_up(blobs: BlobStore, run: str, written: bytes) -> None:
    """Ship what a process wrote that is gone by now. What arrived of it is always the beginning."""
    names = [name for name in blobs.names(f"runs/{run}") if "/journal-" in name]
    pieces = [piece.data for name in names if (piece := blobs.read(name)) is not None]
    there = b"".join(pieces)
    if len(written) > len(there) and written.startswith(there):
        blobs.create(journal_name(run, len(pieces) + 1), written[len(there) :])


class Shipper:
    def __init__(self, blobs: BlobStore, run: str, *, failed: Callable[[str], None] | None = None) -> None:
        self._blobs = blobs
        self._run = run
        self._failed = failed
        self._waiting = b""
        self._piece = 1
        self._urged = False
        self._over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def grown(self, data: bytes) -> None:
        with self._changed:
            self._waiting += data
            self._changed.notify_all()

    def urge(self) -> None:
        with self._changed:
            self._urged = True
            self._changed.notify_all()

    def arrived(self, seconds: float) -> bool:
        """Whether all that was said so far has arrived; waits for it."""
        with self._changed:
            self._urged = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._waiting, timeout=seconds)

    def finish(self, seconds: float) -> bool:
        """Whether everything has arrived. What has not stays in the file on this machine."""
        with self._changed:
            self._over = self._urged = True
            self._changed.notify_all()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._over:
                    self._changed.wait()
                if not self._waiting:
                    return
                self._changed.wait_for(lambda: self._urged, timeout=_BEHIND)
                data, self._urged = self._waiting, self._over
            # A try that seemed to fail may have been done: until it succeeds, the piece stays as it is.
            while not self._shipped(data):
                with self._changed:
                    self._changed.wait(timeout=_AFTER_A_FAILURE)
            with self._changed:
                self._waiting = self._waiting[len(data) :]
                self._piece += 1
                self._changed.notify_all()

    def _shipped(self, data: bytes) -> bool:
        name = journal_name(self._run, self._piece)
        try:
            if not self._blobs.create(name, data):
                there = self._blobs.read(name)
                return there is not None and there.data == data
        except Exception as error:  # noqa: BLE001 - whatever it is, the journal on this machine is not lost by it
            if self._failed is not None:
                self._failed(str(error))
            return False
        return True
