"""Commands for a supervising process, as a run gives them: with a journal, a kept state, a store in a folder.

As a program (`python supervised_made.py DOCUMENT`) it asks for one command, so that a test can stop or kill
the one who asked. It prints what it heard.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.secrets.keys import Key
from holdfast.store.journal import Journal
from holdfast.store.place import FolderBlobs, describe
from holdfast.store.run_store import RunStore
from holdfast.system.environment import Environment
from holdfast.terraform.engine.discovery import InstalledEngines
from holdfast.terraform.engine.environment import child_environment
from holdfast.terraform.engine.interface import Command, CommandResult, EngineId, EngineKind, Product, Stop
from holdfast.terraform.engine.pool import WorkerPool

SECRET = b"k" * 32
KEY = Key.of(SECRET)
APPLY = ("apply", "-json", "-auto-approve", "-input=false")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """One store, one engine, one folder with code."""

    root: Path
    kind: str
    program: str
    path: str

    @property
    def module(self) -> Path:
        return self.root / "module"

    @property
    def scratch(self) -> Path:
        return self.root / "scratch"

    @property
    def store(self) -> RunStore:
        return RunStore(FolderBlobs(self.root / "store"), lambda: KEY)

    def journal(self, run: str) -> Journal:
        return self.store.runs.journal(run)

    def engine(self) -> WorkerPool:
        if self.kind == "embedded":
            found = InstalledEngines(
                Environment(variables={"HOLDFAST_HOME": str(self.root), "PATH": ""})
            ).embedded()
            assert found is not None
            return WorkerPool(found, scratch=self.scratch, limit=2)
        identity = EngineId(
            kind=EngineKind.BINARY, product=Product.TERRAFORM, version="1.15.5", path=self.program
        )
        return WorkerPool(identity, scratch=self.scratch, limit=2)

    def command(
        self, *argv: str, run: str | None = None, kept: dict[str, Any] | None = None, phase: str = "apply"
    ) -> Command:
        environment = child_environment(
            caller={"PATH": self.path, "HOME": str(self.root)},
            named={"HERE": str(self.root)},
            credentials=None,
            scratch=str(self.scratch),
        )
        attend: dict[str, Any] = {
            "store": describe(FolderBlobs(self.root / "store")),
            "keys": self.store.cipher.grant(
                read=("states/s", "claims/s") if kept is not None else (),
                write=(*(("states/s",) if kept is not None else ()), *((f"runs/{run}",) if run else ())),
            ),
        }
        if run is not None:
            attend["journal"] = {"run": run, "spool": str(self.root / "spool")}
        if kept is not None:
            attend["state"] = {"stack": "s", "run": run or "", "who": "ann", "why": "apply", **kept}
        return Command(
            phase=phase,
            argv=argv,
            folder=self.module,
            environment=environment,
            managed_state=kept is not None,
            supervision=attend,
        )

    def asks(self, run: str) -> list[str]:
        """The command line of a process that asks for an apply, for `main`."""
        place = dataclasses.asdict(self) | {"root": str(self.root)}
        return [sys.executable, __file__, json.dumps({"place": place, "run": run})]


def run(
    place: Place, *commands: Command, listen: Callable[[bytes], None] | None = None, stop: Stop | None = None
) -> list[CommandResult]:
    """One after the other, in one engine."""

    async def work() -> list[CommandResult]:
        engine = place.engine()
        try:
            return [await engine.run(one, stop=stop or Stop(), listen=listen) for one in commands]
        finally:
            await engine.close()

    return asyncio.run(work())


def main() -> None:
    document = json.loads(sys.argv[1])
    place = Place(**{**document["place"], "root": Path(document["place"]["root"])})
    heard: list[bytes] = []
    (answer,) = run(place, place.command(*APPLY, run=document["run"]), listen=heard.append)
    sys.stdout.write(json.dumps({"code": answer.code, "lines": len(heard), "pid": os.getpid()}))


if __name__ == "__main__":
    main()
