"""What the supervisor does beside Terraform: write the run's journal and heartbeat, serve the managed state.

The process starts often, so this module loads no msgspec and is imported while the first command runs.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path
from typing import Any

from holdfast.kernel.errors import HoldfastError
from holdfast.store.blob_cipher import BlobCipher
from holdfast.store.blobs import BlobStore, EncryptedBlobs
from holdfast.store.journal import ENDED, LINES, STARTED, JournalWriter
from holdfast.store.output_buffer import buffer_path, remove_buffer, require_space
from holdfast.store.place import FolderBlobs, from_description, is_on_server
from holdfast.store.run_records import HEARTBEAT, Claims, RunRecords, journal_name
from holdfast.store.shipping import Shipper
from holdfast.store.states import ManagedStates, StateSnapshot
from holdfast.system import clock, environment, files, process_table
from holdfast.terraform.argv import UNSAVED_FILE
from holdfast.terraform.backend.rules import StateHeader
from holdfast.terraform.backend.server import Refusal, StateServer
from holdfast.terraform.engine.worker import NOT_STARTED, CommandObserver

_SHIP_SECONDS = 60.0
_HEARTBEAT_SECONDS = 10.0


class SupervisorServices:
    """Blob store and local state backend of one process; each command has its run, its state and the keys."""

    def __init__(self, state_socket: int) -> None:
        self._state_server: StateServer | None = None
        if state_socket >= 0:
            variables = environment.read().variables
            self._state_server = StateServer(
                socket.socket(fileno=state_socket),
                user=variables["TF_HTTP_USERNAME"],
                password=variables["TF_HTTP_PASSWORD"],
            )
            self._state_server.open()
        self._opened: tuple[str, BlobStore] | None = None

    def observe(self, message: dict[str, Any]) -> CommandObserver:
        blobs, cipher = self._store(message["store"]), _cipher(message["keys"])
        encrypted = EncryptedBlobs(blobs, lambda: cipher)
        journal = None
        if "journal" in message:
            journal = JournalRecorder(encrypted, message["journal"], Path(message["folder"]))
        state = None
        if "state" in message and self._state_server is not None:
            state = ManagedStateBackend(encrypted, **message["state"])
        return RunObserver(journal, self._state_server, state)

    def _store(self, described: dict[str, Any]) -> BlobStore:
        text = json.dumps(described, sort_keys=True)
        if self._opened is None or self._opened[0] != text:
            self._opened = (text, from_description(described))
        return self._opened[1]


class RunObserver(CommandObserver):
    def __init__(
        self,
        journal: JournalRecorder | None,
        state_server: StateServer | None,
        state: ManagedStateBackend | None,
    ) -> None:
        self._journal = journal
        self._state_server = state_server
        self._state = state

    def begin(self) -> str | None:
        refused = self._journal.begin() if self._journal is not None else None
        if self._state_server is not None:
            self._state_server.serve_state(self._state if refused is None else None)
        return refused

    def buffer(self) -> str | None:
        return self._journal.output_buffer if self._journal is not None else None

    def record(self, chunk: bytes) -> bool:
        return self._journal.record(chunk) if self._journal is not None else True

    def end(self, code: int, *, forced: bool = False) -> dict[str, object]:
        report: dict[str, object] = {}
        if self._state_server is not None:
            self._state_server.serve_state(None)
            report["refusals"] = list(self._state_server.refusals)
            self._state_server.refusals.clear()
        if self._journal is not None:
            report.update(self._journal.end(code, forced=forced))
        return report


class JournalRecorder:
    """The journal of one run. When it cannot be written, Terraform is asked to stop, once and gracefully."""

    def __init__(self, encrypted: EncryptedBlobs, request: dict[str, str], folder: Path) -> None:
        self._encrypted = encrypted
        self._blobs = encrypted.blobs
        self._run = request["run"]
        self._spool = request.get("spool")
        self._folder = folder
        self._writer: JournalWriter | None = None
        self._shipper: Shipper | None = None
        self._heartbeat: Heartbeat | None = None
        self._failure: str | None = None
        self.output_buffer = buffer_path(self._run)
        """Where Terraform writes its output; None without room in memory: then it writes to a pipe."""

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
            self._writer = JournalWriter(str(path), self._encrypted.cipher, self._run, on_write=on_write)
            process = process_table.this_process().document()
            self._append(STARTED, {"process": process, "at": _now(), "output_buffer": self.output_buffer})
        except (OSError, HoldfastError) as error:
            return self._not_started(f"the journal cannot be written: {error}")
        # A journal without a start record means that Terraform was never started.
        if self._shipper is not None and not self._shipper.wait_until_shipped(_SHIP_SECONDS):
            return self._not_started("the journal cannot be written: the run store does not respond")
        self._heartbeat = Heartbeat(self._encrypted, self._run)
        return None

    def _not_started(self, why: str) -> str:
        """Recorded in the journal if possible: the outcome of a run that never started is not unknown."""
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
            if self.output_buffer is not None:
                require_space(self.output_buffer)
            self._writer.append(LINES, chunk.rstrip(b"\n"))
        except OSError as error:
            self._failure = f"the journal can no longer be written: {error}"
            return False
        if self._shipper is not None and b'"apply_complete"' in chunk:
            self._shipper.flush()
        return True

    def end(self, code: int, *, forced: bool = False) -> dict[str, object]:
        """Write the exit record: also whether Terraform left a state that it could not save, and whether it
        was interrupted twice, so that it did not wait for changes in progress.
        """
        report: dict[str, object] = {}
        unsaved = (self._folder / UNSAVED_FILE).exists()
        if self._writer is not None and self._failure is None:
            try:
                self._append(ENDED, {"code": code, "at": _now(), "unsaved": unsaved, "forced": forced})
            except OSError as error:
                self._failure = f"the exit record could not be written: {error}"
        if self._writer is not None:
            self._writer.close()
        if self._failure is not None:
            report["journal_failed"] = self._failure
        elif self.output_buffer is not None:
            remove_buffer(self.output_buffer)
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self._shipper is not None and self._shipper.finish(_SHIP_SECONDS):
            self._remove_spooled()
        return report

    def _remove_spooled(self) -> None:
        """All of it has arrived in the store."""
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
    """Written to the run store while Terraform runs. A failed write is harmless.

    The claim counts as the first one, so a short apply writes none.
    """

    def __init__(self, encrypted: EncryptedBlobs, run: str) -> None:
        self._records = RunRecords(encrypted)
        self._run = run
        self._stopped = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _beat(self) -> None:
        while not self._stopped.wait(_HEARTBEAT_SECONDS):
            with contextlib.suppress(HoldfastError, OSError):
                self._records.write(self._run, HEARTBEAT, _now().encode(), durable=False)


class ManagedStateBackend:
    """The managed state of one stack, for one command of one run."""

    def __init__(
        self, encrypted: EncryptedBlobs, *, stack: str, run: str, who: str, why: str, write: bool
    ) -> None:
        self._encrypted = encrypted
        self._states = ManagedStates(encrypted)
        self._claims = Claims(encrypted)
        self._stack = stack
        self._run = run
        self._who = who
        self._why = why
        self._write = write
        self._version: StateSnapshot | None = None
        self._known = False

    def read(self) -> bytes | None:
        """Terraform reads it several times in one command, and sees the same version each time.

        A write of another run meanwhile is noticed by `write`, which only adds the version after this one.
        """
        if not self._known:
            self._version, self._known = self._states.current(self._stack), True
        return self._version.state if self._version is not None else None

    def write(self, state: bytes, header: StateHeader) -> None:
        if not self._write:
            raise Refusal(403, f"this command is not allowed to write the state of {self._stack}")
        if not self._is_claimed():
            raise Refusal(409, f"another run has claimed the stack {self._stack}")
        new = StateSnapshot(
            serial=header.serial,
            lineage=header.lineage,
            resources=header.managed,
            run=self._run,
            who=self._who,
            why=self._why,
            state=state,
        )
        after = self._version.number if self._version is not None else 0
        version = self._states.add(self._stack, new, after=after)
        if version is None:
            raise Refusal(409, f"another run wrote the state of {self._stack}")
        self._version = version

    def _is_claimed(self) -> bool:
        """A server checks the lease of the run itself, with the write."""
        if is_on_server(self._encrypted.blobs):
            return True
        claim = self._claims.of(self._stack)
        return claim is not None and claim.run == self._run

    def lock(self, info: bytes) -> bytes | None:
        """Always granted: this run claimed the stack before Terraform started."""
        del info
        return None

    def unlock(self, info: bytes) -> None:
        del info


def _cipher(keys: dict[str, Any]) -> BlobCipher:
    if "runs" not in keys:
        return BlobCipher.from_document(keys)
    from holdfast.store.server_blobs import ServerCipher  # noqa: PLC0415 - only where the store is a server

    return ServerCipher.from_document(keys)


def _now() -> str:
    return clock.now().isoformat()
