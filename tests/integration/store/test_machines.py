"""What a store proves about a restart: only a folder on a local disk that one machine uses proves one."""

from __future__ import annotations

from pathlib import Path

import pytest
from memory_blobs import MemoryBlobs

from holdfast.secrets.keys import Key
from holdfast.store.place import FolderBlobs
from holdfast.store.run_store import RunStore
from holdfast.system import mounts, process_table
from holdfast.system.process_table import Liveness

KEY = Key.of(b"k" * 32)
BEFORE = process_table.this_process()._replace(boot="an earlier boot")


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    here = process_table.this_process()
    if not mounts.is_local_disk(tmp_path) or not here.machine or here.space != "pid:[4026531836]":
        pytest.skip("here no restart proves anything")
    return RunStore(FolderBlobs(tmp_path / "store"), lambda: KEY)


def test_a_restart_is_proved_by_the_only_machine(store: RunStore) -> None:
    """After a power failure the stack is not blocked until a person comes."""
    assert store.machines.liveness(BEFORE) is Liveness.UNKNOWN
    store.machines.record()
    store.machines.record()
    assert store.machines.liveness(BEFORE) is Liveness.DEAD
    assert store.leases._life(BEFORE) is Liveness.DEAD


@pytest.mark.parametrize("other", ["machines/0123456789abcdef", "machines/shared"])
def test_a_second_machine_ends_the_proof(store: RunStore, other: str) -> None:
    """Another id, or a clone with the same id that came through a network: who wrote what is not known."""
    store.machines.record()
    store.encrypted.create(other, b"")
    assert store.machines.liveness(BEFORE) is Liveness.UNKNOWN
    assert store.machines.liveness(process_table.this_process()) is Liveness.ALIVE


def test_a_folder_in_memory_and_a_remote_store_prove_nothing() -> None:
    """Neither is on a disk of this machine."""
    for blobs in (MemoryBlobs(), FolderBlobs(Path("/dev/shm/holdfast-test-machines"))):
        store = RunStore(blobs, lambda: KEY)
        if isinstance(blobs, MemoryBlobs):
            store.machines.record()
            assert blobs.names("machines") == ()
        assert store.machines.liveness(BEFORE) is Liveness.UNKNOWN
