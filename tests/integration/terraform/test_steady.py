"""An engine that runs all day: hundreds of cycles leave memory, files and processes as they were."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.terraform import argv
from holdfast.terraform.argv import PlanOptions
from holdfast.terraform.engine.interface import Command, EngineId, EngineKind, Product, Stop
from holdfast.terraform.engine.pool import Recycling, WorkerPool, library_path

CYCLES = 300


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def children() -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            except OSError:
                continue
            if parent == str(os.getpid()):
                found.add(int(entry.name))
    return found


@pytest.mark.long
def test_three_hundred_cycles_leave_no_files_and_processes(workplace: Path, tmp_path: Path) -> None:
    """One process serves them all; what it holds after the last is what it held after the first hundred."""
    library = library_path()
    assert library is not None
    (tmp_path / "main.tf").write_text('resource "terraform_data" "x" {\n  input = timestamp()\n}\n')
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CHECKPOINT_DISABLE": "1"}
    before = children()

    async def work() -> None:
        identity = EngineId(
            kind=EngineKind.EMBEDDED, product=Product.TERRAFORM, version="0.0.0", path=str(library)
        )
        never = Recycling(commands=10**9, memory=10**12, files=10**6)
        engine = WorkerPool(identity, scratch=workplace, limit=1, recycling=never)

        async def run(phase: str, words: argv.Argv) -> None:
            answer = await engine.run(
                Command(phase=phase, argv=words, folder=tmp_path, environment=environment, providers="none"),
                stop=Stop(),
            )
            assert answer.code in {0, 2}, answer.err

        async def cycle() -> tuple[int, int, int]:
            await run("plan", argv.plan(PlanOptions(), variables_files=()))
            await run("show", argv.SHOW_PLAN)
            await run("apply", argv.apply())
            (process,) = engine._idle.values()
            return process.memory, process.files, open_files()

        await run("init", argv.init(backend_file=False, json=True))
        sizes = [await cycle() for _ in range(CYCLES)]
        assert engine.started == 1
        await engine.close()
        early, late = sizes[:100], sizes[-50:]
        assert min(one[0] for one in late) < 1.5 * max(one[0] for one in early)
        assert max(one[1] for one in late) <= max(one[1] for one in early) + 5
        assert max(one[2] for one in late) <= max(one[2] for one in early)

    asyncio.run(work())
    assert children() <= before


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
