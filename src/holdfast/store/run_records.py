"""Runs in the store: the claim of a stack, and one folder per run with its journal and its outcome.

A claim reserves a stack for one run until the run's outcome is recorded. It is written before anything
changes and contains the run's intent. The claim of a dead run says that its outcome is unknown.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from holdfast.kernel.secret import masked_repr
from holdfast.store.blob_cipher import OUTCOME
from holdfast.store.blobs import EncryptedBlobs, StoredBlob, decode_name, encode_name, to_json, unreadable
from holdfast.store.journal import Journal, read_journal


class StoredClaim(NamedTuple):
    """`intent` is a document that only `runs/claims.py` reads: the supervisor needs no more than the run."""

    stack: str
    run: str
    intent: dict[str, object]
    tag: str = ""

    def __repr__(self) -> str:
        return masked_repr(self)


class Claims:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def take(self, claim: StoredClaim) -> StoredClaim:
        """The claim in force: this one, or that of the run that was first."""
        document: dict[str, object] = {"stack": claim.stack, "run": claim.run, "intent": claim.intent}
        while True:
            if self._encrypted.create(_name(claim.stack), to_json(document)):
                return claim
            existing = self.of(claim.stack)
            if existing is not None:
                return existing

    def of(self, stack: str) -> StoredClaim | None:
        blob = self._encrypted.read(_name(stack))
        if blob is None:
            return None
        try:
            document = json.loads(blob.data)
            stack, run, intent = (document[name] for name in ("stack", "run", "intent"))
        except (ValueError, KeyError, TypeError):
            raise unreadable(f"the claim of {stack} in {self._encrypted.blobs.shown} is not valid") from None
        return StoredClaim(stack=stack, run=run, intent=intent, tag=blob.tag)

    def all(self) -> tuple[StoredClaim, ...]:
        names = [name.split("/")[1] for name in self._encrypted.names("claims")]
        return tuple(claim for name in names if (claim := self.of(decode_name(name))) is not None)

    def release(self, stack: str, run: str) -> None:
        """Removes only the run's own claim."""
        claim = self.of(stack)
        if claim is not None and claim.run == run:
            self._encrypted.remove(_name(stack), tag=claim.tag)


def _name(stack: str) -> str:
    return f"claims/{encode_name(stack)}"


HEARTBEAT = "heartbeat"
"""The last heartbeat of the supervisor. An apply of a few seconds has none."""
FENCED = "fenced"
"""The worker that claimed the stack is done with the run, or lost it to another one: it counts as dead."""
TAIL = "tail"
"""Terraform's output after a kill, if it is more than the journal has."""
IMPORTING = "importing"
"""The id of the journal of the imports that reconcile the run."""
IMPORTS_FOR = "imports-for"
"""Of the journal of imports: stack, run and user."""
SPOOL = "spool"
"""The folder in Holdfast's home for journals that have not reached a remote store yet."""


class RunRecords:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def ids(self) -> tuple[str, ...]:
        """Newest first: ids sort by creation time."""
        ids = {name.split("/")[1] for name in self._encrypted.names("runs")}
        return tuple(sorted(ids, reverse=True))

    def finish(self, run: str, outcome: dict[str, object], *, durable: bool = True) -> None:
        """How the run ended as far as known. A later outcome replaces an earlier one."""
        self._encrypted.write(_outcome(run), to_json(outcome), durable=durable)

    def outcome(self, run: str) -> dict[str, object] | None:
        return self._encrypted.document(_outcome(run))

    def outcome_blob(self, run: str) -> StoredBlob | None:
        """A plan job may write any: that of an apply counts only if it is signed."""
        return self._encrypted.read(_outcome(run))

    def journal(self, run: str) -> Journal:
        """All pieces, in order."""
        stored = self._encrypted.names(f"runs/{run}")
        names = [name for name in stored if "/journal-" in name]
        if journal_name(run, 0) in names:
            names = [journal_name(run, 0)]
        pieces = (self._encrypted.blobs.read(name) for name in names)
        content = b"".join(piece.data for piece in pieces if piece is not None)
        journal = read_journal(self._encrypted.cipher, run, content)
        tail = self.read(run, TAIL) if f"runs/{run}/{TAIL}" in stored else None
        if journal.ended is not None or tail is None:
            return journal
        lines = tuple(line for line in tail.split(b"\n") if line)
        if len(lines) <= len(journal.lines):
            return journal
        return Journal(started=journal.started, lines=lines, ended=None, whole=journal.whole)

    def prevent_start(self, run: str) -> bool:
        """Create the journal's name, so that the run cannot start. False if it has started."""
        return self._encrypted.blobs.create(journal_name(run), b"")

    def write(self, run: str, name: str, data: bytes, *, durable: bool = True) -> None:
        self._encrypted.write(f"runs/{run}/{name}", data, durable=durable)

    def read(self, run: str, name: str) -> bytes | None:
        blob = self.read_blob(run, name)
        return blob.data if blob is not None else None

    def read_blob(self, run: str, name: str) -> StoredBlob | None:
        return self._encrypted.read(f"runs/{run}/{name}")

    def remove(self, run: str) -> None:
        for name in self._encrypted.names(f"runs/{run}"):
            self._encrypted.remove(name)


def journal_name(run: str, piece: int = 1) -> str:
    """Piece 0 is the whole journal, encrypted again with another key: it replaces all others."""
    return f"runs/{run}/journal-{piece:06d}"


def _outcome(run: str) -> str:
    return f"runs/{run}/{OUTCOME}"
