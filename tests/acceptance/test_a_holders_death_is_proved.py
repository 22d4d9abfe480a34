"""A run that may still work is not taken for dead: not by its boot id, not by its silence."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_stacks import held, lab_module, left_behind, none_left
from program import Program, eventually

from holdfast.runs.intent import Intent
from holdfast.secrets.keys import Key
from holdfast.store.place import FolderBlobs
from holdfast.store.run_records import StoredClaim
from holdfast.store.run_store import RunStore
from holdfast.system import clock, mounts, process_table
from provider.service import Fault, LabService

ONE = 'resource "lab_object" "one" {\n  name = "one"\n}\n'
BOOT = "/proc/sys/kernel/random/boot_id"
DEAD = ("--holder-dead", "--reason", "its machine was deleted")


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that is on no local disk, as NFS would be."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or mounts.is_local_disk(memory):
        pytest.skip("there is no file system here that is not a local disk")
    folder = Path(tempfile.mkdtemp(prefix="hft-", dir=memory))
    yield folder / "store"
    shutil.rmtree(folder)


def configure(program: Program, store: str, url: str) -> None:
    program.write(
        "holdfast.yaml",
        f"version: 1\nstore: {store}\nengine: {{ use: embedded }}\n"
        "environments: { dev: { match: [dev] } }\n"
        f"stacks: [{{ name: a, module: a, environment: dev, env: {{ LAB_URL: '{url}' }} }}]\n",
    )
    program.write("a/main.tf", lab_module(ONE))


def start_on_a_clone(program: Program, *arguments: str) -> subprocess.Popen[str]:
    """The program on a machine with the same name, machine id and processes, which was booted separately."""
    fake = program.folder.parent / "boot_id"
    fake.write_text("00000000-1111-2222-3333-444444444444\n")
    shell = f'mount --bind "{fake}" {BOOT} && exec "$@"'
    inside = ["unshare", "--mount", "sh", "-c", shell, "sh"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user cannot give a process another boot id")
    return subprocess.Popen(
        [*inside, sys.executable, "-m", "holdfast", *arguments],
        cwd=program.folder,
        env=program.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def error_of(program: Program, *arguments: str, code: int) -> str:
    document = program.json(*arguments, code=code)
    errors: list[Any] = document["errors"] if "errors" in document else [document["stacks"][0]["error"]]
    return str(errors[0]["code"])


@pytest.mark.long
def test_a_clone_of_this_machine_that_works_is_left_alone(with_lab: Program, shared: Path) -> None:
    """Same host name, same machine id, another boot: on a shared store that proves nothing."""
    with LabService() as service:
        configure(with_lab, str(shared), service.url)
        with_lab.ok("apply", "--yes")
        with_lab.write("state.json", with_lab.ok("state", "pull", "a").out)
        (version,) = [each["name"] for each in with_lab.json("state", "versions", "a")["versions"]][:1]
        with_lab.write("a/main.tf", lab_module(ONE + ONE.replace("one", "two")))
        service.misbehave(Fault(operation="create", what="hold", name="two"))
        process = start_on_a_clone(with_lab, "apply", "--yes", "--json")
        held(service, process, "create", 2)
        run = str(with_lab.json("runs", "list")["runs"][0]["id"])
        refused = {
            ("plan",): "HF-LOCK-2",
            ("apply", "--yes"): "HF-LOCK-4",
            ("runs", "reconcile", run, "--yes"): "HF-LOCK-3",
            ("state", "push", "a", "state.json"): "HF-LOCK-2",
            ("state", "rollback", "a", version, "--yes"): "HF-LOCK-2",
            ("state", "adopt", "a"): "HF-LOCK-2",
            ("state", "adopt", "a", "--start-empty"): "HF-LOCK-2",
        }
        for command, expected in refused.items():
            assert error_of(with_lab, *command, code=4) == expected, command
        # Every store gets a heartbeat, and even without it nothing is proved.
        heartbeat = shared / f"runs/{run}/heartbeat"
        eventually(heartbeat.exists, what="a heartbeat")
        for pid in left_behind(with_lab):
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=60)
        service.behave()
        none_left(with_lab)
        assert error_of(with_lab, "runs", "reconcile", run, "--yes", code=4) == "HF-LOCK-3"
        # A person says so; what may exist must be named all the same.
        assert error_of(with_lab, "runs", "reconcile", run, "--yes", *DEAD, code=6) == "HF-REC-11"
        (two,) = [id_ for id_, each in service.objects().items() if each["name"] == "two"]
        named = ("--import", f"lab_object.two={two}")
        assert with_lab.json("runs", "reconcile", run, "--yes", *DEAD, *named)["resolved"]
        assert with_lab.results("plan")["a"]["status"] == "unchanged"


def hold_from_an_earlier_boot(store: RunStore, *, started: str) -> str:
    process = process_table.this_process()._replace(boot="an earlier boot")
    run = clock.new_id()
    intent = Intent(operation="apply", who="ci", started=started, process=process)
    assert store.claims.take(StoredClaim("a", run, intent.document())).run == run
    return run


def test_a_restart_is_proved_only_on_the_disk_of_one_machine(with_lab: Program) -> None:
    """After a power failure the stack goes on by itself, until another machine has used the store."""
    here = process_table.this_process()
    if not mounts.is_local_disk(with_lab.folder) or here.space != "pid:[4026531836]" or not here.machine:
        pytest.skip("here no restart proves anything")
    with LabService() as service:
        configure(with_lab, ".holdfast", service.url)
        with_lab.ok("apply", "--yes")
        with_lab.write("state.json", with_lab.ok("state", "pull", "a").out)
        key = Key.of(base64.b64decode((with_lab.home / "key").read_text()))
        store = RunStore(FolderBlobs(with_lab.folder / ".holdfast"), lambda: key)
        hold_from_an_earlier_boot(store, started=clock.now().isoformat())
        result = with_lab.results("plan")["a"]
        assert any("ended before Terraform was started" in note for note in result["notes"])
        # A clone has the same id, and came through a network.
        assert store.encrypted.create("machines/shared", b"")
        run = hold_from_an_earlier_boot(store, started="2026-01-02T03:04:05+00:00")
        result = with_lab.results("plan", code=6)["a"]
        assert "may still run" in result["error"]["message"]
        for command in (("runs", "reconcile", run, "--yes"), ("state", "push", "a", "state.json")):
            assert error_of(with_lab, *command, code=4) == "HF-LOCK-3"
        assert error_of(with_lab, "state", "rollback", "a", "1", "--yes", code=6) == "HF-RUN-8"
        assert error_of(with_lab, "state", "adopt", "a", "--start-empty", code=6) == "HF-RUN-8"
        with_lab.ok("runs", "reconcile", run, "--yes", *DEAD)
        assert with_lab.results("plan")["a"]["status"] == "unchanged"
        shown = with_lab.ok("audit", "show").text
        assert "holder-dead" in shown
        assert "its machine was deleted" in shown
