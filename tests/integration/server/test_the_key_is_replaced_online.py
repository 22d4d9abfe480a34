"""The key of a server is replaced while clients use it: they notice nothing, and nothing keeps it."""

from __future__ import annotations

import base64
import hashlib
import threading
from typing import Any, cast

import pytest
from faulty_database import Crash, FaultyDatabase
from server_made import KEY, ListLog, MadeServer, made_server
from state_backend_made import state

from holdfast.audit.actor import current_actor
from holdfast.audit.reader import verify
from holdfast.config.settings import BackupSettings
from holdfast.database.database import Database
from holdfast.identity.roles import Role
from holdfast.identity.token_rows import TokenRows
from holdfast.secrets.encryption import MAGIC
from holdfast.secrets.keys import Key
from holdfast.server.key_rotation import ServerRotation
from holdfast.server.upkeep import Upkeep
from holdfast.store.blob_cipher import BlobCipher
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.run_store import RunStore, read_identity
from holdfast.store.server_blobs import ServerBlobs
from holdfast.store.server_states.changes import StateKey
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.locks import Caller
from holdfast.store.server_states.rows import StateRows
from holdfast.system import environment

NEW = Key.of(bytes(32))
SIGNED = {
    "records/a": b"1",
    "used/d": b"2",
    "runs/1/imports-for": b'{"stack":"a"}',
    "runs/1/journal-000001": b"3",
    "leases/lanes/x": b'{"n":1}',
}
UNSIGNED = {"planning/a": b"4", "runs/2/outcome": b'{"stack":"a"}'}


def rotation_of(database: Database, *, new: Key = NEW, log: ListLog | None = None) -> ServerRotation:
    who = current_actor(environment.read())
    return ServerRotation(database=database, key=new, older=(KEY,), who=who, log=log or ListLog())


def upkeep_of(database: Database) -> Upkeep:
    return Upkeep(
        rows=StateRows(database, StateCipher([NEW, KEY])),
        tokens=TokenRows(database),
        backups=BackupSettings(),
        log=ListLog(),
        rotation=rotation_of(database),
    )


def blobs_of(server: MadeServer, role: Role, tenant: str = "default") -> ServerBlobs:
    token = server.token(role, tenant=tenant)
    return ServerBlobs(server.url, lambda: token, {})


def encrypted_with(database: Database, key: Key) -> dict[str, int]:
    """How many values of each table were encrypted with the key: of every binary column that there is."""
    head = MAGIC + b"\x01" + bytes.fromhex(key.id)
    counts: dict[str, int] = {}
    with database.transaction() as connection:
        columns = connection.execute(
            "select table_name, column_name from information_schema.columns "
            "where table_schema = 'holdfast' and data_type = 'bytea'"
        ).fetchall()
        for table, column in columns:
            query = f"select count(*) from {table} where position(%s::bytea in {column}) > 0"  # noqa: S608
            row = connection.execute(cast("Any", query), (head,)).fetchone()
            if row is not None and row[0]:
                counts[table] = counts.get(table, 0) + row[0]
    return counts


