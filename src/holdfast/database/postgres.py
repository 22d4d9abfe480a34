"""The embedded PostgreSQL: its files, and how it is started and stopped.

    DIR/lock               held by the process that owns the data folder, such as `holdfast serve`
    DIR/postgres.lock      held by every process of PostgreSQL: while one lives, no second server starts
    DIR/postgres.password  of the role `holdfast`, which owns the database and is not a superuser
    DIR/postgres/          its folder, of an unprivileged user if Holdfast runs as root

PostgreSQL listens on a Unix socket in its data folder only, and asks for the password (SCRAM). It finds its
folder through its working directory, so an unprivileged user needs no access to the folders above, and no
permissions of these are changed. Why it is done this way: docs/decisions/0021.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.database.database import DatabaseAddress
from holdfast.database.programs import (
    programs,
    readable_programs,
    remove_copy,
    unprivileged_user,
    why_unreadable,
)
from holdfast.kernel.errors import Busy, Failed, HoldfastError, Refused
from holdfast.system import clock, files, processes
from holdfast.system.processes import Finished

ROLE = "holdfast"
NAME = "holdfast"
_SUPERUSER = "postgres"
_HERE = "/proc/self/cwd"
_LONGEST_SOCKET_FOLDER = 90
_START_SECONDS = 300
"""Recovery after a crash can take long; a start that failed is reported at once."""
_STOP_SECONDS = 25
_RETRY_SECONDS = 20.0
_WATCH_SECONDS = 0.5
_LOG_BYTES = 10_000_000
_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_directories": ".",
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    "log_statement": "none",
    "log_min_error_statement": "panic",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_error_verbosity": "terse",
}
"""The log contains no statement and no value of a row."""


class Cluster:
    """The PostgreSQL of one data folder. `hold_cluster` and `db start` start it."""

    def __init__(self, data: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.data = data.absolute()
        self.folder = self.data / "postgres"
        self.pgdata = self.folder / "data"
        self.shown = f"in {self.data}"
        self._settings = {**_SETTINGS, **(settings or {})}
        # Only tests give up durability.
        self._creation = ("--no-sync",) if self._settings.get("fsync") == "off" else ()
        self._socket_folder: int | None = None

    @property
    def exists(self) -> bool:
        return (self.pgdata / "PG_VERSION").exists()

    @property
    def password_file(self) -> Path:
        return self.data / "postgres.password"

    @property
    def service_mark(self) -> Path:
        """Exists if `db start` started PostgreSQL, which then outlives `holdfast serve`."""
        return self.data / "postgres.service"

    def running_pid(self) -> int | None:
        """Of PostgreSQL while it runs and accepts connections."""
        lines = _lines(self.pgdata / "postmaster.pid")
        ready = len(lines) > 7 and lines[7].strip() == "ready"  # noqa: PLR2004 - its eighth line is the status
        return int(lines[0]) if ready and files.is_lock_held(self._lock) else None

    def address(self, name: str = NAME) -> DatabaseAddress:
        password = files.read_text(self.password_file).strip()
        parameters = {"host": self._host(), "user": ROLE, "password": password, "dbname": name}
        return DatabaseAddress(parameters=parameters, shown=self.shown)

    def start(self) -> bool:
        """False if it runs already. Waits until it accepts connections, also after a crash."""
        if self.running_pid() is not None:
            return False
        files.private_folder(self.data)
        deadline = clock.monotonic() + _RETRY_SECONDS
        while clock.monotonic() < deadline:
            # After a kill, its processes end one after the other; each of them holds the lock.
            if (lock := files.take_lock(self._lock)) is not None:
                try:
                    self._start(lock)
                finally:
                    os.close(lock)
                return True
            if self.running_pid() is not None:
                return False
            clock.pause(0.05)
        raise self._failed("did not start: a process of an earlier start still runs", None)

    def stop(self) -> bool:
        """False if it does not run. Ends its transactions; what was committed is on disk."""
        pid = self.running_pid()
        if pid is None:
            return False
        result = self._run("pg_ctl", "stop", "-w", "-t", str(_STOP_SECONDS), "-m", "fast", "-D", self._here)
        processes.reap(pid, seconds=5)
        if result.code != 0 and self.running_pid() is not None:
            raise self._failed("did not stop", result)
        self.service_mark.unlink(missing_ok=True)
        return True

    @property
    def _lock(self) -> Path:
        return self.data / "postgres.lock"

    @property
    def _here(self) -> str:
        return _HERE if sys.platform == "linux" else str(self.pgdata)

    def _host(self) -> str:
        """The folder of the socket; by a descriptor if its path is too long for one."""
        if sys.platform != "linux" or len(os.fsencode(self.pgdata)) < _LONGEST_SOCKET_FOLDER:
            return str(self.pgdata)
        if self._socket_folder is None:
            self._socket_folder = os.open(self.pgdata, os.O_PATH | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._socket_folder}"

    def _start(self, lock: int) -> None:
        """With the lock, nothing of an earlier server lives, and its lock files are stale."""
        if not self.exists:
            try:
                self._create()
            except HoldfastError:
                shutil.rmtree(self.folder / "new", ignore_errors=True)
                with suppress(OSError):
                    self.folder.rmdir()
                remove_copy(self.data)
                raise
        for name in ("postmaster.pid", ".s.PGSQL.5432.lock"):
            if (lines := _lines(self.pgdata / name)) and lines[0].isdigit():
                # Its lock was free a moment before it had ended.
                processes.reap(int(lines[0]), seconds=1.0)
            (self.pgdata / name).unlink(missing_ok=True)
        log = self.folder / "log"
        if log.exists() and log.stat().st_size > _LOG_BYTES:
            log.replace(self.folder / "log.1")
        options = " ".join(f"-c {name}={value}" for name, value in self._settings.items())
        result = self._run(
            *("pg_ctl", "start", "-w", "-t", str(_START_SECONDS), "-D", self._here),
            *("-l", f"{self._here}/../log", "-o", options),
            hand_over=(lock,),
        )
        if result.code != 0:
            raise self._failed("did not start", result)

    def _create(self) -> None:
        """Complete under another name first: an interrupted creation is begun again."""
        new, user = self.folder / "new", unprivileged_user(self.folder)
        shutil.rmtree(new, ignore_errors=True)
        files.private_folder(new)
        password = clock.random_token(32)
        files.write(self.folder / "superuser", f"{clock.random_token(32)}\n")
        if user is not None:
            for path in (self.folder / "superuser", new, self.folder):
                os.chown(path, user.user, user.group, follow_symlinks=False)
        here = _HERE if sys.platform == "linux" else str(new)
        result = self._run(
            *("initdb", "-D", here, "-U", _SUPERUSER, f"--pwfile={here}/../superuser"),
            *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", *self._creation),
            folder=new,
        )
        (self.folder / "superuser").unlink()
        if result.code == 0:
            # The password of the superuser is not kept: only this mode, without a server, has its rights.
            statements = (
                f"create role {ROLE} login createdb password '{password}';\n"
                f"create database {NAME} owner {ROLE};\n"
            )
            result = self._run("postgres", "--single", "-D", here, "postgres", folder=new, stdin=statements)
        if result.code != 0 or b"ERROR:" in result.err:
            raise self._failed("could not be created", result)
        files.write(self.password_file, f"{password}\n")
        new.rename(self.pgdata)
        files.flush_folder(self.folder)

    def _run(
        self,
        program: str,
        *arguments: str,
        folder: Path | None = None,
        stdin: str | None = None,
        hand_over: tuple[int, ...] = (),
    ) -> Finished:
        """In its data folder, and as the owner of that if this process is root."""
        folder = folder or self.pgdata
        user = unprivileged_user(folder)
        binaries = programs(self.pgdata)
        if user is not None:
            binaries = readable_programs(binaries, self.data, user)
        return processes.run(
            (str(binaries / program), *arguments),
            folder=folder,
            environment={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            seconds=_START_SECONDS + 5,
            stdin=stdin.encode() if stdin is not None else None,
            confined=False,
            user=user,
            hand_over=hand_over,
        )

    def _failed(self, what: str, result: Finished | None) -> Failed:
        said = result.err.decode(errors="replace").strip().splitlines() if result is not None else []
        log = [line for line in _lines(self.folder / "log") if "FATAL" in line or "PANIC" in line]
        reason = "; ".join([*log[-1:], *said[-2:]]) or "no reason given"
        hint = why_unreadable(reason) or "Check free space and memory, then try again."
        if (self.folder / "log").exists():
            hint = f"Its log is {self.folder / 'log'}. {hint}"
        return Failed("HF-DB-3", f"PostgreSQL {self.shown} {what}: {reason}", hint=hint)


@contextmanager
def own_data_folder(data: Path, purpose: str) -> Iterator[None]:
    """One owner at a time."""
    _require_own(data)
    files.private_folder(data)
    lock = files.take_lock(data / "lock")
    if lock is None:
        raise Busy(
            "HF-DB-4",
            f"the data folder {data} is in use by {data_folder_owner(data) or 'another process'}",
            hint="Stop it first, or use another folder with --data.",
        )
    try:
        os.truncate(lock, 0)
        os.write(lock, f"{purpose}, process {os.getpid()}\n".encode())
        yield
    finally:
        os.close(lock)


def _require_own(data: Path) -> None:
    """Whoever can write in it could have put a key or a token there."""
    if not data.exists():
        return
    about = data.stat()
    owner = about.st_uid if about.st_uid != os.geteuid() else None
    if owner is None and not (about.st_mode & 0o022 and any(data.iterdir())):
        return
    wrong = f"belongs to user {owner}" if owner is not None else "can be changed by other users"
    raise Refused(
        "HF-DB-20",
        f"the data folder {data} {wrong}, who could have put a key or a token there",
        hint="Check what is in it, then make it yours: "
        f"chown -R {os.geteuid()} {data} && chmod 700 {data}. Or use another folder with --data.",
    )


def data_folder_owner(data: Path) -> str | None:
    """The process that owns it now, in words."""
    if not files.is_lock_held(data / "lock"):
        return None
    return next(iter(_lines(data / "lock")), "another process")


@contextmanager
def hold_cluster(data: Path, purpose: str, *, settings: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Run PostgreSQL as the only owner of the data folder; a server of a killed owner is taken over.

    It is stopped at the end unless `db start` started it.
    """
    with own_data_folder(data, purpose):
        cluster = Cluster(data, settings=settings)
        cluster.start()
        ended = threading.Event()
        watcher = threading.Thread(target=_keep_running, args=(cluster, ended), daemon=True)
        watcher.start()
        try:
            yield cluster
        finally:
            ended.set()
            watcher.join()
            if not cluster.service_mark.exists():
                cluster.stop()


def _keep_running(cluster: Cluster, ended: threading.Event) -> None:
    """Start PostgreSQL again if it was killed. Meanwhile its users get "cannot reach the database"."""
    while not ended.wait(_WATCH_SECONDS):
        with suppress(HoldfastError):
            cluster.start()


def _lines(path: Path) -> list[str]:
    return (files.content_of(path) or b"").decode(errors="replace").splitlines()
