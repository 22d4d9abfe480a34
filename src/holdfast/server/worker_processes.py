"""The workers that `holdfast serve` starts: processes of their own, started again when they die."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.server.edge import Log
from holdfast.system import clock, process_table
from holdfast.system.environment import Environment
from holdfast.system.processes import Program

PARENT: Final = "HOLDFAST_PARENT"
"""The process that started a worker: it ends when that is gone."""
_LOOK_SECONDS: Final = 0.5
_MOST_PAUSE: Final = 30.0
_STOP_SECONDS: Final = 25.0


class WorkerProcesses:
    def __init__(self, count: int, start: Callable[[], Program], log: Log) -> None:
        self._start = start
        self._log = log
        self._ended = threading.Event()
        self._running: list[Program | None] = [None] * count

    def keep(self) -> None:
        """Until `end`. One that dies soon after its start is started again later and later."""
        pause, due = [_LOOK_SECONDS] * len(self._running), [0.0] * len(self._running)
        while not self._ended.is_set():
            now = clock.monotonic()
            for place, process in enumerate(self._running):
                if process is not None and process.code is not None:
                    self._log.error("worker ended", code=process.code)
                    self._running[place], due[place] = None, now + pause[place]
                    pause[place] = min(2 * pause[place], _MOST_PAUSE)
                elif process is None and now >= due[place]:
                    self._running[place] = self._start()
            self._ended.wait(_LOOK_SECONDS)

    def end(self) -> None:
        """Ask all of them to end, once."""
        if not self._ended.is_set():
            self._ended.set()
            for process in self._running:
                if process is not None:
                    process.terminate()

    def wait(self) -> None:
        end = clock.monotonic() + _STOP_SECONDS
        for process in self._running:
            while process is not None and process.code is None and clock.monotonic() < end:
                clock.pause(0.05)
            if process is not None and process.code is None:
                process.kill()


@contextmanager
def hold_workers(
    count: int, environment: Environment, data: Path, config: Path | None, log: Log
) -> Iterator[WorkerProcesses]:
    """`keep` starts them. They use the same data folder and configuration."""
    argv = (
        *(sys.executable, "-P", "-m", "holdfast", "worker", "--data", str(data)),
        *(("--config", str(config)) if config is not None else ()),
    )
    variables = {**environment.variables, PARENT: str(process_table.own_id())}
    workers = WorkerProcesses(count, lambda: Program(argv, variables), log)
    thread = threading.Thread(target=workers.keep, name="holdfast-workers", daemon=True)
    if count:
        thread.start()
    try:
        yield workers
    finally:
        workers.end()
        if count:
            thread.join()
        workers.wait()
