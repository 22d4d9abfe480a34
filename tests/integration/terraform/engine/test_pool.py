"""The embedded engine with the real library: what a warm process may serve, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_stacks import none_left, one_stack, warm_processes
from msgspec import structs
from program import Program, eventually

from holdfast.system.environment import Environment
from holdfast.terraform.engine.discovery import InstalledEngines
from holdfast.terraform.engine.environment import child_environment
from holdfast.terraform.engine.interface import Command, CommandResult, Stop
from holdfast.terraform.engine.pool import Recycling, WorkerPool
from provider.service import LabService


@pytest.fixture
def service() -> Iterator[LabService]:
    with LabService() as running:
        yield running


@pytest.fixture
def command(tmp_path: Path, quiet_path: str, workplace: Path) -> Command:
    """`terraform version`: the smallest command there is."""
    environment = child_environment(
        caller={"PATH": quiet_path, "HOME": str(tmp_path)}, named={}, credentials=None, scratch=str(workplace)
    )
    return Command(phase="version", argv=("version", "-json"), folder=tmp_path, environment=environment)


@contextlib.asynccontextmanager
async def warm(
    scratch: Path, *, limit: int = 4, recycling: Recycling | None = None
) -> AsyncIterator[WorkerPool]:
    home = scratch / "home"
    identity = InstalledEngines(Environment(variables={"HOLDFAST_HOME": str(home), "PATH": ""})).embedded()
    assert identity is not None
    engine = WorkerPool(identity, scratch=scratch, limit=limit, recycling=recycling)
    try:
        yield engine
    finally:
        pids = engine.pids
        await engine.close()
        assert not [pid for pid in pids if alive(pid)]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def running(pid: int) -> bool:
    """A process that is dead and not yet buried does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in {"Z", "X"}
    except OSError:
        return False


def born_with(command: Command, name: str) -> Command:
    return structs.replace(command, environment={**command.environment, "WHO": name})


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(work())


def version_of(answer: CommandResult) -> str:
    assert answer.code == 0, answer.err
    return str(json.loads(answer.out)["terraform_version"])


def test_a_process_is_used_again(tmp_path: Path, command: Command) -> None:
    """Warm means: the second command of the same kind starts nothing."""

    async def work() -> None:
        async with warm(tmp_path) as engine:
            for _ in range(3):
                assert version_of(await engine.run(command, stop=Stop())) == engine.identity.version
            assert engine.started == 1

    run(work)


def test_a_process_serves_one_environment_only(tmp_path: Path, command: Command) -> None:
    """Another value, another variable or one fewer is another process, for its whole life."""

    async def work() -> None:
        async with warm(tmp_path) as engine:
            for name in ("a", "b", "a", "b", "a"):
                await engine.run(born_with(command, name), stop=Stop())
            assert engine.started == 2
            await engine.run(command, stop=Stop())
            assert engine.started == 3

    run(work)


def test_a_process_serves_one_set_of_providers_only(tmp_path: Path, command: Command) -> None:
    """A command that loads providers never meets a process that loaded others; one that loads none may."""

    async def work() -> None:
        async with warm(tmp_path) as engine:
            one = structs.replace(command, providers="one")
            two = structs.replace(command, providers="two")
            await engine.run(command, stop=Stop())
            await engine.run(one, stop=Stop())
            assert engine.started == 1
            await engine.run(two, stop=Stop())
            assert engine.started == 2
            for again in (one, two, command, one, two):
                await engine.run(again, stop=Stop())
            assert engine.started == 2

    run(work)


def test_one_command_at_a_time(tmp_path: Path, command: Command) -> None:
    """Two commands at once are two processes, also where one could serve both."""

    async def work() -> None:
        async with warm(tmp_path) as engine:
            answers = await asyncio.gather(*(engine.run(command, stop=Stop()) for _ in range(2)))
            assert [version_of(answer) for answer in answers] == [engine.identity.version] * 2
            assert engine.started == 2
            assert len(set(engine.pids)) == 2

    run(work)


