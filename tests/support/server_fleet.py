"""`holdfast serve` and its workers as processes that are killed, stopped and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from program import Program, descendants, eventually

from holdfast.database.database import Database
from holdfast.database.postgres import Cluster
from holdfast.kernel.errors import HoldfastError

_MACHINE = ("unshare", *(() if os.geteuid() == 0 else ("--user", "--map-root-user")), "--uts", "sh", "-c")


class Victim(StrEnum):
    WORKER = "worker"
    WORKERS = "workers"
    """All of them."""
    SUPERVISOR = "supervisor"
    TERRAFORM = "terraform"
    """As a program; the embedded one is part of its supervisor."""
    PROVIDER = "provider"
    MACHINE = "machine"
    """A worker with everything that it started."""
    SERVER = "server"
    POSTGRES = "postgres"
    CONNECTION = "connection"
    """One process of PostgreSQL, which then recovers as after a crash."""
    ALL = "all"
    STOPPED = "stopped"
    """A worker is stopped, declared dead, and goes on when another one has its changes."""


class Process:
    """One command, started again whenever it ended."""

    def __init__(self, name: str, command: list[str], program: Program, folder: Path) -> None:
        self.name = name
        self._command = command
        self.program = program
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def keep(self) -> None:
        if self.pid is None:
            with self._out.open("ab") as out, self._err.open("ab") as err:
                self._process = subprocess.Popen(
                    self._command,
                    cwd=self.program.folder,
                    env=self.program.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                )
            self.starts += 1

    def said(self) -> str:
        return self._out.read_text() if self._out.exists() else ""

    def complained(self) -> str:
        return self._err.read_text() if self._err.exists() else ""

    def worker_id(self) -> str | None:
        """Of the last one that became ready."""
        lines = [line for line in self.said().splitlines() if line.endswith("is ready")]
        return lines[-1].split()[1] if lines else None

    def send(self, number: int) -> bool:
        pid = self.pid
        with contextlib.suppress(ProcessLookupError):
            if pid is not None:
                os.kill(pid, number)
                return True
        return False

    def end(self) -> int | None:
        """SIGTERM; SIGKILL if that is not enough."""
        if self._process is None:
            return None
        self.send(signal.SIGTERM)
        try:
            return self._process.wait(40)
        finally:
            self._process.kill()
            self._process.wait()


class Fleet:
    def __init__(
        self, program: Program, folder: Path, *, workers: int, machines: int, blueprints: Path | None = None
    ) -> None:
        self.data = folder / "data"
        self._folder = folder
        self._program = program
        self._keeping = threading.Lock()
        """Held while something must stay dead or stopped."""
        self._ended = threading.Event()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        python = [sys.executable, "-m", "holdfast"]
        serve = ["serve", "--listen", f"127.0.0.1:{self.port}", "--data", str(self.data), "--workers", "0"]
        serve += [] if blueprints is None else ["--blueprints", str(blueprints)]
        self.server = Process("server", [*python, *serve], self._own("server", 0), folder)
        self.workers = [
            Process(
                f"worker{number}",
                on_machine(number % machines, [*python, "worker", "--data", str(self.data)]),
                self._own(f"worker{number}", number % machines),
                folder,
            )
            for number in range(workers)
        ]

    def _own(self, name: str, machine: int) -> Program:
        """With a HOME by which everything that it starts is found; HOLDFAST_HOME is that of its machine."""
        program = self._program
        home = program.home if machine == 0 else self._folder / f"machine{machine}"
        own = Program(
            program.folder, home=home, path=program.environment["PATH"], user_home=self._folder / f"~{name}"
        )
        own.environment = {**program.environment, **own.environment}
        return own

    # Starting

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        thread = threading.Thread(target=self._keep, daemon=True)
        thread.start()
        try:
            eventually(lambda: "ready" in self.server.said(), what="the server", seconds=90)
            yield
        finally:
            self._ended.set()
            thread.join()
            for process in (*self.workers, self.server):
                process.send(signal.SIGCONT)
                process.end()
            self._kill(self._all())
            with contextlib.suppress(HoldfastError, OSError):
                Cluster(self.data).stop()

    def _keep(self) -> None:
        while not self._ended.wait(0.1):
            with self._keeping:
                self.server.keep()
                if "ready" in self.server.said():
                    for worker in self.workers:
                        worker.keep()

    @contextlib.contextmanager
    def database(self) -> Iterator[Database]:
        with Database.open(Cluster(self.data).address(), size=4, wait_seconds=30) as database:
            yield database

    # Killing

    def kill(self, victim: Victim, choice: float, database: Database) -> bool:
        """`choice`, between 0 and 1, says which one of several. False: there was none."""
        worker = self.workers[int(choice * len(self.workers))]
        pids: Sequence[int | None]
        match victim:
            case Victim.STOPPED:
                return self._stop(worker, database)
            case Victim.WORKER:
                pids = [worker.pid]
            case Victim.WORKERS:
                pids = [process.pid for process in self.workers]
            case Victim.MACHINE:
                pids = [*descendants(worker.program.environment["HOME"])]
            case Victim.SERVER:
                pids = [self.server.pid]
            case Victim.POSTGRES:
                pids = [Cluster(self.data).running_pid()]
            case Victim.CONNECTION:
                leader = Cluster(self.data).running_pid()
                pids = _one(_children(leader), choice)
            case Victim.ALL:
                pids = self._all()
            case _:
                pids = _one([pid for pid in self._started() if _is(victim, pid)], choice)
        with self._keeping:
            return self._kill([pid for pid in pids if pid is not None])

    def _started(self) -> list[int]:
        return [pid for worker in self.workers for pid in descendants(worker.program.environment["HOME"])]

    def _all(self) -> list[int]:
        postgres = Cluster(self.data).running_pid()
        own = descendants(self.server.program.environment["HOME"])
        return [*own, *self._started(), *([postgres, *_children(postgres)] if postgres is not None else ())]

    def _kill(self, pids: list[int]) -> bool:
        """What is to die together is stopped first, so that no process sees the death of another."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        return bool(pids)

    def _stop(self, worker: Process, database: Database) -> bool:
        with self._keeping:
            id_ = worker.worker_id()
            if id_ is None or not worker.send(signal.SIGSTOP):
                return False
        try:
            had = _declare_silent(database, id_)
            others = [process for process in self.workers if process is not worker]
            if had and any(process.pid for process in others):
                with contextlib.suppress(AssertionError):  # The others may have no room for it now.
                    eventually(lambda: not had & _changes_of(database, id_), what="taken over", seconds=12)
            return bool(had)
        finally:
            worker.send(signal.SIGCONT)


