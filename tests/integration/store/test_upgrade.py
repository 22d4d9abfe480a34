"""A store from before everything was encrypted becomes one of today, wherever that is interrupted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from memory_keeper import state
from old_store import BEFORE, ID, KEY, MARK, NOW, SECRET, SEEN, UNSAVED, old_store

from holdfast.kernel.errors import Busy, HoldfastError, UnknownOutcome, UsageError
from holdfast.secrets.keys import Key
from holdfast.store.folder_blobs import FolderShelf
from holdfast.store.run_store import RunStore, StateRecord

OTHER = Key.of(b"o" * 32)

KILLED_AT_EVERY_STEP = """
import os, shutil, sys
from pathlib import Path
from holdfast.secrets.keys import Key
from holdfast.store.folder_blobs import FolderShelf
from holdfast.store.run_store import RunStore

place, key = Path(sys.argv[1]), Key.of(b"k" * 32)
STEPS = {"os.remove", "os.link", "os.rename", "os.chmod", "os.mkdir"}
count, last = 0, 0


def step(event, arguments):
    global count
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if last and (writes or event in STEPS):
        count += 1
        if count == last:
            os._exit(9)


sys.addaudithook(step)
number = 0
while True:
    number += 1
    shutil.copytree(place / "old", place / str(number))
    child = os.fork()
    if child == 0:
        last = number
        RunStore(FolderShelf(place / str(number)), lambda: key).id()
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
print(number)
"""


def opened(folder: Path, key: Key = KEY) -> RunStore:
    return RunStore(FolderShelf(folder), lambda: key)


def holds_everything(folder: Path) -> None:
    """All that the old one knew, and nothing of it in clear."""
    store = opened(folder)
    assert store.id() == ID
    identity = json.loads((folder / "store.json").read_text())
    assert (identity["version"], identity["key"]) == (2, KEY.id)
    for digest in ("d1", "d2"):
        assert store.used(digest) == {**MARK, "who": SECRET}
        assert not store.mark_used(digest, run="01B", stack="a/b", who="bob")
    assert store.last_seen("a/b") == store.last_seen(".hidden") == StateRecord(**SEEN)  # type: ignore[arg-type]
    assert store.recorded_stacks() == (".hidden", "a/b")
    assert store.errored("e") == UNSAVED
    versions = [store.states.version("a/b", number) for number in store.states.numbers("a/b")]
    assert [one.state for one in versions if one is not None] == [BEFORE, NOW]
    assert store.states.numbers("c") == ()
    assert (folder / "state/c/terraform.tfstate").exists()
    files = [file for file in folder.rglob("*") if file.is_file()]
    assert files
    for file in files:
        assert SECRET.encode() not in file.read_bytes(), file


def test_an_old_store_is_sealed(tmp_path: Path) -> None:
    """On first use all of it is encrypted, and all of it is there."""
    old_store(tmp_path / "store")
    holds_everything(tmp_path / "store")
    holds_everything(tmp_path / "store")


def test_a_killed_upgrade_loses_nothing(tmp_path: Path) -> None:
    """Killed before any step that writes, links, renames or removes: the next command goes on to the end."""
    old_store(tmp_path / "old")
    done = subprocess.run(
        [sys.executable, "-c", KILLED_AT_EVERY_STEP, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    steps = int(done.stdout)
    assert steps > 30
    for number in range(1, steps + 1):
        holds_everything(tmp_path / str(number))


def test_two_upgrades_at_once_are_one(tmp_path: Path) -> None:
    """Commands that are started together meet the same store."""
    old_store(tmp_path / "store")
    script = (
        "import sys; from pathlib import Path; from holdfast.secrets.keys import Key;"
        "from holdfast.store.folder_blobs import FolderShelf; from holdfast.store.run_store import RunStore;"
        "print(RunStore(FolderShelf(Path(sys.argv[1])), lambda: Key.of(b'k' * 32)).id())"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "store")], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    assert [one.communicate(timeout=60)[0].strip() for one in both] == [ID] * 3
    holds_everything(tmp_path / "store")


def test_another_key_seals_nothing(tmp_path: Path) -> None:
    """A key that cannot open what was sealed before is refused before it seals anything itself."""
    folder = tmp_path / "store"
    old_store(folder)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    with pytest.raises(UsageError) as caught:
        opened(folder, OTHER).id()
    assert caught.value.problem.code == "HF-KEY-7"
    (folder / ".upgrade").unlink()
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    holds_everything(folder)


def test_who_began_to_seal_goes_on(tmp_path: Path) -> None:
    """After an upgrade that was killed another key is refused by name, though the store is not sealed yet."""
    folder = tmp_path / "store"
    old_store(folder)
    (folder / "errored/e.tfstate").unlink()
    (folder / "records/a%2Fb.json").write_text("not a record")
    with pytest.raises(UnknownOutcome):
        opened(folder).id()
    with pytest.raises(UsageError) as caught:
        opened(folder, OTHER).id()
    assert caught.value.problem.code == "HF-STORE-3"
    (folder / "records/a%2Fb.json").write_text(json.dumps(SEEN))
    assert opened(folder).used("d1") is not None


@pytest.mark.parametrize("file", ["used/d1.json", "records/a%2Fb.json"])
def test_a_damaged_record_is_not_sealed_as_one(tmp_path: Path, file: str) -> None:
    """What could not be read before is not made to look as if it could."""
    old_store(tmp_path / "store")
    (tmp_path / "store" / file).write_bytes(b'{"run": "01')
    with pytest.raises(HoldfastError) as caught:
        opened(tmp_path / "store").id()
    assert caught.value.problem.code == "HF-STORE-2"
    assert Path(file).name in caught.value.problem.message
    assert (tmp_path / "store" / file).exists()


def killed_at_its_last_step(folder: Path) -> None:
    """All is sealed, and the store does not say so yet."""
    old_store(folder)
    opened(folder).id()
    document = json.loads((folder / "store.json").read_text())
    (folder / "store.json").write_text(json.dumps({**document, "version": 1}))


def test_a_state_that_an_old_holdfast_wrote_meanwhile_counts(tmp_path: Path) -> None:
    """An upgrade was killed, an older Holdfast applied once more: its newer state is the one that is kept."""
    folder = tmp_path / "store"
    killed_at_its_last_step(folder)
    newer = state(8, value="newer")
    (folder / "state/a/b/terraform.tfstate").write_bytes(newer)
    assert opened(folder).id() == ID
    current = opened(folder).states.current("a/b")
    assert current is not None
    assert current.state == newer
    assert not (folder / "state/a/b/terraform.tfstate").exists()


def test_a_state_that_does_not_follow_is_never_passed_over(tmp_path: Path) -> None:
    """Two states of one stack that are not one line: neither is thrown away, and a person is asked."""
    folder = tmp_path / "store"
    killed_at_its_last_step(folder)
    other = state(9, lineage="another", value="other")
    (folder / "state/a/b/terraform.tfstate").write_bytes(other)
    with pytest.raises(UnknownOutcome) as caught:
        opened(folder).id()
    assert caught.value.problem.code == "HF-STORE-2"
    assert (folder / "state/a/b/terraform.tfstate").read_bytes() == other


HOLDS_A_STATE = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_state_at_work_is_not_moved(tmp_path: Path) -> None:
    """A Terraform of before still writes its local state: moving it now would lose what it writes."""
    folder = tmp_path / "store"
    old_store(folder)
    file = folder / "state/a/b/terraform.tfstate"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_STATE, str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Busy):
            opened(folder).id()
        assert file.read_bytes() == NOW
    holds_everything(folder)
