"""What the supervising process does beside Terraform: it keeps the run's journal and opens the state door.

Part of a process that starts often: what is imported here is imported beside the first command.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import threading
from pathlib import Path
from typing import Any

from holdfast.kernel.errors import HoldfastError
from holdfast.secrets.keys import Key
from holdfast.store.blobs import BlobStore
from holdfast.store.claims import Claims
from holdfast.store.encrypted_blobs import EncryptedBlobs
from holdfast.store.folder_blobs import FolderBlobs
from holdfast.store.journal import ENDED, LINES, STARTED, JournalWriter
from holdfast.store.output_buffer import buffer_path, remove_buffer, require_space
from holdfast.store.place import from_description
from holdfast.store.run_records import PULSE, RunRecords, journal_name
from holdfast.store.shipping import Shipper
from holdfast.store.snapshots import StateSnapshot
from holdfast.store.states import ManagedStates
from holdfast.system import clock, environment, files, process_table
from holdfast.terraform.argv import UNSAVED_FILE
from holdfast.terraform.backend.server import Refusal, StateServer
from holdfast.terraform.engine.worker import NOT_STARTED, CommandObserver

_ARRIVE_SECONDS = 60.0
_PULSE_SECONDS = 10.0


class SupervisorServices:
    """One process's blob store, key and door; a command says which run and which state they stand for."""

    def __init__(self, listening: int) -> None:
        self._door: StateServer | None = None
        if listening >= 0:
            born = environment.read().variables
            self._door = StateServer(
                socket.socket(fileno=listening),
                user=born["TF_HTTP_USERNAME"],
                password=born["TF_HTTP_PASSWORD"],
            )
            self._door.open()
        self._opened: tuple[str, BlobStore, Key] | None = None

    def attention(self, message: dict[str, Any]) -> CommandObserver:
        blobs, key = self._store(message["store"])
        encrypted = EncryptedBlobs(blobs, lambda: key)
        journal = None
        if "journal" in message:
            journal = JournalRecorder(blobs, key, message["journal"], Path(message["folder"]))
        keeper = None
        if "door" in message and self._door is not None:
            keeper = StateKeeper(encrypted, **message["door"])
        return RunObserver(journal, self._door, keeper)

    def _store(self, described: dict[str, Any]) -> tuple[BlobStore, Key]:
        text = json.dumps(described, sort_keys=True)
        if self._opened is None or self._opened[0] != text:
            key = Key.of(base64.b64decode(described["key"]))
            self._opened = (text, from_description(described["place"]), key)
        return self._opened[1], self._opened[2]


class RunObserver(CommandObserver):
    def __init__(
        self, journal: JournalRecorder | None, door: StateServer | None, keeper: StateKeeper | None
    ) -> None:
        self._journal = journal
        self._door = door
        self._keeper = keeper

    def begin(self) -> str | None:
        refused = self._journal.begin() if self._journal is not None else None
        if self._door is not None:
            self._door.serve_state(self._keeper if refused is None else None)
        return refused

    def buffer(self) -> str | None:
        return self._journal.spill if self._journal is not None else None

    def record(self, chunk: bytes) -> bool:
        return self._journal.record(chunk) if self._journal is not None else True

    def end(self, code: int) -> dict[str, object]:
        told: dict[str, object] = {}
        if self._door is not None:
            self._door.serve_state(None)
            told["refusals"] = list(self._door.refusals)
            self._door.refusals.clear()
        if self._journal is not None:
            told.update(self._journal.end(code))
        return told


