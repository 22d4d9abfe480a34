"""A backup is complete and unchanged, or it is refused before anything is replaced."""

from __future__ import annotations

from pathlib import Path

import pyrage
import pytest
from postgres_made import MadePostgres

from holdfast.database.backup import _PIECE, read_header, restore_backup, verify_backup, write_backup
from holdfast.database.database import Database
from holdfast.database.errors import DatabaseUnavailable
from holdfast.database.migrations import Migration, known_migrations, migrate
from holdfast.kernel.errors import Failed, UsageError
from holdfast.secrets.key_wrapping import unwrap_key, wrap_key
from holdfast.secrets.keys import Key
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.system import clock

SECRET = bytes(range(32))
KEY = Key.of(SECRET)


@pytest.fixture
def backup(database: Database, tmp_path: Path) -> Path:
    """Of several pieces."""
    blobs = DatabaseBlobs(database, "default")
    for number in range(3):
        assert blobs.create(f"runs/{number}", clock.random_bytes(_PIECE - 1000))
    write_backup(database, tmp_path / "backup", secret=SECRET)
    return tmp_path / "backup"


def test_what_is_restored_is_equal(backup: Path, database: Database, postgres: MadePostgres) -> None:
    """Also what was written after the backup is not in it."""
    blobs = DatabaseBlobs(database, "default")
    before = {name: blobs.read(name) for name in blobs.names("")}
    blobs.write("runs/late", b"late")
    with postgres.new_database(migrated=False) as address, Database.open(address) as new:
        restore_backup(backup, KEY, new)
        restored = DatabaseBlobs(new, "default")
        assert {name: restored.read(name) for name in restored.names("")} == before
        assert migrate(new) == ()


def test_a_damaged_backup_is_refused(backup: Path, tmp_path: Path) -> None:
    """Cut anywhere, with a changed byte, with two pieces swapped, or with another header."""
    whole = backup.read_bytes()
    start = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    first = start + 4 + int.from_bytes(whole[start : start + 4], "big")
    second = first + 4 + int.from_bytes(whole[first : first + 4], "big")
    damaged = {
        "empty": b"",
        "only its header": whole[:start],
        "cut in a length": whole[: first + 2],
        "cut after a piece": whole[:first],
        "cut in a piece": whole[: second - 100],
        "a changed byte": whole[: first + 500] + bytes([whole[first + 500] ^ 1]) + whole[first + 501 :],
        "swapped": whole[:start] + whole[first:second] + whole[start:first] + whole[second:],
        "another header": whole.replace(b'"created":"2', b'"created":"3', 1),
        "more": whole + b"\0\0\0\1x",
        "a huge piece": whole[:start] + b"\xff\xff\xff\xff" + whole[start + 4 :],
        "something else": b"-----BEGIN\n{}\n",
    }
    for what, content in damaged.items():
        file = tmp_path / "damaged"
        file.write_bytes(content)
        with pytest.raises(Failed, match="HF-DB-13"):
            raise AssertionError(what, verify_backup(file, KEY))


def test_another_key_and_a_newer_schema_are_named(backup: Path, database: Database, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"HF-KEY-7 .*{KEY.id}"):
        verify_backup(backup, Key.of(bytes(32)))
    newer = Migration(number=9999, name="9999_later", sql="select 1")
    migrate(database, (*known_migrations(), newer))
    write_backup(database, tmp_path / "newer", secret=SECRET)
    assert read_header(tmp_path / "newer").schema[-1].number == 9999
    with pytest.raises(UsageError, match=r"HF-DB-7 .*schema 9999"):
        verify_backup(tmp_path / "newer", KEY)


def test_a_failed_backup_leaves_no_file(
    backup: Path, database: Database, postgres: MadePostgres, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="HF-DB-16"):
        write_backup(database, tmp_path / "other", secret=SECRET, recipients=["age1wrong"])
    with postgres.new_database() as address:
        database = Database.open(address, size=1, wait_seconds=0.5)
    with pytest.raises(DatabaseUnavailable):
        write_backup(database, tmp_path / "other", secret=SECRET)
    database.close()
    assert [file.name for file in tmp_path.iterdir()] == [backup.name]


def test_a_wrapped_key_needs_its_identity(tmp_path: Path) -> None:
    owner, other = pyrage.x25519.Identity.generate(), pyrage.x25519.Identity.generate()
    wrapped = wrap_key(SECRET, [str(owner.to_public())])
    for name, identity in (("owner", owner), ("other", other)):
        (tmp_path / name).write_text(f"{identity}\n")
    assert unwrap_key(wrapped, tmp_path / "owner") == SECRET
    (tmp_path / "wrong").write_text("AGE-SECRET-KEY-1\n")
    for name in ("other", "wrong"):
        with pytest.raises(UsageError, match="HF-DB-15"):
            unwrap_key(wrapped, tmp_path / name)
