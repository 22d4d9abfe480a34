"""Versions and copies in a real store: which one is meant, and which ones go."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.settings import BackupSettings
from holdfast.kernel.errors import UsageError
from holdfast.runs.record import store_run_secrets, stored_run_secrets
from holdfast.secrets.keys import Key
from holdfast.states.versions import _choose, _StoredVersions
from holdfast.store.place import FolderBlobs
from holdfast.store.retention import prune_states
from holdfast.store.run_store import RunStore
from holdfast.store.states import StateSnapshot

STACK = "prod/net"


def copy(serial: int, *, lineage: str = "l") -> StateSnapshot:
    return StateSnapshot(
        serial=serial, lineage=lineage, resources=0, run=None, who="me", why="before", state=b"{}"
    )


def filled(folder: Path, count: int) -> RunStore:
    store = RunStore(FolderBlobs(folder), lambda: Key.of(b"k" * 32))
    for number in range(count):
        new = StateSnapshot(
            serial=number + 1, lineage="l", resources=0, run=None, who="me", why="apply", state=b"{}"
        )
        store.states.add(STACK, new, after=number)
        store.backups.add(STACK, copy(number + 1))
    return store


def test_the_newest_are_kept_and_older_ones_go_by_age(tmp_path: Path) -> None:
    """With an age of nothing all but the newest go at once; with a great one none does."""
    store = filled(tmp_path, 5)
    copies = store.backups.names(STACK)
    assert prune_states(store, STACK, BackupSettings(keep=2, max_age=3600)) == ()
    gone = prune_states(store, STACK, BackupSettings(keep=2, max_age=0))
    assert sorted(gone) == sorted(("1", "2", "3", *copies[:3]))
    assert store.states.numbers(STACK) == (4, 5)
    assert store.backups.names(STACK) == copies[3:]
    assert prune_states(store, STACK, BackupSettings(keep=2, max_age=0)) == ()


def test_the_current_version_stays_when_nothing_is_to_be_kept(tmp_path: Path) -> None:
    """It is the state itself."""
    store = filled(tmp_path, 3)
    prune_states(store, STACK, BackupSettings(keep=0, max_age=0))
    assert store.states.numbers(STACK) == (3,)
    assert store.backups.names(STACK) == ()


def test_nothing_to_prune_is_no_mistake(tmp_path: Path) -> None:
    """A stack that was never applied has neither versions nor copies."""
    assert prune_states(filled(tmp_path, 0), STACK, BackupSettings(keep=1, max_age=0)) == ()


def test_what_a_run_knew_to_be_secret_is_remembered_and_sealed(tmp_path: Path) -> None:
    """Whoever reads its journal later can hide it, and nobody finds it on the disk."""
    store = filled(tmp_path, 0)
    assert stored_run_secrets(store, "01R") == frozenset()
    store_run_secrets(store, "01R", ["hunter2-hunter2", "ünter"])
    assert stored_run_secrets(store, "01R") == {"hunter2-hunter2", "ünter"}
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert not any(b"hunter2" in file.read_bytes() for file in files)


def test_a_version_is_meant_by_its_number_or_its_serial(tmp_path: Path) -> None:
    """A number is no beginning of another number."""
    row = _StoredVersions(filled(tmp_path, 12), STACK, managed=True)
    assert row.names[0] == "12"
    assert _choose(STACK, row, "1") == "1"
    assert _choose(STACK, row, "serial:12") == "12"
    assert [one.entry.current for one in row.all()] == [True] + [False] * 11
    for wanted in ("13", "0", "01", "", "serial:", "serial:13", "x"):
        with pytest.raises(UsageError) as caught:
            _choose(STACK, row, wanted)
        assert caught.value.problem.code == "HF-STATE-20"


def test_a_copy_is_meant_by_the_beginning_of_its_name(tmp_path: Path) -> None:
    """In any case of letters, as long as it means one; a serial of two lineages means none."""
    store = filled(tmp_path, 2)
    row = _StoredVersions(store, STACK, managed=False)
    new, old = row.names
    shared = next(size for size in range(26) if new[size] != old[size])
    assert _choose(STACK, row, old[: shared + 1].lower()) == old
    assert _choose(STACK, row, "serial:1") == old
    store.backups.add(STACK, copy(1, lineage="other"))
    for wanted in (new[:shared], "serial:1"):
        with pytest.raises(UsageError) as caught:
            _choose(STACK, _StoredVersions(store, STACK, managed=False), wanted)
        assert caught.value.problem.code == "HF-STATE-21"
