"""A folder is read again whenever a file in it may have changed, and records count only with the key."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from program import eventually

from holdfast.terraform.engine.folder_hashes import FolderHashes, package_hash

KEY, OTHER = b"k" * 32, b"o" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "package"
    place.mkdir()
    (place / "program").write_bytes(b"good")
    return place


def record_of(folder: Path, key: bytes = KEY) -> Path:
    """The record of a folder whose files have been left alone for a moment."""
    record = folder.parent / "record.json"
    eventually(lambda: bool(FolderHashes(key).hash_of(folder, record)) and record.exists(), what="a record")
    return record


def swap(folder: Path, content: bytes = b"evil") -> None:
    """In place, with the old times."""
    file = folder / "program"
    before = file.stat()
    with file.open("r+b") as stream:
        stream.write(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_record_saves_the_reading_and_a_swapped_file_is_read(folder: Path) -> None:
    """The same size, inode and modification time do not hide a change."""
    record, before = record_of(folder), package_hash(folder)
    text = record.read_text()
    known = FolderHashes(KEY)
    assert known.hash_of(folder, record) == before
    assert record.read_text() == text
    swap(folder)
    for hashes in (known, FolderHashes(KEY), FolderHashes()):
        assert hashes.hash_of(folder, record) == package_hash(folder) != before


def test_a_record_counts_only_as_it_was_written_with_the_key(folder: Path) -> None:
    """Whoever swaps a file cannot record it as verified: not with forged stamps, another key or folder."""
    record, before = record_of(folder), package_hash(folder)
    genuine = json.loads(record.read_text())
    swap(folder)
    stamp = genuine["files"][0]
    forged = genuine | {"files": [[*stamp[:-1], (folder / "program").stat().st_ctime_ns]]}
    documents: tuple[object, ...] = (
        forged,
        genuine,
        {},
        {"hash": before},
        forged | {"mac": ""},
        [],
        forged | {"mac": None},
    )
    for document in documents:
        record.write_text(json.dumps(document))
        assert FolderHashes(KEY).hash_of(folder, record) != before
    swap(folder, b"good")
    record = record_of(folder, OTHER)
    other = json.loads(record.read_text())
    record.write_text(json.dumps(other | {"hash": "h1:other"}))
    assert FolderHashes(KEY).hash_of(folder, record) == before


def test_a_file_that_was_written_just_now_is_not_recorded(folder: Path) -> None:
    """It could change once more within the same tick of the clock."""
    record = folder.parent / "record.json"
    (folder / "program").write_bytes(b"good")
    FolderHashes(KEY).hash_of(folder, record)
    assert not record.exists()


def test_without_a_key_nothing_is_written_or_believed(folder: Path) -> None:
    """The hash is then remembered for the life of the object only."""
    record = record_of(folder)
    document = json.loads(record.read_text())
    record.write_text(json.dumps(document | {"hash": "h1:other"}))
    assert FolderHashes().hash_of(folder, record) == package_hash(folder)
    record.unlink()
    FolderHashes().hash_of(folder, record)
    assert not record.exists()


def test_a_new_a_missing_and_no_file_are_noticed(folder: Path) -> None:
    record, before = record_of(folder), package_hash(folder)
    (folder / "more").write_bytes(b"")
    assert FolderHashes(KEY).hash_of(folder, record) != before
    (folder / "more").unlink()
    assert FolderHashes(KEY).hash_of(folder, record) == before
    (folder / "program").unlink()
    with pytest.raises(FileNotFoundError):
        FolderHashes(KEY).hash_of(folder, record)
