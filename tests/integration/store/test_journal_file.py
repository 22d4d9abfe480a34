"""The journal on a real disk: when it has its name, and what is left when the disk says no."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ciphers import CIPHER, encrypted_on

from holdfast.store.journal import ENDED, LINES, STARTED, JournalWriter, read_journal
from holdfast.store.place import FolderBlobs
from holdfast.store.run_records import RunRecords, journal_name

ON_A_SMALL_DISK = """
import json, resource, sys
from pathlib import Path
from holdfast.secrets.keys import Key
from holdfast.store.blob_cipher import BlobCipher
from holdfast.store.journal import ENDED, LINES, STARTED, JournalWriter

folder, cipher = Path(sys.argv[1]), BlobCipher.of("01STORE", Key.of(b"k" * 32))
for limit in range(0, 900, 5):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    written, refused = 0, 0
    writer = JournalWriter(str(folder / str(limit)), cipher, "r")
    for number, (kind, data) in enumerate([(STARTED, b"{}"), *[(LINES, b"x" * 60)] * 3, (ENDED, b"{}")]):
        try:
            writer.append(kind, data)
            written += 1
        except OSError:
            refused += 1
            # There is room again, and it is too late all the same.
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    writer.close()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(json.dumps([limit, written, refused]))
"""


def test_a_full_disk_leaves_what_was_written(tmp_path: Path) -> None:
    """However little room there is: what `append` returned from is there, and nothing comes after a failure.

    Otherwise an end could follow where words are missing, and would be believed.
    """
    done = subprocess.run(
        [sys.executable, "-c", ON_A_SMALL_DISK, str(tmp_path)], capture_output=True, text=True, check=True
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert {written for _, written, _ in told} == set(range(6))
    for limit, written, refused in told:
        assert written + refused == 5
        file = tmp_path / str(limit)
        assert file.exists() == (written > 0)
        if written:
            journal = read_journal(CIPHER, "r", file.read_bytes())
            assert journal.started == {}
            assert len(journal.lines) == min(written - 1, 3)
            assert (journal.ended is not None) == (written == 5)
    assert [one for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_a_journal_has_its_name_with_its_first_word(tmp_path: Path) -> None:
    """Before, there is no journal; from then on the run cannot be prevented from starting."""
    blobs = FolderBlobs(tmp_path / "store")
    runs = RunRecords(encrypted_on(blobs))
    path = blobs.path(journal_name("r1"))
    path.parent.mkdir(parents=True)
    writer = JournalWriter(str(path), CIPHER, "r1")
    assert runs.ids() == ()
    writer.append(STARTED, b'{"pid": 1}')
    assert not runs.prevent_start("r1")
    writer.append(LINES, b"a\nb")
    writer.append(ENDED, b'{"code": 0}')
    writer.close()
    journal = runs.journal("r1")
    assert (journal.started, journal.lines, journal.ended) == ({"pid": 1}, (b"a", b"b"), {"code": 0})
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_every_line_is_flushed_before_it_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content first, then the name, then the folder that holds the name; only then is the frame passed on."""
    done: list[str] = []

    def noted(name: str, real: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            done.append(name)
            real(*arguments)

        return call

    monkeypatch.setattr(os, "fdatasync", noted("content", os.fdatasync))
    monkeypatch.setattr(os, "link", noted("name", os.link))
    monkeypatch.setattr(os, "fsync", noted("folder", os.fsync))
    writer = JournalWriter(str(tmp_path / "journal"), CIPHER, "r", on_write=lambda _: done.append("heard"))
    writer.append(STARTED, b"{}")
    assert done == ["content", "name", "folder", "heard"]
    done.clear()
    writer.append(LINES, b"a")
    assert done == ["content", "heard"]
    writer.close()


def test_a_journal_is_its_owners_alone(tmp_path: Path) -> None:
    """Nobody else on the machine can read it, however the process was started."""
    before = os.umask(0)
    try:
        writer = JournalWriter(str(tmp_path / "journal"), CIPHER, "r")
        writer.append(STARTED, b"{}")
        writer.close()
    finally:
        os.umask(before)
    assert (tmp_path / "journal").stat().st_mode & 0o777 == 0o600


def test_a_barred_run_is_not_begun(tmp_path: Path) -> None:
    """The process that was asked to begin it finds the name taken, says so, and leaves nothing behind."""
    blobs = FolderBlobs(tmp_path / "store")
    runs = RunRecords(encrypted_on(blobs))
    assert runs.prevent_start("r1")
    path = blobs.path(journal_name("r1"))
    writer = JournalWriter(str(path), CIPHER, "r1")
    with pytest.raises(FileExistsError):
        writer.append(STARTED, b"{}")
    with pytest.raises(OSError, match="earlier write failed"):
        writer.append(LINES, b"x")
    writer.close()
    assert runs.journal("r1").started is None
    assert path.read_bytes() == b""
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_what_grows_is_heard_as_it_was_written(tmp_path: Path) -> None:
    """What is shipped elsewhere is the file itself, piece by piece, and nothing before it is on disk here."""
    heard: list[bytes] = []
    path = tmp_path / "journal"

    def grown(data: bytes) -> None:
        heard.append(data)
        assert path.read_bytes() == b"".join(heard)

    writer = JournalWriter(str(path), CIPHER, "r", on_write=grown)
    for kind, data in ((STARTED, b"{}"), (LINES, b"a"), (ENDED, b"{}")):
        writer.append(kind, data)
    writer.close()
    assert len(heard) == 3
    assert read_journal(CIPHER, "r", b"".join(heard)).whole
