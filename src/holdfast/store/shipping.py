"""Copies a growing journal from this machine to a remote store.

It is at most a second behind, and on `flush` a tenth of one. A store that does not answer delays nothing: the
rest is shipped when it answers again, and `finish` tells whether everything arrived. Once another run has the
stack, a server takes no more of it: then `finish` does not wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.kernel.errors import HoldfastError
from holdfast.store.blobs import LOST_LEASE, BlobStore
from holdfast.store.run_records import journal_name

_DELAY = 0.5
_PACE = 0.1
"""Between two pieces: what arrives meanwhile is shipped together."""
_RETRY_DELAY = 1.0


def ship_rest(blobs: BlobStore, run: str, written: bytes) -> None:
    """Ship what a dead process has not shipped. What has arrived is always a prefix."""
    names = [name for name in blobs.names(f"runs/{run}") if "/journal-" in name]
    pieces = [piece.data for name in names if (piece := blobs.read(name)) is not None]
    arrived = b"".join(pieces)
    if len(written) > len(arrived) and written.startswith(arrived):
        blobs.create(journal_name(run, len(pieces) + 1), written[len(arrived) :])


class Shipper:
    def __init__(
        self, blobs: BlobStore, run: str, *, on_failure: Callable[[str], None] | None = None
    ) -> None:
        self._blobs = blobs
        self._run = run
        self._on_failure = on_failure
        self._pending = b""
        self._piece = 1
        self._hurry = False
        self._closing = False
        self._fenced = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def append(self, data: bytes) -> None:
        with self._changed:
            self._pending += data
            self._changed.notify_all()

    def flush(self) -> None:
        with self._changed:
            self._hurry = True
            self._changed.notify_all()

    def wait_until_shipped(self, seconds: float) -> bool:
        """Whether everything so far has arrived within the time."""
        self.flush()
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending, timeout=seconds)

    def finish(self, seconds: float) -> bool:
        """Whether everything has arrived. The rest stays in the file on this machine."""
        with self._changed:
            self._closing = self._hurry = True
            self._changed.notify_all()
        self._thread.join(seconds)
        return not self._thread.is_alive() and not self._pending

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._pending and not self._closing:
                    self._changed.wait()
                if not self._pending:
                    return
                self._changed.wait_for(lambda: self._hurry, timeout=_DELAY)
                if self._piece > 1:
                    self._changed.wait_for(lambda: self._closing, timeout=_PACE)
                data, self._hurry = self._pending, self._closing
            # A write that seemed to fail may have succeeded, so the piece must not change.
            while not self._ship(data):
                with self._changed:
                    if self._fenced and self._closing:
                        return
                    self._changed.wait(timeout=_RETRY_DELAY)
            with self._changed:
                self._pending = self._pending[len(data) :]
                self._piece += 1
                self._changed.notify_all()

    def _ship(self, data: bytes) -> bool:
        name = journal_name(self._run, self._piece)
        try:
            if not self._blobs.create(name, data):
                existing = self._blobs.read(name)
                return existing is not None and existing.data == data
        except Exception as error:  # noqa: BLE001 - the journal on this machine is safe in any case
            self._fenced = isinstance(error, HoldfastError) and error.problem.code == LOST_LEASE
            if self._on_failure is not None:
                self._on_failure(str(error))
            return False
        return True
