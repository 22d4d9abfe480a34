"""Work directories go by age and size, on every run and by hand; what is needed stays."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_stacks import ended, held, in_state, one_stack
from program import Program, eventually
from small import stacks

from provider.service import Fault, LabService

DAY = 86400


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


@pytest.fixture
def small(holdfast: Program, tmp_path: Path) -> Program:
    """Two stacks, and a temporary directory of the test's own."""
    stacks(holdfast, "a", "b")
    temporary = tmp_path / "t"
    temporary.mkdir()
    holdfast.environment["TMPDIR"] = str(temporary)
    return holdfast


def slot(program: Program, stack: str) -> Path:
    (found,) = (program.home / "work").glob(f"*/{stack}/0")
    return found


def aged(program: Program, stack: str, seconds: float) -> Path:
    """As if the stack had last been used that long ago, and nobody had looked since."""
    folder = slot(program, stack)
    then = time.time() - seconds
    os.utime(folder / "work.json", (then, then))
    (program.home / "work/.cleaned").unlink(missing_ok=True)
    return folder


def test_what_is_old_goes_with_the_next_run(small: Program) -> None:
    """A run removes what no run used for a day, says so in one line, and leaves the rest."""
    small.ok("plan")
    old = aged(small, "a", 25 * 3600)
    said = small.ok("plan", "b").out
    assert not (old / "tree").exists()
    assert (slot(small, "b") / "tree").exists()
    assert [line for line in said.splitlines() if "Removed" in line] == [said.splitlines()[-1]]
    assert small.results("plan", "a")["a"]["status"] == "planned"


@pytest.mark.long
def test_quiet_and_documents_say_nothing_of_it(small: Program) -> None:
    """With --quiet no line, and commands whose output is a result add nothing to it."""
    small.ok("apply", "--yes")
    aged(small, "a", 25 * 3600)
    assert "Removed" not in small.ok("plan", "b", "--quiet").text
    assert not (slot(small, "a") / "tree").exists()
    small.ok("plan", "a")
    aged(small, "a", 25 * 3600)
    assert small.ok("output", "b", "x").out.strip() == "b"
    assert not (slot(small, "a") / "tree").exists()


@pytest.mark.long
def test_a_look_once_a_minute(small: Program) -> None:
    """Runs that follow each other closely do not look again each time."""
    small.ok("plan")
    folder = slot(small, "a")
    then = time.time() - 3 * DAY
    os.utime(folder / "work.json", (then, then))
    small.ok("plan", "b")
    assert (folder / "tree").exists()
    (small.home / "work/.cleaned").unlink()
    small.ok("plan", "b")
    assert not (folder / "tree").exists()


def test_the_configured_age_counts(small: Program) -> None:
    """`work.max_age` of the repository decides."""
    small.ok("plan")
    with (small.folder / "holdfast.yaml").open("a") as file:
        file.write("work: { max_age: 1h }\n")
    aged(small, "a", 2 * 3600)
    (removed,) = small.json("clean")["removed"]
    assert removed["path"] == str(slot(small, "a"))
    assert removed["why"] == "not used for 2 h"


def test_what_is_too_much_goes_oldest_first(small: Program) -> None:
    """`work.max_size` holds for all together; the oldest give way, and only as many as must."""
    small.ok("plan")
    for name, hours in (("a", 3), ("b", 2)):
        (slot(small, name) / "tree/large").write_bytes(b"x" * 600_000)
        aged(small, name, hours * 3600)
    with (small.folder / "holdfast.yaml").open("a") as file:
        file.write("work: { max_size: 1MB }\n")
    document = small.json("clean")
    assert [(one["path"], one["why"]) for one in document["removed"]] == [
        (str(slot(small, "a")), "work directories exceed 1 MB")
    ]
    assert [one["path"] for one in document["kept"]] == [str(slot(small, "b"))]
    assert 600_000 < document["disk"]["used_bytes"] <= 1_000_000
    # What was measured and rests is not measured again, and counts all the same.
    assert small.json("clean")["disk"] == {
        "free_bytes": pytest.approx(document["disk"]["free_bytes"], rel=0.2),
        "used_bytes": document["disk"]["used_bytes"],
    }


