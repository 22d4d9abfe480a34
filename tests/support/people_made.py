"""Approvals by people of other machines, written into the run store of a program."""

from __future__ import annotations

import base64

from program import Program

from holdfast.secrets.keys import Key
from holdfast.store.approvals import Approval, ApprovalKind
from holdfast.store.place import FolderBlobs
from holdfast.store.run_store import RunStore

SECRET = b"a key of the tests with 32 bytes"


def use_known_key(program: Program) -> None:
    program.environment["HOLDFAST_KEY"] = base64.b64encode(SECRET).decode()


def approve_elsewhere(program: Program, run: str, digest: str, *, name: str, verified: bool = False) -> None:
    """Needs `use_known_key`."""
    store = RunStore(FolderBlobs(program.folder / ".holdfast"), lambda: Key.of(SECRET))
    who = {"kind": "person", "name": name, "machine": f"of {name}", "uid": 1000, "verified": verified}
    store.approvals.add(
        Approval(
            kind=ApprovalKind.APPROVAL,
            digest=digest,
            stack="db",
            run=run,
            who=who,
            reason="r",
            at="2026-01-01",
        )
    )
