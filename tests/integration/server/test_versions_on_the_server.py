"""Versions of states on the server: compared, restored, pinned, removed, purged, and shared with runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import pytest
from postgres_made import MadePostgres
from state_backend_made import CALLER, KEY, NET, envelope, lock_info, state, write_state

from holdfast.config.settings import BackupSettings
from holdfast.database.database import Database
from holdfast.kernel.errors import Refused, UsageError
from holdfast.secrets.keys import Key
from holdfast.states.server_versions import diff, find_secrets, rollback, scan_version
from holdfast.store.server_states.blobs import StateBlobs
from holdfast.store.server_states.cipher import StateCipher, VersionPlace
from holdfast.store.server_states.locks import Caller, StateRefusal, lock_request, run_lease
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.versions import StateVersions
from holdfast.store.states import ManagedStates, StateSnapshot


@pytest.fixture(scope="module")
def shared(postgres: MadePostgres) -> Iterator[Database]:
    with postgres.new_database() as address, Database.open(address) as database:
        yield database


@pytest.fixture
def rows(shared: Database) -> StateRows:
    with shared.transaction() as connection:
        connection.execute("truncate states cascade")
    return StateRows(shared, StateCipher([KEY]))


@pytest.fixture
def versions(rows: StateRows) -> StateVersions:
    return StateVersions(rows)


def test_versions_are_listed_shown_and_compared(rows: StateRows, versions: StateVersions) -> None:
    contents = (state(serial, values={"a": serial, "b": "same"}) for serial in (1, 2, 3))
    id_, *_ = [write_state(rows, content) for content in contents]
    listed = versions.list("default", id_)
    assert [(row.number, row.serial, row.resources, row.current) for row in listed] == [
        (3, 3, 2, True),
        (2, 2, 2, False),
        (1, 1, 2, False),
    ]
    assert listed == (*versions.list("default", id_, limit=1), *versions.list("default", id_, before=3))
    assert versions.show("default", id_, 2) == listed[1]
    content = versions.content("default", id_, 2)
    assert (len(content), hashlib.sha256(content).hexdigest()) == (listed[1].size, listed[1].digest)
    assert [(row.name, row.version, row.serial) for row in versions.states("default", name=NET.name)] == [
        (NET.name, 3, 3)
    ]
    difference = diff(versions, "default", id_, 1, 3)
    assert difference is not None
    assert [resource.address for resource in difference.resources] == ["terraform_data.a"]
    for tenant in ("other", "*"):
        assert not versions.states(tenant)
        assert not versions.list(tenant, id_)
        with pytest.raises(UsageError, match="HF-STATE-51"):
            versions.content(tenant, id_, 1)


def test_a_sensitive_value_is_not_in_a_difference(rows: StateRows, versions: StateVersions) -> None:
    id_ = ""
    for serial, password in ((1, "hunter2-first"), (2, "hunter2-second")):
        document = json.loads(state(serial, values={"a": password}))
        instance = document["resources"][0]["instances"][0]
        instance["sensitive_attributes"] = [[{"type": "get_attr", "value": "input"}]]
        id_ = write_state(rows, json.dumps(document).encode())
    difference = diff(versions, "default", id_, 1, 2)
    assert difference is not None
    assert difference.resources
    assert "hunter2" not in str(difference)


def test_a_rollback_is_a_new_version_with_a_greater_serial(rows: StateRows, versions: StateVersions) -> None:
    id_, *_ = [write_state(rows, state(serial)) for serial in (1, 7)]
    done = rollback(rows, "default", id_, 1, Caller(who="root"), reason="a mistake")
    assert (done.number, done.serial, done.who, done.why) == (3, 8, "root", "rollback to 1: a mistake")
    restored = json.loads(versions.content("default", id_, 3))
    assert restored == json.loads(state(1)) | {"serial": 8}
    rows.lock(NET, lock_request(lock_info("one"), CALLER))
    with pytest.raises(StateRefusal) as refusal:
        rollback(rows, "default", id_, 2, CALLER, reason="again")
    assert refusal.value.status == 423
    rows.unlock(NET, "one", CALLER)
    write_state(rows, envelope(9))
    with pytest.raises(Refused, match="HF-STATE-26"):
        rollback(rows, "default", id_, 1, CALLER, reason="again")
    rows.delete(NET, Caller(who="root", admin=True), lock=None)
    with pytest.raises(Refused, match="HF-STATE-58"):
        rollback(rows, "default", id_, 1, CALLER, reason="again")


def test_retention_frees_space_and_keeps_what_is_needed(rows: StateRows, versions: StateVersions) -> None:
    id_, *_ = [write_state(rows, state(serial)) for serial in range(1, 7)]
    versions.pin("default", id_, 2, CALLER, reason="before the migration")
    assert versions.prune("default", id_, BackupSettings(keep=2, max_age=3600.0)) == ()
    assert sorted(versions.prune("default", id_, BackupSettings(keep=2, max_age=0.0))) == [1, 3, 4]
    assert [row.number for row in versions.list("default", id_)] == [6, 5, 2]
    versions.pin("default", id_, 2, CALLER, reason=None)
    assert versions.prune("default", id_, BackupSettings(keep=1, max_age=0.0)) == (5, 2)
    assert rows.read(NET) is not None


def test_a_purge_destroys_one_old_version_and_says_why(rows: StateRows, versions: StateVersions) -> None:
    id_, *_ = [write_state(rows, state(serial)) for serial in (1, 2)]
    with pytest.raises(Refused, match="HF-STATE-52"):
        versions.purge("default", id_, 2, CALLER, reason="leak")
    versions.purge("default", id_, 1, CALLER, reason="leak")
    purged = versions.show("default", id_, 1)
    assert (purged.purged, purged.stored, purged.serial) == ("me: leak", 0, 1)
    with pytest.raises(UsageError, match="purged: me: leak"):
        versions.content("default", id_, 1)
    with rows.database.transaction() as connection:
        events = connection.execute("select who, what, reason from state_events").fetchall()
    assert events == [("me", "purge version 1", "leak")]


def test_secrets_in_versions_are_counted(rows: StateRows, versions: StateVersions) -> None:
    document = json.loads(state(1, values={}))
    document["resources"] = [
        {
            "mode": "managed",
            "type": "random_password",
            "name": "db",
            "provider": 'provider["registry.terraform.io/hashicorp/random"]',
            "instances": [{"attributes": {"result": "s3cr3t-Value-9431", "length": 17}}],
        }
    ]
    document["outputs"] = {
        "key": {"value": "abc", "type": "string", "sensitive": True},
        "name": {"value": "abc", "type": "string"},
    }
    content = json.dumps(document).encode()
    id_ = write_state(rows, content)
    assert versions.show("default", id_, 1).secrets is None
    scan_version(versions, VersionPlace("default", id_, 1), content)
    found, output = find_secrets(content) or ()
    assert (output.address, output.paths) == ("output.key", ("value",))
    assert (found.address, found.paths) == ("random_password.db", ("result",))
    assert found.remedy
    assert versions.show("default", id_, 1).secrets == 2
    assert find_secrets(envelope(1)) is None  # Not the same as none found.


def test_an_older_key_still_reads(rows: StateRows, shared: Database) -> None:
    write_state(rows, state(1))
    new = Key.of(bytes(32))
    stored = StateRows(shared, StateCipher([new, KEY])).read(NET)
    assert stored is not None
    assert stored.content == state(1)


def test_a_managed_state_and_plain_terraform_share_versions_and_lock(rows: StateRows) -> None:
    blobs = StateBlobs(rows, "default", CALLER)
    managed = _managed(blobs)
    lease = run_lease("r1", "r1", who=CALLER.who, created="", version="1")
    assert managed.current(NET.name) is None
    with pytest.raises(StateRefusal, match="not locked"):
        managed.add(NET.name, _snapshot(1), after=0)
    rows.lock(NET, lease)
    assert managed.add(NET.name, _snapshot(1), after=0) is not None
    managed.withdraw(NET.name, 1)
    assert managed.numbers(NET.name) == ()
    first = managed.add(NET.name, _snapshot(1), after=0)
    assert first is not None
    rows.unlock(NET, "r1", CALLER)
    stored = rows.read(NET)
    assert stored is not None
    assert (stored.number, stored.content) == (1, state(1))
    write_state(rows, state(2))
    current = managed.current(NET.name)
    assert current is not None
    assert (current.number, current.state, current.who, current.why) == (2, state(2), "me", "terraform")
    assert managed.stacks() == (NET.name,)

    # Plain Terraform holds the lock: the run is refused, and gets no lease.
    rows.lock(NET, lock_request(lock_info("one"), CALLER))
    with pytest.raises(StateRefusal) as refusal:
        managed.add(NET.name, _snapshot(3), after=2)
    assert refusal.value.status == 423
    with pytest.raises(StateRefusal):
        rows.lock(NET, lease)
    rows.unlock(NET, "one", CALLER)

    # The run holds the lease: plain Terraform, other runs and other people are refused.
    rows.lock(NET, lease)
    with pytest.raises(StateRefusal):
        rows.lock(NET, lock_request(lock_info("two"), CALLER))
    with pytest.raises(StateRefusal):
        managed.add(NET.name, _snapshot(3, run="r2"), after=2)
    other = StateBlobs(rows, "default", Caller(who="another"))
    with pytest.raises(StateRefusal):
        _managed(other).add(NET.name, _snapshot(3), after=2)
    assert managed.add(NET.name, _snapshot(3), after=1) is None
    assert managed.add(NET.name, _snapshot(3), after=2) is not None
    held = blobs.read(f"state-locks/{NET.name.replace('/', '%2F')}")
    assert held is not None
    assert json.loads(held.data)["ID"] == "r1"
    # The server prunes versions; a client removes none of them.
    for number in (1, 2, 3):
        with pytest.raises(StateRefusal, match="cannot be removed"):
            managed.withdraw(NET.name, number)
    assert managed.numbers(NET.name) == (1, 2, 3)


def _managed(blobs: StateBlobs) -> ManagedStates:
    """Nothing is encrypted in between."""
    blobs.blobs = blobs  # type: ignore[attr-defined]
    return ManagedStates(blobs)  # type: ignore[arg-type]


def _snapshot(serial: int, *, run: str = "r1") -> StateSnapshot:
    return StateSnapshot(
        serial=serial, lineage="lineage-1", resources=1, run=run, who="me", why="apply", state=state(serial)
    )
