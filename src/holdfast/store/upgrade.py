"""A store from before everything was encrypted: its marks, records and states are sealed where they lie.

Each thing is written sealed and read back before its clear copy goes; a crash in between leaves both, and the
next command goes on where this one stopped.
"""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.kernel.errors import Busy, UnknownOutcome
from holdfast.secrets.keys import Key
from holdfast.secrets.sealing import open_
from holdfast.store.encrypted_blobs import SealedShelf
from holdfast.store.folder_blobs import FolderShelf
from holdfast.store.names import stack_of, word
from holdfast.store.snapshots import StateCopy
from holdfast.store.states import KeptStates
from holdfast.system import files
from holdfast.terraform.statefile.reader import Readable, read_state

OLD_VERSION = 1


def require_openable(shelf: FolderShelf, key: Key) -> None:
    """Before anything is sealed: what was sealed already must be this key's."""
    for file in _errored_files(shelf):
        _opened(key, file)


def upgrade(shelf: FolderShelf, key: Key) -> None:
    """Whoever calls this holds the store for itself."""
    sealed = SealedShelf(shelf, lambda: key)
    for folder in ("used", "records"):
        for file in sorted(shelf.path(folder).glob("*.json")):
            _seal_in_place(sealed, f"{folder}/{word(stack_of(file.stem))}", file)
    for file in _errored_files(shelf):
        _errored(sealed, key, file)
    for file in sorted(shelf.path("state").rglob("terraform.tfstate")):
        _state(shelf, sealed, file)


def _errored_files(shelf: FolderShelf) -> list[Path]:
    return sorted(shelf.path("errored").glob("*.tfstate"))


def _seal_in_place(sealed: SealedShelf, name: str, file: Path) -> None:
    content = file.read_bytes()
    _require_json(file, content)
    sealed.write(name, content)
    _replaced(sealed, name, content, file)


def _errored(sealed: SealedShelf, key: Key, file: Path) -> None:
    content = _opened(key, file)
    name = f"errored/{word(stack_of(file.stem))}/kept"
    sealed.write(name, content)
    _replaced(sealed, name, content, file)


def _opened(key: Key, file: Path) -> bytes:
    return open_(key, file.read_bytes(), context=f"errored\0{stack_of(file.stem)}")


def _state(shelf: FolderShelf, sealed: SealedShelf, file: Path) -> None:
    """An empty or damaged state is left where it is: the stack says so when it is touched."""
    stack = file.parent.relative_to(shelf.path("state")).as_posix()
    if files.held_by_another(file):
        raise Busy(
            "HF-LOCK-2",
            f"{stack} is being worked on by a Holdfast from before this version: {file}",
            hint="Wait until that is done, then try again.",
        )
    content = file.read_bytes()
    state = read_state(content)
    if not isinstance(state, Readable):
        return
    before = file.with_name("terraform.tfstate.backup")
    states = KeptStates(sealed)
    for one in (files.content_of(before), content):
        _added(states, stack, one)
    kept = states.current(stack)
    if kept is None or kept.state != content:
        raise UnknownOutcome(
            "HF-STORE-2",
            f"{stack}: the state in {file} does not follow the one that is kept encrypted",
            hint="An older Holdfast wrote it after a newer one had begun to move it. Compare the two "
            f"(holdfast state pull {stack}), and take the file away when it is not needed.",
        )
    before.unlink(missing_ok=True)
    file.unlink()


def _added(states: KeptStates, stack: str, content: bytes | None) -> None:
    """As the next version, if it is one."""
    state = read_state(content) if content is not None else None
    if content is None or not isinstance(state, Readable):
        return
    last = states.current(stack)
    if last is not None and (last.lineage != state.lineage or last.serial >= state.serial):
        return
    new = StateCopy.of(content, state, run=None, who="holdfast", why="moved from a file in clear")
    states.add(stack, new, after=last.number if last is not None else 0)


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