def test_clean_says_what_it_did(small: Program) -> None:
    """What went and why, what it freed, what each repository still holds, and what is free."""
    small.ok("plan")
    old = aged(small, "a", 50 * 3600)
    said = small.ok("clean").out
    assert f"{old}" in said
    assert "not used for 2 days" in said
    assert " freed " in said
    assert f"{small.folder}: " in said
    assert "free" in said.splitlines()[-1]
    document = small.json("clean")
    assert document["version"] == 1
    assert (document["freed_bytes"], document["removed"]) == (0, [])
    (kept,) = document["kept"]
    assert kept["path"] == str(slot(small, "b"))
    assert kept["why"].startswith("used ")
    assert document["repositories"] == [{"root": str(small.folder), "bytes": kept["bytes"]}]
    assert document["disk"]["used_bytes"] == kept["bytes"] > 0
    assert document["disk"]["free_bytes"] > 0


@pytest.mark.long
def test_all_ignores_the_age(small: Program, tmp_path: Path) -> None:
    """--all removes what was used a moment ago, from anywhere, also outside of a repository."""
    small.ok("plan")
    document = small.json("clean", "--all", cwd=tmp_path)
    gone = {one["path"]: one["bytes"] for one in document["removed"]}
    assert {str(slot(small, "a")), str(slot(small, "b"))} <= gone.keys()
    assert document["freed_bytes"] == sum(gone.values()) > 0
    assert document["kept"] == []
    assert document["disk"]["used_bytes"] == 0
    assert {one["status"] for one in small.results("plan").values()} == {"planned"}


def test_a_state_that_could_not_be_saved_stays(small: Program) -> None:
    """The only copy of a state is never cleaned, wherever it lies in the tree and however old it is."""
    small.ok("plan")
    folder = aged(small, "a", 400 * DAY)
    left = folder / "tree/module/deeper/errored.tfstate"
    left.parent.mkdir()
    left.write_text('{"serial": 3}')
    document = small.json("clean", "--all")
    assert [(one["path"], one["why"]) for one in document["kept"]] == [
        (str(folder), "holds a state that could not be saved")
    ]
    assert left.read_text() == '{"serial": 3}'
    assert (folder / "work.json").exists()


def test_one_in_use_stays(small: Program) -> None:
    """What another process holds is left alone, however old it is."""
    small.ok("plan")
    folder = aged(small, "a", 400 * DAY)
    with (folder / "in-use").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        document = small.json("clean", "--all")
        assert [(one["path"], one["why"]) for one in document["kept"]] == [(str(folder), "in use")]
        small.ok("plan", "b")
        assert (folder / "tree/module/main.tf").exists()
    assert [one["path"] for one in small.json("clean")["removed"]] == [str(folder)]


def test_one_that_a_process_still_works_in_stays(small: Program) -> None:
    """A killed run's Terraform finishes by itself; its directory is not taken from under it."""
    small.ok("plan")
    folder = aged(small, "a", 400 * DAY)
    with subprocess.Popen(["cat"], cwd=folder / "tree/module", stdin=subprocess.PIPE) as orphan:
        try:
            document = small.json("clean", "--all")
        finally:
            orphan.kill()
    assert [(one["path"], one["why"]) for one in document["kept"]] == [(str(folder), "in use")]


def test_what_a_killed_run_left_stays_for_a_while(small: Program) -> None:
    """A plan that was never swept says that its run was killed: a day passes before it goes."""
    small.ok("plan")
    folder = aged(small, "a", 3600)
    (folder / "tree/module/holdfast.tfplan").write_bytes(b"plan")
    (kept,) = small.json("clean", "--all")["kept"]
    assert (kept["path"], kept["why"]) == (str(folder), "its run was killed 60 min ago")
    aged(small, "a", 25 * 3600)
    assert [one["path"] for one in small.json("clean")["removed"]] == [str(folder)]


def test_read_only_folders_go_too(small: Program) -> None:
    """Modules are sometimes fetched read-only; that does not keep them for ever."""
    small.ok("plan")
    folder = aged(small, "a", 2 * DAY)
    locked = folder / "tree/module/.terraform/modules/x"
    locked.mkdir(parents=True)
    (locked / "main.tf").write_text("")
    locked.chmod(0o500)
    small.ok("clean")
    assert [one.name for one in folder.iterdir()] == ["in-use"]