def _declare_silent(database: Database, worker: str) -> set[str]:
    """At once what otherwise takes half a minute."""
    with contextlib.suppress(HoldfastError), database.transaction() as connection:
        rows = connection.execute(
            "update changes set beat = now() - interval '1 hour' where worker = %s and phase = 'running'"
            " returning id",
            (worker,),
        ).fetchall()
        return {id_ for (id_,) in rows}
    return set()


def _changes_of(database: Database, worker: str) -> set[str]:
    with contextlib.suppress(HoldfastError), database.transaction() as connection:
        rows = connection.execute("select id from changes where worker = %s", (worker,)).fetchall()
        return {id_ for (id_,) in rows}
    return {""}


def machines_there() -> bool:
    """Whether a process can have another host name than this one, as on another machine."""
    try:
        done = subprocess.run([*_MACHINE, "hostname other"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def on_machine(number: int, command: list[str]) -> list[str]:
    return command if number == 0 else [*_MACHINE, f'hostname machine{number}; exec "$@"', "sh", *command]


def _children(pid: int | None) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _one(pids: list[int], choice: float) -> list[int]:
    return [pids[int(choice * len(pids))]] if pids else []


def _is(victim: Victim, pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    supervisor = any(word.endswith(b"supervisor/main.py") for word in words)
    provider = any(word.endswith(b"provider/main.py") for word in words)
    match victim:
        case Victim.SUPERVISOR:
            return supervisor
        case Victim.PROVIDER:
            return provider
        case _:
            named = any(word.endswith((b"/terraform", b"/launch.py")) for word in words)
            return named and not supervisor and not provider and b"holdfast" not in words
