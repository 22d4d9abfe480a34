"""A context in which nothing is run, and claims and journals as a run would have written them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ciphers import CIPHER, KEY, identify
from recovery_made import intent as plan_intent

from holdfast.config.settings import Config
from holdfast.hcl.eval.code import Code
from holdfast.plans.context import ChangeContext, Control, Engines, Identity, Project
from holdfast.plans.events import Listener, ignore_events
from holdfast.runs.claims import Claim
from holdfast.runs.intent import Intent
from holdfast.secrets.reader import SecretReader
from holdfast.secrets.redact import Redactor
from holdfast.stacks.stack import Stack
from holdfast.store.blobs import BlobStore
from holdfast.store.journal import JournalWriter
from holdfast.store.place import FolderBlobs
from holdfast.store.run_records import SPOOL, StoredClaim
from holdfast.store.run_store import RunStore
from holdfast.system import clock, process_table
from holdfast.system.environment import Environment
from holdfast.system.process_table import ProcessId
from holdfast.terraform.engine.confinement import WorkerConfinement
from holdfast.terraform.engine.selection import EngineSelection

ALIVE = process_table.this_process()
DEAD = ALIVE._replace(started="1")
"""Another process had the number of this one before."""
ELSEWHERE = ProcessId(host="runner-7", boot="b", pid=4711, started="1", machine="m", space="s")
LONG_AGO = "2020-01-02T03:04:05+00:00"


def _no_engine(_: Stack) -> EngineSelection:
    raise AssertionError("nothing is run here")


def change_context(
    folder: Path,
    *,
    change: str = "01A",
    wait: float = 0.0,
    blobs: BlobStore | None = None,
    tell: Listener = ignore_events,
    choose: Callable[[Stack], EngineSelection] = _no_engine,
    config: Config | None = None,
    variables: Mapping[str, str] | None = None,
    stacks: Iterable[Stack] = (),
) -> ChangeContext:
    """A context in which nothing is run."""
    environment = Environment(
        variables={"HOLDFAST_HOME": str(folder / "home"), "USER": "tester", **(variables or {})}
    )
    project = Project(
        config=config or Config(file=folder / "holdfast.yaml", root=folder),
        environment=environment,
        code=Code(folder),
        stacks={stack.name: stack for stack in stacks},
    )
    blobs = blobs or FolderBlobs(folder / "store")
    identify(blobs)
    store = RunStore(blobs, lambda: KEY, spool=environment.home / SPOOL)
    redactor = Redactor()
    return ChangeContext(
        project=project,
        store=store,
        engines=Engines(
            project.config.engine,
            choose,
            scratch=folder,
            confinement=WorkerConfinement(project.environment),
        ),
        secrets=SecretReader(environment, folder),
        redactor=redactor,
        identity=Identity(store, environment, redactor, change=change),
        control=Control(tell=tell, wait=wait),
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
    intent = Intent(
        operation=operation,
        who="ci",
        started=started or clock.now().isoformat(),
        process=process,
        change=change,
        plan=plan_intent(),
    )
    return Claim(stack=stack, run=run, intent=intent)


def take(store: RunStore, claim: Claim) -> Claim:
    """Claim a stack as a run does; the claim that holds it."""
    stored = store.claims.take(StoredClaim(claim.stack, claim.run, claim.intent.document()))
    return (
        claim
        if stored.run == claim.run
        else Claim(stack=stored.stack, run=stored.run, intent=Intent.from_document(stored.intent))
    )


def journal(path: Path, *frames: tuple[bytes, dict[str, object] | bytes], run: str = "01RUN") -> bytes:
    """Written to this path with these frames; what was written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = JournalWriter(str(path), CIPHER, run)
    for kind, data in frames:
        writer.append(kind, data if isinstance(data, bytes) else json.dumps(data).encode())
    writer.close()
    return path.read_bytes()