def test_cleaning_beside_a_run_does_not_harm_it(with_lab: Program, service: LabService) -> None:
    """`clean --all` while an apply is at work leaves its directory alone; the apply ends well."""
    one_stack(with_lab, use="embedded", env={"LAB_URL": service.url})
    service.misbehave(Fault(operation="create", what="hold", name="one"))
    process = with_lab.start("apply", "--yes", "--json")
    held(service, process, "create")
    document = with_lab.json("clean", "--all")
    assert [one["why"] for one in document["kept"]] == ["in use"]
    service.release()
    results, _ = ended(process, code=0)
    assert results["a"]["status"] == "applied"
    assert in_state(with_lab, "a") == {"one", "two"}


def test_a_killed_command_leaves_no_scratch_folder_for_long(
    with_lab: Program, service: LabService, workplace: Path
) -> None:
    """Its folder, which may hold an identity, goes with the next run; one of a living command stays."""
    temporary = Path(tempfile.mkdtemp(dir=workplace))
    with_lab.environment["TMPDIR"] = str(temporary)
    one_stack(with_lab, use="embedded", env={"LAB_URL": service.url})
    service.misbehave(Fault(operation="create", what="hold", name="one"))
    process = with_lab.start("apply", "--yes", "--json")
    held(service, process, "create")
    (folder,) = temporary.glob("hf-*")
    assert not [one for one in with_lab.json("clean", "--all")["removed"] if one["path"] == str(folder)]
    assert folder.is_dir()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    # What it started goes on with what it began; until that ends, the folder is needed.
    with_lab.ok("clean")
    assert folder.is_dir()
    service.release()

    def gone() -> bool:
        with_lab.ok("clean")
        return not folder.exists()

    eventually(gone, what="the dead folder removed")


def test_folders_that_are_not_ours_stay(small: Program, tmp_path: Path) -> None:
    """A temporary folder with a name like ours and a content of its own is left alone, however old."""
    temporary = tmp_path / "t"
    full, empty, named = temporary / "hf-abcdefgh", temporary / "hf-abcdefgi", temporary / "hf-cache"
    for folder in (full, empty, named):
        folder.mkdir(mode=0o700)
    (full / "mine").write_text("mine")
    dead = temporary / "hf-abcdefgj"
    dead.mkdir(mode=0o700)
    (dead / "holdfast-owner").write_text(json.dumps({"pid": 1}))
    (dead / "aws").write_text("secret")
    for folder in (full, empty, named, dead):
        os.utime(folder, (0, 0))
    removed = {Path(one["path"]) for one in small.json("clean", "--all")["removed"]}
    # Folders that other tests left in the short temporary directory go as well.
    assert {folder for folder in removed if folder.parent == temporary} == {empty, dead}
    assert (full / "mine").read_text() == "mine"
    assert named.is_dir()
    assert not dead.exists()


def test_old_marks_and_leftovers_go(small: Program) -> None:
    """Answers of validate after a month, and what was left half-made or damaged in the mirror after a day."""
    small.ok("plan")
    (mark,) = (small.home / "validated").iterdir()
    os.utime(mark, (time.time() - 31 * DAY,) * 2)
    young = small.home / "validated/young"
    young.touch()
    entry = "ab" * 32
    leftovers = [
        small.home / "providers" / name for name in (".damaged-abc-123", f".{entry}.0123456789ab", entry)
    ]
    fresh = small.home / "providers/.damaged-new"
    for folder in (*leftovers, fresh):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    for folder in leftovers:
        os.utime(folder, (time.time() - 2 * DAY,) * 2)
    removed = {one["path"] for one in small.json("clean")["removed"]}
    assert removed == {str(small.home / "validated"), *map(str, leftovers[:2])}
    assert not mark.exists()
    assert young.exists()
    assert leftovers[2].is_dir()
    assert fresh.is_dir()


def test_a_run_does_not_fail_because_cleaning_does(small: Program) -> None:
    """Whatever lies where cleaning looks, the run's answer is its own."""
    small.ok("plan")
    aged(small, "a", 2 * DAY)
    (small.home / "work/.sizes.json").mkdir()
    (small.home / "validated/folder").mkdir()
    os.utime(small.home / "validated/folder", (0, 0))
    assert small.results("plan", "b")["b"]["status"] == "planned"
