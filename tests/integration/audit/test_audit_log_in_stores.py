"""The audit log in real stores: a folder, S3 and a server, with several writers, kills and tampering."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from audit_made import applied, audit_on, store_on
from flaky_s3 import Fails, FlakyS3, LostAnswer
from server_made import MadeServer, made_server

from holdfast.audit.layout import piece_name
from holdfast.audit.reader import newest, verify
from holdfast.audit.sink import ship, waiting
from holdfast.database.database import Database
from holdfast.identity.roles import Role
from holdfast.store.blobs import BlobStore
from holdfast.store.database_blobs import DatabaseBlobs
from holdfast.store.place import FolderBlobs
from holdfast.store.run_store import RunStore
from holdfast.store.s3_blobs import S3Blobs
from holdfast.store.server_blobs import ServerBlobs
from holdfast.store.server_store import ServerRunStore
from holdfast.system.aws import AwsCaller, S3Timeouts

WRITER = """
import sys, time
from audit_made import applied, audit_on, store_on
from holdfast.store.place import FolderBlobs
from pathlib import Path
audit = audit_on(store_on(FolderBlobs(Path(sys.argv[1]))))
for number in range(int(sys.argv[3])):
    audit.record(applied(f"{sys.argv[2]}-{number}"))
    print(number, flush=True)
    time.sleep(0.01)  # A writer does other things, too, so that others get their turn.
"""
_REPLACED = """
    update blobs set data = (select data from blobs where name = %(last)s) where name = %(second)s"""
ROOT = Path(__file__).parent.parent.parent.parent


@pytest.fixture(scope="module")
def s3() -> Iterator[FlakyS3]:
    with FlakyS3() as server:
        server.make_bucket("acme")
        yield server


@pytest.fixture(scope="module")
def caller(s3: FlakyS3) -> AwsCaller:
    return AwsCaller(s3.variables, timeouts=S3Timeouts(pause=0.01))


@pytest.fixture
def server(database: Database) -> Iterator[MadeServer]:
    with made_server(database) as made:
        yield made


@pytest.fixture(params=["folder", "s3", "database", "server"])
def view(request: pytest.FixtureRequest, tmp_path: Path, caller: AwsCaller) -> Callable[[], RunStore]:
    """The same store, as another machine sees it."""
    if request.param == "server":
        return functools.partial(_client, request.getfixturevalue("server"))
    blobs: BlobStore = S3Blobs("acme", tmp_path.name, caller, S3Timeouts(pause=0.01))
    if request.param == "folder":
        blobs = FolderBlobs(tmp_path / "store")
    elif request.param == "database":
        blobs = DatabaseBlobs(request.getfixturevalue("database"), "default")
    return functools.partial(store_on, blobs)


def _client(server: MadeServer) -> RunStore:
    token = server.token(Role.OPERATOR)
    return ServerRunStore(ServerBlobs(server.url, lambda: token, {}))


def start(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    paths = os.pathsep.join(str(ROOT / one) for one in ("src", "tests/support"))
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), name, str(count)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
    )


def stacks(store: RunStore) -> list[str]:
    return sorted(str(line["stack"]) for line in newest(store, limit=10_000))


def test_writers_at_once_all_get_their_lines_in(view: Callable[[], RunStore]) -> None:
    """As from several machines: each with a view of its own, none with a word to the others."""

    def write(who: int) -> None:
        audit = audit_on(view())
        for number in range(3):
            audit.record(applied(f"{who}-{number}"))

    store = view()
    _ = store.key
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    found = verify(store)
    assert (found.whole, found.lines) == (True, 9)
    assert stacks(store) == sorted(f"{who}-{number}" for who in range(3) for number in range(3))


def test_processes_at_once_make_one_chain_and_a_kill_leaves_it_whole(tmp_path: Path) -> None:
    """One is killed in the middle of its writing; what it said it had written is there."""
    folder = tmp_path / "store"
    store = store_on(FolderBlobs(folder))
    _ = store.key
    victim, other = start(folder, "victim", 100_000), start(folder, "other", 30)
    assert victim.stdout is not None
    said = [int(victim.stdout.readline()) for _ in range(20)]
    other.communicate(timeout=60)
    os.kill(victim.pid, signal.SIGKILL)
    with contextlib.suppress(ValueError):
        said += [int(line) for line in victim.stdout.read().splitlines()]
    victim.wait(timeout=60)
    victim.stdout.close()
    assert verify(store).whole
    audit_on(store).record(applied("after"))
    found = verify(store)
    assert (found.whole, found.notes) == (True, ())
    assert {f"victim-{number}" for number in said} | {f"other-{number}" for number in range(30)} <= {
        *stacks(store)
    }


def test_a_crash_in_the_middle_of_a_line_leaves_no_half_line(tmp_path: Path) -> None:
    """What was being written lies aside, without a name in the log: it is not taken for a line."""
    store = store_on(FolderBlobs(tmp_path / "store"))
    audit_on(store).record(applied("net"))
    aside = tmp_path / "store" / "audit/lines" / ".000000000002.ab12cd"
    aside.write_bytes(b"half a li")
    found = verify(store)
    assert (found.whole, found.notes, found.lines) == (True, (), 1)
    audit_on(store).record(applied("dns"))
    assert verify(store).lines == 2


def test_fingers_in_the_files_are_found_where_they_were(tmp_path: Path) -> None:
    """Without the key: a byte, a cut, another line's file, a file that is gone, an old head."""
    folder = tmp_path / "store"
    store = store_on(FolderBlobs(folder))
    old_head = b""
    for number in range(4):
        audit_on(store).record(applied(f"s{number}"))
        old_head = old_head or (folder / "audit/head").read_bytes()
    pieces = [folder / piece_name(seq) for seq in range(1, 5)]
    before = {path: path.read_bytes() for path in (*pieces, folder / "audit/head")}

    def breaks() -> list[tuple[int, str]]:
        found = [(one.seq, one.kind) for one in verify(store).breaks]
        for path, data in before.items():
            path.write_bytes(data)
        return found

    changed = bytearray(before[pieces[1]])
    changed[-20] ^= 1
    pieces[1].write_bytes(bytes(changed))
    assert breaks() == [(2, "unreadable")]
    pieces[1].write_bytes(before[pieces[1]][:-7])
    assert breaks() == [(2, "unreadable")]
    pieces[1].write_bytes(before[pieces[2]])
    assert breaks() == [(2, "unreadable")]
    pieces[1].unlink()
    assert breaks() == [(2, "missing")]
    pieces[3].unlink()
    assert breaks() == [(4, "missing")]
    (folder / "audit/head").write_bytes(b"")
    assert breaks() == [(4, "head")]
    (folder / "audit/head").write_bytes(old_head)
    assert verify(store).notes
    assert breaks() == []


