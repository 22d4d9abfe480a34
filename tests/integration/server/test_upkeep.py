"""What the server does from time to time."""

from __future__ import annotations

import json
from datetime import timedelta

from server_made import ListLog
from state_backend_made import KEY, NET, SECRET, envelope, state, write_state

from holdfast.config.settings import BackupSettings
from holdfast.database.database import Database
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Role
from holdfast.identity.token_rows import TokenRows
from holdfast.secrets.keys import Key
from holdfast.server.upkeep import Upkeep, hold_upkeep
from holdfast.store.server_states.cipher import StateCipher
from holdfast.store.server_states.locks import Caller
from holdfast.store.server_states.rows import StateRows
from holdfast.store.server_states.versions import StateVersions
from holdfast.system import clock


def _upkeep(database: Database, log: ListLog, *, keep: int = 30, keys: tuple[Key, ...] = (KEY,)) -> Upkeep:
    return Upkeep(
        rows=StateRows(database, StateCipher(keys)),
        tokens=TokenRows(database),
        backups=BackupSettings(keep=keep, max_age=0.0),
        log=log,
    )


def test_old_versions_and_tokens_go_and_new_versions_are_scanned(database: Database) -> None:
    upkeep = _upkeep(database, log := ListLog(), keep=2)
    id_ = ""
    for serial in (1, 2, 3):
        document = json.loads(state(serial))
        document["resources"] += [SECRET] if serial == 2 else []
        id_ = write_state(upkeep.rows, json.dumps(document).encode())
    expired = Principal(id="", name="ci", kind="run", role=Role.RUN)
    upkeep.tokens.create(expired, created_by="me", expires=clock.now() - timedelta(hours=2))

    assert upkeep.run() == {"versions_scanned": 3, "versions_removed": 1, "tokens_removed": 1}
    versions = StateVersions(upkeep.rows).list("default", id_)
    assert [(version.number, version.secrets) for version in versions] == [(3, 0), (2, 1)]
    assert log.lines == [
        {"event": "upkeep", "versions_scanned": 3, "versions_removed": 1, "tokens_removed": 1}
    ]
    assert upkeep.run() == {}


def test_what_cannot_be_scanned_stays_unscanned_and_stops_nothing(database: Database) -> None:
    """Encrypted by OpenTofu, or damaged: never counted as free of secrets."""
    upkeep = _upkeep(database, log := ListLog())
    id_ = write_state(upkeep.rows, envelope(1))
    assert upkeep.run() == {}
    upkeep.rows.delete(NET, Caller(who="root", admin=True), lock=None)
    damaged = write_state(upkeep.rows, state(1))
    write_state(upkeep.rows, state(2))
    with database.transaction() as connection:
        connection.execute(
            "update state_versions set data = 'damaged' where state = %s and number = 1", (damaged,)
        )
    assert upkeep.run() == {"versions_scanned": 1}
    failed = [line["step"] for line in log.lines if line["event"] == "upkeep failed"]
    assert failed == ["versions_scanned", "versions_encrypted_again"]
    versions = StateVersions(upkeep.rows)
    assert versions.show("default", id_, 1).secrets is None
    assert [version.secrets for version in versions.list("default", damaged)] == [0, None]


def test_it_runs_at_once_and_ends_with_the_server(database: Database) -> None:
    upkeep = _upkeep(database, log := ListLog())
    write_state(upkeep.rows, state(1))
    with hold_upkeep(upkeep, interval=3600.0):
        while not log.lines:
            clock.pause(0.01)
    assert log.lines == [{"event": "upkeep", "versions_scanned": 1}]


def test_versions_get_the_new_key_while_they_are_read_and_written(database: Database) -> None:
    """Both keys read until the end; a version whose key is missing is reported and left alone."""
    old, new, lost = KEY, Key.of(bytes(32)), Key.of(bytes([9] * 32))
    write_state(StateRows(database, StateCipher([lost])), state(1))
    write_state(StateRows(database, StateCipher([old])), state(2))
    upkeep = _upkeep(database, log := ListLog(), keys=(new, old))
    id_ = write_state(upkeep.rows, state(3))
    write_state(
        StateRows(database, StateCipher([old, new])), state(4)
    )  # A server that knows of it, and waits.
    versions = StateVersions(upkeep.rows)
    assert versions.count_keys() == (4, 3)
    assert upkeep.run()["versions_encrypted_again"] == 2
    assert versions.count_keys() == (4, 1)
    assert "versions_encrypted_again" in {line.get("step") for line in log.lines}
    only_new = StateVersions(StateRows(database, StateCipher([new])))
    assert [only_new.content("default", id_, number) for number in (2, 3, 4)] == [*map(state, (2, 3, 4))]
    assert "versions_encrypted_again" not in upkeep.run()
