"""Workers that were started before it was known what they serve."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest
from program import eventually

from holdfast.system.environment import Environment
from holdfast.terraform.engine import worker_start
from holdfast.terraform.engine.discovery import InstalledEngines
from holdfast.terraform.engine.environment import child_environment
from holdfast.terraform.engine.interface import Command, Stop
from holdfast.terraform.engine.pool import WorkerPool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has spare workers")


@pytest.fixture
def spares() -> Iterator[list[int]]:
    worker_start.start_spares()
    yield [spare.child.pid for spare in worker_start._spares]
    for spare in worker_start.take_surplus(0):
        spare.channel.close()
        asyncio.run(spare.child.wait())
        spare.log.close()


@pytest.fixture
def environment(tmp_path: Path, quiet_path: str, workplace: Path) -> dict[str, str]:
    """What Terraform does with `version` shows whether it sees these variables."""
    named = {"TF_CLI_ARGS_version": "-json", "WORD": "Käse", "EMPTY": ""}
    return child_environment(
        caller={"PATH": quiet_path, "HOME": str(tmp_path)},
        named=named,
        credentials=None,
        scratch=str(workplace),
    )


def serve(scratch: Path, environment: dict[str, str], look: Callable[[int], None] = lambda _: None) -> int:
    """Run `terraform version`, and return the process that did."""
    known = InstalledEngines(Environment(variables={"HOLDFAST_HOME": str(scratch), "PATH": ""})).embedded()
    assert known is not None

    async def run() -> int:
        pool = WorkerPool(known, scratch=scratch, limit=2)
        try:
            command = Command(phase="version", argv=("version",), folder=scratch, environment=environment)
            answer = await pool.run(command, stop=Stop())
            assert "terraform_version" in json.loads(answer.out)
            look(pool.pids[0])
            return pool.pids[0]
        finally:
            await pool.close()

    coroutine: Coroutine[None, None, int] = run()
    return asyncio.run(coroutine)


def test_a_spare_worker_is_like_one_that_was_started_for_its_work(
    spares: list[int], environment: dict[str, str], workplace: Path
) -> None:
    """The engine and the kernel show its environment, and others see which scratch folder is in use."""

    def look(pid: int) -> None:
        if os.geteuid() == 0:  # No other user can look into it.
            shown = Path(f"/proc/{pid}/environ").read_bytes().rstrip(b"\0").split(b"\0")
            assert sorted(shown) == sorted(
                os.fsencode(f"{name}={value}") for name, value in environment.items()
            )
        assert os.fsencode(workplace) in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")

    assert serve(workplace, environment, look) == spares[0]
    assert not Path(f"/proc/{spares[1]}").exists()  # One was enough.


def test_an_environment_that_is_too_large_gets_a_new_process(
    spares: list[int], environment: dict[str, str], workplace: Path
) -> None:
    assert serve(workplace, {**environment, "LARGE": "." * 30_000}) not in spares
    many = {f"NUMBER_{number}": "1" for number in range(150)}
    assert serve(workplace, {**environment, **many}) not in spares


def test_a_dead_spare_worker_is_passed_over(
    spares: list[int], environment: dict[str, str], workplace: Path
) -> None:
    for pid in spares:
        os.kill(pid, signal.SIGKILL)
    stats = [Path(f"/proc/{pid}/stat") for pid in spares]
    eventually(lambda: all(b") Z" in stat.read_bytes() for stat in stats), what="they are dead")
    assert serve(workplace, environment) not in spares


def test_a_spare_worker_ends_with_its_caller(spares: list[int]) -> None:
    """Also the one that still waits to load its modules."""
    for spare, pid in zip(worker_start.take_surplus(0), spares, strict=True):
        spare.channel.close()
        assert asyncio.run(asyncio.wait_for(spare.child.wait(), 20)) == 0, pid
        spare.log.close()