def test_changed_rows_of_a_server_are_found_where_they_were(server: MadeServer, database: Database) -> None:
    """By someone who has the database and not the key: as in the files of a folder."""
    store = _client(server)
    for number in range(4):
        audit_on(store).record(applied(f"s{number}"))
    names = {"second": piece_name(2), "last": piece_name(4)}
    changes = {
        "update blobs set data = data || 'x' where name = %(second)s": (2, "unreadable"),
        "update blobs set data = substring(data for 40) where name = %(second)s": (2, "unreadable"),
        _REPLACED: (2, "unreadable"),
        "delete from blobs where name = %(second)s": (2, "missing"),
        "delete from blobs where name = %(last)s": (4, "missing"),
    }
    with database.transaction() as connection:
        connection.execute("create table saved as table blobs")
    for sql, place in changes.items():
        with database.transaction() as connection:
            connection.execute(sql.encode(), names)
        assert [(broken.seq, broken.kind) for broken in verify(store).breaks] == [place], sql
        with database.transaction() as connection:
            connection.execute("truncate blobs")
            connection.execute("insert into blobs table saved")
    assert verify(store).whole
    audit_on(store).record(applied("after"))
    assert (verify(store).whole, verify(store).lines) == (True, 5)


def test_a_lost_answer_of_s3_writes_no_line_twice(s3: FlakyS3, tmp_path: Path, caller: AwsCaller) -> None:
    """The write succeeded and its answer was lost: the line is written once."""
    store = store_on(S3Blobs("acme", tmp_path.name, caller, S3Timeouts(pause=0.01)))
    audit = audit_on(store)
    audit.record(applied("net"))
    s3.disturb(LostAnswer(), method="PUT", path="audit/lines", times=1)
    audit.record(applied("dns"))
    s3.disturb(Fails(), method="PUT", path="audit/lines", times=1)
    audit.record(applied("app"))
    assert stacks(store) == ["app", "dns", "net"]
    assert verify(store).whole


def test_the_record_is_shipped_to_s3_and_waits_while_that_fails(s3: FlakyS3, tmp_path: Path) -> None:
    """Readable by anything that reads JSON lines; a sink that refuses costs a run nothing."""
    store = store_on(FolderBlobs(tmp_path / "store"))
    address = f"s3://acme/{tmp_path.name}/audit"
    audit_on(store).record_all([applied("net", run="R1"), applied("dns", run="R2")])
    s3.disturb(Fails(status=403, code="AccessDenied"), method="PUT", path="audit")
    refused = ship(store, address, s3.variables)
    s3.calm()
    assert refused.waiting == 2
    assert f" {address}:" in str(refused.why)
    assert ship(store, address, s3.variables).warning is None
    assert waiting(store, address) == 0
    sink = S3Blobs.open(f"s3://acme/{tmp_path.name}", s3.variables)
    found = [item.data for name in sink.names("audit") if (item := sink.read(name)) is not None]
    assert sorted(json.loads(data)["stack"] for data in found) == ["dns", "net"]
