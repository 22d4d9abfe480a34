"""Runs as they are remembered: one folder each, with its journal and its outcome."""

from __future__ import annotations

from holdfast.secrets.keys import Key
from holdfast.store.encrypted_blobs import EncryptedBlobs, packed
from holdfast.store.journal import Journal, read_journal

PULSE = "pulse"
"""When the process that runs Terraform was last at work, where the store is not on its machine."""
TAIL = "tail"
"""All that Terraform had said when everybody was killed, where that was more than the journal has."""
SPOOL = "spool"
"""The folder in Holdfast's home where journals lie until they have arrived in a store that is elsewhere."""


class RunRecords:
    def __init__(self, encrypted: EncryptedBlobs) -> None:
        self._encrypted = encrypted

    def ids(self) -> tuple[str, ...]:
        """Newest first: an id sorts by the time it was made."""
        found = {name.split("/")[1] for name in self._encrypted.names("runs")}
        return tuple(sorted(found, reverse=True))

    def finish(self, run: str, outcome: dict[str, object], *, durable: bool = True) -> None:
        """How the run ended, as far as it is known now. A later word replaces an earlier one."""
        self._encrypted.write(_outcome(run), packed(outcome), durable=durable)

    def outcome(self, run: str) -> dict[str, object] | None:
        found = self._encrypted.read(_outcome(run))
        return found.document() if found is not None else None

    def journal(self, run: str, key: Key) -> Journal:
        """All pieces of it, in their order."""
        names = [name for name in self._encrypted.names(f"runs/{run}") if "/journal-" in name]
        pieces = (self._encrypted.blobs.read(name) for name in names)
        journal = read_journal(key, run, b"".join(piece.data for piece in pieces if piece is not None))
        if journal.ended is not None or (tail := self.read(run, TAIL)) is None:
            return journal
        said = tuple(line for line in tail.split(b"\n") if line)
        if len(said) <= len(journal.lines):
            return journal
        return Journal(started=journal.started, lines=said, ended=None, whole=journal.whole)

    def bar(self, run: str) -> bool:
        """Nobody begins this run any more. False when somebody has begun it: its journal has its name."""
        return self._encrypted.blobs.create(journal_name(run), b"")

    def write(self, run: str, name: str, data: bytes) -> None:
        self._encrypted.write(f"runs/{run}/{name}", data)

    def read(self, run: str, name: str) -> bytes | None:
        found = self._encrypted.read(f"runs/{run}/{name}")
        return found.data if found is not None else None

    def forget(self, run: str) -> None:
        for name in self._encrypted.names(f"runs/{run}"):
            self._encrypted.remove(name)


def journal_name(run: str, piece: int = 1) -> str:
    return f"runs/{run}/journal-{piece:06d}"


def _outcome(run: str) -> str:
    return f"runs/{run}/outcome"
