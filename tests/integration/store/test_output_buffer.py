from __future__ import annotations

import os
from pathlib import Path

import pytest
from audit_made import store_on

from holdfast.store import output_buffer
from holdfast.store.retention import remove_orphaned_output


def test_a_name_in_memory_is_private_to_its_run(tmp_path: Path) -> None:
    """Each run of each user has a name of its own."""
    one, other = output_buffer.buffer_path("ONE", tmp_path), output_buffer.buffer_path("OTHER", tmp_path)
    assert one is not None
    assert one != other
    assert Path(one).parent == tmp_path
    assert str(os.getuid()) in Path(one).name


def test_a_machine_without_such_a_place_has_none(tmp_path: Path) -> None:
    """A pipe does there; nothing is written to a disk in clear instead."""
    assert output_buffer.buffer_path("ONE", tmp_path / "nowhere") is None


def test_what_is_left_is_read_once_and_forgotten(tmp_path: Path) -> None:
    """Only a file of ours is looked at; one that is not there is no mistake."""
    name = str(output_buffer.buffer_path("ONE", tmp_path))
    assert output_buffer.read_buffer(name) is None
    Path(name).write_bytes(b"said\n")
    assert output_buffer.read_buffer(name) == b"said\n"
    output_buffer.remove_buffer(name)
    output_buffer.remove_buffer(name)
    assert output_buffer.read_buffer(name) is None
    stranger = tmp_path / "stranger"
    stranger.write_bytes(b"not ours")
    assert output_buffer.read_buffer(str(stranger)) is None


def test_a_full_memory_is_an_error_while_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Terraform does not say that a write failed: it must be noticed before."""
    output_buffer.require_space(str(tmp_path / "x"))
    monkeypatch.setattr(output_buffer, "_FREE_WHILE_RUNNING", 1 << 62)
    with pytest.raises(OSError, match="no memory left"):
        output_buffer.require_space(str(tmp_path / "x"))


def test_the_buffer_of_a_finished_run_is_removed_and_evidence_stays(tmp_path: Path) -> None:
    """A run killed between its last word and tidying up leaves nothing in clear for long."""
    store = store_on()
    over, open_end = (
        str(output_buffer.buffer_path("OVER", tmp_path)),
        str(output_buffer.buffer_path("OPEN", tmp_path)),
    )
    for name in (over, open_end, str(tmp_path / "stranger")):
        Path(name).write_bytes(b"said\n")
    store.runs.finish("OVER", {"status": "applied"})
    remove_orphaned_output(store, tmp_path)
    assert output_buffer.read_buffer(over) is None
    assert output_buffer.read_buffer(open_end) == b"said\n"
    assert (tmp_path / "stranger").exists()
    remove_orphaned_output(store, tmp_path / "nowhere")
