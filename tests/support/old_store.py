"""A run store of the first layout, as Holdfast wrote it before everything in it was encrypted."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from memory_keeper import state

from holdfast.secrets.keys import Key
from holdfast.secrets.sealing import seal

KEY = Key.of(b"k" * 32)
ID = "01HZZZZZZZZZZZZZZZZZZZZZZZ"
SECRET = "hush-4711"
BEFORE = state(6, value=f"{SECRET}-before")
NOW = state(7, value=SECRET)
UNSAVED = state(8, value=f"{SECRET}-unsaved")
MARK = {"run": "01A", "stack": "a/b", "who": "ann", "at": "2026-01-02T03:04:05+00:00"}
SEEN = {"place": "local:x", "lineage": "l", "serial": 7, "resources": 1, "seen": "2026-01-02T03:04:05+00:00"}


def identity(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    document = {"version": 1, "id": ID, "created": "2026-01-02T03:04:05+00:00"}
    (folder / "store.json").write_text(json.dumps(document) + "\n")


def old_store(folder: Path, *, key: Key = KEY) -> None:
    """Two used plans, two records, one state that could not be saved, one kept state, one that is empty."""
    identity(folder)
    for place in ("used", "records", "errored", "locks", "state/a/b", "state/c"):
        (folder / place).mkdir(parents=True)
    for digest in ("d1", "d2"):
        (folder / f"used/{digest}.json").write_text(json.dumps({**MARK, "who": SECRET}) + "\n")
    for stack in ("a/b", ".hidden"):
        (folder / f"records/{quote(stack, safe='')}.json").write_text(json.dumps(SEEN) + "\n")
    (folder / "errored/e.tfstate").write_bytes(seal(key, UNSAVED, context="errored\0e"))
    (folder / "locks/a%2Fb.lock").touch()
    (folder / "state/a/b/terraform.tfstate").write_bytes(NOW)
    (folder / "state/a/b/terraform.tfstate.backup").write_bytes(BEFORE)
    (folder / "state/c/terraform.tfstate").touch()
