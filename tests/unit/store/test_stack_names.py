"""Names of stacks in the run store: a rename moves everything, wherever it is interrupted."""

from __future__ import annotations

import pytest
from memory_blobs import MemoryBlobs

from holdfast.kernel.errors import Busy
from holdfast.secrets.keys import Key
from holdfast.store.kept_files import KeptFiles, KeptFileStore
from holdfast.store.run_store import RunStore, StateRecord
from holdfast.store.states import StateSnapshot

KEPT = KeptFiles(files={"a/x": "hash"}, archive=b"archive", left_out=("a/y",))
RECORD = StateRecord(place="p", lineage="l", serial=2, resources=1, seen="")


def store(blobs: MemoryBlobs) -> RunStore:
    return RunStore(blobs, lambda: Key.of(b"k" * 32))


def version(serial: int) -> StateSnapshot:
    return StateSnapshot(
        serial=serial, lineage="l", resources=1, run=None, who="ann", why="apply", state=b"%d" % serial
    )


@pytest.fixture
def filled() -> RunStore:
    one = store(MemoryBlobs())
    one.states.add("a/old", version(1), after=0)
    one.states.add("a/old", version(2), after=1)
    one.states.drop("a/old", 1)
    one.backups.add("a/old", version(7), name="b1")
    one.keep_errored("a/old", b"unsaved")
    one.kept_files.write("a/old", KEPT)
    one.record("a/old", RECORD)
    return one


def test_a_rename_moves_versions_backups_and_unsaved_states(filled: RunStore) -> None:
    """Under their own numbers and names; afterwards nothing is left under the old name."""
    filled.names.copy("a/old", "new")
    filled.names.copy("a/old", "new")
    assert filled.states.current("a/old") is not None
    filled.names.remove_old("a/old", "new")
    current = filled.states.current("new")
    assert current is not None
    assert (current.number, current.state) == (2, b"2")
    assert filled.backups.names("new") == ("b1",)
    assert filled.errored("new") == b"unsaved"
    assert KeptFileStore(filled.encrypted).of("new") == KEPT
    assert KeptFileStore(filled.encrypted).of("a/old") == KeptFiles()
    assert filled.states.stacks() == ("new",)
    assert filled.errored("a/old") is None


def test_a_state_that_is_there_is_not_overwritten(filled: RunStore) -> None:
    """Another state under the new name stops the copy, and nothing of the old one is removed."""
    filled.states.add("new", version(5), after=0)
    filled.states.add("new", version(6), after=1)
    with pytest.raises(Busy):
        filled.names.copy("a/old", "new")
    filled.names.remove_old("a/old", "new")
    assert filled.states.current("a/old") is not None


def test_names_are_known_by_record_or_state_and_retired_by_version(filled: RunStore) -> None:
    """A stack that was applied again after it was retired has to be retired again."""
    filled.record("b", RECORD)
    assert filled.names.known == {"a/old", "b"}
    filled.names.retire("b", lineage="l", serial=2, who="ann", reason="gone", at="")
    assert filled.names.is_retired("b", lineage="l", serial=2)
    assert not filled.names.is_retired("b", lineage="l", serial=3)
    assert not filled.names.is_retired("a/old", lineage="l", serial=2)


def test_what_a_person_said_about_a_name_is_remembered(filled: RunStore) -> None:
    """One name after the other."""
    assert filled.names.not_renamed_from("new") == frozenset()
    filled.names.record_not_renamed("new", frozenset({"a/old"}))
    filled.names.record_not_renamed("new", frozenset({"b"}))
    assert filled.names.not_renamed_from("new") == {"a/old", "b"}
