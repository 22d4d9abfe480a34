"""Warm providers over a real pool, with embedded Terraform: when they are kept, and when they end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_stacks import lab_module
from msgspec import structs
from program import eventually

from holdfast.system import confine
from holdfast.system.environment import Environment
from holdfast.terraform.engine.discovery import InstalledEngines
from holdfast.terraform.engine.environment import child_environment
from holdfast.terraform.engine.interface import Command, CommandResult, Stop, WarmProviders
from holdfast.terraform.engine.pool import Recycling, WorkerPool
from provider import mirror
from provider.service import Fault, LabService

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="warm providers need Linux")

CODE = """
variable "name" {
  default = "it"
}

resource "lab_object" "it" {
  name = var.name
}

data "lab_environment" "here" {
  names = ["TF_HTTP_PASSWORD", "TF_REATTACH_PROVIDERS", "WHO", "TMPDIR"]
}

output "pid" {
  value = data.lab_environment.here.pid
}

output "values" {
  value = data.lab_environment.here.values
}
"""


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


class Lab:
    """One initialised folder, and its commands with a warm provider."""

    def __init__(self, folder: Path, *, cli: Path, url: str, path: str, scratch: Path) -> None:
        self.folder = folder
        self.scratch = scratch
        folder.mkdir()
        (folder / "main.tf").write_text(lab_module(CODE))
        self.environment = child_environment(
            caller={"PATH": path, "HOME": str(folder), "TF_CLI_CONFIG_FILE": str(cli)},
            named={"LAB_URL": url, "TF_DISABLE_PLUGIN_TLS": "1"},
            credentials=None,
            scratch=str(scratch),
        )
        self.program = next((cli.parent / mirror.ADDRESS / "1.0.0").glob("*/terraform-provider-lab_*"))

    def warm(self, configuration: str = "one") -> WarmProviders:
        return WarmProviders(configuration=configuration, programs=((mirror.ADDRESS, str(self.program)),))

    def command(self, *words: str, warm: WarmProviders | None = None, who: str = "") -> Command:
        environment = {**self.environment, **({"WHO": who} if who else {})}
        return Command(
            phase=words[0],
            argv=words,
            folder=self.folder,
            environment=environment,
            providers="lab",
            warm=warm,
        )

    def apply(self, *words: str, configuration: str = "one", who: str = "") -> Command:
        argv = ("apply", "-auto-approve", "-input=false", *words)
        return self.command(*argv, warm=self.warm(configuration), who=who)

    @contextlib.asynccontextmanager
    async def pool(self, recycling: Recycling | None = None) -> AsyncIterator[WorkerPool]:
        variables = {"HOLDFAST_HOME": str(self.folder / "home"), "PATH": ""}
        identity = InstalledEngines(Environment(variables=variables)).embedded()
        assert identity is not None
        pool = WorkerPool(identity, scratch=self.scratch, limit=4, recycling=recycling)
        try:
            if not (self.folder / ".terraform").exists():
                ran = await pool.run(self.command("init", "-input=false"), stop=Stop())
                assert ran.code == 0, ran.err
            yield pool
        finally:
            await pool.close()
            eventually(lambda: not self.providers(), what="no provider left")
            assert not list(self.scratch.glob("p[0-9]*"))

    async def outputs(self, pool: WorkerPool, command: Command) -> dict[str, Any]:
        """After an apply that must succeed."""
        done = await pool.run(command, stop=Stop())
        assert done.code == 0, done.err
        shown = await pool.run(self.command("output", "-json"), stop=Stop())
        return {name: output["value"] for name, output in json.loads(shown.out).items()}

    async def pid(self, pool: WorkerPool, command: Command) -> int:
        return int((await self.outputs(pool, command))["pid"])

    def providers(self) -> list[int]:
        """Provider processes that are alive."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                started = str(self.folder).encode() in (entry / "environ").read_bytes()
                is_provider = b"provider/main.py" in (entry / "cmdline").read_bytes()
                if started and is_provider and _state(int(entry.name)) not in "ZX":
                    found.append(int(entry.name))
        return found