class JournalRecorder:
    """The journal of one run. When it cannot be written, Terraform is asked to stop, once and gracefully."""

    def __init__(self, blobs: BlobStore, key: Key, wanted: dict[str, str], folder: Path) -> None:
        self._blobs = blobs
        self._key = key
        self._run = wanted["run"]
        self._spool = wanted.get("spool")
        self._folder = folder
        self._writer: JournalWriter | None = None
        self._shipper: Shipper | None = None
        self._pulse: Heartbeat | None = None
        self._failure: str | None = None
        self.spill = buffer_path(self._run)
        """Where Terraform writes to; None where this machine has no room for it in memory: then a pipe."""

    def begin(self) -> str | None:
        try:
            on_write = None
            if isinstance(self._blobs, FolderBlobs):
                path = self._blobs.path(journal_name(self._run))
            else:
                path = self._spooled()
                self._shipper = Shipper(self._blobs, self._run)
                on_write = self._shipper.append
            files.private_folder(path.parent)
            self._writer = JournalWriter(str(path), self._key, self._run, on_write=on_write)
            process = process_table.this_process().document()
            self._append(STARTED, {"process": process, "at": _now(), "spill": self.spill})
        except (OSError, HoldfastError) as error:
            return self._not_begun(f"the journal cannot be written: {error}")
        if self._shipper is not None:
            # Whoever finds no word of a start believes that there was none.
            if not self._shipper.wait_until_shipped(_ARRIVE_SECONDS):
                return self._not_begun("the journal cannot be written: the run store does not answer")
            self._pulse = Heartbeat(EncryptedBlobs(self._blobs, lambda: self._key), self._run)
        return None

    def _not_begun(self, why: str) -> str:
        """Said in the journal too, as far as it can be: a run that never began must not look unknown."""
        if self._writer is not None:
            with contextlib.suppress(OSError):
                self._append(ENDED, {"code": NOT_STARTED, "at": _now(), "unsaved": False})
            self._writer.close()
            self._writer = None
        if self._shipper is not None:
            self._shipper.finish(0.0)
        return why

    def record(self, chunk: bytes) -> bool:
        if self._writer is None or self._failure is not None:
            return True
        try:
            if self.spill is not None:
                require_space(self.spill)
            self._writer.append(LINES, chunk.rstrip(b"\n"))
        except OSError as error:
            self._failure = f"the journal cannot be written any more: {error}"
            return False
        if self._shipper is not None and b'"apply_complete"' in chunk:
            self._shipper.flush()
        return True

    def end(self, code: int) -> dict[str, object]:
        """The exit record. That Terraform left a state it could not save is part of it."""
        told: dict[str, object] = {}
        unsaved = (self._folder / UNSAVED_FILE).exists()
        if self._writer is not None and self._failure is None:
            try:
                self._append(ENDED, {"code": code, "at": _now(), "unsaved": unsaved})
            except OSError as error:
                self._failure = f"the end could not be written into the journal: {error}"
        if self._writer is not None:
            self._writer.close()
        if self._failure is not None:
            told["journal_failed"] = self._failure
        elif self.spill is not None:
            remove_buffer(self.spill)
        if self._pulse is not None:
            self._pulse.stop()
        if self._shipper is not None:
            if self._shipper.finish(_ARRIVE_SECONDS):
                self._forget_spooled()
            else:
                told["unshipped"] = True
        return told

    def _forget_spooled(self) -> None:
        """All of it has arrived."""
        path = self._spooled()
        with contextlib.suppress(OSError):
            path.unlink()
            path.parent.rmdir()

    def _spooled(self) -> Path:
        return Path(str(self._spool)) / journal_name(self._run)

    def _append(self, kind: bytes, document: dict[str, object]) -> None:
        if self._writer is not None:
            self._writer.append(kind, json.dumps(document).encode())


class Heartbeat:
    """Tells the store, while Terraform runs, that somebody is at work. That it cannot tell harms nothing."""

    def __init__(self, encrypted: EncryptedBlobs, run: str) -> None:
        self._records = RunRecords(encrypted)
        self._run = run
        self._over = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _beat(self) -> None:
        while True:
            with contextlib.suppress(HoldfastError, OSError):
                self._records.write(self._run, PULSE, _now().encode())
            if self._over.wait(_PULSE_SECONDS):
                return


class StateKeeper:
    """The kept state of one stack, for the length of one command of one run."""

    def __init__(
        self, encrypted: EncryptedBlobs, *, stack: str, run: str, who: str, why: str, write: bool
    ) -> None:
        self._states = ManagedStates(encrypted)
        self._claims = Claims(encrypted)
        self._stack = stack
        self._run = run
        self._who = who
        self._why = why
        self._write = write
        self._number = 0

    def read(self) -> bytes | None:
        version = self._states.current(self._stack)
        self._number = version.number if version is not None else 0
        return version.state if version is not None else None

    def write(self, state: bytes) -> None:
        if not self._write:
            raise Refusal(403, f"this command may not write the state of {self._stack}")
        claim = self._claims.of(self._stack)
        if claim is None or claim.run != self._run:
            raise Refusal(409, f"the stack {self._stack} belongs to another run by now")
        from holdfast.terraform.statefile.model import State, read_state  # noqa: PLC0415 - only an apply writes

        found = read_state(state)
        if not isinstance(found, State):
            raise Refusal(400, "this is not a state")
        new = StateSnapshot.of(state, found, run=self._run, who=self._who, why=self._why)
        version = self._states.add(self._stack, new, after=self._number)
        if version is None:
            raise Refusal(409, f"somebody else wrote the state of {self._stack}")
        self._number = version.number

    def lock(self, info: bytes) -> bytes | None:
        """The stack was claimed by this run before Terraform started: nobody else can be here."""
        del info
        return None

    def unlock(self, info: bytes) -> None:
        del info


def _now() -> str:
    return clock.now().isoformat()
