"""The process that runs Terraform: it writes down first, outlives who asked, and waits for nobody."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from program import descendants, eventually
from supervised_made import APPLY, Place, run

from holdfast.store.run_records import StoredClaim
from holdfast.terraform.engine.pool import NotStarted

WAITS = """
resource "terraform_data" "one" {
  provisioner "local-exec" {
    command = "touch $HERE/begun; while [ ! -e $HERE/go ]; do sleep 0.02; done"
  }
}
resource "terraform_data" "two" {
  input = terraform_data.one.id
}
"""
CHATTERS = """
resource "terraform_data" "one" {
  provisioner "local-exec" {
    command = "touch $HERE/begun; while [ ! -e $HERE/go ]; do sleep 0.02; done; seq 1 20000"
  }
}
resource "terraform_data" "two" {
  input = terraform_data.one.id
}
"""
PLAIN = 'resource "terraform_data" "one" {\n  input = "x"\n}\n'


@pytest.fixture(params=["embedded", pytest.param("binary", marks=pytest.mark.binary)])
def place(request: pytest.FixtureRequest, tmp_path: Path, quiet_path: str, terraform_folder: Path) -> Place:
    one = Place(
        root=tmp_path, kind=request.param, program=str(terraform_folder / "terraform"), path=quiet_path
    )
    one.module.mkdir()
    one.scratch.mkdir()
    return one


only_embedded = pytest.mark.parametrize("place", ["embedded"], indirect=True)
only_binary = pytest.mark.parametrize("place", ["binary"], indirect=True)


def code(place: Place, text: str, *, init: bool = True, backend: str = "") -> None:
    (place.module / "main.tf").write_text(backend + text)
    if init:
        run(place, place.command("init", "-input=false", phase="init"))


def supervisors(place: Place) -> list[int]:
    """Processes that were started for this place and run Terraform."""
    found = []
    for pid in descendants(f"HERE={place.root}"):
        with contextlib.suppress(OSError):
            if b"supervisor/main.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


@contextlib.contextmanager
def asked(place: Place, run_id: str) -> Iterator[subprocess.Popen[bytes]]:
    """Somebody who asked for an apply that waits in its middle."""
    asker = subprocess.Popen(place.asks(run_id), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        eventually(
            lambda: (place.root / "begun").exists() or asker.poll() is not None, what="Terraform is at work"
        )
        assert asker.poll() is None, asker.communicate()
        yield asker
    finally:
        (place.root / "go").touch()
        asker.kill()
        asker.communicate()
        eventually(lambda: not descendants(f"HERE={place.root}"), what="everything ended")


def test_a_word_is_written_down_before_it_is_passed_on(place: Place) -> None:
    """Whoever has heard a line finds it in the journal; begun and ended stand there too."""
    code(place, PLAIN)
    heard: list[bytes] = []

    def listen(line: bytes) -> None:
        heard.append(line)
        journal = place.journal("r1")
        assert journal.started is not None
        assert line in journal.lines

    (answer,) = run(place, place.command(*APPLY, run="r1"), listen=listen)
    assert answer.code == 0, heard
    journal = place.journal("r1")
    assert journal.whole
    assert journal.lines == tuple(heard)
    assert len(heard) > 3
    assert journal.ended is not None
    assert (journal.ended["code"], journal.ended["unsaved"]) == (0, False)


def test_a_failure_is_journalled_as_one(place: Place) -> None:
    """The exit record holds Terraform's own code."""
    code(
        place,
        'resource "terraform_data" "one" {\n  provisioner "local-exec" {\n    command = "exit 3"\n  }\n}\n',
    )
    (answer,) = run(place, place.command(*APPLY, run="r1"), listen=lambda _: None)
    assert answer.code == 1
    journal = place.journal("r1")
    assert journal.ended is not None
    assert journal.ended["code"] == 1
    assert any(b'"apply_errored"' in line for line in journal.lines)


def test_a_command_outlives_the_one_who_asked(place: Place) -> None:
    """Kill the asker in the middle: Terraform comes to its end, the journal says so, and nothing stays."""
    code(place, WAITS)
    with asked(place, "r1") as asker:
        asker.kill()
        asker.wait()
        assert supervisors(place)
        assert place.journal("r1").ended is None
        (place.root / "go").touch()
        eventually(lambda: place.journal("r1").ended is not None, what="the exit record")
        eventually(lambda: not supervisors(place), what="the process ended")
    journal = place.journal("r1")
    assert journal.ended is not None
    assert journal.ended["code"] == 0
    assert sum(b'"apply_complete"' in line for line in journal.lines) == 2
    assert len(json.loads((place.module / "terraform.tfstate").read_text())["resources"]) == 2


