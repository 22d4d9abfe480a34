"""Who lives: dead only when that is proved."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from ordinary_user import NOBODY, python_for_everyone

from holdfast.system import process_table
from holdfast.system.process_table import Liveness, ProcessId

HERE = ProcessId(host="h", boot="b1", pid=os.getpid(), started="", machine="m", space="pid:[4026531836]")
"""A machine as this one might be: what follows does not depend on where the tests run."""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
    )
    yield process
    process.kill()
    process.communicate()


def test_this_process_lives() -> None:
    """And is found again after its name was written down."""
    here = process_table.this_process()
    assert here.pid == os.getpid()
    assert process_table.liveness(here) is Liveness.ALIVE
    assert ProcessId.of(here.document()) == here


def test_a_killed_process_is_dead_before_anybody_waited_for_it(child: subprocess.Popen[bytes]) -> None:
    """Nobody may be left to wait for it: what ended and still has its number can do nothing any more."""
    it = process_table.process(child.pid)
    assert process_table.liveness(it) is Liveness.ALIVE
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert process_table.liveness(it) is Liveness.DEAD
    child.wait()
    assert process_table.liveness(it) is Liveness.DEAD


def test_a_number_given_out_again_is_another_process() -> None:
    """The process is dead, although another one has its pid."""
    here = process_table.this_process()
    if not here.started:
        pytest.skip("this system does not say when a process started")
    assert process_table.liveness(here._replace(started="1")) is Liveness.DEAD


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (HERE, Liveness.ALIVE),
        (HERE._replace(host="other"), Liveness.UNKNOWN),
        (HERE._replace(machine="other"), Liveness.UNKNOWN),
        (HERE._replace(space="pid:[1]"), Liveness.UNKNOWN),
        (HERE._replace(pid=0), Liveness.UNKNOWN),
        (HERE._replace(boot="b0"), Liveness.UNKNOWN),
        (HERE._replace(boot=""), Liveness.UNKNOWN),
        (HERE._replace(boot="b0", space="pid:[1]"), Liveness.UNKNOWN),
    ],
)
def test_only_the_same_machine_can_prove_a_death(of: ProcessId, expected: Liveness) -> None:
    """Another host or container is out of sight, and another boot may be another machine."""
    assert process_table.liveness(of, here=HERE) is expected


def test_a_restart_proves_a_death_where_only_one_machine_writes() -> None:
    """A machine that was started anew has lost all its processes, if it is the same machine."""
    rebooted = HERE._replace(boot="b0")
    assert process_table.liveness(rebooted, here=HERE, one_machine=lambda: True) is Liveness.DEAD
    assert process_table.liveness(rebooted, here=HERE, one_machine=lambda: False) is Liveness.UNKNOWN
    for unknown in (rebooted._replace(boot=""), rebooted._replace(space="pid:[1]")):
        assert process_table.liveness(unknown, here=HERE, one_machine=lambda: True) is Liveness.UNKNOWN
    without_proc = HERE._replace(boot="", space="", pid=2**22 + 1)
    assert process_table.liveness(without_proc, here=without_proc) is Liveness.UNKNOWN


def test_a_container_that_moved_proves_nothing() -> None:
    """Same name, another boot: the old one may go on elsewhere."""
    here = HERE._replace(space="pid:[1]")
    for moved in (here, HERE._replace(machine="")):
        of = moved._replace(boot="b0")
        assert process_table.liveness(of, here=moved, one_machine=lambda: True) is Liveness.UNKNOWN


def test_what_a_killed_leader_left_behind_is_found() -> None:
    """Terraform's providers stay in the session of the process that was killed."""
    program = "import subprocess,sys; p=subprocess.Popen(['sleep','60']); print(p.pid, flush=True); p.wait()"
    leader = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert leader.stdout is not None
    left = int(leader.stdout.readline())
    try:
        assert process_table.session_members(leader.pid) == tuple(sorted((leader.pid, left)))
        leader.kill()
        os.waitid(os.P_PID, leader.pid, os.WEXITED | os.WNOWAIT)
        assert process_table.session_members(leader.pid) == (left,)
    finally:
        os.kill(left, 9)
        leader.communicate()


HIDES = """
import os, subprocess, sys, tempfile
from pathlib import Path
from holdfast.system import process_table
child = "from holdfast.system import confine; confine.protect_process(); print(flush=True); input()"
with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
    for name in ("supervisor/main.py", "another"):
        words = [sys.executable, "-c", child, name, folder]
        process = subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdout.readline()
        print(process_table.any_process_in(Path(folder)), process_table.any_process_mentions(Path(folder)))
        process.communicate(b"\\n")
    print(process_table.any_process_in(Path(folder)), process_table.any_process_mentions(Path(folder)))
"""


def test_a_worker_that_nobody_may_look_into_still_holds_its_folders() -> None:
    """Its folder cannot be read, so its work directory is kept; its command line names its scratch folder."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be another user")
    python, packages = python_for_everyone()
    done = subprocess.run(
        [python, "-c", HIDES],
        env={"PYTHONPATH": packages},
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split("\n")[:3] == ["True True", "False True", "False False"], done
