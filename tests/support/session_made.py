"""A session that runs nothing, and claims and journals as a run would have written them."""

from __future__ import annotations

import json
from pathlib import Path

from holdfast.config.settings import Config
from holdfast.hcl.eval.code import Code
from holdfast.plans.context import Session
from holdfast.secrets.keys import Key
from holdfast.secrets.redact import Redactor
from holdfast.stacks.stack import Stack
from holdfast.store.blobs import BlobStore
from holdfast.store.claims import Claim
from holdfast.store.folder_blobs import FolderBlobs
from holdfast.store.journal import JournalWriter
from holdfast.store.run_store import RunStore
from holdfast.system import clock, process_table
from holdfast.system.environment import Environment
from holdfast.system.process_table import ProcessId
from holdfast.terraform.engine.interface import Stop
from holdfast.terraform.engine.selection import EngineSelection

KEY = Key.of(b"k" * 32)
ALIVE = process_table.this_process()
DEAD = ALIVE._replace(started="1")
"""Another process had the number of this one before."""
ELSEWHERE = ProcessId(host="runner-7", boot="b", pid=4711, started="1", machine="m", space="s")
LONG_AGO = "2020-01-02T03:04:05+00:00"


def session(
    folder: Path, *, change: str = "01A", wait: float = 0.0, blobs: BlobStore | None = None
) -> Session:
    def choose(_: Stack) -> EngineSelection:
        raise AssertionError("nothing is run here")

    return Session(
        config=Config(file=folder / "holdfast.yaml", root=folder),
        environment=Environment(variables={"HOLDFAST_HOME": str(folder / "home")}),
        code=Code(folder),
        store=RunStore(blobs or FolderBlobs(folder / "store"), lambda: KEY),
        key=lambda: KEY,
        choose=choose,
        redactor=Redactor(),
        who="tester@here",
        stop=Stop(),
        scratch=folder,
        change=change,
        wait=wait,
    )


def claim(
    process: ProcessId,
    *,
    stack: str = "a",
    run: str = "01RUN",
    change: str = "01A",
    operation: str = "apply",
    started: str | None = None,
) -> Claim:
    intent: dict[str, object] = {
        "operation": operation,
        "who": "ci",
        "started": started or clock.now().isoformat(),
        "process": process.document(),
        "intent": {"version": 1, "intent": {"change": change, "digest": "d1"}},
    }
    return Claim(stack=stack, run=run, intent=intent)


def journal(
    path: Path, *frames: tuple[bytes, dict[str, object] | bytes], run: str = "01RUN", key: Key = KEY
) -> bytes:
    """Written to this path with these frames; what was written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = JournalWriter(str(path), key, run)
    for kind, data in frames:
        writer.append(kind, data if isinstance(data, bytes) else json.dumps(data).encode())
    writer.close()
    return path.read_bytes()
