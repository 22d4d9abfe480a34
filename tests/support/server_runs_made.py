"""Changes on a running server, submitted and followed through its database."""

from __future__ import annotations

import io
import signal
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from program import Program, eventually

from holdfast.database.database import Database
from holdfast.database.postgres import Cluster
from holdfast.identity.principal import Principal
from holdfast.identity.roles import Role
from holdfast.identity.token_rows import TokenRows
from holdfast.secrets.server_key import load_server_key
from holdfast.server.audit_log import TenantStores, actor_of
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.store.run_store import RunStore
from holdfast.store.server_runs.contents import RunLog, upload_name
from holdfast.store.server_runs.phases import Operation
from holdfast.store.server_runs.rows import Change, ChangeRows, NewChange, NewRun, Run, RunRows
from holdfast.store.server_runs.sources import SourceRows
from holdfast.system import clock
from holdfast.system.environment import Environment

TENANT = "default"


class ServerRuns:
    def __init__(self, program: Program, database: Database, store: RunStore) -> None:
        self.program = program
        self.database = database
        self.store = store
        self.changes = ChangeRows(database)

    def person(self, name: str, role: Role = Role.OPERATOR, groups: tuple[str, ...] = ()) -> Principal:
        wanted = Principal(id="", name=name, kind="token", role=role, groups=groups)
        return replace(wanted, id=TokenRows(self.database).create(wanted, created_by="tests").info.id)

    def upload(self) -> str:
        """The code in the folder of the program."""
        buffer, source = io.BytesIO(), clock.new_id()
        with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
            for file in sorted(self.program.folder.rglob("*.*")):
                if file.suffix in {".tf", ".yaml"}:
                    archive.add(file, str(file.relative_to(self.program.folder)))
        self.store.encrypted.write(upload_name(source), buffer.getvalue())
        SourceRows(self.database).add_upload(
            TENANT, digest="0" * 64, size=len(buffer.getvalue()), by="tests", id_=source
        )
        return source

    def submit(
        self,
        operation: str,
        *patterns: str,
        requester: Principal | None = None,
        retried_from: str | None = None,
    ) -> str:
        runs = tuple(NewRun(stack=stack, retried_from=retried_from) for stack in patterns if retried_from)
        new = NewChange(
            tenant=TENANT,
            operation=Operation(operation),
            source=self.upload(),
            requester=requester or self.person("ann"),
            patterns=patterns,
            runs=runs,
        )
        return self.changes.submit(new).id

    def now(self, change: str) -> Change:
        found = self.changes.of(change)
        assert found is not None
        return found

    def run_of(self, change: str, stack: str) -> Run:
        return next(run for run in self.now(change).runs if run.stack == stack)

    def wait(self, change: str, until: Callable[[Change], bool] | None = None) -> Change:
        ended = until or (lambda now: now.phase.value in {"done", "waiting"})
        eventually(lambda: ended(self.now(change)), what=f"end of {change}", seconds=45)
        return self.now(change)

    def statuses(self, change: str) -> dict[str, str | None]:
        now = self.wait(change)
        assert now.error is None, now.error
        return {run.stack: run.status for run in now.runs}

    def workers(self) -> set[str]:
        """The phases of all that were there."""
        with self.database.transaction() as connection:
            return {phase for (phase,) in connection.execute("select phase from workers").fetchall()}

    def execute(self, statement: str, *values: object) -> None:
        """For what takes too long to happen by itself."""
        with self.database.transaction() as connection:
            connection.execute(statement, values)

    def log(self, run: str) -> list[str]:
        return [text for _, text in RunLog(self.store.encrypted, run).lines()]

    def decide(self, run: Run, kind: ApprovalKind, by: Principal, **more: Any) -> None:
        """As the routes of the server do it."""
        who = actor_of(by, "127.0.0.1").document()
        self.store.approvals.add(
            Approval(
                kind=kind,
                digest=str(run.digest),
                stack=run.stack,
                run=RunRows(self.database).shown_plan(run) or run.id,
                who=who,
                reason="a test",
                at=clock.now().isoformat(),
                role=by.role.value,
                groups=by.groups,
                **more,
            )
        )
        assert self.changes.decide(run.id, str(run.digest), rejected=kind is ApprovalKind.REJECTION)


@contextmanager
def server_runs(program: Program, data: Path) -> Iterator[ServerRuns]:
    """Of a server that runs in this data folder."""
    key = load_server_key(Environment(variables={}), data)
    assert key is not None
    with Database.open(Cluster(data).address(), size=5) as database:
        yield ServerRuns(program, database, TenantStores(database, key.key).of(TENANT))


@contextmanager
def worker(program: Program, data: Path, *arguments: str, code: int = 0) -> Iterator[int]:
    """Its process. `code`: with which it may end."""
    process = program.start("worker", "--data", str(data), *arguments)
    try:
        assert process.stdout is not None
        assert "is ready" in process.stdout.readline(), process.communicate()
        yield process.pid
    finally:
        ended = process.poll()
        process.kill()
        _, err = process.communicate()
        assert ended in {None, code, -signal.SIGKILL}, err
