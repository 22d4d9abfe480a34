"""Which machines use a run store: what that proves about a process recorded in it.

A different boot id proves that a machine was restarted only if no other machine can have recorded it: in a
folder on a local disk that one machine id uses. A clone of the machine has the same id, but can reach that
folder only through a network, which is recorded. A store in S3 proves nothing.
"""

from __future__ import annotations

import functools
import hashlib

from holdfast.store.blobs import EncryptedBlobs
from holdfast.store.place import FolderBlobs
from holdfast.system import mounts, process_table
from holdfast.system.process_table import Liveness, ProcessId

_FOLDER = "machines"
_SHARED = f"{_FOLDER}/shared"
"""Used through something other than a local disk, or by a machine without an id."""


class Machines:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted
        self._recorded = False

    def liveness(self, process: ProcessId) -> Liveness:
        return process_table.liveness(process, one_machine=self._is_only_this)

    def record(self) -> None:
        """Before this process writes itself into the store as the holder of something."""
        blobs = self._encrypted.blobs
        if self._recorded or not isinstance(blobs, FolderBlobs):
            return
        if not blobs.path(self._name).exists():
            self._encrypted.create(self._name, b"")
        self._recorded = True

    def _is_only_this(self) -> bool:
        return self._name != _SHARED and self._encrypted.names(_FOLDER) == (self._name,)

    @functools.cached_property
    def _name(self) -> str:
        blobs, machine = self._encrypted.blobs, process_table.this_process().machine
        if not machine or not isinstance(blobs, FolderBlobs) or not mounts.is_local_disk(blobs.folder):
            return _SHARED
        return f"{_FOLDER}/{hashlib.sha256(machine.encode()).hexdigest()[:16]}"
