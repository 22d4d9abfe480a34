"""A state in memory behind the local state backend: it stores, counts, and can be told to fail."""

from __future__ import annotations

import json
from collections.abc import Callable

LINEAGE = "11111111-2222-3333-4444-555555555555"
MINE = "aaaaaaaa-0000-4000-8000-000000000001"
OTHER = "bbbbbbbb-0000-4000-8000-000000000002"


class MemoryBackend:
    def __init__(self, *versions: bytes, holder: bytes | None = None) -> None:
        self.versions = list(versions)
        self.holder = holder
        self.calls: list[str] = []
        self.before: Callable[[str], None] = _nothing
        """Called with read, write, lock or unlock before it is done: what it raises is a fault."""
        self.after: Callable[[str], None] = _nothing
        """The same after it is done: the answer is lost, not the deed."""

    def read(self) -> bytes | None:
        self._begin("read")
        self.after("read")
        return self.versions[-1] if self.versions else None

    def write(self, state: bytes, header: object) -> None:
        del header
        self._begin("write")
        self.versions.append(state)
        self.after("write")

    def lock(self, info: bytes) -> bytes | None:
        self._begin("lock")
        if self.holder is not None:
            return self.holder
        self.holder = info
        self.after("lock")
        return None

    def unlock(self, info: bytes) -> None:
        self._begin("unlock")
        if self.holder == info:
            self.holder = None
        self.after("unlock")

    def _begin(self, name: str) -> None:
        self.calls.append(name)
        self.before(name)


def _nothing(name: str) -> None:
    """All is well."""


def info(lock: str = MINE, *, who: str = "ann@build") -> bytes:
    return json.dumps(
        {
            "ID": lock,
            "Operation": "OperationTypeApply",
            "Info": "",
            "Who": who,
            "Version": "1.15.5",
            "Created": "2026-01-02T03:04:05Z",
            "Path": "",
        }
    ).encode()


def state(serial: int = 1, *, lineage: str = LINEAGE, value: str | None = "a") -> bytes:
    """A state of format 4 that holds one resource, or nothing where the value is None."""
    resource = {
        "mode": "managed",
        "type": "terraform_data",
        "name": "it",
        "provider": 'provider["terraform.io/builtin/terraform"]',
        "instances": [{"schema_version": 0, "attributes": {"id": "1", "input": value}}],
    }
    document = {
        "version": 4,
        "terraform_version": "1.15.5",
        "serial": serial,
        "lineage": lineage,
        "outputs": {},
        "resources": [] if value is None else [resource],
    }
    return json.dumps(document).encode()
