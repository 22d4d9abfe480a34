"""Confinement of threads and processes, with the kernel of this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.system import confine, processes

ONLY_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux confines threads")
PROTECTED = """
import os, resource
from pathlib import Path
from holdfast.system import confine
confine.protect_process(["HOLDFAST_KEY"])
assert os.environ["HOLDFAST_KEY"] == "hunter2"
assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
print(Path("/proc/self/environ").read_text(), confine._libc().prctl(3, 0, 0, 0, 0))
"""


@ONLY_LINUX
def test_a_protected_process_shows_no_key() -> None:
    """Its environment is wiped where others look, it cannot be read, and it leaves no core dump."""
    environment = {"PYTHONPATH": ":".join(sys.path), "HOLDFAST_KEY": "hunter2", "OTHER": "stays"}
    done = subprocess.run(
        [sys.executable, "-c", PROTECTED], env=environment, capture_output=True, text=True, check=False
    )
    assert "hunter2" not in done.stdout, done
    if done.returncode == 0:  # an ordinary user cannot even read their own
        assert "OTHER=stays" in done.stdout
        assert done.stdout.endswith(" 0\n")


@ONLY_LINUX
def test_only_the_confined_thread_is_confined() -> None:
    """And what it starts; errors arrive in the thread that called."""
    status = Path("/proc/thread-self/status")
    ruleset = confine.create_ruleset([("/", confine.ALL_RIGHTS)])
    inside, child = confine.call_confined(
        ruleset,
        lambda: (status.read_text(), subprocess.run(["cat", status], capture_output=True, check=True).stdout),
    )
    assert "NoNewPrivs:\t1" in inside
    assert b"NoNewPrivs:\t1" in child
    assert "NoNewPrivs:\t0" in status.read_text()
    with pytest.raises(FileNotFoundError):
        confine.call_confined(ruleset, Path("/nowhere").read_text)


@pytest.mark.skipif(not confine.landlock_abi(), reason="this machine has no Landlock")
def test_every_program_is_confined_unless_the_caller_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rules come from the environment of Holdfast: the key file that it names is out of reach."""
    key = tmp_path / "key"
    key.write_text("hunter2")
    monkeypatch.setenv("HOLDFAST_KEY_FILE", str(key))
    environment = {"PATH": "/usr/bin:/bin"}
    confined = processes.run(("cat", str(key)), folder=tmp_path, environment=environment)
    assert (confined.code, confined.out) == (1, b"")
    free = processes.run(("cat", str(key)), folder=tmp_path, environment=environment, confined=False)
    assert free.out == b"hunter2"
    assert processes.first_line(("cat", str(key)), folder=tmp_path, environment=environment) is None
    assert processes.run(("no-such-program",), folder=tmp_path, environment=environment).code == 127
