"""The key of a server is replaced: clients read everything afterwards, however often it was interrupted."""

from __future__ import annotations

import pytest
from audit_made import applied, audit_on
from faulty_database import Crash, FaultyDatabase
from server_made import KEY, MadeServer, made_server
from state_backend_made import state

from holdfast.audit.reader import verify
from holdfast.config.settings import BackupSettings
from holdfast.database.database import Database
from holdfast.identity.roles import Role
from holdfast.kernel.errors import HoldfastError
from holdfast.runs.key_rotation import rotate_key
from holdfast.secrets.key_rotation import RotationKeys
from holdfast.secrets.keys import Key
from holdfast.server.upkeep import Upkeep
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.journal import LINES, STARTED, FrameEncoder
from holdfast.store.rotation import count_keys
from holdfast.store.run_records import StoredClaim, journal_name
from holdfast.store.run_store import StateRecord
from holdfast.store.server_blobs import ServerBlobs, ServerCipher
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.versions import StateVersions
from holdfast.store.server_store import ServerRunStore
from holdfast.store.states import StateSnapshot

NEW = Key.of(b"n" * 32)
RECORD = StateRecord(place="p", lineage="lineage-1", serial=1, resources=1, seen="now")
DIGEST = "d" * 64
TENANTS = ("default", "other")


def test_clients_read_everything_after_any_number_of_kills(database: Database) -> None:
    with made_server(database) as server:
        for tenant in TENANTS:
            _fill(server, tenant)
    for tenant in TENANTS:
        # Every piece of a journal is one blob more.
        blobs = DatabaseBlobs(database, tenant)
        assert count_keys(blobs) == {KEY.for_tenant(tenant).id: len(blobs.names("")) - 1}
    faulty = FaultyDatabase(database)
    kills = [_rotate(faulty, database, tenant) for tenant in TENANTS]
    assert min(kills) >= 5
    for tenant in TENANTS:
        assert set(count_keys(DatabaseBlobs(database, tenant))) == {NEW.id}

    with made_server(database, keys=(NEW, KEY)) as server:
        for tenant in TENANTS:
            _require_same(server, tenant)
    versions = StateVersions(rows := StateRows(database, StateCipher([NEW, KEY])))
    assert versions.count_keys() == (2, 2)
    Upkeep(rows=rows, tokens=server.tokens, backups=BackupSettings(), log=server.log).run()
    assert versions.count_keys() == (2, 0)
    with made_server(database, keys=(NEW,)) as server:
        for tenant in TENANTS:
            _require_same(server, tenant)


def _client(server: MadeServer, tenant: str, role: Role = Role.OPERATOR) -> ServerRunStore:
    token = server.token(role, tenant=tenant, name=role.value)
    return ServerRunStore(ServerBlobs(server.url, lambda: token, {}))


def _fill(server: MadeServer, tenant: str) -> None:
    """One of everything, by a client."""
    store = _client(server, tenant)
    store.claims.take(StoredClaim(stack="a", run="r", intent={}))
    snapshot = StateSnapshot(
        serial=1, lineage="lineage-1", resources=1, run="r", who="ada", why="apply", state=state(1)
    )
    store.states.add("a", snapshot, after=0)
    store.backups.add("a", snapshot, name="r")
    store.record("a", RECORD)
    store.mark_used(DIGEST, run="r", stack="a", who="ada")
    access = store.supervisor_access(read=(), write=("runs/r",), run="r", stack="a")
    frames = FrameEncoder(ServerCipher.from_document(access["keys"]), "r")  # type: ignore[arg-type]
    for piece, (kind, data) in enumerate(((STARTED, b"{}"), (LINES, b"a\nb")), start=1):
        store.blobs.create(journal_name("r", piece), frames.frame(kind, data))
    store.runs.finish("r", {"operation": "apply", "status": "applied"})
    store.claims.release("a", "r")
    store.approvals.record_author(DIGEST, {}, stack="a", run="p")
    approval = Approval(
        kind=ApprovalKind.APPROVAL, digest=DIGEST, stack="a", run="p", who={}, reason="x", at=""
    )
    _client(server, tenant, Role.APPROVER).approvals.add(approval)
    audit_on(store).record(applied("a"))
    _require_same(server, tenant)


def _require_same(server: MadeServer, tenant: str) -> None:
    store = _client(server, tenant)
    version = store.states.current("a")
    assert version is not None
    assert (version.serial, version.state) == (1, state(1))
    assert store.backups.last("a") is not None
    assert store.last_seen("a") == RECORD
    assert (store.used(DIGEST) or {})["run"] == "r"
    assert store.runs.journal("r").lines == (b"a", b"b")
    outcome = store.runs.outcome_blob("r")
    assert outcome is not None
    assert outcome.signed
    assert [given.shown for given in store.approvals.of(DIGEST)] == ["approver"]
    assert verify(store).whole


def _rotate(faulty: FaultyDatabase, database: Database, tenant: str) -> int:
    """Killed later each time, until it is through; how often it was killed."""
    blobs = DatabaseBlobs(faulty, tenant)  # type: ignore[arg-type]
    for kills in range(1000):
        try:
            with faulty.crashing(kills * 7):
                keys = RotationKeys(KEY, NEW, None)
                result = rotate_key(blobs, keys, lambda store, entry: audit_on(store).record(entry))
        except Crash:
            if kills == 4:
                _require_refused(database, tenant)
            continue
        assert result.unreadable == ()
        return kills
    pytest.fail("it is never through")


def _require_refused(database: Database, tenant: str) -> None:
    """In between, a server with either key refuses its clients instead of guessing."""
    for key in (KEY, NEW):
        with made_server(database, keys=(key,)) as server, pytest.raises(HoldfastError) as refused:
            _client(server, tenant).used(DIGEST)
        assert refused.value.problem.code in {"HF-KEY-13", "HF-KEY-14"}, refused.value
