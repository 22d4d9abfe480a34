"""A run needs room to finish and to save a state: where there is too little, it does not start."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import Program
from small import stacks


@contextlib.contextmanager
def mounted(place: Path, options: str) -> Iterator[Path]:
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can only be mounted by root, where the system allows it")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with a few megabytes."""
    with mounted(tmp_path / "disk", "size=4m,mode=0700") as place:
        yield place


@pytest.mark.parametrize("command", [("plan",), ("apply", "--yes")], ids=["plan", "apply"])
def test_too_little_room_for_work_directories(
    holdfast: Program, small_disk: Path, command: tuple[str, ...]
) -> None:
    """Nothing is run, the exit code is 1, and the error says what to do."""
    stacks(holdfast, "a")
    document = holdfast.json(*command, code=1, env={"HOLDFAST_HOME": str(small_disk / "home")})
    (error,) = document["errors"]
    assert error["code"] == "HF-WORK-4"
    assert str(small_disk) in error["message"]
    assert "holdfast clean" in error["hint"]
    assert not (small_disk / "home/work").exists()
    assert not (holdfast.folder / ".holdfast").exists()


def test_too_little_room_for_the_store(holdfast: Program, small_disk: Path) -> None:
    """Where states and marks are kept, there must be room as well."""
    stacks(holdfast, "a")
    (holdfast.folder / ".holdfast").symlink_to(small_disk)
    (error,) = holdfast.json("plan", code=1)["errors"]
    assert error["code"] == "HF-WORK-4"
    assert ".holdfast" in error["message"]


def test_reading_goes_on(holdfast: Program, small_disk: Path) -> None:
    """Commands that only look, and the one that makes room, work on a full disk."""
    stacks(holdfast, "a")
    full = {"HOLDFAST_HOME": str(small_disk)}
    assert holdfast.json("stacks", env=full)["stacks"]
    assert holdfast.json("clean", "--all", env=full)["freed_bytes"] == 0


def test_old_work_makes_room_before_a_run_is_refused(holdfast: Program, small_disk: Path) -> None:
    """What would be cleaned at the end of a run is cleaned before one is refused for want of room."""
    stacks(holdfast, "a")
    old = small_disk / "work/abc/a/0/tree"
    old.mkdir(parents=True)
    (old / "large").write_bytes(b"x" * 1_000_000)
    about = old.parent / "work.json"
    about.write_text("{}")
    os.utime(about, (0, 0))
    holdfast.ok("plan", code=1, env={"HOLDFAST_HOME": str(small_disk)})
    assert not old.exists()


def test_a_disk_that_fills_up_is_the_failure_of_one_stack(holdfast: Program, tmp_path: Path) -> None:
    """The stack that met the end of the disk fails with words for it; the next one has the room again."""
    with mounted(tmp_path / "disk", "size=210m,mode=0700") as disk:
        modules = [{"name": name, "module": name} for name in ("a", "b")]
        entries = {"version": 1, "stacks": modules, "engine": {"parallelism": 1}}
        holdfast.write("holdfast.yaml", json.dumps(entries))
        holdfast.write("a/main.tf", 'output "x" {\n  value = filesha256("${path.module}/large")\n}\n')
        holdfast.write("b/main.tf", 'output "x" {\n  value = 1\n}\n')
        with (holdfast.folder / "a/large").open("wb") as large:
            large.truncate(230_000_000)
        results = holdfast.results("plan", code=1, env={"HOLDFAST_HOME": str(disk)})
    assert (results["a"]["status"], results["a"]["error"]["code"]) == ("failed", "HF-FILE-4")
    assert "No space left" in results["a"]["error"]["message"]
    assert results["b"]["status"] == "planned"