def _proc(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def _state(pid: int) -> str:
    return _proc(pid, "stat").rsplit(")", 1)[1].split()[0]


@pytest.fixture
def lab_folder(tmp_path: Path, lab: Path, quiet_path: str, service: LabService) -> Iterator[Lab]:
    scratch = Path(f"/tmp/hf-{os.urandom(4).hex()}")
    scratch.mkdir(mode=0o700)
    yield Lab(tmp_path / "stack", cli=lab, url=service.url, path=quiet_path, scratch=scratch)
    shutil.rmtree(scratch)


def test_one_process_serves_many_commands(lab_folder: Lab, service: LabService) -> None:
    """Plan, show, apply and destroy start no provider after the first; without it, each starts its own."""

    async def work() -> None:
        async with lab_folder.pool() as pool:
            warm = lab_folder.warm()
            pid = await lab_folder.pid(pool, lab_folder.apply())
            assert lab_folder.providers() == [pid]
            for words in (
                ("plan", "-input=false", "-out=p", "-var=name=other"),
                ("show", "-json", "p"),
                ("apply", "-input=false", "p"),
                ("validate",),
            ):
                ran = await pool.run(lab_folder.command(*words, warm=warm), stop=Stop())
                assert ran.code == 0, ran.err
            assert await lab_folder.pid(pool, lab_folder.apply()) == pid
            gone = await pool.run(lab_folder.apply("-destroy"), stop=Stop())
            assert gone.code == 0, gone.err
            cold = [
                await lab_folder.pid(pool, structs.replace(lab_folder.apply(), warm=None)) for _ in range(2)
            ]
            assert len({pid, *cold}) == 3
            assert lab_folder.providers() == [pid]

    asyncio.run(work())
    assert [made["name"] for made in service.objects().values()] == ["it"]


def test_a_process_has_one_configuration_and_one_environment(lab_folder: Lab) -> None:
    """Another configuration or other credentials are another process, also when they take turns."""

    async def work() -> None:
        async with lab_folder.pool() as pool:
            seen: dict[tuple[str, str], set[int]] = {}
            for _ in range(2):
                for kind in (("one", "a"), ("two", "a"), ("one", "b")):
                    found = await lab_folder.outputs(
                        pool, lab_folder.apply(configuration=kind[0], who=kind[1])
                    )
                    assert found["values"]["WHO"] == kind[1]
                    seen.setdefault(kind, set()).add(found["pid"])
            assert [len(pids) for pids in seen.values()] == [1, 1, 1]
            assert len(set.union(*seen.values())) == 3

    asyncio.run(work())


def test_a_provider_gets_nothing_of_terraforms_own(lab_folder: Lab) -> None:
    """Neither the password of the state nor the addresses; a private folder, and the same confinement."""

    async def work() -> None:
        async with lab_folder.pool() as pool:
            apply = structs.replace(lab_folder.apply(), managed_state=True)
            found = await lab_folder.outputs(pool, apply)
            assert set(found["values"]) == {"TMPDIR"}
            assert Path(found["values"]["TMPDIR"]).parent == lab_folder.scratch
            status = _proc(found["pid"], "status")
            assert "NoNewPrivs:\t1" in status
            held = int(status.split("CapEff:")[1].split()[0], 16)
            assert not held & sum(1 << bit for bit in confine._DROPPED)
            sockets = [path for path in lab_folder.scratch.rglob("*") if path.is_socket()]
            assert not sockets, "the socket must have no name"

    asyncio.run(work())


def test_a_failed_command_ends_the_process(lab_folder: Lab, service: LabService) -> None:
    """What state a provider is in after an error is not known: the next command gets another one."""

    async def work() -> None:
        async with lab_folder.pool() as pool:
            pid = await lab_folder.pid(pool, lab_folder.apply())
            service.misbehave(Fault(operation="update", what="fail-before"))
            failed = await pool.run(lab_folder.apply("-var=name=other"), stop=Stop())
            assert failed.code == 1
            assert await lab_folder.pid(pool, lab_folder.apply("-var=name=other")) != pid
            assert pid not in lab_folder.providers()

    asyncio.run(work())


def test_a_cancelled_command_ends_the_process(lab_folder: Lab, service: LabService) -> None:
    """A provider that was told to stop may refuse all further work."""

    async def work() -> CommandResult:
        async with lab_folder.pool() as pool:
            pid = await lab_folder.pid(pool, lab_folder.apply())
            service.misbehave(Fault(operation="update", what="hold"))
            stop = Stop()
            running = asyncio.create_task(pool.run(lab_folder.apply("-var=name=other"), stop=stop))
            await _until(lambda: bool(service.calls("update")))
            stop.ask()
            await _until(lambda: service.stops > 0)
            service.release()
            ran = await running
            assert await lab_folder.pid(pool, lab_folder.apply("-var=name=third")) != pid
            assert pid not in lab_folder.providers()
            return ran

    assert asyncio.run(work()).interrupted


def test_a_killed_idle_provider_is_replaced(lab_folder: Lab) -> None:
    """The worker ends with its provider, so that no command meets a dead one."""

    async def work() -> None:
        async with lab_folder.pool() as pool:
            pid = await lab_folder.pid(pool, lab_folder.apply())
            workers = set(pool.pids)
            os.kill(pid, signal.SIGKILL)
            await _until(lambda: any(_ended(worker) for worker in workers))
            assert await lab_folder.pid(pool, lab_folder.apply()) != pid

    asyncio.run(work())


def test_a_provider_killed_at_work_fails_its_command_only(lab_folder: Lab, service: LabService) -> None:
    """Terraform reports it as any crash of a provider, and the next command starts another one."""

    async def work() -> None:
        async with lab_folder.pool() as pool:
            pid = await lab_folder.pid(pool, lab_folder.apply())
            service.misbehave(Fault(operation="update", what="hold"))
            running = asyncio.create_task(pool.run(lab_folder.apply("-var=name=other"), stop=Stop()))
            await _until(lambda: bool(service.calls("update")))
            os.kill(pid, signal.SIGKILL)
            failed = await running
            service.release()
            assert (failed.code, failed.killed) == (1, False)
            assert b"Plugin did not respond" in failed.err
            assert await lab_folder.pid(pool, lab_folder.apply("-var=name=other")) != pid

    asyncio.run(work())


def test_a_process_is_replaced_after_its_share(lab_folder: Lab) -> None:
    """By the number of commands: connections that Terraform leaves open would fill both processes."""

    async def work() -> None:
        async with lab_folder.pool(Recycling(warm_commands=2)) as pool:
            pids = [await lab_folder.pid(pool, lab_folder.apply()) for _ in range(5)]
            assert [pids.index(pid) for pid in pids] == [0, 0, 2, 2, 4]

    asyncio.run(work())


def test_a_process_that_waits_too_long_is_ended(lab_folder: Lab) -> None:
    """Credentials in a process that nobody uses are a risk for nothing; cold workers stay."""

    async def work() -> None:
        async with lab_folder.pool(Recycling(warm_idle=0.0)) as pool:
            await pool.run(lab_folder.apply(), stop=Stop())
            assert lab_folder.providers()
            await pool.end_expired()
            assert not lab_folder.providers()
            assert len(pool.pids) == 1

    asyncio.run(work())


def test_a_killed_worker_leaves_no_provider(lab_folder: Lab) -> None:
    """Nothing of it can tell the provider: the kernel does."""

    async def work() -> None:
        async with lab_folder.pool() as pool:
            pid = await lab_folder.pid(pool, lab_folder.apply())
            parent = int(_proc(pid, "stat").rsplit(")", 1)[1].split()[1])
            assert parent in pool.pids
            # A stopped process cannot notice by itself that its parent is gone.
            os.kill(pid, signal.SIGSTOP)
            os.kill(parent, signal.SIGKILL)
            await _until(lambda: _ended(pid))
            for folder in lab_folder.scratch.glob("p[0-9]*"):
                shutil.rmtree(folder)

    asyncio.run(work())


def test_a_provider_that_cannot_be_kept_is_started_by_terraform(lab_folder: Lab, tmp_path: Path) -> None:
    """A program that does not start is no reason to fail: Terraform starts its own."""
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no handshake\n")
    broken.chmod(0o755)

    async def work() -> None:
        async with lab_folder.pool() as pool:
            for program in (broken, tmp_path / "missing"):
                warm = WarmProviders(configuration="x", programs=((mirror.ADDRESS, str(program)),))
                await lab_folder.pid(pool, structs.replace(lab_folder.apply(), warm=warm))
                assert not lab_folder.providers()

    asyncio.run(work())


def _ended(pid: int) -> bool:
    try:
        return _state(pid) in "ZX"
    except OSError:
        return True


async def _until(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(eventually, condition, what="the condition")
