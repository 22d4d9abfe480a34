"""A store from before everything was encrypted: its marks, records and states are sealed where they lie.

Each thing is written sealed and read back before its clear copy goes; a crash in between leaves both, and the
next command goes on where this one stopped.
"""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.doors import files
from holdfast.kernel.errors import UnknownOutcome
from holdfast.secrets.keys import Key
from holdfast.secrets.sealing import open_
from holdfast.store.folder import FolderShelf
from holdfast.store.names import stack_of, word
from holdfast.store.sealed import SealedShelf
from holdfast.store.states import KeptStates, NewVersion
from holdfast.terraform.state_json import Readable, read_state

OLD_VERSION = 1


def upgrade(shelf: FolderShelf, key: Key) -> None:
    sealed = SealedShelf(shelf, lambda: key)
    with files.locked(shelf.folder / ".upgrade"):
        for folder in ("used", "records"):
            for file in sorted(shelf.path(folder).glob("*.json")):
                _seal_in_place(sealed, f"{folder}/{file.stem}", file)
        for file in sorted(shelf.path("errored").glob("*.tfstate")):
            _errored(sealed, key, file)
        for file in sorted(shelf.path("state").rglob("terraform.tfstate")):
            _state(shelf, sealed, file)


def _seal_in_place(sealed: SealedShelf, name: str, file: Path) -> None:
    content = file.read_bytes()
    _require_json(file, content)
    sealed.write(name, content)
    _replaced(sealed, name, content, file)


def _errored(sealed: SealedShelf, key: Key, file: Path) -> None:
    stack = stack_of(file.stem)
    content = open_(key, file.read_bytes(), context=f"errored\0{stack}")
    name = f"errored/{word(stack)}/kept"
    sealed.write(name, content)
    _replaced(sealed, name, content, file)


def _state(shelf: FolderShelf, sealed: SealedShelf, file: Path) -> None:
    """An empty or damaged state is left where it is: the stack says so when it is touched."""
    stack = file.parent.relative_to(shelf.path("state")).as_posix()
    content = file.read_bytes()
    state = read_state(content)
    if not isinstance(state, Readable):
        return
    states = KeptStates(sealed)
    if not states.numbers(stack):
        states.add(
            stack,
            NewVersion(
                serial=state.serial,
                lineage=state.lineage,
                resources=state.managed,
                run=None,
                who="holdfast",
                why="moved from a file in clear",
                state=content,
            ),
            after=0,
        )
    kept = states.current(stack)
    if kept is not None and kept.state == content:
        file.unlink()
        file.with_name("terraform.tfstate.backup").unlink(missing_ok=True)


def _replaced(sealed: SealedShelf, name: str, content: bytes, file: Path) -> None:
    back = sealed.read(name)
    if back is not None and back.data == content:
        file.unlink()


def _require_json(file: Path, content: bytes) -> None:
    try:
        json.loads(content)
    except ValueError:
        raise UnknownOutcome(
            "HF-STORE-2",
            f"the run store cannot be read: {file} is not a record",
            hint="Restore the file from a backup. Nothing is run while the record is unreadable.",
        ) from None