def test_nobody_who_listens_holds_terraform_up(place: Place) -> None:
    """The asker is stopped while Terraform says more than a pipe holds: all is passed on later."""
    code(place, CHATTERS)
    with asked(place, "r1") as asker:
        asker.send_signal(signal.SIGSTOP)
        (place.root / "go").touch()
        eventually(lambda: place.journal("r1").ended is not None, what="Terraform ended by itself")
        asker.send_signal(signal.SIGCONT)
        out, err = asker.communicate(timeout=60)
    assert asker.returncode == 0, err
    told = json.loads(out)
    assert told["code"] == 0
    assert told["lines"] == len(place.journal("r1").lines)
    assert told["lines"] > 20000


@only_embedded
def test_without_a_journal_nothing_is_begun(place: Place) -> None:
    """Where the journal cannot be written, or the run was barred, Terraform is not started."""
    code(place, WAITS)
    (place.root / "store").mkdir(exist_ok=True)
    (place.root / "store/runs").write_text("in the way")
    with pytest.raises(NotStarted):
        run(place, place.command(*APPLY, run="r1"), listen=lambda _: None)
    (place.root / "store/runs").unlink()
    assert place.store.runs.prevent_start("r1")
    with pytest.raises(NotStarted):
        run(place, place.command(*APPLY, run="r1"), listen=lambda _: None)
    assert not (place.root / "begun").exists()
    assert not (place.module / "terraform.tfstate").exists()


def test_a_journal_that_fills_the_disk_stops_terraform_once(place: Place) -> None:
    """No room in the middle: Terraform is asked to stop, saves its state, and the answer says why.

    What it had not begun is not begun; what it said before is there; an end is not.
    """
    code(place, CHATTERS)
    answers = []

    def work() -> None:
        answers.extend(run(place, place.command(*APPLY, run="r1"), listen=lambda _: None))

    running = threading.Thread(target=work)
    running.start()
    try:
        eventually((place.root / "begun").exists, what="Terraform is at work")
        (supervisor,) = supervisors(place)
        resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (200_000, 200_000))
    finally:
        (place.root / "go").touch()
        running.join(60)
    (answer,) = answers
    assert answer.report.journal_failed is not None
    assert answer.code == 1
    assert not answer.killed
    journal = place.journal("r1")
    assert journal.started is not None
    assert journal.ended is None
    assert 100 < len(journal.lines) < 20000
    state = json.loads((place.module / "terraform.tfstate").read_text())
    assert [one["name"] for one in state["resources"]] == ["one"]
    assert not (place.module / "errored.tfstate").exists()


@only_binary
@pytest.mark.binary
def test_a_killed_terraform_takes_its_children_along(place: Place) -> None:
    """A negative code is the signal that killed it; what it had started does not stay behind."""
    code(place, WAITS)
    answers = []
    running = threading.Thread(
        target=lambda: answers.extend(run(place, place.command(*APPLY, run="r1"), listen=lambda _: None))
    )
    running.start()
    try:
        eventually((place.root / "begun").exists, what="Terraform is at work")
        (supervisor,) = supervisors(place)
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        children += [
            child
            for task in Path(f"/proc/{supervisor}/task").iterdir()
            for child in (task / "children").read_text().split()
            if child not in children
        ]
        (terraform,) = children
        os.kill(int(terraform), signal.SIGKILL)
        running.join(60)
    finally:
        (place.root / "go").touch()
        running.join(60)
    (answer,) = answers
    assert (answer.code, answer.killed) == (-signal.SIGKILL, True)
    journal = place.journal("r1")
    assert journal.ended is not None
    assert journal.ended["code"] == -signal.SIGKILL
    eventually(lambda: not descendants(f"HERE={place.root}"), what="everything is gone")


HTTP = 'terraform {\n  backend "http" {}\n}\n'


@only_embedded
def test_the_door_lets_only_the_owner_write(place: Place) -> None:
    """A command that may only read, and a run that has not claimed the stack, write no version."""
    code(place, PLAIN, init=False, backend=HTTP)
    init = place.command("init", "-input=false", kept={"write": False}, phase="init")
    apply = place.command(*APPLY, run="r1", kept={"write": False})
    _, refused = run(place, init, apply)
    assert refused.code == 1
    assert any("is not allowed to write" in one for one in refused.report.refusals), refused.report
    assert place.store.states.numbers("s") == ()
    (place.module / "errored.tfstate").unlink()

    place.store.claims.take(StoredClaim(stack="s", run="other", intent={}))
    (refused,) = run(place, place.command(*APPLY, run="r2", kept={"write": True}))
    assert refused.code == 1
    assert any("another run" in one for one in refused.report.refusals), refused.report
    journal = place.journal("r2")
    assert journal.ended is not None
    assert journal.ended["unsaved"] is True
    assert place.store.states.numbers("s") == ()
    (place.module / "errored.tfstate").unlink()

    place.store.claims.release("s", "other")
    place.store.claims.take(StoredClaim(stack="s", run="r3", intent={}))
    (done,) = run(place, place.command(*APPLY, run="r3", kept={"write": True}))
    assert (done.code, done.report.refusals) == (0, ())
    version = place.store.states.current("s")
    assert version is not None
    assert (version.run, version.who, version.why) == ("r3", "ann", "apply")
    assert not (place.module / "terraform.tfstate").exists()
