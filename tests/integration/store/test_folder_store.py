"""The run store in a folder: processes that race for one name, and what is on the disk."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from program import eventually
from small import obey_permissions

from holdfast.kernel.errors import HoldfastError
from holdfast.secrets.keys import Key
from holdfast.store.journal import LINES, STARTED, JournalWriter
from holdfast.store.place import FolderBlobs
from holdfast.store.run_records import StoredClaim, journal_name
from holdfast.store.run_store import RunStore, StateRecord
from holdfast.store.states import StateSnapshot

SECRET = b"k" * 32
KEY = Key.of(SECRET)
RACERS = 6

RACER = """
import base64, sys, time
from pathlib import Path
from holdfast.secrets.keys import Key
from holdfast.store.run_records import StoredClaim
from holdfast.store.place import FolderBlobs
from holdfast.store.run_store import RunStore
from holdfast.store.states import StateSnapshot

folder, go, me = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
store = RunStore(FolderBlobs(folder), lambda: Key.of(b"k" * 32))
new = StateSnapshot(serial=1, lineage="l", resources=0, run=me, who=me, why="apply", state=me.encode())
go.with_name(f"ready-{me}").touch()
while not go.exists():
    time.sleep(0.001)
print(
    store.mark_used("d1", run=me, stack="a", who=me),
    store.claims.take(StoredClaim(stack="a", run=me, intent={})).run == me,
    store.states.add("a", new, after=0) is not None,
    store.id(),
)
"""


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(FolderBlobs(tmp_path / "store"), lambda: KEY)


def test_of_many_processes_one_is_first(store: RunStore, tmp_path: Path) -> None:
    """On an empty store: one plan is used once, one stack claimed once, one version written, one id given."""
    go = tmp_path / "go"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path / "store"), str(go), f"r{number}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(RACERS)
    ]
    eventually(lambda: len(list(tmp_path.glob("ready-*"))) == RACERS, what="all are ready")
    go.touch()
    told = [racer.communicate(timeout=60)[0].split() for racer in racers]
    for column in range(3):
        assert sorted(one[column] for one in told) == ["False"] * (RACERS - 1) + ["True"]
    assert {one[3] for one in told} == {store.id()}
    winner = next(number for number, one in enumerate(told) if one[0] == "True")
    assert (store.used("d1") or {})["run"] == f"r{winner}"


CANARY = "canary-7f3a"


def test_nothing_is_readable_on_the_disk(store: RunStore, tmp_path: Path) -> None:
    """Neither in clear nor in base64; only the owner may look; and Git looks away."""
    word = CANARY.encode()
    store.mark_used("d1", run="r1", stack="a", who=CANARY)
    store.record("a", StateRecord(place=CANARY, lineage=CANARY, serial=1, resources=1, seen="x"))
    store.keep_errored("a", word)
    store.keep_errored("a", word)
    store.resolve_errored("a")
    store.claims.take(StoredClaim(stack="a", run="r1", intent={"who": CANARY}))
    new = StateSnapshot(
        serial=1, lineage=CANARY, resources=1, run="r1", who=CANARY, why=CANARY, state=word * 9000
    )
    store.states.add("a", new, after=0)
    store.backups.add("a", new)
    store.runs.finish("r1", {"status": CANARY})
    store.runs.write("r1", "heartbeat", word)
    journal = tmp_path / "store" / journal_name("r1")
    writer = JournalWriter(str(journal), store.cipher, "r1")
    writer.append(STARTED, b'{"process": "' + word + b'"}')
    writer.append(LINES, word)
    writer.close()
    found = [Path(at) / name for at, _, names in os.walk(tmp_path / "store") for name in names]
    assert len(found) > 10
    for file in found:
        content = file.read_bytes()
        assert word not in content, file
        assert base64.b64encode(word)[:12] not in content, file
        assert SECRET not in content, file
        assert CANARY not in file.name
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    for at, folders, _ in os.walk(tmp_path / "store"):
        for folder in (Path(at), *(Path(at) / one for one in folders)):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    assert (tmp_path / "store/.gitignore").read_text().endswith("*\n")
    assert store.runs.journal("r1").lines == (word,)


def test_a_state_of_a_stack_that_begins_with_a_dot_is_found(store: RunStore) -> None:
    """On a disk, names with a dot are half-written files; no stack's name may become one."""
    new = StateSnapshot(serial=1, lineage="l", resources=0, run=None, who="w", why="apply", state=b"{}")
    store.states.add(".hidden/x", new, after=0)
    assert store.states.current(".hidden/x") is not None
    assert store.states.stacks() == (".hidden/x",)


def test_partial_writes_are_ignored(store: RunStore, tmp_path: Path) -> None:
    """What a crash left beside a name is passed over by every list."""
    store.mark_used("d1", run="r1", stack="a", who="ann")
    store.runs.finish("r1", {"status": "applied"})
    for folder in ("used", "runs", "runs/r1", "claims", "states/a"):
        place = tmp_path / "store" / folder
        place.mkdir(parents=True, exist_ok=True)
        (place / ".r2.abc123").write_bytes(b"half")
    assert store.runs.ids() == ("r1",)
    assert store.claims.all() == ()
    assert store.states.current("a") is None


UNREADABLE = """
import sys
from pathlib import Path
from holdfast.kernel.errors import HoldfastError
from holdfast.secrets.keys import Key
from holdfast.store.place import FolderBlobs
from holdfast.store.run_store import RunStore

store = RunStore(FolderBlobs(Path(sys.argv[1])), lambda: Key.of(b"k" * 32))
for look in (
    lambda: store.used("d1"),
    lambda: store.mark_used("d1", run="r", stack="a", who="x"),
    lambda: store.claims.all(),
    lambda: store.runs.outcome("r1"),
):
    try:
        print("absent" if look() in (None, (), True) else "there")
    except (HoldfastError, OSError) as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize("closed", ["", "used", "used/d1", "store.json"])
def test_what_may_not_be_read_is_not_absent(store: RunStore, tmp_path: Path, closed: str) -> None:
    """A folder or a file that this user may not read is an error: its plan is not used a second time."""
    store.mark_used("d1", run="r1", stack="a", who="ann")
    store.runs.finish("r1", {"status": "applied"})
    store.claims.take(StoredClaim(stack="a", run="r1", intent={}))
    place = tmp_path / "store" / closed
    mode = place.stat().st_mode
    place.chmod(0)
    try:
        done = subprocess.run(
            [sys.executable, "-c", UNREADABLE, str(tmp_path / "store")],
            preexec_fn=obey_permissions,
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        place.chmod(mode)
    assert "absent" not in done.stdout, done.stdout
    assert done.stdout.split()[:1] == ["UnknownOutcome"]


def test_a_file_in_the_place_of_a_folder_is_not_absent(store: RunStore, tmp_path: Path) -> None:
    """A file in place of a folder is an error, never an empty store."""
    store.mark_used("d1", run="r1", stack="a", who="ann")
    (tmp_path / "store/claims").write_text("not a folder")
    with pytest.raises((HoldfastError, OSError)):
        store.claims.of("a")
    with pytest.raises((HoldfastError, OSError)):
        store.claims.take(StoredClaim(stack="a", run="r1", intent={}))
