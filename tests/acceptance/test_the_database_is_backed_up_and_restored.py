"""`holdfast db`: the embedded PostgreSQL, and the drill: lose the data folder and the key, restore both."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyrage
from postgres_made import MadePostgres
from program import Program

from holdfast.database.database import Database, DatabaseAddress
from holdfast.database.postgres import Cluster, own_data_folder
from holdfast.secrets.keys import create_key_file
from holdfast.store.database_blobs import DatabaseBlobs


def test_the_data_folder_and_the_key_are_lost_and_restored(holdfast: Program, tmp_path: Path) -> None:
    """One file and an age identity bring back every blob and the key; the key is in no file unencrypted."""
    data, backup = holdfast.home / "server", tmp_path / "server.backup"
    identity = pyrage.x25519.Identity.generate()
    recipient, identity_file = str(identity.to_public()), tmp_path / "identity.txt"
    identity_file.write_text(f"# created by age-keygen\n{identity}\n")
    assert "There is no database yet." in holdfast.ok("db", "status").out
    assert "stopped" not in holdfast.ok("db", "stop").out
    assert not data.exists()

    started = json.loads(holdfast.ok("db", "start", "--json").out)
    assert started["started"] is True
    assert "0001_blobs" in holdfast.ok("db", "migrate").out
    content = _fill(Cluster(data).address())
    missing = holdfast.ok("db", "backup", str(backup), code=64)
    assert "HF-DB-15" in missing.err
    create_key_file(data / "key")
    key = (data / "key").read_bytes()
    done = json.loads(holdfast.ok("db", "backup", str(backup), "--escrow", recipient, "--json").out)
    assert done["tables"]["blobs"] == len(content)
    assert done["escrow"] == [recipient]
    assert backup.stat().st_mode & 0o777 == 0o600
    assert "HF-DB-12" in holdfast.ok("db", "backup", str(backup), code=3).err
    assert not any(secret in backup.read_bytes() for secret in (key.strip(), b"canary", b"runs/7"))
    assert pyrage.decrypt(_header(backup)["escrow"].encode(), [identity]) == key

    # Everything is there: the backup does not replace it by mistake.
    refused = holdfast.ok("db", "restore", str(backup), code=3)
    assert "HF-DB-14" in refused.err
    assert "--force" in refused.err
    with own_data_folder(data, "holdfast serve"):
        assert "in use by holdfast serve" in holdfast.ok("db", "restore", str(backup), "--force", code=4).err
        assert "in use by holdfast serve" in holdfast.ok("db", "stop", code=4).err

    holdfast.ok("db", "stop")
    shutil.rmtree(data)
    assert "--identity FILE" in holdfast.ok("db", "restore", str(backup), code=64).err
    restored = holdfast.ok("db", "restore", str(backup), "--identity", str(identity_file))
    assert f"{len(content) + done['tables']['schema_migrations']} rows" in restored.out
    assert (data / "key").read_bytes() == key
    assert not json.loads(holdfast.ok("db", "status", "--json").out)["running"]
    holdfast.ok("db", "start")
    assert _read(data) == content
    assert "up to date" in holdfast.ok("db", "status").out

    # A replaced content is kept once more.
    again = json.loads(holdfast.ok("db", "restore", str(backup), "--force", "--json").out)
    assert again["previous"].startswith("holdfast_before_")
    assert _read(data) == content
    holdfast.ok("db", "stop")


def test_another_postgresql_is_used_without_showing_its_password(
    holdfast: Program, tmp_path: Path, postgres: MadePostgres
) -> None:
    """HOLDFAST_DATABASE_URL: status, migrate, backup and restore work; start and stop are not ours."""
    create_key_file(holdfast.home / "server" / "key")
    with postgres.new_database(migrated=False) as address:
        password, name = address.parameters["password"], address.parameters["dbname"]
        url = f"postgresql://holdfast:{password}@/{name}?host={address.parameters['host']}"
        holdfast.environment["HOLDFAST_DATABASE_URL"] = url
        ran = [
            holdfast.ok("db", "stop", code=64),
            holdfast.ok("db", "migrate"),
            holdfast.ok("db", "backup", str(tmp_path / "b")),
            holdfast.ok("db", "restore", str(tmp_path / "b")),
            holdfast.ok("db", "status"),
            holdfast.ok("db", "status", env={"HOLDFAST_DATABASE_URL": url.replace(name, "none")}, code=1),
            holdfast.ok("db", "status", env={"HOLDFAST_DATABASE_URL": f"mysql://a:{password}@b"}, code=64),
        ]
        _fill(address)
        ran.append(holdfast.ok("db", "restore", str(tmp_path / "b"), "--force", code=3))
    assert not [one for one in ran if password in one.text]
    assert "HF-DB-11" in ran[0].err
    assert "HF-DB-1 " in ran[5].err
    assert "HF-DB-10" in ran[6].err
    assert "empty database" in ran[7].err


def _header(backup: Path) -> dict[str, str]:
    header: dict[str, str] = json.loads(backup.read_bytes().split(b"\n", 2)[1])
    return header


def _fill(address: DatabaseAddress) -> dict[str, bytes]:
    content = {f"runs/{number}": b"canary" * 1000 + bytes([number]) for number in range(20)}
    with Database.open(address, size=1) as database:
        blobs = DatabaseBlobs(database, "default")
        for name, value in content.items():
            blobs.write(name, value)
    return content


def _read(data: Path) -> dict[str, bytes]:
    with Database.open(Cluster(data).address(), size=1) as database:
        blobs = DatabaseBlobs(database, "default")
        return {name: blob.data for name in blobs.names("") if (blob := blobs.read(name)) is not None}
