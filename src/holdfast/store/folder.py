"""The run store as a folder: `.holdfast/` at the repository's root, ignored by Git, private to its user.

It remembers what must outlive a run: its own id, which plans were used, where each state was last seen,
and states that Terraform could not save.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from holdfast.doors import clock, files
from holdfast.kernel.errors import UnknownOutcome, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRecord:
    """What was last seen of a stack's state. `place` names where, without secrets."""

    place: str
    lineage: str
    serial: int
    resources: int | None
    seen: str


class FolderStore:
    """Nothing is written before something has to be remembered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def id(self) -> str:
        """The store's own id, written on first use; a bundle names it."""
        file = self.folder / "store.json"
        if not file.exists():
            self._prepare()
            document = {"version": 1, "id": clock.new_id(), "created": clock.now().isoformat()}
            files.create(file, json.dumps(document) + "\n")
        return str(self._read(file)["id"])

    def _prepare(self) -> None:
        files.private_folder(self.folder)
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            files.write(ignore, "# Holdfast's own record: states, marks, locks. Not for Git.\n*\n")

    def _room(self, name: str) -> Path:
        self._prepare()
        return files.private_folder(self.folder / name)

    # Used marks: a plan is applied at most once.

    def mark_used(self, digest: str, *, run: str, stack: str, who: str) -> bool:
        """Durably, before Terraform starts. False when the plan was used before."""
        mark = {"run": run, "stack": stack, "who": who, "at": clock.now().isoformat()}
        return files.create(self._room("used") / f"{digest}.json", json.dumps(mark) + "\n")

    def used(self, digest: str) -> dict[str, object] | None:
        file = self.folder / "used" / f"{digest}.json"
        return self._read(file) if file.exists() else None

    # Where states are and what was last seen there.

    def state_file(self, stack: str) -> Path:
        """The state of a stack whose code names no backend."""
        return self.folder / "state" / stack / "terraform.tfstate"

    def state_room(self, stack: str) -> Path:
        self._prepare()
        return files.private_folder(self.state_file(stack).parent)

    def record(self, stack: str, record: StateRecord) -> None:
        file = self._room("records") / f"{quote(stack, safe='')}.json"
        files.write(file, json.dumps(asdict(record)) + "\n")

    def last_seen(self, stack: str) -> StateRecord | None:
        file = self.folder / "records" / f"{quote(stack, safe='')}.json"
        return StateRecord(**self._read(file)) if file.exists() else None  # type: ignore[arg-type]

    def recorded_stacks(self) -> tuple[str, ...]:
        records = self.folder / "records"
        return (
            tuple(sorted(unquote(file.stem) for file in records.glob("*.json"))) if records.is_dir() else ()
        )

    def forget(self, stack: str) -> None:
        (self.folder / "records" / f"{quote(stack, safe='')}.json").unlink(missing_ok=True)

    # States that could not be saved. Kept sealed until they are pushed.

    def keep_errored(self, stack: str, sealed: bytes) -> Path:
        """The newest is the one that `errored` names; an older one is set aside, never overwritten."""
        file = self._room("errored") / f"{quote(stack, safe='')}.tfstate"
        if file.exists():
            file.rename(file.with_name(f"{file.name}.older-{clock.new_id()}"))
        files.write(file, sealed)
        return file

    def errored(self, stack: str) -> Path | None:
        file = self.folder / "errored" / f"{quote(stack, safe='')}.tfstate"
        return file if file.exists() else None

    def settle_errored(self, stack: str) -> None:
        """The state was pushed: the copy stays, under a name that no longer stops the stack."""
        if file := self.errored(stack):
            file.rename(file.with_name(f"{file.name}.pushed-{clock.new_id()}"))

    # One apply per stack at a time on this machine.

    @contextlib.contextmanager
    def at_work(self, stack: str, who: str) -> Iterator[str | None]:
        """Yields None when the stack is ours, else who holds it."""
        name = quote(stack, safe="")
        room = self._room("locks")
        holder = room / f"{name}.json"
        with files.locked(room / f"{name}.lock", wait=False) as ours:
            if not ours:
                yield holder.read_text() if holder.exists() else "another process"
                return
            files.write(holder, who, durable=False)
            try:
                yield None
            finally:
                holder.unlink(missing_ok=True)

    def _read(self, file: Path) -> dict[str, object]:
        """The unreadable is never taken for absent."""
        try:
            document = json.loads(file.read_bytes())
        except (OSError, ValueError) as error:
            raise UnknownOutcome(
                "HF-STORE-2",
                f"the run store cannot be read: {file}: {error}",
                hint="Restore the file from a backup. Nothing is run while the record is unreadable.",
            ) from None
        if not isinstance(document, dict):
            raise UnknownOutcome("HF-STORE-2", f"the run store cannot be read: {file} is not a record")
        return document


def open_store(name: str, root: Path) -> FolderStore:
    if "://" in name:
        raise UsageError(
            "HF-STORE-1",
            f"the run store {name} is not a folder",
            hint="This version keeps its record in a folder: set `store: .holdfast`.",
        )
    return FolderStore((root / name).absolute())