def test_clients_notice_nothing_and_nothing_keeps_the_old_key(database: Database) -> None:
    """Before, meanwhile and after: the same content with the same tags, in every tenant."""
    with made_server(database) as server:
        tags: dict[str, str] = {}
        for role, content in ((Role.OPERATOR, SIGNED), (Role.PLANNER, UNSIGNED)):
            blobs = blobs_of(server, role)
            for name, data in content.items():
                assert blobs.create(name, data)
        blobs_of(server, Role.OPERATOR, "other").write("records/z", b"z")
        server.send("POST", "/api/v1/tokens", {"role": "viewer"})  # Recorded in the audit log.
        rows = StateRows(database, StateCipher([KEY]))
        rows.allow_unlocked_writes(StateKey("default", "net"), Caller(who="me", admin=True), allowed=True)
        assert server.send("POST", "/state/net", body=state(1), headers=_md5(state(1))).status == 200
        everything = blobs_of(server, Role.ADMIN)
        tags = {name: blob.tag for name in (*SIGNED, *UNSIGNED) if (blob := everything.read(name))}
    assert {"blobs", "state_versions"} == set(encrypted_with(database, KEY))
    rotation_of(database).begin()
    rotation_of(database).begin()

    with made_server(database, keys=(NEW, KEY)) as server, _busy_clients(server) as failures:
        assert server.send("GET", "/readyz").status == 200
        operator = blobs_of(server, Role.OPERATOR)
        for name, data in {**SIGNED, **UNSIGNED}.items():
            blob = operator.read(name)
            assert blob is not None
            assert (blob.data, blob.tag, blob.signed) == (data, tags[name], name in SIGNED), name
        assert operator.create("records/new", b"n")
        done = upkeep_of(database).run()
        assert done["blobs_encrypted_again"] >= len(SIGNED) + len(UNSIGNED) + 1
        # A client that read the blob before replaces it now.
        assert operator.replace("leases/lanes/x", b'{"n":2}', tag=tags["leases/lanes/x"]) is not None
        for name, data in UNSIGNED.items():
            blob = operator.read(name)
            assert blob is not None
            assert (blob.data, blob.signed) == (data, False)
        # The old key is retired: what it signs counts no more, also for the server that read with it.
        stored = DatabaseBlobs(database, "default")
        identity = read_identity(stored)
        assert identity is not None
        forged = BlobCipher.of(identity.id, KEY).encrypt("used/forged", b"{}")
        stored.write("used/forged", forged)
        with pytest.raises(Exception, match="HF-KEY-7"):
            operator.read("used/forged")
        stored.remove("used/forged")
    assert failures == []
    assert encrypted_with(database, KEY) == {}
    assert (identity.key, identity.retired, identity.next_key) == (NEW.id, (KEY.id,), None)
    assert "blobs_encrypted_again" not in upkeep_of(database).run()

    with made_server(database, keys=(KEY,)) as server:
        answer = server.send("GET", "/readyz")
        assert (answer.status, answer.problem["code"]) == (503, "HF-KEY-14")
    with made_server(database, keys=(NEW,)) as server:
        assert server.send("GET", "/readyz").status == 200
        assert blobs_of(server, Role.OPERATOR, "other").read("records/z") is not None
        entries = server.send("GET", "/api/v1/audit?tenant=default").document["entries"]
        assert [entry["outcome"] for entry in entries if entry["what"] == "rotate"] == ["done", "begun"]
    assert verify(RunStore(DatabaseBlobs(database, "default"), lambda: NEW)).whole


def test_a_rotation_that_is_killed_anywhere_is_continued(database: Database) -> None:
    """At each statement: a server with both keys reads everything, and finishes it."""
    faulty = FaultyDatabase(database)
    for point in range(200):
        with database.transaction() as connection:
            connection.execute("truncate blobs")
        old = RunStore(DatabaseBlobs(database, "default"), lambda: KEY)
        old.encrypted.create("used/d", b"{}")
        old.encrypted.create("planning/a", b"4")
        rotation = rotation_of(cast("Database", faulty))
        with faulty.crashing(point):
            try:
                rotation.begin()
                rotation.finish()
                break
            except Crash:
                pass
        store = RunStore(DatabaseBlobs(database, "default"), lambda: NEW, older_keys=(KEY,))
        rotation_of(database).begin()
        assert [store.encrypted.read(name) is not None for name in ("used/d", "planning/a")] == [True, True]
        rotation_of(database).finish()
        assert encrypted_with(database, KEY) == {}
    assert 10 < point < 199


def test_a_store_whose_key_is_unknown_is_left_alone(database: Database) -> None:
    """Neither is another rotation interfered with, nor a retired key used again."""
    unknown = Key.of(bytes([7] * 32))
    RunStore(DatabaseBlobs(database, "default"), lambda: unknown).id()
    rotation_of(database).begin()
    assert rotation_of(database).finish() == 0
    identity = read_identity(DatabaseBlobs(database, "default"))
    assert identity is not None
    assert (identity.key, identity.next_key) == (unknown.id, None)


def _md5(content: bytes) -> dict[str, str]:
    digest = hashlib.md5(content, usedforsecurity=False).digest()
    return {"content-md5": base64.b64encode(digest).decode(), "content-type": "application/json"}


class _busy_clients:  # noqa: N801 - a context
    """Reads and writes all the time; every unexpected answer is a failure."""

    def __init__(self, server: MadeServer) -> None:
        self._blobs = blobs_of(server, Role.OPERATOR)
        self._ended = threading.Event()
        self._failures: list[str] = []
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> list[str]:
        self._thread.start()
        return self._failures

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        number = 0
        try:
            self._blobs.create("records/busy", b"0")
            while not self._ended.is_set():
                blob = self._blobs.read("records/busy")
                assert blob is not None
                assert blob.data == b"%d" % number
                number += 1
                assert self._blobs.replace("records/busy", b"%d" % number, tag=blob.tag) is not None
                assert self._blobs.read("records/a") is not None
        except BaseException as error:  # noqa: BLE001 - the test shows it
            self._failures.append(repr(error))
