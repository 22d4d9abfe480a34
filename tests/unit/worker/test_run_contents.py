"""What a worker finds beside the row of a run."""

from __future__ import annotations

from pathlib import Path

from bundle_made import KEY, bundle, written
from memory_blobs import MemoryBlobs

from holdfast.store.run_store import RunStore
from holdfast.worker.run_contents import RunContents


def test_only_the_plan_of_the_row_is_applied(tmp_path: Path) -> None:
    """A worker that was stopped while it saved its plan writes it after another one planned the run again."""
    contents = RunContents(RunStore(MemoryBlobs(), lambda: KEY).encrypted)
    late, shown = bundle("a", plan=b"late"), bundle("a", plan=b"shown")
    contents.save_plan("run-1", written(tmp_path / "shown", shown) / "a")
    found = contents.read_plan("run-1", shown.digest, tmp_path / "1", KEY)
    assert found is not None
    assert found.plan == b"shown"
    contents.save_plan("run-1", written(tmp_path / "late", late) / "a")
    assert contents.read_plan("run-1", shown.digest, tmp_path / "2", KEY) is None
    assert contents.read_plan("run-1", None, tmp_path / "3", KEY) is None
