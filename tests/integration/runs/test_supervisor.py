"""The process that runs Terraform: it writes down first, outlives who asked, and waits for nobody."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import resource
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from program import descendants, eventually
from supervised_made import APPLY, Place, run

from holdfast.store.claims import Claim
from holdfast.terraform.warm import NotStarted
from holdfast.terraform.worker import NOT_STARTED, Attention, Program, Worker

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
            if b"supervisor.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
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
    assert place.store.runs.bar("r1")
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
    assert answer.told.journal_failed is not None
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
    assert any("may not write" in one for one in refused.told.refusals), refused.told
    assert place.store.states.numbers("s") == ()
    (place.module / "errored.tfstate").unlink()

    place.store.claims.take(Claim(stack="s", run="other", intent={}))
    (refused,) = run(place, place.command(*APPLY, run="r2", kept={"write": True}))
    assert refused.code == 1
    assert any("another run" in one for one in refused.told.refusals), refused.told
    journal = place.journal("r2")
    assert journal.ended is not None
    assert journal.ended["unsaved"] is True
    assert place.store.states.numbers("s") == ()
    (place.module / "errored.tfstate").unlink()

    place.store.claims.release("s", "other")
    place.store.claims.take(Claim(stack="s", run="r3", intent={}))
    (done,) = run(place, place.command(*APPLY, run="r3", kept={"write": True}))
    assert (done.code, done.told.refusals) == (0, ())
    version = place.store.states.current("s")
    assert version is not None
    assert (version.run, version.who, version.why) == ("r3", "ann", "apply")
    assert not (place.module / "terraform.tfstate").exists()


# Wishes to stop, in whatever moment they come


def test_a_wish_to_stop_is_for_one_command(tmp_path: Path) -> None:
    """One that comes too late does not stop the next command; one that comes early waits for its own."""
    program = Program("/bin/sleep")

    def sleep(name: str, seconds: str) -> int:
        out, err = (os.open(os.devnull, os.O_WRONLY) for _ in range(2))
        return program.run(name, [seconds], str(tmp_path), out, err)

    program.cancel("old")
    assert sleep("next", "0.1") == 0
    program.cancel("early")
    assert sleep("early", "60") == -signal.SIGINT
    assert sleep("later", "0.1") == 0


class FakeEngine:
    """Says what it is told to say, in pieces, and remembers what was asked of it."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = pieces
        self.ran: list[str] = []
        self.cancelled: list[str] = []

    def run(self, name: str, argv: list[str], folder: str, out: int, err: int) -> int:
        del argv, folder
        self.ran.append(name)
        for piece in self.pieces:
            os.write(out, piece)
        os.close(out)
        os.close(err)
        return 0

    def cancel(self, name: str) -> None:
        self.cancelled.append(name)


@dataclasses.dataclass
class Listens(Attention):
    """An attention whose beginning, ear and end are a test's own."""

    before: Callable[[], str | None] = lambda: None
    ear: Callable[[bytes], bool] = lambda _: True
    ends: list[int] = dataclasses.field(default_factory=list)

    def begin(self) -> str | None:
        return self.before()

    def hear(self, chunk: bytes) -> bool:
        return self.ear(chunk)

    def end(self, code: int) -> dict[str, object]:
        self.ends.append(code)
        return {}


class Talk:
    """A worker in a thread, and the one who asks it."""

    def __init__(self, engine: FakeEngine, attention: Attention) -> None:
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(30)
        self.theirs = theirs
        worker = Worker(engine, theirs, lambda _: attention)  # type: ignore[arg-type]
        self.thread = threading.Thread(target=worker.serve)
        self.thread.start()
        self.pending = b""
        assert self.hear() == {"ready": True}

    def hear(self) -> dict[str, object]:
        while b"\n" not in self.pending:
            self.pending += self.ours.recv(1 << 16)
        line, self.pending = self.pending.split(b"\n", 1)
        message: dict[str, object] = json.loads(line)
        return message

    def ask(self, name: str) -> int:
        """The descriptor on which its output comes."""
        (out, give), (err, err_give) = os.pipe(), os.pipe()
        message = {"run": name, "argv": [], "folder": "/", "journal": {}}
        socket.send_fds(self.ours, [json.dumps(message).encode() + b"\n"], [give, err_give])
        for one in (give, err_give, err):
            os.close(one)
        return out

    def cancel(self, name: str) -> None:
        self.ours.sendall(json.dumps({"cancel": name}).encode() + b"\n")

    def close(self) -> None:
        self.ours.close()
        self.thread.join(30)
        self.theirs.close()


def read_all(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


def test_what_is_stopped_before_it_begins_is_not_begun() -> None:
    """A Ctrl-C while the journal is opened: no engine knows the command yet, and the wish is not lost."""
    engine, begins, goes_on = FakeEngine(b"x\n"), threading.Event(), threading.Event()

    def before() -> None:
        begins.set()
        goes_on.wait(30)

    attention = Listens(before=before)
    talk = Talk(engine, attention)
    out = talk.ask("one")
    assert begins.wait(30)
    talk.cancel("one")
    eventually(lambda: engine.cancelled == ["one"], what="the wish has arrived")
    goes_on.set()
    done = talk.hear()
    assert (done["done"], done["code"]) == ("one", 1)
    assert read_all(out) == b""
    assert engine.ran == []
    assert attention.ends == [1]
    talk.close()


def test_what_must_not_begin_is_said_so() -> None:
    """The reason comes back, and the engine never hears of it."""
    engine = FakeEngine()
    talk = Talk(engine, Listens(before=lambda: "no room"))
    read = talk.ask("one")
    done = talk.hear()
    assert (done["code"], done["not_started"]) == (NOT_STARTED, "no room")
    assert read_all(read) == b""
    assert engine.ran == []
    talk.close()


@pytest.mark.parametrize("how", ["says so", "raises"])
def test_an_ear_that_fails_stops_terraform_once(how: str) -> None:
    """Asked twice, Terraform would leave what it is making: once is enough, and its output flows on."""

    def ear(chunk: bytes) -> bool:
        if how == "raises":
            raise RuntimeError(chunk)
        return False

    engine = FakeEngine(*[b"line\n"] * 50)
    talk = Talk(engine, Listens(ear=ear))
    out = talk.ask("one")
    assert read_all(out) == b"line\n" * 50
    assert talk.hear()["code"] == 0
    assert engine.cancelled == ["one"]
    talk.close()


def test_lines_are_heard_whole() -> None:
    """However the pipe cuts them; the last one may have no end."""
    heard: list[bytes] = []
    engine = FakeEngine(b"a", b"b\nc", b"\n\nd\ne", b"f", b"g")

    def ear(chunk: bytes) -> bool:
        heard.append(chunk)
        return True

    talk = Talk(engine, Listens(ear=ear))
    assert read_all(talk.ask("one")) == b"ab\nc\n\nd\nefg"
    talk.hear()
    assert b"".join(heard) == b"ab\nc\n\nd\nefg"
    assert all(chunk.endswith(b"\n") for chunk in heard[:-1])
    talk.close()
