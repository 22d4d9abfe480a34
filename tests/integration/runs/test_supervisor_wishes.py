"""Wishes to stop, in whatever moment they come; and an ear that fails. With engines that only pretend."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest
from program import eventually

from holdfast.system.confine import CallThread
from holdfast.terraform.engine.worker import NOT_STARTED, CommandObserver, Program, Worker


def test_a_wish_to_stop_is_for_one_command(tmp_path: Path) -> None:
    """One that comes too late does not stop the next command; one that comes early waits for its own."""
    program = Program("/bin/sleep")

    def sleep(name: str, seconds: str) -> int:
        out, err = (os.open(os.devnull, os.O_WRONLY) for _ in range(2))
        return program.run(name, [seconds], str(tmp_path), out, err)

    # Where the tests were started in the background, SIGINT is ignored, and children inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        program.cancel("old")
        assert sleep("next", "0.1") == 0
        program.cancel("early")
        assert sleep("early", "60") == -signal.SIGINT
        assert sleep("later", "0.1") == 0
    finally:
        signal.signal(signal.SIGINT, before)


class FakeEngine:
    """Says what it is told to say, in pieces, and remembers what was asked of it."""

    providers = None

    def __init__(self, *pieces: bytes, between: Callable[[], object] = lambda: None) -> None:
        self.pieces = pieces
        self.between = between
        self.ran: list[str] = []
        self.cancelled: list[str] = []

    def begin(
        self, name: str, argv: list[str], folder: str, out: int, err: int, ended: threading.Event
    ) -> Callable[[], int]:
        def run() -> int:
            try:
                return self.run(name, argv, folder, out, err)
            finally:
                ended.set()

        return CallThread().begin(run)

    def run(self, name: str, argv: list[str], folder: str, out: int, err: int) -> int:
        del argv, folder
        self.ran.append(name)
        for piece in self.pieces:
            os.write(out, piece)
            self.between()
        os.close(out)
        os.close(err)
        return 0

    def cancel(self, name: str) -> None:
        self.cancelled.append(name)


@dataclasses.dataclass
class Listens(CommandObserver):
    """An attention whose beginning, ear and end are a test's own."""

    before: Callable[[], str | None] = lambda: None
    ear: Callable[[bytes], bool] = lambda _: True
    ends: list[int] = dataclasses.field(default_factory=list)
    forced: bool | None = None

    def begin(self) -> str | None:
        return self.before()

    def record(self, chunk: bytes) -> bool:
        return self.ear(chunk)

    def end(self, code: int, *, forced: bool = False) -> dict[str, object]:
        self.ends.append(code)
        self.forced = forced
        return {}


class Talk:
    """A worker in a thread, and the one who asks it."""

    def __init__(self, engine: FakeEngine, attention: CommandObserver) -> None:
        self.ours, theirs = socket.socketpair()
        self.ours.settimeout(30)
        self.theirs = theirs
        worker = Worker(engine, theirs, lambda _: attention)  # type: ignore[arg-type]
        self.thread = threading.Thread(target=worker.serve, args=({},))
        self.thread.start()
        self.pending = b""

    def hear(self) -> dict[str, object]:
        while b"\n" not in self.pending:
            self.pending += self.ours.recv(1 << 16)
        line, self.pending = self.pending.split(b"\n", 1)
        message: dict[str, object] = json.loads(line)
        return message

    def ask(self, name: str) -> int:
        """The descriptor on which its output comes."""
        (out, give), (err, err_give) = os.pipe(), os.pipe()
        message = {"run": name, "commands": [[]], "folder": "/", "journal": {}}
        socket.send_fds(self.ours, [json.dumps(message).encode() + b"\n"], [give, err_give])
        for one in (give, err_give, err):
            os.close(one)
        return out

    def cancel(self, name: str) -> None:
        self.ours.sendall(json.dumps({"cancel": name}).encode() + b"\n")

    def __enter__(self) -> Self:
        assert self.hear() == {"ready": True, "confinement": {}}
        return self

    def __exit__(self, *_: object) -> None:
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
    with Talk(engine, attention) as talk:
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


@pytest.mark.parametrize("times", [1, 2])
def test_the_exit_record_says_whether_terraform_was_forced(times: int) -> None:
    """At the second interrupt Terraform waits for no change: what it says of them proves nothing."""
    started, goes_on = threading.Event(), threading.Event()

    def between() -> None:
        started.set()
        goes_on.wait(30)

    engine, attention = FakeEngine(b"x\n", between=between), Listens()
    with Talk(engine, attention) as talk:
        out = talk.ask("one")
        assert started.wait(30)
        for _ in range(times):
            talk.cancel("one")
        eventually(lambda: len(engine.cancelled) == times, what="the interrupts have arrived")
        goes_on.set()
        assert talk.hear()["code"] == 0
        assert read_all(out) == b"x\n"
    assert attention.forced is (times > 1)


def test_what_must_not_begin_is_said_so() -> None:
    """The reason comes back, and the engine never hears of it."""
    engine = FakeEngine()
    with Talk(engine, Listens(before=lambda: "no room")) as talk:
        out = talk.ask("one")
        done = talk.hear()
        assert (done["code"], done["not_started"]) == (NOT_STARTED, "no room")
        assert read_all(out) == b""
    assert engine.ran == []


@pytest.mark.parametrize("how", ["says so", "raises"])
def test_an_ear_that_fails_stops_terraform_once(how: str) -> None:
    """Asked twice, Terraform would leave what it is making: once is enough, and its output flows on."""
    heard = threading.Semaphore(0)

    def ear(chunk: bytes) -> bool:
        heard.release()
        if how == "raises":
            raise RuntimeError(chunk)
        return False

    engine = FakeEngine(*[b"line\n"] * 5, between=lambda: heard.acquire(timeout=30))
    with Talk(engine, Listens(ear=ear)) as talk:
        assert read_all(talk.ask("one")) == b"line\n" * 5
        assert talk.hear()["code"] == 0
    assert engine.cancelled == ["one"]


def test_lines_are_heard_whole() -> None:
    """However the pipe cuts them; the last one may have no end."""
    heard: list[bytes] = []
    engine = FakeEngine(b"a", b"b\nc", b"\n\nd\ne", b"f", b"g")

    def ear(chunk: bytes) -> bool:
        heard.append(chunk)
        return True

    with Talk(engine, Listens(ear=ear)) as talk:
        assert read_all(talk.ask("one")) == b"ab\nc\n\nd\nefg"
        talk.hear()
    assert b"".join(heard) == b"ab\nc\n\nd\nefg"
    assert all(chunk.endswith(b"\n") for chunk in heard[:-1])
