"""An engine that runs all day: thousands of commands leave memory, files and processes as they were."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from engines import EMBEDDED, EngineUnderTest

from holdfast.terraform import argv
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.engine.interface import Command, EngineId, EngineKind, Product, Stop
from holdfast.terraform.engine.pool import Recycling, WorkerPool, library_path
from holdfast.terraform.engine.worker_client import WorkerClient

COMMANDS = 2000
WITH_PROVIDERS = 60
BOTH_PRODUCTS = pytest.mark.parametrize("any_engine", EMBEDDED, indirect=True)
DATA = 'resource "terraform_data" "x" {\n  input = timestamp()\n}\n'
PROVIDERS = """
terraform {
  required_providers {
    random = { source = "hashicorp/random" }
    time   = { source = "hashicorp/time" }
    null   = { source = "hashicorp/null" }
    local  = { source = "hashicorp/local" }
  }
}
resource "random_pet" "p" {
  keepers = { now = timestamp() }
}
resource "time_static" "t" {}
resource "null_resource" "n" {}
resource "local_file" "f" {
  content  = random_pet.p.id
  filename = "${path.module}/out.txt"
}
"""


@dataclass(frozen=True)
class Size:
    """What a worker holds, what this process holds open, and the programs that the worker started."""

    memory: int
    files: int
    threads: int
    own_files: int
    children: int


def children(pid: int) -> set[int]:
    return {
        int(child)
        for file in Path(f"/proc/{pid}/task").glob("*/children")
        for child in file.read_text().split()
    }


def size_of(process: WorkerClient) -> Size:
    return Size(
        memory=process.memory,
        files=process.files,
        threads=len(list(Path(f"/proc/{process.pid}/task").iterdir())),
        own_files=len(list(Path("/proc/self/fd").iterdir())),
        children=len(children(process.pid)),
    )


@pytest.mark.long
@BOTH_PRODUCTS
def test_two_thousand_commands_leave_a_worker_as_it_was(
    any_engine: EngineUnderTest, workplace: Path, tmp_path: Path
) -> None:
    """One process serves them all; what it holds after the last is what it held after the first hundreds."""
    (tmp_path / "main.tf").write_text(DATA)
    steady(lived(any_engine, workplace, tmp_path, commands=COMMANDS))


@pytest.mark.long
@BOTH_PRODUCTS
def test_plans_with_real_providers_leave_a_worker_as_it_was(
    any_engine: EngineUnderTest, workplace: Path, tmp_path: Path
) -> None:
    """With four providers that are started and stopped by every command."""
    mirror = Path(os.environ.get("HOLDFAST_TOOLS", ""), "cli.tfrc").absolute()
    if not mirror.exists():
        pytest.skip("no provider mirror with a cli.tfrc in HOLDFAST_TOOLS")
    (tmp_path / "main.tf").write_text(PROVIDERS)
    steady(lived(any_engine, workplace, tmp_path, commands=WITH_PROVIDERS, TF_CLI_CONFIG_FILE=str(mirror)))


def steady(sizes: list[Size]) -> None:
    third = len(sizes) // 3
    early, late = sizes[:third], sizes[-third:]
    assert min(one.memory for one in late) < 1.3 * max(one.memory for one in early)
    assert max(one.files for one in late) <= max(one.files for one in early) + 5
    assert max(one.threads for one in late) <= max(one.threads for one in early) + 5
    assert max(one.own_files for one in late) <= max(one.own_files for one in early)
    assert {one.children for one in sizes} == {0}


def lived(
    engine: EngineUnderTest, scratch: Path, folder: Path, *, commands: int, **variables: str
) -> list[Size]:
    """One worker plans, shows and applies the code of a folder until it has run so many commands."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "CHECKPOINT_DISABLE": "1", **variables}
    before = children(os.getpid())

    async def work() -> list[Size]:
        never = Recycling(commands=10**9, memory=10**12, files=10**6)
        pool = WorkerPool(engine.identity, scratch=scratch, limit=1, recycling=never)

        async def run(phase: str, words: argv.Argv) -> None:
            command = Command(
                phase=phase, argv=words, folder=folder, environment=environment, providers="one"
            )
            answer = await pool.run(command, stop=Stop())
            assert answer.code in {0, 2}, (answer.code, answer.out[-2000:], answer.err)

        async def cycle() -> Size:
            await run("plan", argv.plan(PlanOptions(), variables_files=()))
            await run("show", argv.SHOW_PLAN)
            await run("apply", argv.apply())
            (process,) = pool._idle.values()
            return size_of(process)

        await run("init", argv.init(backend_file=False, json=True))
        sizes = [await cycle() for _ in range(commands // 3 + 1)]
        assert pool.started == 1
        await pool.close()
        return sizes

    sizes = asyncio.run(work())
    assert children(os.getpid()) <= before
    return sizes


def test_a_change_with_many_stacks_starts_processes_ahead(workplace: Path, tmp_path: Path) -> None:
    """The first command of a large change starts a process for every core, and memory bounds them."""
    library = library_path()
    assert library is not None
    command = Command(
        phase="version",
        argv=argv.VERSION,
        folder=tmp_path,
        environment={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )

    async def work() -> None:
        identity = EngineId(
            kind=EngineKind.EMBEDDED, product=Product.TERRAFORM, version="0.0.0", path=str(library)
        )
        many = WorkerPool(identity, scratch=workplace, limit=3, expected=40)
        await many.run(command, stop=Stop())
        await asyncio.gather(*many._ahead)
        assert many.started == min(os.cpu_count() or 1, 3)
        assert len(many.pids) == many.started
        await many.close()
        one = WorkerPool(identity, scratch=workplace, limit=3, expected=1)
        await one.run(command, stop=Stop())
        assert one.started == 1
        await one.close()

    asyncio.run(work())