@pytest.mark.parametrize(
    ("recycling", "started"),
    [
        (Recycling(), 1),
        (Recycling(commands=2), 2),
        (Recycling(files=1), 4),
        (Recycling(memory=1), 4),
    ],
    ids=["not-yet", "count", "files", "memory"],
)
def test_a_process_that_served_enough_is_replaced(
    tmp_path: Path, command: Command, recycling: Recycling, started: int
) -> None:
    """By number of commands, by open files and by memory, a process ends and a fresh one takes over."""

    async def work() -> None:
        async with warm(tmp_path, recycling=recycling) as engine:
            seen: set[int] = set()
            for _ in range(4):
                await engine.run(command, stop=Stop())
                seen.update(engine.pids)
            assert engine.started == started
            gone = seen - set(engine.pids)
            assert not [pid for pid in gone if alive(pid)]

    run(work)


def test_idle_processes_make_room(tmp_path: Path, command: Command) -> None:
    """There are never more processes than stacks that may run at once: the longest idle one goes first."""

    async def work() -> None:
        async with warm(tmp_path, limit=2) as engine:
            pids = {}
            for name in ("a", "b", "c"):
                before = set(engine.pids)
                await engine.run(born_with(command, name), stop=Stop())
                pids[name] = (set(engine.pids) - before).pop()
            assert set(engine.pids) == {pids["b"], pids["c"]}
            assert not alive(pids["a"])
            assert alive(pids["b"])

    run(work)


def test_processes_that_start_at_once_count_too(tmp_path: Path, command: Command) -> None:
    """Two new ones at the same time leave no room for an idle third."""

    async def work() -> None:
        async with warm(tmp_path, limit=2) as engine:
            await engine.run(born_with(command, "a"), stop=Stop())
            (idle,) = engine.pids
            await asyncio.gather(*(engine.run(born_with(command, name), stop=Stop()) for name in "bc"))
            assert len(engine.pids) == 2
            assert not alive(idle)

    run(work)


def test_a_dead_idle_worker_is_not_used(tmp_path: Path, command: Command) -> None:
    """A worker that died between two commands affects no run."""

    async def work() -> None:
        async with warm(tmp_path) as engine:
            await engine.run(command, stop=Stop())
            (pid,) = engine.pids
            os.kill(pid, signal.SIGKILL)
            eventually(lambda: not running(pid), what="its death")
            assert version_of(await engine.run(command, stop=Stop())) == engine.identity.version
            assert pid not in engine.pids

    run(work)


# The same, as a user meets it: several stacks in one change


def test_a_child_that_lives_on_hides_no_crash(with_lab: Program, tmp_path: Path) -> None:
    """What a provisioner started holds neither the conversation nor the output open when its engine dies."""
    one_stack(
        with_lab,
        use="embedded",
        env={"STARTED": str(tmp_path / "user/started")},
        body='resource "terraform_data" "it" {\n'
        '  provisioner "local-exec" {\n    command = "touch $STARTED; sleep 600; true"\n  }\n}\n',
    )
    process = with_lab.start("apply", "--yes", "--json")
    eventually(
        lambda: (tmp_path / "user/started").exists() or process.poll() is not None, what="the provisioner"
    )
    (victim,) = warm_processes(with_lab)
    os.kill(victim, signal.SIGKILL)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 6
    assert json.loads(out)["stacks"][0]["status"] == "unknown"
    none_left(with_lab)


def test_a_provisioner_that_leaves_something_running_does_not_hang(with_lab: Program) -> None:
    """An apply ends when Terraform says so, whatever a provisioner left in the background."""
    one_stack(
        with_lab,
        use="embedded",
        env={},
        body='resource "terraform_data" "it" {\n'
        '  provisioner "local-exec" {\n'
        '    command = "sleep 600 >/dev/null 2>&1 </dev/null & true"\n  }\n}\n',
    )
    assert with_lab.results("apply", "--yes", seconds=30)["a"]["status"] == "applied"
    none_left(with_lab)
